"""Archives that we write are read by programs that know nothing of us, with equal pixels and bytes."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorstore
import yaozarrs
from tests.support.archivewriter import nest
from tests.support.layouts import SPECS, the_tiff
from tests.support.pixels import open_array, read_manifest, stored_pages
from tests.support.recovering import recover
from tests.support.tiffspec import TiffSpec, WrittenTiff
from tests.support.tiffwriter import write_tiff

from napari_decant.archive import PackReport, pack, pack_series, plan_series

Packed = dict[str, tuple[WrittenTiff, PackReport]]
LISTED = sorted(name for name in SPECS if name not in ("compressed", "twelve-bit"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("packed")
    tiffs = {name: the_tiff(folder, name) for name in SPECS}
    return {name: (tiff, pack(tiff.path, workers=2)) for name, tiff in tiffs.items()}


@pytest.fixture(scope="module")
def unpacked(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    for name, (_, report) in packed.items():
        with zipfile.ZipFile(report.archive) as archive:
            archive.extractall(folder / f"{name}.zarr")
    return folder


def test_every_layout_is_listed_that_can_be(packed: Packed) -> None:
    assert [name for name, (_, report) in sorted(packed.items()) if report.mode == "byte-exact"] == LISTED


def test_the_short_reader_restores_them(packed: Packed, tmp_path: Path) -> None:
    nested = nest(
        tmp_path / "all.zarr", {f"{name}.tif": report.archive for name, (_, report) in packed.items()}
    )
    assert recover(nested, tmp_path / "out") == (0, "")
    for name, (tiff, _) in packed.items():
        assert (tmp_path / "out" / f"{name}.tif").read_bytes() == tiff.path.read_bytes()


def test_the_short_reader_restores_a_zip_and_a_folder(packed: Packed, unpacked: Path, tmp_path: Path) -> None:
    tiff, report = packed["hyperstack"]
    assert recover(report.archive, tmp_path / "a") == (0, "")
    assert recover(unpacked / "hyperstack.zarr", tmp_path / "b") == (0, "")
    for out in ("a", "b"):
        assert (tmp_path / out / "hyperstack.tif").read_bytes() == tiff.path.read_bytes()


@pytest.mark.parametrize("name", LISTED)
def test_zarr_and_tensorstore_see_the_pixels(packed: Packed, name: str) -> None:
    tiff, report = packed[name]
    ours = open_array(report.archive)
    pages = stored_pages(ours, read_manifest(report.archive))
    assert [page.tobytes() for page in pages] == [page.tobytes() for page in tiff.array]
    assert (ours.shape, ours.dtype.name) == (report.shape, report.dtype)
    kvstore = {
        "driver": "zip",
        "base": {"driver": "file", "path": str(report.archive)},
        "path": "0/",
    }
    theirs = tensorstore.open({"driver": "zarr", "kvstore": kvstore}, read=True).result().read().result()
    assert theirs.dtype == ours.dtype
    assert theirs.tobytes() == ours.tobytes()


def test_a_hyperstack_lies_in_canonical_order(packed: Packed) -> None:
    tiff, report = packed["hyperstack"]
    assert report.axes == ("t", "c", "z", "y", "x")
    stored = tiff.array.reshape(2, 2, 3, *tiff.array.shape[1:])  # frames, slices, channels in the file
    assert (open_array(report.archive) == stored.transpose(0, 2, 1, 3, 4)).all()
    assert read_manifest(report.archive)["plane_order"] == ["t", "z", "c"]


@pytest.mark.parametrize("name", [name for name in LISTED if SPECS[name].samples == 1])
def test_the_metadata_is_valid(unpacked: Path, name: str) -> None:
    image = yaozarrs.validate_zarr_store(unpacked / f"{name}.zarr").ome_metadata()
    assert isinstance(image, yaozarrs.v04.Image)


def test_sha256sum_checks_an_unpacked_archive(unpacked: Path) -> None:
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("there is no sha256sum here")
    for folder in sorted(unpacked.iterdir()):
        command = [tool, "--check", "--strict", "--quiet", ".decant/sha256sums"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", ""), folder.name


def test_the_zip_is_plain(packed: Packed) -> None:
    for _, report in packed.values():
        with zipfile.ZipFile(report.archive) as archive:
            assert archive.testzip() is None
            entries = archive.infolist()
            assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
            assert len({entry.filename for entry in entries}) == len(entries)
            assert {entry.date_time for entry in entries} == {entries[0].date_time}


@pytest.mark.parametrize("name", ["scattered", "planar-tiles", "compressed"])
def test_the_same_file_gives_the_same_bytes(
    packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tiff, report = packed[name]
    expected = report.archive.read_bytes()
    moved = tmp_path / "elsewhere" / tiff.path.name
    moved.parent.mkdir()
    shutil.copy2(tiff.path, moved)
    for workers, zone in ((1, "UTC"), (3, "America/Caracas"), (7, "Asia/Kathmandu")):
        monkeypatch.setenv("TZ", zone)
        if hasattr(time, "tzset"):
            time.tzset()
        again = pack(moved, tmp_path, workers=workers, overwrite=True)
        assert again.archive.read_bytes() == expected
    monkeypatch.undo()
    if hasattr(time, "tzset"):
        time.tzset()
    assert os.stat(moved).st_mtime_ns == os.stat(tiff.path).st_mtime_ns


def a_series(folder: Path) -> dict[str, WrittenTiff]:
    """Write one file for each of 2 times, 2 channels and 3 planes of z, each with other pixels."""
    folder.mkdir()
    written = {}
    for number, (t, c, z) in enumerate(itertools.product(range(2), range(2), range(3))):
        name = f"img_t{t:03}_z{z:02}_c{c}.tif"
        spec = TiffSpec(values="bits", seed=number, byteorder=">" if number % 2 else "<", trailing=number)
        written[name] = write_tiff(folder / name, spec)
    return written


def test_a_series_is_one_image_with_every_plane(tmp_path: Path) -> None:
    written = a_series(tmp_path / "series")
    (tmp_path / "series" / "Thumbs.db").write_bytes(b"\1\2\3" * 99)
    plan = plan_series(sorted((tmp_path / "series").iterdir()), tmp_path / "series")
    archive = pack_series(plan, tmp_path / "series.zarr.zip", workers=2).archive
    manifest, pixels = read_manifest(archive), open_array(archive)
    for member in manifest["members"]:
        stored = stored_pages(pixels, manifest, member["pages"])
        if member["relpath"] == "Thumbs.db":
            assert stored == []
        else:
            assert np.array_equal(np.stack(stored), written[member["relpath"]].array)
    assert sorted(member["relpath"] for member in manifest["members"]) == sorted([*written, "Thumbs.db"])
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "unpacked.zarr")
    valid = yaozarrs.validate_zarr_store(tmp_path / "unpacked.zarr")
    assert isinstance(valid.ome_metadata(), yaozarrs.v04.Image)
    assert recover(archive, tmp_path / "out") == (0, "")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "series").iterdir()
    }


def test_a_series_of_unlike_files_is_nested(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    originals = {name: the_tiff(folder, name).path.read_bytes() for name in ("plain", "tiles", "compressed")}
    (folder / "deep").mkdir()
    (folder / "deep" / "notes.txt").write_text("not a TIFF")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    plan = plan_series(files, folder)
    assert not plan.consolidated
    archive = pack_series(plan, tmp_path / "mixed.zarr").archive
    assert recover(archive, tmp_path / "out") == (0, "")
    assert (tmp_path / "out" / "deep" / "notes.txt").read_text() == "not a TIFF"
    assert {name: (tmp_path / "out" / f"{name}.tif").read_bytes() for name in originals} == originals


@pytest.mark.skipif(sys.platform != "linux", reason="only some systems have names that are not UTF-8")
def test_a_name_that_is_not_utf8_comes_back_escaped(tmp_path: Path) -> None:
    tiff = the_tiff(tmp_path, "plain")
    odd = tmp_path / os.fsdecode(b"caf\xe9 100%.tif")
    shutil.copy(tiff.path, odd)
    archive = pack(odd, tmp_path).archive
    assert recover(archive, tmp_path / "out") == (0, "")
    [found] = (tmp_path / "out").iterdir()
    assert found.name.startswith("caf%E9")
    assert found.read_bytes() == tiff.path.read_bytes()
