"""Many small pieces cost neither memory nor patience."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.memory import MIB, peaks
from tests.support.pixels import open_array, read_manifest
from tests.support.recovering import recover
from tests.support.tiffspec import TiffSpec
from tests.support.tiffwriter import write_tiff


@pytest.mark.parametrize(
    "spec",
    [
        TiffSpec(height=1_000_000, width=3, rows_per_strip=1, dtype="uint8"),
        TiffSpec(height=100_000, width=3, rows_per_strip=1, dtype="uint8", segment_order="shuffled", gap=2),
    ],
    ids=["a-million-strips", "strips-in-disorder"],
)
def test_many_small_strips(tmp_path: Path, spec: TiffSpec) -> None:
    tiff = write_tiff(tmp_path / "a.tif", spec)
    for verb, peak in peaks(tiff, tmp_path).items():
        assert peak < 400 * MIB, f"{verb} took {peak / MIB:.0f} MiB"
    archive = tmp_path / "a.tif.zarr.zip"
    assert (open_array(archive)[0] == tiff.array[0]).all()
    if spec.gap == 0:
        assert len(read_manifest(archive)["pages"][0]["dataoffsets"]) == 1  # touching strips are one segment
    assert recover(archive, tmp_path / "recovered") == (0, "")
    assert (tmp_path / "recovered" / "a.tif").read_bytes() == tiff.path.read_bytes()
