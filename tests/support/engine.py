"""Small arrays in memory for the engine's tests."""

from __future__ import annotations

import numpy as np
import zarr
from tests.support.images import image_of

from napari_decant.engine import ZarrArray
from napari_decant.spatial import IndexQuery, level_crop
from napari_decant.stores import MemoryStore


def ramp(shape, dtype="u2"):
    """Never zero, position dependent."""
    return (1 + np.arange(int(np.prod(shape))) % 65535).astype(dtype).reshape(shape)


def files_of(data, **options):
    """What zarr-python writes for an array: key to bytes."""
    raw: dict = {}
    options = {"zarr_format": 3, "compressors": None} | options
    zarr.create_array(zarr.storage.MemoryStore(raw), shape=data.shape, dtype=data.dtype, **options)[...] = (
        data
    )
    return {key: value.to_bytes() for key, value in raw.items()}


def image_in(files, axes, name=None):
    """An image with one level over a store in memory."""
    store = MemoryStore(files, name)
    meta = ZarrArray(store).meta
    image = image_of(axes, [{"shape": meta.shape}], uri=store.uri, arrays=[meta])
    image.levels[0].path = ""
    image.store = store  # it lives as long as somebody holds it
    return image


def crop(image, start, shape, sampler=None):
    stop = [a + n for a, n in zip(start, shape, strict=True)]
    return level_crop(image, 0, start, stop, sampler).resolve(image)


def indexed(image, *selection):
    return IndexQuery(selection).resolve(image)
