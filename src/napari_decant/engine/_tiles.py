"""Cutting a sampled output into tiles and finding the chunks under each."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.errors import BudgetExceeded, UnsupportedOperation
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.spatial import BOUNDARIES, SpatialResolution

__all__ = ["SpatialTiles", "cut", "spatial_tiles"]

_TILE_SAMPLES: Final = (1 << 17, 1 << 14, 1 << 11, 1 << 8, 1 << 5, 1)
_MAX_BOX: Final = 1 << 16
_MAX_TILES: Final = 1 << 22


class SpatialTiles:
    """Tiles of the spatial axes of one output with the chunk positions under each.

    Attributes
    ----------
    linear, offset, grid_start : arrays, shapes (3, 3), (3,), (3,)
        As `TiledOutput`; images with two spatial axes get one of extent 1 before them.
    start, shape : int64 arrays, shape (tiles, 3)
        Boxes from ``grid_start``.
    first : int64 array, shape (tiles + 1,)
    chunks : int64 array, shape (k, 3)
        Grid positions along the spatial axes, tile after tile.
    """

    def __init__(self, resolution: SpatialResolution, meta: ArrayMeta) -> None:
        axes = resolution.spatial_axes
        pad = 3 - len(axes)
        self.linear = np.eye(3)
        self.offset = np.zeros(3)
        self.grid_start = np.zeros(3, np.int64)
        self.extent = np.ones(3, np.int64)
        self.source = np.ones(3, np.int64)
        self.chunk = np.ones(3, np.int64)
        picked = np.ix_(axes, axes)
        self.linear[pad:, pad:] = np.asarray(resolution.output_to_source.linear)[picked]
        for at, axis in enumerate(axes, pad):
            self.offset[at] = resolution.output_to_source.offset[axis]
            self.grid_start[at] = resolution.grid_start[axis]
            self.extent[at] = resolution.shape[axis]
            self.source[at] = meta.shape[axis]
            self.chunk[at] = meta.chunk_shape[axis]
        self.start: NDArray[np.int64] = np.empty((0, 3), np.int64)
        self.shape: NDArray[np.int64] = np.empty((0, 3), np.int64)
        self.first: NDArray[np.int64] = np.zeros(1, np.int64)
        self.chunks: NDArray[np.int64] = np.empty((0, 3), np.int64)


def cut(extent: NDArray[np.int64], samples: int) -> NDArray[np.int64]:
    """Return the shape of near-cubic tiles of at most ``samples`` samples.

    The last axis may be longer: its samples are worked on and written together.
    """
    shape = np.ones(3, np.int64)
    while True:
        weight = np.array([1.0, 1.0, 0.25]) * shape
        weight[shape >= extent] = math.inf
        axis = int(weight.argmin())
        if math.isinf(weight[axis]) or int(shape.prod()) * 2 > samples:
            return np.minimum(shape, extent)
        shape[axis] *= 2


def spatial_tiles(resolution: SpatialResolution, meta: ArrayMeta, limits: PlanLimits) -> SpatialTiles:
    """Cut the spatial axes of an output and find the chunks under every tile, exactly.

    Tiles shrink until the decoded chunks under one keep to ``limits.max_tile_bytes``.

    Raises
    ------
    BudgetExceeded
        Not even a single sample keeps to it, or there would be too many tiles.
    UnsupportedOperation
        Values that cannot be interpolated.
    """
    from napari_decant.engine._tile_marks import mark_tiles

    is_linear = resolution.sampler.filter == "linear"
    if is_linear and meta.dtype.kind == "b":
        raise UnsupportedOperation(
            f"{resolution.uri} holds true and false, with no values between them; use the filter nearest"
        )
    tiles = SpatialTiles(resolution, meta)
    boundary = BOUNDARIES.index(resolution.sampler.boundary)
    least = math.inf
    for samples in _TILE_SAMPLES:
        size = cut(tiles.extent, samples)
        counts = -(-tiles.extent // size)
        if counts.astype(np.float64).prod() > _MAX_TILES:
            raise BudgetExceeded(
                "max_tile_bytes", int(least), limits.max_tile_bytes, "one tile of the output"
            )
        grid = np.stack(np.unravel_index(np.arange(int(counts.prod())), tuple(counts)), axis=1)
        tiles.start = np.ascontiguousarray(grid * size, np.int64)
        tiles.shape = np.minimum(size, tiles.extent - tiles.start)
        marked = mark_tiles(
            tiles.linear, tiles.offset, tiles.start + tiles.grid_start, tiles.shape, is_linear, boundary,
            tiles.source, tiles.chunk, _MAX_BOX,
        )  # fmt: skip
        if marked is None:
            continue
        tiles.first, tiles.chunks = marked
        most = int(np.diff(tiles.first).max(initial=0)) * meta.chunk_nbytes
        if most <= limits.max_tile_bytes:
            return tiles
        least = min(least, most)
    raise BudgetExceeded("max_tile_bytes", int(least), limits.max_tile_bytes, "one sample of the output")
