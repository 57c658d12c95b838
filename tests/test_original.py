"""The original reads as a file inside its archive: every byte, at every place, from few chunks."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.archivewriter import (
    ArchiveStyle,
    write_byte_exact,
    write_nested,
    write_series,
    write_verbatim,
)
from tests.support.tiffspec import TiffSpec
from tests.support.tiffwriter import write_tiff

from napari_decant.archive import Archive, open_original, pack
from napari_decant.errors import FormatError, StorageError, UsageError
from napari_decant.stores import ZipStore

SPECS = {
    "strips": TiffSpec(pages=3, rows_per_strip=5, ifd="after", byteorder=">", trailing=9),
    "scattered": TiffSpec(
        pages=4, rows_per_strip=5, gap=9, ifd="scattered", page_order="reverse", segment_order="shuffled",
        interleave=True, private_tags=3, subifds=2, thumbnail=True, trailing=7,
    ),
    "tiles": TiffSpec(height=33, width=40, tile=(16, 16), samples=3, dtype="float32", excess=4),
    "planar-tiles": TiffSpec(
        pages=2, height=33, width=40, tile=(16, 32), samples=3, planar=True, byteorder=">", bigtiff=True
    ),
    "nan-bits": TiffSpec(dtype="float64", values="bits", byteorder=">", rows_per_strip=4),
    "complex": TiffSpec(dtype="complex64", byteorder=">", pages=2),
    "imagej": TiffSpec(pages=5, imagej=True, byteorder=">"),
    "compressed": TiffSpec(deflate=True, pages=3),
    # large enough that a page is decoded in bands of rows, and that these do not divide it
    "large-tiles": TiffSpec(pages=2, height=1100, width=1500, tile=(160, 256), byteorder=">", gap=3),
    "large-planar": TiffSpec(height=700, width=1300, samples=3, planar=True, rows_per_strip=64, gap=3),
    "large-planar-tiles": TiffSpec(
        height=700, width=1300, samples=3, planar=True, tile=(112, 128), byteorder=">"
    ),
    "large-chunky": TiffSpec(height=900, width=1100, samples=3, dtype="uint8", rows_per_strip=13),
}  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    """Each file as an archive of this program, and its bytes."""
    folder = tmp_path_factory.mktemp("originals")
    made = {}
    for name, spec in SPECS.items():
        tiff = write_tiff(folder / f"{name}.tif", spec)
        report = pack(tiff.path, workers=1)
        assert report.mode == tiff.mode
        made[name] = report.archive, tiff.path.read_bytes()
        tiff.path.unlink()
    return made


def check_reads(
    archive: Path, data: bytes, reads: list[tuple[float, int]], member: str | None = None
) -> None:
    with open_original(archive, member, cache_bytes=1 << 20) as file:
        assert file.seek(0, os.SEEK_END) == len(data)
        for where, length in reads:
            offset = int(where * len(data))
            file.seek(offset)
            assert file.read(length) == data[offset : offset + length]
        file.seek(0)
        assert file.read() == data


READS = st.lists(
    st.tuples(st.floats(0, 1), st.one_of(st.integers(0, 40), st.integers(0, 1 << 19))), min_size=1, max_size=8
)


@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=12, deadline=None)
@given(reads=READS)
def test_any_read_gives_the_original_bytes(
    packed: dict[str, tuple[Path, bytes]], name: str, reads: list[tuple[float, int]]
) -> None:
    check_reads(*packed[name], reads)


@pytest.mark.parametrize("codec", ["blosc-lz4", "zstd", "gzip", "none"])
@pytest.mark.parametrize("name", ["scattered", "planar-tiles", "large-planar-tiles"])
def test_archives_of_other_writers(tmp_path: Path, codec: str, name: str) -> None:
    tiff = write_tiff(tmp_path / "a.tif", SPECS[name])
    style = ArchiveStyle(zipped=False, codec=codec, plane_order="absent", byteorder=">", chunk=70_000)
    archive = write_byte_exact(tmp_path / "a.zarr", tiff, style)
    rng = random.Random(1)
    check_reads(archive, tiff.path.read_bytes(), [(rng.random(), rng.randrange(9000)) for _ in range(30)])


def test_members_of_a_series(tmp_path: Path) -> None:
    first = write_tiff(tmp_path / "one.tif", TiffSpec(pages=2, rows_per_strip=5))
    second = write_tiff(tmp_path / "two.tif", TiffSpec(pages=1, byteorder=">", gap=5))
    members = [("d/one.tif", first), ("d/two.tif", second), ("notes.txt", b"as it was")]
    rng = random.Random(2)
    reads = [(rng.random(), rng.randrange(900)) for _ in range(20)]
    for archive in (
        write_series(tmp_path / "s.zarr.zip", members),
        write_nested(tmp_path / "n.zarr", members),
    ):
        for relpath, member in members:
            data = member if isinstance(member, bytes) else member.path.read_bytes()
            check_reads(archive, data, reads, relpath)
        with pytest.raises(UsageError, match=r"holds 3 files \('d/one.tif'"):
            open_original(archive)
        with pytest.raises(UsageError, match=r"no member .three\.tif."):
            open_original(archive, "three.tif")


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.tif").touch()
    with open_original(pack(tmp_path / "empty.tif").archive) as file:
        assert file.read() == b""
        assert file.seek(0, os.SEEK_END) == 0


@pytest.mark.parametrize("name", ["scattered", "tiles", "planar-tiles", "compressed", "large-tiles"])
def test_tifffile_reads_it_without_restoring(
    packed: dict[str, tuple[Path, bytes]], name: str, tmp_path: Path
) -> None:
    archive, data = packed[name]
    with tifffile.TiffFile(io.BytesIO(data)) as plain:
        wanted = [page.asarray() for page in plain.pages]
    with open_original(archive) as file, tifffile.TiffFile(file) as tif:
        assert len(tif.pages) == len(wanted)
        for page, pixels in zip(tif.pages, wanted, strict=True):
            np.testing.assert_array_equal(page.asarray(maxworkers=2), pixels)
    assert sorted(p.name for p in archive.parent.iterdir()) == sorted(f"{n}.tif.zarr.zip" for n in SPECS)


def test_a_buffered_reader_works_on_it(packed: dict[str, tuple[Path, bytes]]) -> None:
    archive, data = packed["strips"]
    with io.BufferedReader(open_original(archive), 64) as file:
        file.seek(-10, os.SEEK_END)
        assert file.read() == data[-10:]
        file.seek(3)
        assert file.read(100) == data[3:103]
        assert file.readable()
        assert not file.writable()


def test_a_small_read_touches_few_bytes(
    packed: dict[str, tuple[Path, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, data = packed["large-tiles"]
    read = []
    whole = ZipStore.read_file

    def counting(self: ZipStore, file: str, offset: int, length: int) -> bytes:
        read.append(length)
        return whole(self, file, offset, length)

    with open_original(archive) as file, Archive(archive) as opened:
        pixels = next(opened.files()).pixels
        assert pixels is not None
        stored = pixels.chunk_extent((1, 0, 0))
        assert stored is not None
        monkeypatch.setattr(ZipStore, "read_file", counting)
        where = len(data) // 2 + 700_000  # amid the second page
        file.seek(where)
        assert file.read(16) == data[where : where + 16]
        # one band of rows out of four in one page of two
        assert 0 < sum(read) < 0.6 * stored.length
        read.clear()
        file.seek(where + 16)
        assert file.read(16) == data[where + 16 : where + 32]
        assert read == []  # the band is kept


def test_what_is_kept_is_bounded(packed: dict[str, tuple[Path, bytes]]) -> None:
    archive, data = packed["large-tiles"]
    with open_original(archive, cache_bytes=3 << 20) as file:
        assert file.read() == data
        assert 1 << 20 < file.file.held_bytes <= 3 << 20
        assert file.file.held_bytes < len(data) / 2


def test_many_threads_read_at_positions(packed: dict[str, tuple[Path, bytes]]) -> None:
    for name in ("large-planar-tiles", "scattered"):
        archive, data = packed[name]
        with open_original(archive, cache_bytes=1 << 20) as file:

            def reads(seed: int, file: object = file.file, data: bytes = data) -> int:
                rng = random.Random(seed)
                right = 0
                for _ in range(40):
                    start = rng.randrange(len(data))
                    length = min(rng.randrange(5000), len(data) - start)
                    right += file.read_at(start, length) == data[start : start + length]  # type: ignore[attr-defined]
                return right

            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(reads, range(8))) == [40] * 8


def test_a_lost_chunk_is_an_error_and_no_zeros(packed: dict[str, tuple[Path, bytes]], tmp_path: Path) -> None:
    archive, data = packed["strips"]
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/0/1/0/0").unlink()
    with open_original(tmp_path / "a.zarr") as file:
        assert file.read(20) == data[:20]
        with pytest.raises(FormatError, match="lacks 0/1/0/0; the archive is damaged"):
            file.read()


def test_zeros_left_out_by_other_writers_are_zeros(tmp_path: Path) -> None:
    data = bytes(5000) + b"the end"
    archive = write_verbatim(tmp_path / "v.zarr", "v.bin", data, ArchiveStyle(zipped=False))
    assert not (archive / "original/0").exists() or (archive / "original/0").unlink() is None
    with open_original(archive) as file:
        assert file.read() == data


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts handles in /proc")
def test_closing_releases_the_archive(packed: dict[str, tuple[Path, bytes]], tmp_path: Path) -> None:
    def handles() -> int:
        return sum(os.readlink(f"/proc/self/fd/{fd}") == str(archive) for fd in os.listdir("/proc/self/fd")
                   if os.path.islink(f"/proc/self/fd/{fd}"))  # fmt: skip

    archive = Path(shutil.copy(packed["strips"][0], tmp_path / "copy.zarr.zip"))
    file = open_original(archive)
    file.read(10)
    assert handles() == 1
    positional = file.file
    file.close()
    file.close()
    assert handles() == 0
    with pytest.raises(StorageError, match="closed"):
        positional.read_at(0, 1)
    with pytest.raises(UsageError):
        open_original(archive, "no such member")
    assert handles() == 0
    with Archive(archive) as opened, open_original(opened) as file:
        file.close()
        assert handles() == 1  # the archive belongs to the caller


def test_reads_outside_are_refused(packed: dict[str, tuple[Path, bytes]]) -> None:
    archive, data = packed["strips"]
    with open_original(archive) as file:
        for offset, length in ((-1, 2), (len(data) - 1, 2), (0, -1)):
            with pytest.raises(StorageError, match="has no"):
                file.file.read_at(offset, length)
        file.seek(len(data) + 5)
        assert file.read(3) == b""


def test_an_image_opens_without_naming_the_archive_package(tmp_path: Path) -> None:
    """`open_image` meets the archive of a file kept as it is, and finds who reads it by itself."""
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(deflate=True))
    archive = pack(tiff.path).archive
    words = (
        "import sys; from napari_decant.images import open_image\n"
        "assert 'napari_decant.archive' not in sys.modules\n"
        f"print(*open_image({str(archive)!r}).levels[0].shape)"
    )
    ran = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[-2:] == [str(n) for n in tifffile.imread(tiff.path).shape[-2:]]
