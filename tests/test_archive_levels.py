"""Derived levels of an archive: right pixels at the right place, and never part of the original."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.support.damage import drop_entry
from tests.support.pixels import open_array
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import pack, restore, verify
from napari_decant.errors import UsageError


def halved(plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The mean of the voxels that exist in each block of 2 x 2, by the slow and plain way."""
    out = np.empty((-(-plane.shape[0] // 2), -(-plane.shape[1] // 2), *plane.shape[2:]), plane.dtype)
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            block = plane[2 * y : 2 * y + 2, 2 * x : 2 * x + 2].astype(np.float64)
            mean = block.mean(axis=(0, 1))
            out[y, x] = np.rint(mean) if plane.dtype.kind in "ui" else mean.astype(plane.dtype)
    return out


@pytest.mark.parametrize(
    "spec",
    [
        TiffSpec(pages=3, height=21, width=34),
        TiffSpec(pages=1, height=16, width=9, samples=3, dtype="uint8"),
        TiffSpec(pages=2, height=12, width=7, dtype="int16", byteorder=">"),
        TiffSpec(pages=2, height=40, width=40, tile=(16, 16), dtype="float32"),
    ],
    ids=["odd", "rgb", "big-endian", "tiles"],
)
def test_levels_are_means_at_their_place(tmp_path: Path, spec: TiffSpec) -> None:
    made = write_tiff(tmp_path / "a.tif", spec)
    report = pack(made.path, tmp_path / "out", levels=2)
    previous = open_array(report.archive, "0")
    for level in (1, 2):
        found = open_array(report.archive, str(level))
        wanted = np.stack([halved(plane) for plane in previous])
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if wanted.dtype.kind == "f" else 0)
        previous = found
    with zipfile.ZipFile(report.archive) as opened:
        multiscale = json.loads(opened.read(".zattrs"))["multiscales"][0]
    assert [dataset["path"] for dataset in multiscale["datasets"]] == ["0", "1", "2"]
    extra = [1.0] * (spec.samples > 1)
    for level, dataset in enumerate(multiscale["datasets"]):
        scale, *translation = dataset["coordinateTransformations"]
        factor = float(2**level)
        assert scale["scale"] == [1.0, factor, factor, *extra]
        if level:
            shift = 0.5 * (factor - 1)
            assert translation[0]["translation"] == [0.0, shift, shift, *[0.0 for _ in extra]]
    assert verify(report.archive).whole
    assert restore(report.archive, tmp_path / "back").files[0].read_bytes() == made.path.read_bytes()


def test_levels_are_never_read_in_reconstruction(tmp_path: Path) -> None:
    made = write_tiff(tmp_path / "a.tif", TiffSpec(pages=2, height=30, width=30))
    archive = pack(made.path, levels=1).archive
    drop_entry(archive, "1/0/0/0")
    assert restore(archive, tmp_path / "back").files[0].read_bytes() == made.path.read_bytes()
    assert {problem.key: problem.kind for problem in verify(archive).problems} == {"1/0/0/0": "missing"}


def test_no_more_levels_than_there_are_pixels(tmp_path: Path) -> None:
    made = write_tiff(tmp_path / "a.tif", TiffSpec(pages=1, height=3, width=2))
    archive = pack(made.path, levels=9).archive
    with zipfile.ZipFile(archive) as opened:
        arrays = sorted(name for name in opened.namelist() if name.endswith(".zarray"))
    assert arrays == ["0/.zarray", "1/.zarray", "2/.zarray", "husk/.zarray"]


@pytest.mark.parametrize("levels", [-1, 17])
def test_wrong_number_of_levels(tmp_path: Path, levels: int) -> None:
    made = write_tiff(tmp_path / "a.tif", TiffSpec())
    with pytest.raises(UsageError, match="derived levels"):
        pack(made.path, levels=levels)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tif"]
