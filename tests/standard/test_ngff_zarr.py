"""What is exported opens in ngff-zarr: same pixels, same place, in a folder and in one file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.support.ngff import ramp

from napari_decant.images import open_image
from napari_decant.standard import export

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other library and what it imports


@pytest.mark.parametrize("suffix", [".zarr", ".ozx"])
def test_exports_open_in_ngff_zarr(tmp_path: Path, suffix: str) -> None:
    import ngff_zarr
    import tifffile

    data = ramp((2, 3, 31, 67, 71))
    metadata = {"axes": "TCZYX", "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm"}
    tifffile.imwrite(tmp_path / "a.ome.tif", data, ome=True, metadata=metadata)
    target = tmp_path / f"a{suffix}"
    export(tmp_path / "a.ome.tif", target)
    found = ngff_zarr.from_ngff_zarr(str(target))
    np.testing.assert_array_equal(np.asarray(found.images[0].data), data)
    with closing(open_image(target)) as ours:
        assert len(found.images) == len(ours.levels) > 1
        for theirs, level, scale, shift in zip(
            found.images, ours.levels, ours.scales, ours.translations, strict=True
        ):
            np.testing.assert_array_equal(np.asarray(theirs.data), np.asarray(level))
            assert tuple(theirs.dims) == ("t", "c", "z", "y", "x")
            assert tuple(theirs.scale[axis] for axis in theirs.dims) == scale
            assert tuple(theirs.translation[axis] for axis in theirs.dims) == shift
