"""Sources that say how they are read, and layouts small enough for tests to have many shards."""

from __future__ import annotations

import itertools
import math
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

from napari_decant.images import _write_zarr_layout as layout
from napari_decant.images import downsample
from napari_decant.ngff import load_array_meta
from napari_decant.stores import open_store

__all__ = ["CountedArray", "expected_levels", "holes", "small_layout"]


class CountedArray:
    """An array with chunks that counts how often each of them is touched."""

    def __init__(self, data: np.ndarray, chunks: tuple[int, ...]) -> None:
        self.data, self.chunks = data, chunks
        self.shape, self.dtype, self.ndim = data.shape, data.dtype, data.ndim
        self.touched: Counter[tuple[int, ...]] = Counter()
        self._lock = threading.Lock()

    def __getitem__(self, key: Any) -> np.ndarray:
        ranges = []
        for part, n, c in zip(key, self.shape, self.chunks, strict=True):
            first, stop = (part.start, part.stop) if isinstance(part, slice) else (part, part + 1)
            assert 0 <= first < stop <= n
            ranges.append(range(first // c, -(-stop // c)))
        with self._lock:
            self.touched.update(itertools.product(*ranges))
        return self.data[key]

    @property
    def decodes(self) -> float:
        """Touches per chunk."""
        return sum(self.touched.values()) / math.prod(
            -(-n // c) for n, c in zip(self.shape, self.chunks, strict=True)
        )


def small_layout(patch: pytest.MonkeyPatch, *, edge: int = 8, shard: int = 16, times: int = 2) -> None:
    """The same rules with small numbers: chunks of ``edge`` cubed, shards of some thousand voxels."""
    patch.setattr(layout, "EDGE", edge)
    patch.setattr(layout, "LEAST_CHUNK", edge**3)
    patch.setattr(layout, "LEAST_SHARD", 2 * shard**3)
    patch.setattr(layout, "MOST_SHARD", 10 * shard**3)
    patch.setattr(layout, "LONGEST", shard)
    patch.setattr(layout, "TIMES", times)


def expected_levels(data: np.ndarray, factors: Any, how: Any = "mean") -> list[np.ndarray]:
    """Levels of a t, c, z, y, x array, each made of the whole one before."""
    levels = [data]
    for step in factors:
        levels.append(downsample(levels[-1], step, how))
    return levels


def holes(location: Any) -> int:
    """Chunks that a store lacks, counted through its shard indexes."""
    from napari_decant.engine import ZarrArray

    lacking = 0
    with open_store(location) as store:
        paths = [k.removesuffix("zarr.json").rstrip("/") for k in store.keys("") if k.endswith("zarr.json")]
        for path in paths:
            if b'"array"' not in store.read(f"{path}/zarr.json".lstrip("/")):
                continue
            meta = load_array_meta(store, path)
            array = ZarrArray(store, meta, path)
            lacking += sum(array.chunk_extent(index) is None for index in np.ndindex(*meta.grid_shape))
    return lacking
