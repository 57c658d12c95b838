"""Field reports about verifying and restoring, and hostile archives: each test is named after its report."""

from __future__ import annotations

import json
import shutil
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numcodecs import LZ4, Zstd
from tests.support.damage import edit_entry, flip_stored_byte, rewrite
from tests.support.limits import run_limited
from tests.support.pixels import read_manifest
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import pack, restore, verify
from napari_decant.archive import info, load_manifest, open_original, pack_series, plan_series
from napari_decant.cli import main
from napari_decant.errors import DecantError, FormatError, UnsafeInput, UsageError

MANIFEST = ".decant/manifest.json"
MIB = 1 << 20


@pytest.fixture
def tiff(tmp_path: Path) -> Path:
    spec = TiffSpec(pages=4, height=40, width=50, gap=9, trailing=20)
    return write_tiff(tmp_path / "a.tif", spec).path


@pytest.fixture
def archive(tiff: Path) -> Path:
    return pack(tiff).archive


@pytest.fixture
def series(tmp_path: Path) -> Path:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(3):
        write_tiff(folder / f"p{i}.tif", TiffSpec(seed=i, trailing=i))
    (folder / "notes.txt").write_text("beside")
    return pack_series(plan_series(list(folder.iterdir()), folder), tmp_path / "s.zarr.zip").archive


def kinds(path: Path, **options: Any) -> dict[str, str]:
    return {problem.key: problem.kind for problem in verify(path, **options).problems}


def at_once(work: Callable[[], object]) -> None:
    """About a second; this machine does other things, too."""
    best = min(_seconds(work) for _ in range(2))
    assert best < 2


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


# --- C-01: everything that a TIFF library would lose ------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        TiffSpec(pages=3, ifd="after", gap=40, trailing=99),
        TiffSpec(pages=3, page_order="shuffled", segment_order="reverse", rows_per_strip=3),
        TiffSpec(pages=2, subifds=2, tile=(16, 32), gap=7),
        TiffSpec(pages=3, deflate=True, gap=5),
        TiffSpec(pages=2, thumbnail=True, interleave=True),
    ],
    ids=["directory last, noise between, trailing bytes", "order", "pyramid", "compressed", "thumbnail"],
)
def test_C01_every_byte_of_an_odd_layout(tmp_path: Path, spec: TiffSpec) -> None:
    path = write_tiff(tmp_path / "odd.tif", spec).path
    restored = restore(pack(path).archive, tmp_path / "back").files[0]
    assert restored.read_bytes() == path.read_bytes()


def tiff_of(entries: list[list[tuple[int, int, int, int]]], data: bytes) -> bytes:
    """A little-endian TIFF of raw directories, one behind the other, with ``data`` behind them."""
    at, body = 8, b""
    for number, entry in enumerate(entries):
        size = 2 + 12 * len(entry) + 4
        following = 0 if number == len(entries) - 1 else at + size
        body += struct.pack("<H", len(entry)) + b"".join(struct.pack("<HHII", *e) for e in entry)
        body += struct.pack("<I", following)
        at += size
    return b"II*\0" + struct.pack("<I", 8) + body + data


def test_C01_shared_strips_unsorted_and_private_tags(tmp_path: Path) -> None:
    pixels = bytes(1 + i % 255 for i in range(12 * 10))
    directory = [
        (279, 4, 1, len(pixels)), (273, 4, 1, 0), (256, 3, 1, 12), (257, 3, 1, 10), (258, 3, 1, 8),
        (262, 3, 1, 1), (277, 3, 1, 1), (278, 3, 1, 10), (65000, 4, 1, 0xDEADBEEF),
    ]  # fmt: skip
    start = 8 + 2 * (2 + 12 * len(directory) + 4)
    placed = [(c, k, n, start + 33 if c == 273 else v) for c, k, n, v in directory]
    data = tiff_of(
        [placed, placed], b"unreferenced noise between them" + b"\1\2" + pixels + b"behind the end"
    )
    assert data[start + 33 : start + 33 + len(pixels)] == pixels
    path = tmp_path / "shared.tif"
    path.write_bytes(data)
    report = pack(path)
    assert (report.mode, report.reason) == ("verbatim", "overlapping-segments")
    assert restore(report.archive, tmp_path / "back").files[0].read_bytes() == data


def test_C01_text_that_is_called_tif(tmp_path: Path) -> None:
    path = tmp_path / "text.tif"
    path.write_text("not a TIFF\n" * 99)
    report = pack(path)
    assert report.reason == "not-a-tiff"
    assert restore(report.archive, tmp_path / "back").files[0].read_text() == "not a TIFF\n" * 99


# --- C-02: cut short --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 22])
def test_C02_an_archive_without_its_end(
    series: Path, tmp_path: Path, cut: int, capsys: pytest.CaptureFixture[str]
) -> None:
    series.write_bytes(series.read_bytes()[:-cut])
    at_once(lambda: verify(series))
    report = verify(series)
    assert [(p.kind, p.key) for p in report.problems] == [("incomplete", "s.zarr.zip")]
    assert "incomplete (no end record)" in report.problems[0].message
    assert "the list of 4 files is left: verify with --salvage" in report.problems[0].message
    assert {m.name: m.whole for m in report.members} == dict.fromkeys(
        ["notes.txt", "p0.tif", "p1.tif", "p2.tif"]
    )
    salvaged = verify(series, salvage=True)
    assert not salvaged.whole  # the archive is not, its files are
    assert {p.kind for p in salvaged.problems} == {"incomplete"}
    assert all(member.whole for member in salvaged.members)
    with pytest.raises(FormatError, match="incomplete"):
        restore(series, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    restore(series, tmp_path / "back", salvage=True)
    assert {p.name: p.read_bytes() for p in (tmp_path / "back").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "s").iterdir()
    }
    assert main(["verify", str(series), "--salvage"]) == 1
    assert "  whole: p1.tif" in capsys.readouterr().out


def test_C02_salvage_tells_whole_files_from_damaged_ones(series: Path, tmp_path: Path) -> None:
    flip_stored_byte(series, "0/1/0/0")
    series.write_bytes(series.read_bytes()[:-1])
    states = {member.name: member.whole for member in verify(series, salvage=True).members}
    assert sorted(states.values()) == [False, True, True, True]
    (bad,) = [name for name, state in states.items() if not state]
    for name in states.keys() - {bad}:
        restore(series, tmp_path / "back", member=name, salvage=True)
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "s" / name).read_bytes()
    with pytest.raises(DecantError, match=bad):
        restore(series, tmp_path / "back", member=bad, salvage=True)


def test_C02_half_an_archive(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = archive.read_bytes()
    archive.write_bytes(data[: len(data) // 2])
    for salvage in (False, True):
        (problem,) = verify(archive, salvage=salvage).problems
        assert problem.kind == "incomplete"
        assert "entries are left, but no list of the files" in problem.message
    for words in (["verify"], ["verify", "--quick"], ["restore", "-o", str(tmp_path / "b"), "--salvage"]):
        assert main([words[0], str(archive), *words[1:]]) in (1, 3)
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_C02_a_cut_archive_that_claims_impossible_sizes(tmp_path: Path) -> None:
    """Found by the fuzzer: a size beyond 63 bits, and a stored entry whose two sizes differ."""
    huge = struct.pack("<HHQQ", 1, 16, 0x8000000000000A00, 10)
    for size, compressed, extra in ((0xFFFFFFFF, 0xFFFFFFFF, huge), (99, 10, b"")):
        head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0x21, 0, compressed, size, 1, len(extra))
        path = tmp_path / "cut.zarr.zip"
        path.write_bytes(head + b"a" + extra + b"sixty-four" + b"PK\1\2")
        for salvage in (False, True):
            (problem,) = verify(path, salvage=salvage).problems
            assert problem.kind == "incomplete"
            assert "0 entries are left" in problem.message


def test_C02_two_gib_of_zeros(tmp_path: Path) -> None:
    path = tmp_path / "zeros.ozx"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    at_once(lambda: verify(path))
    assert [p.kind for p in verify(path, salvage=True).problems] == ["incomplete"]


# --- C-04: a verifier that reads everything and says what is what ------------------------------------------


def test_C04_each_kind_by_its_key(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def spoil(entries: dict[str, bytes]) -> None:
        entries["0/0/0/0"] = entries["0/0/0/0"][:-7]
        del entries["0/1/0/0"]
        entries["0/0/Thumbs.db"] = b"x"
        entries[".zattrs"] = entries[".zattrs"].replace(b"a.tif", b"b.tif")

    rewrite(archive, spoil)
    found = kinds(archive)
    assert found.pop("a.tif") in ("damaged", "differs")
    assert found == {
        "0/0/0/0": "damaged", "0/1/0/0": "missing", "0/0/Thumbs.db": "unexpected", ".zattrs": "changed",
    }  # fmt: skip
    assert main(["verify", str(archive)]) == 1
    assert "changed: .zattrs is not as it was written" in capsys.readouterr().out
    # a quick look finds what the directory tells, and says that it read no pixels
    assert kinds(archive, quick=True) == {
        "0/1/0/0": "missing", "0/0/Thumbs.db": "unexpected", ".zattrs": "changed",
    }  # fmt: skip


def test_C04_a_quick_look_does_not_call_it_whole(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip_stored_byte(archive, "0/0/0/0")
    assert main(["verify", "--quick", str(archive)]) == 0
    out = capsys.readouterr().out
    assert "pixels were not read" in out
    assert "whole" not in out
    assert verify(archive, quick=True).whole is None
    assert main(["verify", str(archive)]) == 1


@pytest.mark.parametrize("field", [14, 18, 22, 8, 26, 30])
def test_C04_a_local_header_that_differs_is_found_quickly(archive: Path, field: int) -> None:
    with zipfile.ZipFile(archive) as opened:
        at = opened.getinfo("0/2/0/0").header_offset
    data = bytearray(archive.read_bytes())
    data[at + field] ^= 0x11  # CRC, sizes, method, length of the name, name
    archive.write_bytes(bytes(data))
    assert "0/2/0/0" in kinds(archive, quick=True)


def test_C04_a_quick_look_at_many_entries(tmp_path: Path) -> None:
    from tests.support.tiffwriter import write_sparse_imagej

    tiff = write_sparse_imagej(tmp_path / "many.tif", 5_000, 8, 8)
    archive = pack(tiff.path).archive
    report = verify(archive, quick=True)
    assert (report.ok, report.whole) == (True, None)
    at_once(lambda: verify(archive, quick=True))  # 100,000 take a few seconds


# --- verify --against -------------------------------------------------------------------------------------


def test_against_a_file(archive: Path, tiff: Path, tmp_path: Path) -> None:
    assert verify(archive, against=tiff).whole
    copy = tmp_path / "copy.dat"  # its name does not matter
    copy.write_bytes(tiff.read_bytes())
    assert verify(archive, against=copy).whole
    data = bytearray(tiff.read_bytes())
    data[1234] ^= 1
    data[4321] ^= 1
    copy.write_bytes(data)
    report = verify(archive, against=copy)
    assert not report.whole
    assert [member.whole for member in report.members] == [True]
    (problem,) = report.problems
    assert (problem.kind, problem.key) == ("differs", "a.tif")
    assert "differs from byte 1,234 on" in problem.message
    copy.write_bytes(tiff.read_bytes()[:-1])
    assert "bytes, not" in verify(archive, against=copy).problems[0].message
    with pytest.raises(UsageError, match="cannot compare"):
        verify(archive, against=copy, quick=True)
    with pytest.raises(UsageError, match="does not exist"):
        verify(archive, against=tmp_path / "nothing")


def test_against_a_folder(series: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    assert verify(series, against=folder).whole
    (folder / "deep").mkdir()
    (folder / "deep" / "later.tif").write_bytes(b"written after packing")
    (folder / "p1.tif").unlink()
    (folder / "p2.tif").write_bytes(b"another")
    found = {p.key: (p.kind, p.message) for p in verify(series, against=folder).problems}
    assert {key: kind for key, (kind, _) in found.items()} == {
        "deep/later.tif": "not-archived", "p1.tif": "differs", "p2.tif": "differs",
    }  # fmt: skip
    with pytest.raises(UsageError, match="compare it with the folder"):
        verify(series, against=folder / "p0.tif")


@pytest.mark.parametrize("damage", [False, True])
def test_against_by_command_for_a_whole_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bool
) -> None:
    for i, name in enumerate(["p0.tif", "day1/p1.tif", "day2/s/q0.tif", "day2/s/q1.tif"]):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write_tiff(tmp_path / "in" / name, TiffSpec(seed=i))
    for words in (["p0.tif"], ["day1/p1.tif"], ["day2/s", "--series"]):
        where = tmp_path / "out" / Path(words[0]).parent
        assert main(["pack", str(tmp_path / "in" / words[0]), *words[1:], "-o", str(where), "--quiet"]) == 0
    if damage:
        with (tmp_path / "in" / "day2" / "s" / "q1.tif").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"?")
    capsys.readouterr()
    code = main(["verify", str(tmp_path / "out"), "--against", str(tmp_path / "in"), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == int(damage)
    assert [bool(found["problems"]) for found in report["results"]] == [False, damage, False]


# --- Security ---------------------------------------------------------------------------------------------

BAD_NAMES = ["../x", "a/../../x", "/abs", "C:\\x", "..\\x", "\\\\srv\\s\\x", "x\0y", "a//b", "."]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_S01_names_in_the_manifest_of_a_series(series: Path, tmp_path: Path, name: str) -> None:
    manifest = read_manifest(series)
    manifest["members"][1]["relpath"] = name
    edit_entry(series, MANIFEST, lambda _: json.dumps(manifest).encode())
    before = sorted(tmp_path.iterdir())
    for work in (
        lambda: restore(series, tmp_path / "back"),
        lambda: restore(series, tmp_path / "back", member=name),
        lambda: verify(series),
        lambda: open_original(series, name),
    ):
        with pytest.raises(UnsafeInput, match="nothing is read from this archive"):
            work()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["../m0.zarr.zip", "/etc/passwd", "a/b", "..", ""])
def test_S01_parts_of_a_nested_series(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(2):
        write_tiff(folder / f"p{i}.tif", TiffSpec(height=5 + i, width=6))
    nested = pack_series(plan_series(list(folder.iterdir()), folder), tmp_path / "s.zarr").archive
    text = (nested / MANIFEST).read_text()
    (nested / MANIFEST).write_text(text.replace('"m1.zarr.zip"', json.dumps(name)))
    with pytest.raises(FormatError, match="not beside its manifest"):
        restore(nested, tmp_path / "back")
    assert not verify(nested).whole
    assert not (tmp_path / "back").exists()


def test_S01_raw_names_and_times_that_lie(tmp_path: Path, tiff: Path, archive: Path) -> None:
    """What `.zattrs` keeps beside the bytes cannot lead out of the folder either."""
    for raw in (b"../evil", b"/evil", b"a/b", b"other.tif", b"\0"):
        facts = {"decant": {"raw_name": raw.hex(), "mtime_ns": 10**30, "folders": {"..": 5, ".": "x"}}}
        edit_entry(archive, ".zattrs", lambda _, facts=facts: json.dumps(facts).encode())
        files = restore(archive, tmp_path / "back", overwrite=True).files
        assert files == (tmp_path / "back" / "a.tif",)
        assert files[0].read_bytes() == tiff.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tif", "a.tif.zarr.zip", "back"]


def test_S02_nested_archives_are_not_opened(tmp_path: Path, archive: Path) -> None:
    outer = tmp_path / "outer.zarr.zip"
    with zipfile.ZipFile(outer, "w") as made:
        made.write(archive, "inner.zarr.zip")
    with pytest.raises(FormatError, match="not an archive of this program"):
        info(outer)
    folder = tmp_path / "s.zarr"
    (folder / ".decant").mkdir(parents=True)
    member = {"relpath": "x", "original_size": 1, "original_sha256": "0" * 64, "subarchive": "m0.zarr.zip"}
    manifest = {
        "format": 1, "mode": "series", "original_name": "s", "original_size": 0, "original_sha256": "",
        "members": [member],
    }  # fmt: skip
    (folder / MANIFEST).write_text(json.dumps(manifest))
    inner = {**manifest, "members": []}
    with zipfile.ZipFile(folder / "m0.zarr.zip", "w") as made:
        made.writestr(MANIFEST, json.dumps(inner))
    with pytest.raises(FormatError, match="a series itself"):
        restore(folder, tmp_path / "back")


LIMITED = """
import sys
from napari_decant import pack, restore, verify
from napari_decant.errors import DecantError
for call in sys.argv[1:]:
    try:
        print(eval(call))
    except DecantError as error:
        print(type(error).__name__, error)
"""


def limited(*calls: str, memory: int = 300 * MIB) -> list[str]:
    """What calls answer in a process with a limit of memory; imports alone take some 100 MB of it."""
    ran = run_limited([sys.executable, "-c", LIMITED, *calls], memory=memory, seconds=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def blosc_header(nbytes: int, data: bytes) -> bytes:
    return struct.pack("<BBBBiii", 2, 1, 0x91, 2, nbytes, 1 << 18, 16 + len(data)) + data


def deflated(nbytes: int, wbits: int = 15) -> bytes:
    """So many zeros; a gigabyte takes a megabyte."""
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits)
    block = bytes(16 * MIB)
    return b"".join(packer.compress(block) for _ in range(nbytes // len(block))) + packer.flush()


BLOSC = {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}
BOMBS: dict[str, tuple[dict[str, Any], Callable[[], bytes]]] = {
    "gzip": ({"id": "gzip", "level": 1}, lambda: deflated(512 * MIB, 31)),
    "zlib": ({"id": "zlib", "level": 1}, lambda: deflated(512 * MIB)),
    "zstd": ({"id": "zstd", "level": 1}, lambda: Zstd(1).encode(bytes(1024 * MIB))),
    "lz4": ({"id": "lz4", "acceleration": 1}, lambda: LZ4().encode(bytes(512 * MIB))),
    "blosc": (BLOSC, lambda: blosc_header(0x7FFFFFFF, b"x" * 99)),
}


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
def test_S03_chunks_that_inflate_beyond_their_size(archive: Path, tmp_path: Path) -> None:
    calls = []
    for codec, (compressor, bomb) in BOMBS.items():
        path = tmp_path / f"{codec}.zarr.zip"
        shutil.copy(archive, path)

        def spoil(
            entries: dict[str, bytes], compressor: Any = compressor, bomb: Callable[[], bytes] = bomb
        ) -> None:
            document = json.loads(entries["0/.zarray"])
            entries["0/.zarray"] = json.dumps({**document, "compressor": compressor}).encode()
            entries["0/0/0/0"] = bomb()

        rewrite(path, spoil)
        calls += [f"restore({str(path)!r}, {str(tmp_path / 'back')!r})", f"verify({str(path)!r}).whole"]
    said = limited(*calls)
    assert said[1::2] == ["False"] * len(BOMBS)
    assert all(answer.startswith("FormatError a.tif cannot be rebuilt") for answer in said[::2]), said
    assert list((tmp_path / "back").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
def test_S03_a_tiff_whose_strip_inflates_is_packed_all_the_same(tmp_path: Path) -> None:
    strip = deflated(1024 * MIB)
    directory = [
        (256, 3, 1, 1024), (257, 3, 1, 1024), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1),
        (273, 4, 1, 8 + 2 + 12 * 9 + 4), (277, 3, 1, 1), (278, 3, 1, 1024), (279, 4, 1, len(strip)),
    ]  # fmt: skip
    path = tmp_path / "bomb.tif"
    path.write_bytes(tiff_of([directory], strip))
    (said,) = limited(f"pack({str(path)!r})")
    assert "mode='verbatim'" in said
    assert "reason='compressed'" in said
    assert restore(Path(f"{path}.zarr.zip"), tmp_path / "back").files[0].read_bytes() == path.read_bytes()


def test_S04_packing_is_unaffected_by_hostile_xml(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    text = f'<?xml version="1.0"?><!DOCTYPE OME [<!ENTITY a0 "x">{entities}]><OME>&a9;</OME>'
    path = write_tiff(tmp_path / "evil.tif", TiffSpec(pages=2, description=text)).path
    at_once(lambda: pack(path, overwrite=True))
    report = pack(path, overwrite=True)
    assert report.mode == "byte-exact"
    assert restore(report.archive, tmp_path / "back").files[0].read_bytes() == path.read_bytes()


def claims(**fields: Any) -> bytes:
    return json.dumps(
        {
            "format": 1,
            "mode": "series",
            "original_name": "s",
            "original_size": 0,
            "original_sha256": "",
            **fields,
        }
    ).encode()


HOSTILE_MANIFESTS = {
    "nested 100,000 deep": lambda: b'{"format":1,"mode":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "many empty lists": lambda: b'{"format":1,"mode":"series","members":[' + b"[]," * 20_000_000 + b"[]]}",
    "many numbers": lambda: b'{"format":1,"mode":"series","x":[' + b"0," * 50_000_000 + b"0]}",
    "deep names": lambda: claims(
        members=[{"relpath": "a/" * 5000 + "b", "original_size": 1, "original_sha256": ""}]
    ),
    "large number": lambda: b'{"format":1,"mode":"series","original_size":' + b"9" * 100_000 + b"}",
}


@pytest.mark.parametrize("what", sorted(HOSTILE_MANIFESTS))
def test_S05_manifests_that_ask_for_much(what: str) -> None:
    data = HOSTILE_MANIFESTS[what]()

    def refused() -> None:
        with pytest.raises(FormatError):
            load_manifest(data, "evil.zarr.zip")

    at_once(refused)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("0/.zarray", {"shape": [1 << 60, 40, 50]}),
        ("0/.zarray", {"shape": [4, 1 << 40, 1 << 40], "chunks": [1, 1 << 40, 1 << 40]}),
        ("husk/.zarray", {"shape": [1 << 60], "chunks": [1 << 50]}),
        ("husk/.zarray", {"shape": [0], "chunks": [0]}),
        ("0/.zarray", {"dtype": "|O"}),
        ("0/.zarray", {"dtype": "|V1000000000"}),
        ("0/.zarray", {"chunks": [-1, 40, 50]}),
    ],
    ids=str,
)
def test_S05_arrays_that_ask_for_much(
    archive: Path, tmp_path: Path, key: str, change: dict[str, Any]
) -> None:
    edit_entry(archive, key, lambda data: json.dumps({**json.loads(data), **change}).encode())

    def work() -> None:
        assert not verify(archive).whole
        with pytest.raises(DecantError):
            restore(archive, tmp_path / "back")

    at_once(work)
    assert not list(tmp_path.glob("back/*"))


@pytest.mark.parametrize(
    "change",
    [
        {"original_size": 1 << 62, "husk_raw_size": (1 << 62) - 16000},
        {"husk_raw_size": 1 << 60, "original_size": (1 << 60) + 16000},
    ],
    ids=str,
)
def test_S05_sizes_that_ask_for_much(archive: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    edit_entry(archive, MANIFEST, lambda data: json.dumps({**json.loads(data), **change}).encode())

    def array(data: bytes) -> bytes:
        return json.dumps({**json.loads(data), "shape": [change["husk_raw_size"]]}).encode()

    edit_entry(archive, "husk/.zarray", array)

    def work() -> None:
        with pytest.raises(DecantError):
            restore(archive, tmp_path / "back")

    at_once(work)
    assert not list(tmp_path.glob("back/*"))


def test_S06_a_name_that_is_said_to_be_utf8(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("\u00e9\u00e9", b"x")
    spoiled = archive.read_bytes().replace("\u00e9\u00e9".encode(), b"\xff\xfe\xff\xfe")
    assert spoiled != data
    archive.write_bytes(spoiled)
    for work in (lambda: restore(archive, tmp_path / "back"), lambda: info(archive)):
        with pytest.raises(FormatError, match="is damaged"):
            work()
    assert not verify(archive).whole
