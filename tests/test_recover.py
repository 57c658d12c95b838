"""The short reader gets the files out of archives that the format document alone describes."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
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
from tests.support.recovering import RECOVER, recover
from tests.support.tiffspec import WrittenTiff


def assert_restored(archive: Path, out: Path, originals: dict[str, bytes]) -> None:
    code, said = recover(archive, out)
    assert (code, said) == (0, "")
    found = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert found == originals


def test_is_short_and_stands_alone() -> None:
    text = RECOVER.read_text("utf-8")
    assert len(text.splitlines()) <= 80
    imported = {
        (name.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    stdlib = {
        "functools",
        "hashlib",
        "itertools",
        "json",
        "os",
        "pathlib",
        "re",
        "sys",
        "tempfile",
        "zipfile",
    }
    assert imported - stdlib == {"zarr", "numcodecs", "numpy"}


def test_every_layout_comes_back(tmp_path: Path) -> None:
    members = [(f"sub {n % 2}/{name}.tif", the_tiff(tmp_path, name)) for n, name in enumerate(SPECS)]
    nested = write_nested(
        tmp_path / "all.zarr", [*members, ("sub 0/empty.tif", b""), ("notes.txt", b"not a TIFF")]
    )
    originals = {relpath: tiff.path.read_bytes() for relpath, tiff in members}
    originals |= {"sub 0/empty.tif": b"", "notes.txt": b"not a TIFF"}
    assert_restored(nested, tmp_path / "out", originals)


def test_every_codec_and_style_comes_back(tmp_path: Path) -> None:
    tiff = the_tiff(tmp_path, "scattered")
    styles = [ArchiveStyle(codec=codec, levels=True, chunk=33) for codec in CODECS]
    styles += [
        ArchiveStyle(separator="."),
        ArchiveStyle(byteorder=">", consolidated=True),
        ArchiveStyle(plane_order="empty"),
        ArchiveStyle(plane_order="absent"),
    ]
    nested = write_nested(tmp_path / "all.zarr", [(f"{n}.tif", tiff) for n in range(len(styles))])
    for number, style in enumerate(styles):
        (nested / f"m{number}.zarr.zip").unlink()
        write_byte_exact(nested / f"m{number}.zarr.zip", tiff, style)
    data = tiff.path.read_bytes()
    assert_restored(nested, tmp_path / "out", {f"{n}.tif": data for n in range(len(styles))})


@pytest.mark.parametrize(
    "style",
    [
        ArchiveStyle(zipped=False, separator=".", codec="zlib"),
        ArchiveStyle(zipped=False, byteorder=">", codec="none"),
    ],
    ids=["dots", "big-endian"],
)
def test_unpacked_archives_come_back(tmp_path: Path, style: ArchiveStyle) -> None:
    tiff = the_tiff(tmp_path, "planar-tiles")
    archive = write_byte_exact(tmp_path / "a.zarr", tiff, style)
    assert_restored(archive, tmp_path / "out", {"planar-tiles.tif": tiff.path.read_bytes()})


@pytest.mark.parametrize(
    "axes",
    [
        (("z", 2), ("c", 3), ("t", 2)),
        (("z", 3), ("t", 4)),
        (("c", 2), ("t", 2), ("z", 3)),
        (("z", 3), ("position", 2), ("c", 2)),
    ],
    ids=lambda axes: "".join(name[0] for name, _ in axes),
)
def test_planes_go_back_from_canonical_order(tmp_path: Path, axes: tuple[tuple[str, int], ...]) -> None:
    tiff = the_tiff(tmp_path, "strips", pages=int(np.prod([size for _, size in axes])))
    archive = write_byte_exact(tmp_path / "a.zarr.zip", tiff, ArchiveStyle(axes=axes))
    assert_restored(archive, tmp_path / "out", {"strips.tif": tiff.path.read_bytes()})


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "folder"])
def test_verbatim_comes_back(tmp_path: Path, zipped: bool) -> None:
    data = the_tiff(tmp_path, "compressed").path.read_bytes()
    name = "a.zarr.zip" if zipped else "a.zarr"
    archive = write_verbatim(tmp_path / name, "a b.tif", data, ArchiveStyle(zipped=zipped, chunk=7))
    assert_restored(archive, tmp_path / "out", {"a b.tif": data})


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "folder"])
def test_consolidated_series_comes_back(tmp_path: Path, zipped: bool) -> None:
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
    assert_restored(archive, tmp_path / "out", originals)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_byte_exact(tmp_path / "a.zarr", the_tiff(tmp_path, "strips"), ArchiveStyle(zipped=False))


def assert_refused(archive: Path, out: Path, words: str) -> None:
    before = sorted(out.rglob("*")) if out.exists() else []
    code, said = recover(archive, out)
    assert code == 1
    assert said.startswith("not restored: ")
    assert said.count("\n") == 1
    assert words in said
    assert [path for path in sorted(out.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]


@pytest.mark.parametrize(("field", "value"), [("format", 2), ("format", "1"), ("mode", "mode-x")])
def test_unknown_formats_are_refused(archive: Path, tmp_path: Path, field: str, value: object) -> None:
    change(archive, **{field: value})
    assert_refused(archive, tmp_path / "out", "newer reader")


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "/abs", "C:\\x", "..\\x", "\\\\srv\\s\\x", "a\0b", "", ".", "a//b", "link/x"],
)
def test_names_that_leave_the_folder_are_refused(archive: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "elsewhere")
    change(archive, original_name=name)
    assert_refused(archive, tmp_path / "out", "")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_file_is_replaced(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "strips.tif").write_text("mine")
    assert_refused(archive, tmp_path / "out", "already")
    assert (tmp_path / "out" / "strips.tif").read_text() == "mine"


@pytest.mark.parametrize("key", ["husk/0", "0/1/0/0"])
@pytest.mark.parametrize("damage", ["flip", "gone"])
def test_damage_is_noticed(archive: Path, tmp_path: Path, key: str, damage: str) -> None:
    chunk = archive / key
    data = bytearray(chunk.read_bytes())
    data[-3] ^= 1
    chunk.unlink()
    if damage == "flip":
        chunk.write_bytes(data)
    assert_refused(archive, tmp_path / "out", "")


def test_truncated_and_foreign_files_are_refused(tmp_path: Path) -> None:
    whole = write_byte_exact(tmp_path / "a.zarr.zip", the_tiff(tmp_path, "plain")).read_bytes()
    (tmp_path / "cut.zarr.zip").write_bytes(whole[: len(whole) // 2])
    assert_refused(tmp_path / "cut.zarr.zip", tmp_path / "out", "BadZipFile")
    assert_refused(tmp_path / "absent.zarr.zip", tmp_path / "out", "FileNotFoundError")


@pytest.mark.parametrize("where", ["filters", "compressor"])
def test_no_code_of_the_archive_is_run(archive: Path, tmp_path: Path, where: str) -> None:
    marker = tmp_path / "marker"
    payload = b"cos\nsystem\n(S'touch %s'\ntR." % str(marker).encode()
    meta = json.loads((archive / "husk" / ".zarray").read_text())
    meta |= {"dtype": "|O", "compressor": None, "filters": None, "fill_value": None}
    meta[where] = (
        {"id": "pickle", "protocol": 2} if where == "compressor" else [{"id": "pickle", "protocol": 2}]
    )
    (archive / "husk" / ".zarray").write_text(json.dumps(meta))
    for chunk in (archive / "husk").glob("[0-9]*"):
        chunk.write_bytes(payload)
    assert_refused(archive, tmp_path / "out", "pickle")
    assert not marker.exists()


def change(archive: Path, **fields: object) -> None:
    target = archive / ".decant" / "manifest.json"
    target.write_text(json.dumps(json.loads(target.read_text()) | fields))


def test_says_how_it_is_used() -> None:
    ran = subprocess.run([sys.executable, str(RECOVER)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "python recover.py ARCHIVE OUTDIR" in ran.stderr
