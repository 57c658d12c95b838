"""Memory does not grow with the file: 200 MB, 2 GB, and an ImageJ stack of more than 6 GB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
import zarr.storage
from tests.support.memory import MIB, peaks
from tests.support.tiffwriter import write_sparse_imagej

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_memory_is_flat(tmp_path: Path) -> None:
    plane, found = 2048 * 2048 * 2, {}
    for images in (25, 250, 750):
        tiff = write_sparse_imagej(tmp_path / f"{images}.tif", images, 2048, 2048)
        found[images] = peaks(tiff, tmp_path, seconds=600)
        store = zarr.storage.ZipStore(tmp_path / f"{images}.tif.zarr.zip", mode="r")
        array = zarr.open_array(store, path="0", mode="r")
        assert array.shape == (images, 2048, 2048)
        for index, pixels in tiff.known.items():
            assert np.array_equal(np.asarray(array[index]), pixels)
        assert not np.asarray(array[images // 2]).any()
        store.close()
        tiff.path.unlink()
    for images, verbs in found.items():
        for verb, peak in verbs.items():
            assert peak < 400 * MIB + 2 * 4 * plane, f"{verb} of {images} planes took {peak / MIB:.0f} MiB"
            assert peak < found[25][verb] + 64 * MIB, f"{verb} of {images} planes took {peak / MIB:.0f} MiB"
