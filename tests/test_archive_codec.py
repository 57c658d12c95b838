"""The codec of the pixels: recorded, chosen by name, and the smallest one where that was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from tests.support.pixels import open_array

from napari_decant import info, pack, restore
from napari_decant.archive import parse_codec
from napari_decant.errors import UsageError

DEFAULT = "blosc:zstd:byteshuffle:clevel=5"


@pytest.fixture
def sparse_bits(tmp_path: Path) -> Path:
    """Values that differ in single bits: bit shuffling packs them better than byte shuffling."""
    random = np.random.default_rng(3)
    planes = 1 + (random.integers(0, 2, (4, 256, 256)) << 3 | random.integers(0, 2, (4, 256, 256)) << 9)
    tifffile.imwrite(tmp_path / "bits.tif", planes.astype("u2"), photometric="minisblack")
    return tmp_path / "bits.tif"


@pytest.mark.parametrize(
    ("codec", "recorded"),
    [
        ("default", DEFAULT),
        ("fast", "blosc:zstd:byteshuffle:clevel=1"),
        ("blosc:lz4:noshuffle:clevel=3", "blosc:lz4:noshuffle:clevel=3"),
    ],
)
def test_codec_is_used_and_recorded(sparse_bits: Path, tmp_path: Path, codec: str, recorded: str) -> None:
    report = pack(sparse_bits, tmp_path / "out", codec=codec)
    assert info(report.archive).codec == report.codec == recorded
    assert np.array_equal(open_array(report.archive), tifffile.imread(sparse_bits))
    assert restore(report.archive, tmp_path / "back").files[0].read_bytes() == sparse_bits.read_bytes()


def test_smallest_is_smaller_and_stable(sparse_bits: Path, tmp_path: Path) -> None:
    default = pack(sparse_bits, tmp_path / "a")
    smallest = pack(sparse_bits, tmp_path / "b", codec="smallest")
    assert smallest.codec != DEFAULT
    assert smallest.archive_size < 0.9 * default.archive_size
    again = pack(sparse_bits, tmp_path / "c", codec="smallest", workers=1)
    assert again.archive.read_bytes() == smallest.archive.read_bytes()


@pytest.mark.parametrize("codec", ["gzip", "blosc:zstd:byteshuffle", "blosc:snappy:byteshuffle:clevel=5", ""])
def test_unknown_codec(codec: str) -> None:
    with pytest.raises(UsageError, match="is unknown; use default, fast, smallest"):
        parse_codec(codec)
