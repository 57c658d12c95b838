"""A crop plane by plane, for files that are written so, without decoding a chunk for every plane in it."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.images.crop._array import CropArray
from napari_decant.spatial import part_of

__all__ = ["Slabs"]


class Slabs:
    """A crop that is cut several planes at a time and handed out plane by plane, in order.

    Indexed by one slice or number for each axis; what is asked for again lies in memory.

    Parameters
    ----------
    array : CropArray
    axis : int or None
        The axis that is walked along; None if there is only one plane.
    memory : int
        Bytes of the planes that are held. Planes that do not fit are cut piece by piece, as asked for.
    """

    def __init__(self, array: CropArray, axis: int | None, memory: int) -> None:
        self._array, self._axis, self._memory = array, axis, memory
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.chunks = array.shape  # whatever is asked for comes in one piece
        self._lock = threading.Lock()
        self._start: tuple[int, ...] = ()
        self._held: NDArray[Any] | None = None

    def __getitem__(self, key: tuple[slice | int, ...]) -> NDArray[Any]:
        parts = tuple(slice(k, k + 1) if isinstance(k, int) else k for k in key)
        block = self._read(tuple(p.start for p in parts), tuple(p.stop for p in parts))
        return block[tuple(0 if isinstance(k, int) else slice(None) for k in key)]

    def _read(self, start: tuple[int, ...], stop: tuple[int, ...]) -> NDArray[Any]:
        with self._lock:
            if not self._holds(start, stop):
                wide = self._widened(start, stop)
                if wide is None:
                    return self._array[tuple(map(slice, start, stop))]
                self._held = None  # freed before the next ones are made
                self._start, self._held = wide[0], self._cut(*wide)
            assert self._held is not None
            inside = [slice(a - s, b - s) for a, b, s in zip(start, stop, self._start, strict=True)]
            return self._held[tuple(inside)]

    def _holds(self, start: tuple[int, ...], stop: tuple[int, ...]) -> bool:
        if self._held is None:
            return False
        ends = (s + n for s, n in zip(self._start, self._held.shape, strict=True))
        return all(s <= a and b <= e for a, b, s, e in zip(start, stop, self._start, ends, strict=True))

    def _widened(
        self, start: tuple[int, ...], stop: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Whole planes around a box, as many as may be held; None if not even one may."""
        spatial = set(self._array.source.spatial)
        low = [0 if i in spatial else a for i, a in enumerate(start)]
        high = [n if i in spatial else b for i, (b, n) in enumerate(zip(stop, self.shape, strict=True))]
        if self._axis is not None:
            low[self._axis], high[self._axis] = start[self._axis], stop[self._axis]
        plane = math.prod(b - a for a, b in zip(low, high, strict=True)) * self.dtype.itemsize
        count = self._memory // max(1, plane)
        if count < 1:
            return None
        if self._axis is not None:
            begin, extent = start[self._axis], self.shape[self._axis]
            high[self._axis] = min(extent, begin + min(count, self._depth(begin)))
        return tuple(low), tuple(high)

    def _depth(self, begin: int) -> int:
        """Planes up to where the source's chunks end, or many where output and source differ."""
        assert self._axis is not None
        grid = self._array.source_chunks()
        if grid is None:
            return self.shape[self._axis]
        size = grid[self._axis]
        first = self._array.resolution.source_bounds_index[self._axis][0] + begin
        return max(1, (256 // size or 1) * size - first % size)

    def _cut(self, start: tuple[int, ...], stop: tuple[int, ...]) -> NDArray[Any]:
        whole = self._array
        part = CropArray(
            whole.source, part_of(whole.resolution, start, stop), whole.cutter, self.dtype, whole.cancel
        )
        out = np.empty(part.shape, self.dtype)
        for first, last in part.pieces():
            region = out[tuple(map(slice, first, last))]
            part.cutter.cut(
                part.source, part_of(part.resolution, first, last), out=region, cancel=part.cancel
            )
        return out
