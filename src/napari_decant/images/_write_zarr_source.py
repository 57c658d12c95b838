"""Any array with named axes, read as t, c, z, y, x boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.images._cache import ChunkCache
from napari_decant.images._lazy import LazyArray, ZarrSource
from napari_decant.ngff import Axis

__all__ = ["Box", "VolumeSource", "map_axes"]

Box = tuple[slice, slice, slice, slice, slice]
Convert = Callable[[NDArray[Any]], NDArray[Any]]
_PIECE = 8 << 20  # bytes of one read of an array that has no chunks


def map_axes(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Which of t, c, z, y, x each axis is; axes that are neither time nor space are folded into c.

    Raises
    ------
    UnsupportedOperation
        More than three axes are spatial, or more than one is time.
    """
    space = [i for i, axis in enumerate(axes) if axis.type == "space"]
    times = [i for i, axis in enumerate(axes) if axis.type == "time"]
    if not 1 <= len(space) <= 3 or len(times) > 1:
        names = ", ".join(f"{axis.name} ({axis.type})" for axis in axes)
        raise UnsupportedOperation(
            f"the axes {names} do not map to t, c, z, y, x: one to three of space and one of time fit"
        )
    named = {axes[i].name.lower(): i for i in space}
    roles = [1] * len(axes)
    for i in times:
        roles[i] = 0
    if set(named) <= set("zyx") and len(named) == len(space):
        for name, i in named.items():
            roles[i] = "tczyx".index(name)
    else:
        for i, role in zip(space[::-1], (4, 3, 2), strict=False):
            roles[i] = role
    return tuple(roles)


def _chunks_of(array: Any) -> tuple[int, ...] | None:
    """Chunk shape of numpy-like, zarr and dask arrays; None where there are no chunks."""
    for name in ("chunksize", "chunks"):
        value = getattr(array, name, None)
        if isinstance(value, tuple) and len(value) == array.ndim and all(isinstance(n, int) for n in value):
            return tuple(max(1, min(int(n), int(s))) for n, s in zip(value, array.shape, strict=True))
    return None


class VolumeSource:
    """An array of any axes as one of t, c, z, y, x.

    Parameters
    ----------
    array : array-like
        Has ``shape``, ``dtype`` and indexing by slices and integers; ``chunks`` or ``chunksize`` are used if
        there are any. A `LazyArray` is read past the cache it shares with others.
    axes : sequence of Axis
        One per dimension.
    dtype : dtype, optional
        Of what is read; that of the array if not given.
    convert : callable, optional
        Applied to every block before it is stored as ``dtype``.
    cache_bytes : int
        Decoded chunks of a `LazyArray` that are kept for the next read.

    Attributes
    ----------
    shape, chunk : tuple of int
        t, c, z, y, x.
    partial : bool
        Whether a chunk decodes by parts along its slowest axis.
    unit : tuple of int
        What is decoded as one piece: the chunk; one voxel where there are no chunks.
    keeps_chunks : bool
        Whether decoded chunks can be kept from one read to the next.
    """

    def __init__(
        self,
        array: Any,
        axes: Sequence[Axis],
        *,
        dtype: Any = None,
        convert: Convert | None = None,
        cache_bytes: int = 0,
    ) -> None:
        if len(axes) != len(array.shape):
            raise UsageError(f"{len(axes)} axes were named for an array of {len(array.shape)} dimensions")
        if any(n < 1 for n in array.shape):
            raise UnsupportedOperation(f"an array of shape {tuple(array.shape)} holds nothing to write")
        self.axes = tuple(axes)
        self.dtype = np.dtype(dtype or array.dtype).newbyteorder("=")
        self.source_dtype = np.dtype(array.dtype)
        self._array, self._convert = array, convert
        self.set_cache(cache_bytes)
        self._roles = map_axes(axes)
        self._folded = [i for i, role in enumerate(self._roles) if role == 1]
        shape, chunk = [1] * 5, [1] * 5
        chunks = _chunks_of(array)
        for i, role in enumerate(self._roles):
            shape[role] *= int(array.shape[i])
            if chunks is not None:
                chunk[role] *= chunks[i]
        if len(self._folded) > 1:
            chunk[1] = 1
        self.shape = tuple(shape)
        self.chunk = tuple(chunk) if chunks is not None else self._bands()
        self.unit = self.chunk if chunks is not None else (1,) * 5
        self.keeps_chunks = isinstance(array, LazyArray)
        self.partial = _decodes_by_parts(array)

    def set_cache(self, nbytes: int) -> None:
        """Keep up to ``nbytes`` of decoded chunks for the next read."""
        if isinstance(self._array, LazyArray):
            self._array = self._array.with_cache(ChunkCache(nbytes))

    def _bands(self) -> tuple[int, ...]:
        """Pieces of an array without chunks: some rows, or some planes."""
        chunk = [1, 1, 1, 1, self.shape[4]]
        for axis in (3, 2):
            room = _PIECE // max(1, math.prod(chunk) * self.dtype.itemsize)
            chunk[axis] = max(1, min(self.shape[axis], room))
        return tuple(chunk)

    def pieces(self, box: Box) -> Iterator[Box]:
        """Divide a box at the borders of the source's chunks, in C order."""
        cuts: list[list[slice]] = []
        for part, size in zip(box, self.chunk, strict=True):
            edges = range(part.start // size * size, part.stop, size)
            cuts.append([slice(max(part.start, e), min(part.stop, e + size)) for e in edges])
        yield from itertools.product(*cuts)

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Read one box into ``out``, an array of its shape and ``dtype``.

        Raises
        ------
        DecantError
            The source cannot be read, or a value does not fit into ``dtype``.
        """
        if len(self._folded) < 2:
            self._read_plain(box, out)
            return
        extents = [int(self._array.shape[i]) for i in self._folded]
        for n, c in enumerate(range(box[1].start, box[1].stop)):
            fixed = dict(zip(self._folded, (int(v) for v in np.unravel_index(c, extents)), strict=True))
            self._read_plain((box[0], slice(0, 1), *box[2:]), out[:, n : n + 1], fixed)

    def _read_plain(self, box: Box, out: NDArray[Any], fixed: dict[int, int] | None = None) -> None:
        fixed = fixed or {}
        selection = tuple(fixed.get(i, box[role]) for i, role in enumerate(self._roles))
        block = np.asarray(self._array[selection])
        if self._convert is not None:
            block = self._convert(block)
        kept = [role for i, role in enumerate(self._roles) if i not in fixed]
        block = block.transpose(np.argsort(kept))
        out[...] = block.reshape(out.shape)


def _decodes_by_parts(array: Any) -> bool:
    source = array.source if isinstance(array, LazyArray) else None
    return isinstance(source, ZarrSource) and bool(source.array.decoder.partial)
