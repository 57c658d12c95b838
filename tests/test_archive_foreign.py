"""Archives that another program wrote from the format document are verified and restored by ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.archivewriter import (
    CODECS,
    ArchiveStyle,
    write_byte_exact,
    write_nested,
    write_series,
    write_verbatim,
)
from tests.support.layouts import SPECS, the_tiff
from tests.support.tiffspec import WrittenTiff

from napari_decant.archive import info, load_manifest, restore, verify
from napari_decant.archive._manifest import dump_manifest

LISTED = [name for name in SPECS if name not in ("compressed", "twelve-bit")]


def assert_whole(archive: Path, out: Path, originals: dict[str, bytes]) -> None:
    state = verify(archive)
    assert (state.whole, state.problems) == (True, ())
    assert verify(archive, quick=True).problems == ()
    described = info(archive)
    assert {member.name: member.size for member in described.members} == {
        name: len(data) for name, data in originals.items()
    }
    report = restore(archive, out)
    assert {path.relative_to(out).as_posix(): path.read_bytes() for path in report.files} == originals


@pytest.mark.parametrize("name", LISTED)
def test_every_layout(tmp_path: Path, name: str) -> None:
    tiff = the_tiff(tmp_path, name)
    archive = write_byte_exact(tmp_path / "a.zarr.zip", tiff)
    assert_whole(archive, tmp_path / "out", {tiff.path.name: tiff.path.read_bytes()})


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "folder"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(tmp_path: Path, codec: str, zipped: bool) -> None:
    tiff = the_tiff(tmp_path, "scattered")
    style = ArchiveStyle(codec=codec, zipped=zipped, levels=True, chunk=33)
    archive = write_byte_exact(tmp_path / ("a.zarr.zip" if zipped else "a.zarr"), tiff, style)
    assert_whole(archive, tmp_path / "out", {"scattered.tif": tiff.path.read_bytes()})


@pytest.mark.parametrize(
    "style",
    [
        ArchiveStyle(separator="."),
        ArchiveStyle(zipped=False, separator="."),
        ArchiveStyle(byteorder=">", consolidated=True),
        ArchiveStyle(plane_order="empty"),
        ArchiveStyle(plane_order="absent"),
        ArchiveStyle(axes=(("z", 2), ("c", 2))),
        ArchiveStyle(axes=(("c", 2), ("t", 2)), byteorder=">"),
        ArchiveStyle(axes=(("z", 2), ("position", 2)), plane_order="full"),
    ],
    ids=["dots", "dots-folder", "big-endian", "empty-order", "no-order", "zc", "ct", "custom"],
)
def test_every_style(tmp_path: Path, style: ArchiveStyle) -> None:
    tiff = the_tiff(tmp_path, "scattered")
    archive = write_byte_exact(tmp_path / ("a.zarr.zip" if style.zipped else "a.zarr"), tiff, style)
    assert_whole(archive, tmp_path / "out", {"scattered.tif": tiff.path.read_bytes()})


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "folder"])
def test_verbatim_with_chunks_left_out(tmp_path: Path, zipped: bool) -> None:
    data = bytes(5000) + b"x" * 700 + bytes(2500)
    archive = write_verbatim(
        tmp_path / ("a.zarr.zip" if zipped else "a.zarr"), "a.bin", data, ArchiveStyle(zipped=zipped)
    )
    assert_whole(archive, tmp_path / "out", {"a.bin": data})


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "folder"])
def test_consolidated_series(tmp_path: Path, zipped: bool) -> None:
    members: list[tuple[str, WrittenTiff | bytes]] = [
        ("a.tif", the_tiff(tmp_path / "1", "strips")),
        ("deep/er/b.tif", the_tiff(tmp_path / "2", "scattered", byteorder="<")),
        ("Thumbs.db", b"\1\2\3" * 50),
        ("empty", b""),
        ("c.tif", the_tiff(tmp_path / "3", "strips", seed=3, trailing=20)),
    ]
    style = ArchiveStyle(zipped=zipped, axes=(("z", 5), ("c", 2)))
    archive = write_series(tmp_path / ("s.zarr.zip" if zipped else "s.zarr"), members, style)
    originals = {name: m if isinstance(m, bytes) else m.path.read_bytes() for name, m in members}
    assert_whole(archive, tmp_path / "out", originals)


def test_nested_series(tmp_path: Path) -> None:
    tiffs = [(f"{n % 2}/{name}.tif", the_tiff(tmp_path, name)) for n, name in enumerate(SPECS)]
    archive = write_nested(tmp_path / "n.zarr", [*tiffs, ("empty", b""), ("notes.txt", b"not a TIFF")])
    originals = {name: tiff.path.read_bytes() for name, tiff in tiffs}
    assert_whole(archive, tmp_path / "out", originals | {"empty": b"", "notes.txt": b"not a TIFF"})


@pytest.mark.parametrize("key", ["0/2/0/0", "husk/0"])
def test_damage_is_found_without_a_list_of_hashes(tmp_path: Path, key: str) -> None:
    tiff = the_tiff(tmp_path, "strips")
    archive = write_byte_exact(tmp_path / "a.zarr", tiff, ArchiveStyle(zipped=False, codec="none"))
    chunk = archive / key
    data = np.frombuffer(chunk.read_bytes(), np.uint8).copy()
    data[len(data) // 2] ^= 4
    chunk.write_bytes(data.tobytes())
    state = verify(archive)
    assert state.whole is False
    assert state.problems


@pytest.mark.parametrize("said", [None, 1, 7])
def test_the_shape_says_how_many_samples_a_pixel_has(said: int | None) -> None:
    page = {"index": 0, "shape": [12, 17, 2], "dtype": "uint8", "dataoffsets": [158], "databytecounts": [408]}
    if said is not None:
        page["samplesperpixel"] = said
    document = {
        "decant_version": "other 1", "format": 1, "mode": "byte-exact", "original_name": "a.tif",
        "original_size": 566, "original_sha256": "0" * 64, "byteorder": "<",
        "pixel_codec": "blosc:zstd:byteshuffle:clevel=5", "pages": [page], "plane_order": ["z"],
        "husk_raw_size": 158,
    }  # fmt: skip
    found = load_manifest(json.dumps(document).encode(), "a.zarr.zip")
    assert found.model_dump()["pages"][0]["samplesperpixel"] == 2
    assert load_manifest(dump_manifest(found), "a.zarr.zip").model_dump() == found.model_dump()
