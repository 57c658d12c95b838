"""A resolved crop as an array: cut when it is indexed, piece by piece where it is large."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._selection import parse_selection
from napari_decant.errors import BudgetExceeded
from napari_decant.images.crop._cutter import Cutter
from napari_decant.images.crop._source import CropSource
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.spatial import SpatialResolution, part_of

__all__ = ["CropArray"]

_PIECE_BYTES: Final = 32 << 20
_FEWEST: Final = 16  # pieces of a crop that somebody watches


class CropArray:
    """A crop that is cut when it is indexed with integers and slices; any thread may do that.

    Parameters
    ----------
    source : CropSource
    resolution : SpatialResolution
    cutter : Cutter
    dtype : dtype, optional
        The source's own if not given.
    cancel : CancelToken, optional
        Ends every read once it is set.

    Attributes
    ----------
    chunks : tuple of int
        Pieces that are cut well at once.
    """

    def __init__(
        self,
        source: CropSource,
        resolution: SpatialResolution,
        cutter: Cutter,
        dtype: DTypeLike | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self.source, self.resolution, self.cutter, self.cancel = source, resolution, cutter, cancel
        self.dtype = cutter.dtype_of(source, dtype)
        self.chunks = self._piece()

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.resolution.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that all of it takes."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<CropArray {self.shape} {self.dtype} of {self.source.name}>"

    def __getitem__(self, key: Any) -> NDArray[Any]:
        wanted = parse_selection(key, self.shape)
        need = math.prod(wanted.shape) * self.dtype.itemsize
        if need > self.cutter.memory:
            raise BudgetExceeded("memory", need, self.cutter.memory, "this part of the crop")
        out = np.empty(wanted.result_shape, self.dtype)
        if not out.size:
            return out
        start = tuple(axis.start for axis in wanted.axes)
        stop = tuple(axis.start + axis.step * (axis.count - 1) + 1 for axis in wanted.axes)
        part = part_of(self.resolution, start, stop)
        region = wanted.forward(out)
        if all(axis.step == 1 for axis in wanted.axes):
            self.cutter.cut(self.source, part, out=region, cancel=self.cancel)
        else:
            made = self.cutter.cut(self.source, part, dtype=self.dtype, cancel=self.cancel)
            region[...] = made[tuple(slice(None, None, axis.step) for axis in wanted.axes)]
        return out

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a crop is cut into a new array; copy=False cannot be kept")
        made = self.read()
        return made if dtype is None else made.astype(dtype, copy=False)

    def read(self, progress: ProgressCallback = ignore_progress) -> NDArray[Any]:
        """Cut all of it into memory.

        Parameters
        ----------
        progress : callable, optional
            Told bytes of the output after every piece.

        Raises
        ------
        BudgetExceeded
            It takes more than half of the cutter's memory; write it to a file instead.
        DecantError
            The source cannot be read.
        Cancelled
            The token was set.
        """
        if self.nbytes > self.cutter.memory // 2:
            raise BudgetExceeded("memory", 2 * self.nbytes, self.cutter.memory, "this crop")
        out = np.empty(self.shape, self.dtype)
        done = 0
        progress(Progress("crop", 0, self.nbytes, self.source.name))
        for start, stop in self.pieces():
            region = out[tuple(map(slice, start, stop))]
            part = part_of(self.resolution, start, stop)
            self.cutter.cut(self.source, part, out=region, cancel=self.cancel)
            done += region.nbytes
            progress(Progress("crop", done, self.nbytes, self.source.name))
        return out

    def pieces(self, target_bytes: int | None = None) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Divide the output into boxes; those of a copy end where the source's chunks do.

        Parameters
        ----------
        target_bytes : int, optional
            Roughly what a box takes; by default small enough that progress is seen.
        """
        piece = self._piece(target_bytes or max(1 << 20, min(_PIECE_BYTES, self.nbytes // _FEWEST)))
        grid = self.source_chunks()
        cuts = []
        for axis, (n, size) in enumerate(zip(self.shape, piece, strict=True)):
            first = 0
            if grid is not None and size < n:
                begin = self.resolution.source_bounds_index[axis][0]
                first = -begin % grid[axis]
            edges = [0, *range(first or size, n, size), n] if size < n else [0, n]
            cuts.append(list(itertools.pairwise(sorted(set(edges)))))
        for combo in itertools.product(*cuts):
            yield tuple(a for a, _ in combo), tuple(b for _, b in combo)

    def source_chunks(self) -> tuple[int, ...] | None:
        """Chunk shape of the source, where output and source have the same grid."""
        if self.resolution.requires_resampling:
            return None
        level = self.source.levels[self.resolution.level]
        if level.array is not None:
            return level.array.chunk_shape
        chunks = getattr(level.data, "chunksize", None) or getattr(level.data, "chunks", None)
        if not isinstance(chunks, tuple) or len(chunks) != self.ndim:
            return None
        return chunks if all(isinstance(n, int) for n in chunks) else None

    def _piece(self, target_bytes: int = _PIECE_BYTES) -> tuple[int, ...]:
        """Grow a box in turn along its shortest axis, from a chunk of the source or a single element."""
        room = max(1, min(target_bytes, self.cutter.memory // 8) // self.dtype.itemsize)
        chunks = self.source_chunks()
        size = [min(c, n) for c, n in zip(chunks, self.shape, strict=True)] if chunks else [1] * self.ndim
        spatial = set(self.source.spatial)
        while math.prod(size) > room and max(size) > 1:
            axis = size.index(max(size))
            size[axis] = -(-size[axis] // 2)
        while True:
            grows = [i for i, (s, n) in enumerate(zip(size, self.shape, strict=True)) if s < n]
            # axes that are not spatial grow last: their chunks are rarely shared
            grows.sort(key=lambda i: (i not in spatial, size[i]))
            axis = next((i for i in grows if math.prod(size) * 2 <= room), -1)
            if axis < 0:
                return tuple(size)
            size[axis] = min(size[axis] * 2, self.shape[axis])
