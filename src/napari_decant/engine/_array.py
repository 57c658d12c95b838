"""One Zarr array of a store, read chunk by chunk: nothing is cached, nothing is shared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._codecs import ChunkDecoder
from napari_decant.engine._selection import Selection, parse_selection
from napari_decant.engine._shards import ShardIndex, index_range, parse_shard_index
from napari_decant.errors import DecantError
from napari_decant.ngff._zarr import ArrayMeta, load_array_meta
from napari_decant.stores._base import Extent, Store

__all__ = ["ZarrArray"]


class ZarrArray:
    """Read-only access to a Zarr v2 or v3 array; every method may be called from any thread.

    Parameters
    ----------
    store : Store
        Where the chunks are; it stays open as long as the array is used.
    meta : ArrayMeta, optional
        Loaded from the store if not given.
    path : str
        Path of the array within the store.

    Examples
    --------
    >>> array = ZarrArray(store, path="0")              # doctest: +SKIP
    >>> plane = array.read((0, slice(None), slice(0, 256)))  # doctest: +SKIP
    """

    def __init__(self, store: Store, meta: ArrayMeta | None = None, path: str = "") -> None:
        self.store = store
        self.path = path.strip("/")
        self.meta = meta if meta is not None else load_array_meta(store, self.path)
        self.decoder = ChunkDecoder(self.meta)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.meta.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of what is read: native byte order."""
        return self.meta.native_dtype

    def chunk_key(self, index: Sequence[int]) -> str:
        """Key of the stored object that holds the chunk at a position of the chunk grid.

        A sharded array has several chunks in one object; positions count inner chunks.
        """
        per = self.meta.chunks_per_shard
        key = self.meta.object_key([i // n for i, n in zip(index, per, strict=True)])
        return f"{self.path}/{key}" if self.path else key

    def chunk_extent(self, index: Sequence[int]) -> Extent | None:
        """Where the stored bytes of a chunk lie, or None if the chunk is absent and reads as fill.

        Raises
        ------
        FormatError, IntegrityError
            The shard that should hold it is damaged.
        """
        return self._extent(index, {})

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read one whole chunk, elements beyond the array's edge included.

        Parameters
        ----------
        index : sequence of int
            Position in the grid of (inner) chunks.
        out : array, shape ``meta.chunk_shape``, native dtype, optional
            Filled and returned.

        Raises
        ------
        FormatError, IntegrityError
            The stored bytes are damaged.
        StorageError
            They cannot be read.
        """
        if out is None:
            out = np.empty(self.meta.chunk_shape, self.dtype)
        self._read_into(index, tuple(slice(0, n, 1) for n in self.meta.chunk_shape), out, {})
        return out

    def read(self, selection: Any = ..., out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read a box of the array, as ``numpy`` indexing with integers and slices would.

        Parameters
        ----------
        selection : int, slice, Ellipsis, or a tuple of them
            Negative indices and steps count as in numpy.
        out : array of the result's shape, native dtype, optional
            Filled and returned.

        Raises
        ------
        IndexError
            An integer is out of range, or there are too many indices.
        FormatError, IntegrityError, StorageError
            As `read_chunk`.
        """
        wanted = parse_selection(selection, self.shape)
        if out is None:
            out = np.empty(wanted.result_shape, self.dtype)
        elif out.shape != wanted.result_shape or out.dtype != self.dtype:
            raise ValueError(f"out is {out.dtype} {out.shape}; {self.dtype} {wanted.result_shape} is needed")
        if math.prod(wanted.shape):
            shards: dict[str, ShardIndex] = {}
            target = wanted.forward(out)
            for index, inside, region in self._pieces(wanted):
                self._read_into(index, inside, target[region], shards)
        return out

    def _pieces(self, wanted: Selection) -> Any:
        """Yield each touched chunk: (position, slices within it, index of the result)."""
        per_axis = [
            list(axis.chunks(size)) for axis, size in zip(wanted.axes, self.meta.chunk_shape, strict=True)
        ]
        for combo in itertools.product(*per_axis):
            # The dots keep a view where there are no axes.
            yield tuple(c[0] for c in combo), tuple(c[1] for c in combo), (..., *(c[2] for c in combo))

    def _read_into(
        self,
        index: Sequence[int],
        inside: Sequence[slice],
        out: NDArray[Any],
        shards: dict[str, ShardIndex],
    ) -> None:
        extent = self._extent(index, shards)
        if extent is None:
            out[...] = self.meta.fill_value
            return
        file, offset, length = extent.file, extent.offset, extent.length
        try:
            self.decoder.check_stored(length)
            if self.decoder.fits(out):
                self.decoder.decode(self.store.read_file(file, offset, length), out)
                return
            begin, end = self.decoder.span(inside)
            if self.decoder.partial != "prefix" and self.decoder.wants_partial(begin, end):
                part = self.decoder.fetch_part(
                    lambda start, size: self.store.read_file(file, offset + start, size), length, begin, end
                )
                out[...] = self.decoder.elements_of(part)[tuple(inside)]
            else:
                self.decoder.decode_region(self.store.read_file(file, offset, length), inside, out)
        except DecantError as error:
            where = f"chunk {'/'.join(map(str, index))} of {self.path or 'the array'} in {self.store.uri}"
            error.args = (f"{where}: {error}", *error.args[1:])
            raise

    def _extent(self, index: Sequence[int], shards: dict[str, ShardIndex]) -> Extent | None:
        if len(index) != self.meta.rank or not all(
            0 <= i < n for i, n in zip(index, self.meta.grid_shape, strict=True)
        ):
            raise IndexError(f"chunk {tuple(index)} is outside the grid {self.meta.grid_shape}")
        key = self.chunk_key(index)
        whole = self.store.extent(key)
        if whole is None or self.meta.shard_shape is None:
            return whole
        if key not in shards:
            start, size = index_range(self.meta, whole.length, key)
            raw = self.store.read_file(whole.file, whole.offset + start, size)
            shards[key] = parse_shard_index(self.meta, raw, whole.length, key)
        entry = shards[key]
        per = self.meta.chunks_per_shard
        flat = int(np.ravel_multi_index([i % n for i, n in zip(index, per, strict=True)], per)) if per else 0
        if entry.offsets[flat] < 0:
            return None
        return Extent(whole.file, whole.offset + int(entry.offsets[flat]), int(entry.lengths[flat]))
