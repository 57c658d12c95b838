"""Which chunks lie under a tile of a sampled output: exactly, without visiting every sample.

Compiled with numba; imported only where something is resampled. Coordinates are computed as
sampling computes them, in the same order and without fused operations, so both agree to the bit.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["mark_tiles", "touched_range"]

_jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
_part: Any = numba.njit(nogil=True, error_model="numpy")


@_part
def touched_range(  # type: ignore[no-untyped-def]
    linear, offset, axis, first, count, is_linear, boundary, n
):
    """Indices ``[low, high]`` of one source axis that a box of samples needs, and whether some lie outside.

    Empty if high < low. ``boundary`` is 0 for error, 1 for constant, 2 for clamp.
    """
    low = 0.0
    high = 0.0
    for k in range(3):
        p = linear[axis, k] * (np.float64(first[k]) + 0.5)
        q = linear[axis, k] * (np.float64(first[k] + count[k] - 1) + 0.5)
        low += min(p, q)
        high += max(p, q)
    low += offset[axis]
    high += offset[axis]
    if is_linear:
        a = np.int64(np.floor(low - 0.5))
        b = np.int64(np.ceil(high - 0.5))
    else:
        a = np.int64(np.floor(low))
        b = np.int64(np.floor(high))
    if boundary == 2:
        return min(max(a, 0), n - 1), min(max(b, 0), n - 1), False
    return max(a, 0), min(b, n - 1), a < 0 or b >= n


@_part
def _mark(  # type: ignore[no-untyped-def]
    linear, offset, first, count, is_linear, boundary, n, chunk, base, dims, marks
):
    """Set ``marks`` of every chunk that a box of samples touches, and of no other.

    A box that touches one chunk, or none that is not marked yet, is done; others are halved.
    """
    stack = np.empty((256, 6), np.int64)
    stack[0, :3] = first
    stack[0, 3:] = count
    depth = 1
    low = np.empty(3, np.int64)
    high = np.empty(3, np.int64)
    while depth > 0:
        depth -= 1
        start = stack[depth, :3].copy()
        size = stack[depth, 3:].copy()
        empty = False
        single = True
        for axis in range(3):
            a, b, outside = touched_range(linear, offset, axis, start, size, is_linear, boundary, n[axis])
            if outside:  # samples inside along this axis may all be outside along another
                single = False
            if b < a:
                empty = True
                break
            low[axis] = a // chunk[axis] - base[axis]
            high[axis] = b // chunk[axis] - base[axis]
            if high[axis] != low[axis]:
                single = False
        if empty:
            continue
        done = single or (size[0] == 1 and size[1] == 1 and size[2] == 1)
        if not done:
            done = True
            for z in range(low[0], high[0] + 1):
                for y in range(low[1], high[1] + 1):
                    for x in range(low[2], high[2] + 1):
                        if marks[(z * dims[1] + y) * dims[2] + x] == 0:
                            done = False
        if done:
            for z in range(low[0], high[0] + 1):
                for y in range(low[1], high[1] + 1):
                    for x in range(low[2], high[2] + 1):
                        marks[(z * dims[1] + y) * dims[2] + x] = 1
            continue
        axis = 0
        for k in range(1, 3):
            if size[k] > size[axis]:
                axis = k
        half = size[axis] // 2
        for part in range(2):
            stack[depth, :3] = start
            stack[depth, 3:] = size
            stack[depth, axis] = start[axis] + (half if part else 0)
            stack[depth, 3 + axis] = size[axis] - half if part else half
            depth += 1


@_jit
def _mark_all(  # type: ignore[no-untyped-def]
    linear, offset, starts, sizes, is_linear, boundary, n, chunk, box_low, box_dims, room
):
    """Return per-tile counts and the touched chunks, three coordinates each, tile after tile."""
    tiles = starts.shape[0]
    found = np.empty((room, 3), np.int64)
    first = np.zeros(tiles + 1, np.int64)
    total = 0
    for tile in range(tiles):
        dims = box_dims[tile]
        volume = dims[0] * dims[1] * dims[2]
        if volume > 0:
            marks = np.zeros(volume, np.uint8)
            _mark(
                linear, offset, starts[tile], sizes[tile], is_linear, boundary, n, chunk,
                box_low[tile], dims, marks,
            )  # fmt: skip
            for at in range(volume):
                if marks[at]:
                    found[total, 2] = box_low[tile, 2] + at % dims[2]
                    found[total, 1] = box_low[tile, 1] + at // dims[2] % dims[1]
                    found[total, 0] = box_low[tile, 0] + at // (dims[2] * dims[1])
                    total += 1
        first[tile + 1] = total
    return first, found[:total]


@_jit
def _boxes(  # type: ignore[no-untyped-def]
    linear, offset, starts, sizes, is_linear, boundary, n, chunk
):
    """Bounding boxes, in chunks, of what each tile touches: first chunk and extent."""
    tiles = starts.shape[0]
    low = np.zeros((tiles, 3), np.int64)
    dims = np.zeros((tiles, 3), np.int64)
    for tile in range(tiles):
        for axis in range(3):
            a, b, _ = touched_range(
                linear, offset, axis, starts[tile], sizes[tile], is_linear, boundary, n[axis]
            )
            if b >= a:
                low[tile, axis] = a // chunk[axis]
                dims[tile, axis] = b // chunk[axis] - a // chunk[axis] + 1
    return low, dims


def mark_tiles(
    linear: NDArray[np.float64],
    offset: NDArray[np.float64],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    is_linear: bool,
    boundary: int,
    n: NDArray[np.int64],
    chunk: NDArray[np.int64],
    max_box: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Chunks under every tile.

    Parameters
    ----------
    linear, offset : float64 arrays, shapes (3, 3) and (3,)
        Map from grid corners to source corners.
    starts, sizes : int64 arrays, shape (tiles, 3)
        Boxes of grid points.
    is_linear : bool
        Whether neighbours contribute.
    boundary : int
        0 error, 1 constant, 2 clamp.
    n, chunk : int64 arrays, shape (3,)
        Extents of the source and of its chunks.
    max_box : int
        Most chunks in the bounding box of one tile.

    Returns
    -------
    (int64 array, shape (tiles + 1,), int64 array, shape (k, 3)) or None
        Where each tile's chunks begin, and their grid positions; None if a box is larger than ``max_box``.
    """
    low, dims = _boxes(linear, offset, starts, sizes, is_linear, boundary, n, chunk)
    if dims.size and (dims.astype(np.float64).prod(axis=1) > max_box).any():
        return None
    room = int(dims.prod(axis=1).sum())
    first, found = _mark_all(linear, offset, starts, sizes, is_linear, boundary, n, chunk, low, dims, room)
    return first, found
