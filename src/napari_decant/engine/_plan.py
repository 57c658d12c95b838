"""A plan: what to read, decode and write, as plain data without handles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.spatial import Sampler

__all__ = ["AxisPieces", "CopyOutput", "Plan", "PlanArray", "Summary", "TiledOutput"]

Selector = slice | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlanArray:
    """An array that chunks come from."""

    uri: str
    path: str
    meta: ArrayMeta


@dataclass(frozen=True, slots=True)
class AxisPieces:
    """One axis of a copy, cut at chunk borders.

    Attributes
    ----------
    chunks : int64 array, shape (pieces,)
        Position in the chunk grid.
    source, target : tuple of slice or int64 array
        What to take within the chunk, and where it goes in the output.
    spans : int64 array, shape (pieces, 2)
        Least and greatest index within the chunk.
    """

    chunks: NDArray[np.int64]
    source: tuple[Selector, ...]
    target: tuple[Selector, ...]
    spans: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CopyOutput:
    """An output made by copying elements.

    Attributes
    ----------
    shape : tuple of int
    array : int
        Index into `Plan.arrays`.
    axes : tuple of AxisPieces
    """

    shape: tuple[int, ...]
    array: int
    axes: tuple[AxisPieces, ...]


@dataclass(frozen=True, slots=True)
class TiledOutput:
    """An output made by sampling, tile by tile.

    Attributes
    ----------
    shape : tuple of int
    array : int
    sampler : Sampler
    spatial_axes, other_axes : tuple of int
        Positions of the axes that are sampled, and of those that are only shifted.
    linear : float64 array, shape (3, 3); offset : float64 array, shape (3,)
        Map of the spatial axes; two axes are preceded by one that stays at index 0.
    grid_start : int64 array, shape (3,)
        First grid point along each spatial axis.
    other_start : tuple of int
        Source index of output index 0 along each other axis.
    tile_start, tile_shape : int64 arrays, shape (tiles, 3)
        Boxes of the spatial output, from ``grid_start``.
    tile_other : int64 array, shape (tiles, other axes)
        Output index along the other axes.
    tile_first : int64 array, shape (tiles + 1,)
        Tile ``k`` needs the chunks ``tile_chunks[tile_first[k]:tile_first[k + 1]]``.
    tile_chunks : int64 array
        Indices of the plan's chunks.
    """

    shape: tuple[int, ...]
    array: int
    sampler: Sampler
    spatial_axes: tuple[int, ...]
    other_axes: tuple[int, ...]
    linear: NDArray[np.float64]
    offset: NDArray[np.float64]
    grid_start: NDArray[np.int64]
    other_start: tuple[int, ...]
    tile_start: NDArray[np.int64]
    tile_shape: NDArray[np.int64]
    tile_other: NDArray[np.int64]
    tile_first: NDArray[np.int64]
    tile_chunks: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a plan costs, known before any chunk is read.

    Attributes
    ----------
    chunks : int
        Distinct chunks, absent ones included.
    absent_chunks : int
        Chunks that are not stored and read as fill.
    stored_bytes, decoded_bytes : int
        Bytes in the store and decoded, of the chunks that are stored.
    output_bytes : int
        Bytes of the outputs in the source's element types.
    uses : int
        Pairs of chunk and output region; more than chunks where chunks are shared.
    resampled : int
        Outputs that need sampling.
    exact : bool
        False where sizes of remote chunks are estimates.
    """

    chunks: int
    absent_chunks: int
    stored_bytes: int
    decoded_bytes: int
    output_bytes: int
    uses: int
    resampled: int
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Arrays, distinct chunks with their byte ranges, outputs, and which chunk goes where.

    Attributes
    ----------
    arrays : tuple of PlanArray
    files : tuple of (str, str)
        Location of the store, and file within it.
    outputs : tuple of CopyOutput or TiledOutput
    errors : tuple of (Exception or None)
        Why an output could not be planned, one entry per output.
    chunk_array : int32 array, shape (chunks,)
    chunk_index : int64 array, shape (chunks, greatest rank)
        Position in the chunk grid; unused columns are 0.
    chunk_file : int32 array
        Index into ``files``; -1 where the chunk is absent, -2 where its output failed.
    chunk_offset, chunk_length : int64 arrays
        Byte range; the length is -1 where it is only known once read.
    use_chunk, use_output : int32 arrays, shape (uses,)
        Copies only, sorted by chunk.
    use_piece : int32 array, shape (uses, greatest rank)
        Which piece along each axis.
    summary : Summary
    """

    arrays: tuple[PlanArray, ...]
    files: tuple[tuple[str, str], ...]
    outputs: tuple[CopyOutput | TiledOutput | None, ...]
    errors: tuple[Exception | None, ...]
    chunk_array: NDArray[np.int32]
    chunk_index: NDArray[np.int64]
    chunk_file: NDArray[np.int32]
    chunk_offset: NDArray[np.int64]
    chunk_length: NDArray[np.int64]
    use_chunk: NDArray[np.int32]
    use_output: NDArray[np.int32]
    use_piece: NDArray[np.int32]
    summary: Summary

    def tile_chunk_counts(self) -> list[NDArray[np.int64]]:
        """Chunks under each tile of each sampled output."""
        return [np.diff(o.tile_first) for o in self.outputs if isinstance(o, TiledOutput)]

    def describe(self) -> dict[str, Any]:
        """Return the summary as plain values, for display and JSON."""
        return {name: getattr(self.summary, name) for name in Summary.__slots__}
