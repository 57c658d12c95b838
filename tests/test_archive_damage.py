"""Damage of every kind is found, named by its key, and nothing damaged is ever restored."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.damage import add_entry, drop_entry, edit_entry, flip_byte, flip_stored_byte, rewrite
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import pack, restore, verify
from napari_decant.errors import DecantError

SUMS = ".decant/sha256sums"
MANIFEST = ".decant/manifest.json"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A packed file of three planes with gaps between them."""
    made = write_tiff(tmp_path / "a.tif", TiffSpec(pages=3, height=40, width=50, gap=9, trailing=20))
    report = pack(made.path)
    assert report.mode == "byte-exact"
    return report.archive


def kinds(archive: Path, *, quick: bool = False) -> dict[str, str]:
    """Problem kinds by key."""
    report = verify(archive, quick=quick)
    assert not report.whole
    return {problem.key: problem.kind for problem in report.problems}


def refuses_to_restore(archive: Path, folder: Path) -> None:
    with pytest.raises(DecantError):
        restore(archive, folder)
    assert not folder.exists() or list(folder.iterdir()) == []


def test_good_archive(archive: Path) -> None:
    full, quick = verify(archive), verify(archive, quick=True)
    assert full.whole
    assert full.problems == ()
    assert "whole" in full.sentence()
    assert quick.whole is None
    assert quick.ok
    assert "whole" not in quick.sentence()
    assert quick.sentence().endswith("structure is complete, pixels were not read")


@pytest.mark.parametrize("key", ["0/1/0/0", "husk/0"])
def test_flipped_byte_in_stored_data(archive: Path, tmp_path: Path, key: str) -> None:
    flip_stored_byte(archive, key)
    assert kinds(archive)[key] == "damaged"
    refuses_to_restore(archive, tmp_path / "back")


@pytest.mark.parametrize("key", ["0/1/0/0", "husk/0"])
def test_chunk_replaced_with_matching_checksum(archive: Path, tmp_path: Path, key: str) -> None:
    edit_entry(archive, key, lambda data: flip_byte(data, len(data) - 5))
    assert kinds(archive)[key] == "damaged"
    refuses_to_restore(archive, tmp_path / "back")


@pytest.mark.parametrize("key", [MANIFEST, ".zattrs", "0/.zarray"])
def test_flipped_byte_in_metadata_is_found_quickly(archive: Path, key: str) -> None:
    flip_stored_byte(archive, key)
    assert kinds(archive, quick=True)[key] == "damaged"


def test_edited_attribute(archive: Path) -> None:
    edit_entry(archive, ".zattrs", lambda data: data.replace(b"a.tif", b"b.tif"))
    assert kinds(archive)[".zattrs"] == "changed"


def test_swapped_chunks(archive: Path, tmp_path: Path) -> None:
    def swap(entries: dict[str, bytes]) -> None:
        entries["0/0/0/0"], entries["0/2/0/0"] = entries["0/2/0/0"], entries["0/0/0/0"]

    rewrite(archive, swap)
    found = kinds(archive)
    assert found["0/0/0/0"] == found["0/2/0/0"] == "damaged"
    refuses_to_restore(archive, tmp_path / "back")


def test_swapped_chunks_without_a_list_of_hashes(archive: Path, tmp_path: Path) -> None:
    def swap(entries: dict[str, bytes]) -> None:
        del entries[SUMS]
        entries["0/0/0/0"], entries["0/2/0/0"] = entries["0/2/0/0"], entries["0/0/0/0"]

    rewrite(archive, swap)
    assert kinds(archive) == {"a.tif": "differs"}
    refuses_to_restore(archive, tmp_path / "back")


@pytest.mark.parametrize("quick", [False, True])
def test_missing_chunk(archive: Path, tmp_path: Path, quick: bool) -> None:
    drop_entry(archive, "0/1/0/0")
    assert kinds(archive, quick=quick)["0/1/0/0"] == "missing"
    refuses_to_restore(archive, tmp_path / "back")


@pytest.mark.parametrize("quick", [False, True])
def test_unexpected_entry(archive: Path, quick: bool) -> None:
    add_entry(archive, "0/0/Thumbs.db", b"x")
    assert kinds(archive, quick=quick) == {"0/0/Thumbs.db": "unexpected"}


def test_duplicate_entry(archive: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(archive, "a") as opened:
        opened.writestr(zipfile.ZipInfo("0/1/0/0"), b"x")
    assert "duplicate" in {problem.kind for problem in verify(archive).problems}


def test_damaged_list_of_hashes(archive: Path) -> None:
    flip_stored_byte(archive, SUMS)
    assert kinds(archive)[SUMS] == "damaged"


@pytest.mark.parametrize("cut", [1, 22, None])
def test_truncated_archive(archive: Path, tmp_path: Path, cut: int | None) -> None:
    data = archive.read_bytes()
    archive.write_bytes(data[: len(data) - cut if cut else len(data) // 2])
    report = verify(archive)
    assert not report.whole
    assert "cut short" in report.problems[0].message or "incomplete" in report.problems[0].message
    refuses_to_restore(archive, tmp_path / "back")


def test_intact_members_are_told_from_damaged_ones(tmp_path: Path) -> None:
    from napari_decant.archive import pack_series, plan_series

    files = [
        write_tiff(tmp_path / "s" / f"p{i}.tif", TiffSpec(seed=i)).path for i in _made(tmp_path / "s", 3)
    ]
    report = pack_series(plan_series(files, tmp_path / "s"), tmp_path / "s.zarr.zip")
    flip_stored_byte(report.archive, "0/1/0/0")
    found = verify(report.archive)
    assert {member.name: member.whole for member in found.members} == {
        "p0.tif": True,
        "p1.tif": False,
        "p2.tif": True,
    }


def _made(folder: Path, count: int) -> range:
    folder.mkdir()
    return range(count)


def edit_manifest(archive: Path, change: Callable[[dict[str, object]], None]) -> None:
    def edit(data: bytes) -> bytes:
        manifest = json.loads(data)
        change(manifest)
        return json.dumps(manifest).encode()

    edit_entry(archive, MANIFEST, edit)


@pytest.mark.parametrize(
    "change",
    [
        {"original_name": "../x.tif"},
        {"original_name": "/abs.tif"},
        {"original_name": "C:\\x.tif"},
        {"original_name": "a/b.tif"},
        {"original_name": "..\\x"},
        {"original_name": "x\0y"},
        {"original_name": ""},
        {"original_size": 10**18},
        {"original_size": -1},
        {"husk_raw_size": 5},
        {"original_sha256": "0" * 64},
        {"plane_order": ["z", "t", "c"]},
        {"byteorder": "="},
        {"pages": []},
        {"format": 2},
        {"mode": "byte-exact-2"},
    ],
    ids=str,
)
def test_manifest_that_lies(archive: Path, tmp_path: Path, change: dict[str, object]) -> None:
    edit_manifest(archive, lambda manifest: manifest.update(change))
    refuses_to_restore(archive, tmp_path / "back")
    assert sorted(item.name for item in tmp_path.iterdir() if item.name != "back") == ["a.tif", archive.name]


@pytest.mark.parametrize(
    "change",
    [
        {"index": 99},
        {"index": -1},
        {"shape": [40, 51]},
        {"shape": [1 << 39, 1 << 39]},
        {"dtype": "uint8"},
        {"dtype": "object"},
        {"dtype": "u1,00015u1"},
        {"dtype": "(9,)u1"},
        {"dtype": "uint15"},
        {"dtype": "u" * 100_000},
        {"dataoffsets": [1, 2, 3]},
        {"dataoffsets": [10**18]},
        {"databytecounts": [1]},
        {"predictor": 2},
    ],
    ids=lambda change: str(change)[:40],
)
def test_page_that_lies(archive: Path, tmp_path: Path, change: dict[str, object]) -> None:
    def lie(manifest: dict[str, object]) -> None:
        pages = manifest["pages"]
        assert isinstance(pages, list)
        pages[1].update(change)

    edit_manifest(archive, lie)
    refuses_to_restore(archive, tmp_path / "back")


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xfe", b'{"format": 1}', b"[" * 100000], ids=str)
def test_manifest_that_is_none(archive: Path, tmp_path: Path, text: bytes) -> None:
    edit_entry(archive, MANIFEST, lambda _: text)
    refuses_to_restore(archive, tmp_path / "back")
