"""From a resampling query to an output made tile by tile, and the chunks that its tiles need."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.engine._pieces import combinations
from napari_decant.engine._plan import TiledOutput
from napari_decant.engine._tiles import spatial_tiles
from napari_decant.errors import BudgetExceeded
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.spatial import SpatialResolution

__all__ = ["tiled_output"]


def tiled_output(
    sample: SpatialResolution, meta: ArrayMeta, place: int, limits: PlanLimits
) -> tuple[TiledOutput, NDArray[np.int64]]:
    """Cut an output into tiles at every position of the axes that are not sampled.

    Parameters
    ----------
    sample : SpatialResolution
        One that requires resampling.
    meta : ArrayMeta
        Of the array that it reads.
    place : int
        Of that array in the plan.
    limits : PlanLimits

    Returns
    -------
    output : TiledOutput
        Its ``tile_chunks`` are filled in once the chunks of the plan are numbered.
    positions : int64 array, shape (k, rank)
        Grid positions of the chunks under each tile, tile after tile.

    Raises
    ------
    BudgetExceeded
        As `spatial_tiles`, or the tiles are too many.
    UnsupportedOperation
        As `spatial_tiles`.
    """
    others = tuple(i for i in range(meta.rank) if i not in sample.spatial_axes)
    repeats = math.prod(sample.shape[i] for i in others)
    tiles = spatial_tiles(sample, meta, limits)
    uses = max(len(tiles.start), len(tiles.chunks)) * repeats
    if uses > 64 * limits.max_chunks:
        raise BudgetExceeded("max_chunks", uses, limits.max_chunks, "the output's tiles")
    other = (
        combinations([np.arange(sample.shape[i]) for i in others]) if others else np.zeros((1, 0), np.int64)
    )
    start = tuple(sample.source_bounds_index[i][0] for i in others)
    # every tile, at every position of the other axes; tiles of one position stay together
    counts = np.tile(np.diff(tiles.first), len(other))
    positions = np.zeros((len(tiles.chunks) * len(other), meta.rank), np.int64)
    pad = 3 - len(sample.spatial_axes)
    positions[:, list(sample.spatial_axes)] = np.tile(tiles.chunks[:, pad:], (len(other), 1))
    for at, axis in enumerate(others):
        chunk = (other[:, at] + start[at]) // meta.chunk_shape[axis]
        positions[:, axis] = np.repeat(chunk, len(tiles.chunks))
    output = TiledOutput(
        shape=sample.shape,
        array=place,
        sampler=sample.sampler,
        spatial_axes=sample.spatial_axes,
        other_axes=others,
        linear=tiles.linear,
        offset=tiles.offset,
        grid_start=tiles.grid_start,
        other_start=start,
        tile_start=np.tile(tiles.start, (len(other), 1)),
        tile_shape=np.tile(tiles.shape, (len(other), 1)),
        tile_other=np.repeat(other, len(tiles.start), axis=0),
        tile_first=np.concatenate([[0], np.cumsum(counts)]),
        tile_chunks=np.empty(0, np.int64),  # filled in once chunks are numbered
    )
    return output, positions
