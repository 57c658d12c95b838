"""The array that a viewer's layer holds: numpy's face, chunks read when they are looked at."""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from napari_decant.engine import ZarrArray
from napari_decant.engine._selection import AxisSelection, Selection, parse_selection
from napari_decant.errors import BudgetExceeded
from napari_decant.images._cache import ChunkCache, default_cache

__all__ = ["ArrayLimits", "ChunkSource", "LazyArray", "ZarrSource"]

_WINDOW = 64  # chunks in flight of one read
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _workers() -> ThreadPoolExecutor:
    """Threads that read and decode for all arrays; codecs and reads release the GIL."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(min(16, 4 + (os.cpu_count() or 1)), thread_name_prefix="chunks")
        return _pool


class ChunkSource(Protocol):
    """What a `LazyArray` reads from; every method may be called from any thread."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Native data type."""

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Elements of one chunk along each axis."""

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read one whole chunk, with whatever lies beyond the array's edge."""

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """Read a box, of large chunks only what is needed."""


class ZarrSource:
    """A Zarr array of the engine as a `ChunkSource`."""

    def __init__(self, array: ZarrArray) -> None:
        self.array = array
        self.shape, self.dtype, self.chunk_shape = array.shape, array.dtype, array.meta.chunk_shape

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `ChunkSource.read_chunk`."""
        return self.array.read_chunk(index, out)

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """See `ChunkSource.read`."""
        return self.array.read(selection)


@dataclass(frozen=True, slots=True)
class ArrayLimits:
    """How much memory looking at an array may take.

    Attributes
    ----------
    max_array_bytes : int
        Size of one result, and of one decoded chunk.
    """

    max_array_bytes: int = 4 << 30


class LazyArray:
    """A read-only array whose chunks are read when they are indexed; any thread may use it.

    It has what viewers and numpy ask of an array. Indexing with integers, slices, ``...``, ``None`` and
    lists of integers gives numpy arrays; ``take`` with an integer, `transpose` and `astype` give lazy
    views that share the chunks.

    Parameters
    ----------
    source : ChunkSource
        Where the chunks come from.
    cache : ChunkCache, optional
        Keeps decoded chunks; all arrays share one unless told otherwise.
    limits : ArrayLimits, optional
        Larger results are refused with `BudgetExceeded`.
    """

    __array_priority__ = 0.0

    def __init__(
        self, source: ChunkSource, cache: ChunkCache | None = None, limits: ArrayLimits | None = None
    ) -> None:
        self._source = source
        self._cache = cache or default_cache()
        self._limits = limits or ArrayLimits()
        self._token = self._cache.new_token()
        self._owner = _Owner(self._cache, self._token)
        self._fixed: tuple[int | None, ...] = (None,) * len(source.shape)
        self._order: tuple[int, ...] = tuple(range(len(source.shape)))
        self._dtype = np.dtype(source.dtype)

    def _view(self, **changes: Any) -> LazyArray:
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | changes
        return other

    def with_cache(self, cache: ChunkCache) -> LazyArray:
        """Return the same array with another place for its decoded chunks."""
        token = cache.new_token()
        return self._view(_cache=cache, _token=token, _owner=_Owner(cache, token))

    @property
    def source(self) -> ChunkSource:
        """Where the chunks come from; its axes are those before `take` and `transpose`."""
        return self._source

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(self._source.shape[axis] for axis in self._order)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements of one chunk along each axis."""
        return tuple(self._source.chunk_shape[axis] for axis in self._order)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of what is read."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._order)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that reading everything would take."""
        return self.size * self._dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<LazyArray {self.shape} {self._dtype}, chunks {self.chunks}>"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("chunks are read into a new array; copy=False cannot be kept")
        result = self[...]
        return result if dtype is None else result.astype(dtype, copy=False)

    def astype(
        self,
        dtype: DTypeLike,
        order: str = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> LazyArray:
        """Return a lazy view that converts what it reads, as `numpy.ndarray.astype` would."""
        wanted = np.dtype(dtype)
        if not np.can_cast(self._dtype, wanted, casting):
            raise TypeError(f"cannot cast {self._dtype} to {wanted} by the rule {casting!r}")
        return self._view(_dtype=wanted)

    def transpose(self, *axes: Any) -> LazyArray:
        """Return a lazy view with its axes in another order."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        numbers = tuple(range(self.ndim))[::-1] if order is None else tuple(int(a) % self.ndim for a in order)
        if sorted(numbers) != list(range(self.ndim)):
            raise ValueError(f"{order} is no order of {self.ndim} axes")
        return self._view(_order=tuple(self._order[a] for a in numbers))

    def take(
        self, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str = "raise"
    ) -> LazyArray | NDArray[Any]:
        """Take one index along an axis as a lazy view, or several as a numpy array."""
        if out is not None or mode != "raise" or axis is None or np.ndim(indices) != 0:
            return np.take(np.asarray(self), indices, axis=axis, out=out, mode=mode)  # type: ignore[call-overload,no-any-return]
        axis = range(self.ndim)[axis]
        base = self._order[axis]
        index = range(self.shape[axis])[int(np.asarray(indices))]
        fixed = (*self._fixed[:base], index, *self._fixed[base + 1 :])
        return self._view(_fixed=fixed, _order=self._order[:axis] + self._order[axis + 1 :])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> NDArray[Any] | Any:
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(i, list | tuple | range | np.ndarray) and np.ndim(i) > 0 for i in items):
            return self._read_listed(items)
        expanded = [i for i in items if i is not None]
        wanted = parse_selection(tuple(expanded), self.shape)
        result = self._read(wanted)
        if len(expanded) != len(items):
            where = _new_axes(items, self.ndim)
            result = result[tuple(None if new else slice(None) for new in where)]
        return result[()] if result.ndim == 0 and Ellipsis not in items else result

    def _read_listed(self, items: tuple[Any, ...]) -> NDArray[Any]:
        """Lists of integers and masks: read the box around them, then let numpy pick."""
        if any(isinstance(i, np.ndarray | list | tuple) and np.asarray(i).dtype == bool for i in items):
            return np.asarray(self)[items]  # type: ignore[no-any-return]
        boxes: list[Any] = []
        picks: list[Any] = []
        axis = 0
        missing = self.ndim - sum(i is not None and i is not Ellipsis for i in items)
        for item in items:
            if item is None:
                picks.append(None)
                continue
            if item is Ellipsis:
                boxes += [slice(None)] * missing
                # also where it stands for no axis, it divides those that lists pick from
                picks.append(Ellipsis)
                axis += missing
                continue
            if isinstance(item, slice):
                boxes.append(item)
                picks.append(slice(None))
            else:
                numbers = np.asarray(item, None if np.size(item) else np.intp)
                numbers = np.where(numbers < 0, numbers + self.shape[axis], numbers)
                if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.shape[axis]):
                    raise IndexError(f"index out of bounds for axis {axis} with size {self.shape[axis]}")
                first = int(numbers.min()) if numbers.size else 0
                boxes.append(slice(first, int(numbers.max()) + 1 if numbers.size else 0))
                picks.append(numbers - first)
            axis += 1
        return self._read(parse_selection(tuple(boxes), self.shape))[tuple(picks)]  # type: ignore[no-any-return]

    def _read(self, wanted: Selection) -> NDArray[Any]:
        by_axis: dict[int, AxisSelection] = dict(zip(self._order, wanted.axes, strict=True))
        base = Selection(
            tuple(
                by_axis[axis] if fixed is None else AxisSelection(fixed, 1, 1, dropped=True)
                for axis, fixed in enumerate(self._fixed)
            )
        )
        nbytes = math.prod(base.shape) * self._source.dtype.itemsize
        if nbytes > self._limits.max_array_bytes:
            raise BudgetExceeded(
                "max_array_bytes", nbytes, self._limits.max_array_bytes, "reading this part of the image"
            )
        out = np.empty(base.result_shape, self._source.dtype)
        if nbytes:
            self._fill(base, base.forward(out))
        kept = [axis for axis in range(len(self._fixed)) if not base.axes[axis].dropped]
        mine = [axis for axis in self._order if axis in kept]
        result = out if mine == kept else out.transpose([kept.index(axis) for axis in mine])
        return result if result.dtype == self._dtype else result.astype(self._dtype)

    def _fill(self, base: Selection, target: NDArray[Any]) -> None:
        chunk_shape = self._source.chunk_shape
        chunk_bytes = math.prod(chunk_shape) * self._source.dtype.itemsize
        per_axis = [list(a.chunks(n)) for a, n in zip(base.axes, chunk_shape, strict=True)]
        count = math.prod(map(len, per_axis))
        # A read of most of the cache's size would only push everything else out of it.
        keep = count * chunk_bytes <= self._cache.max_bytes // 2

        def piece(combo: tuple[tuple[int, slice, slice], ...]) -> None:
            index = tuple(c[0] for c in combo)
            inside = tuple(c[1] for c in combo)
            where: tuple[Any, ...] = (..., *(c[2] for c in combo))
            region = target[where]  # the dots keep an array where there are no axes
            if keep:
                chunk = self._cache.get((self._token, index), lambda: self._source.read_chunk(index))
                region[...] = chunk[inside]
                return
            chunk_or_none = self._cache.peek((self._token, index))
            if chunk_or_none is not None:
                region[...] = chunk_or_none[inside]
            elif region.shape == chunk_shape and region.flags.c_contiguous:
                self._source.read_chunk(index, region)
            else:
                region[...] = self._source.read(
                    tuple(
                        slice(i * n + s.start, i * n + s.stop, s.step)
                        for i, n, s in zip(index, chunk_shape, inside, strict=True)
                    )
                )

        combos = itertools.product(*per_axis)
        if count == 1:
            piece(next(combos))
            return
        pool = _workers()
        # What is decoded at the same time stays within the limit, too.
        flight = max(1, min(_WINDOW, self._limits.max_array_bytes // max(1, chunk_bytes)))
        for window in itertools.batched(combos, flight):
            for _ in pool.map(piece, window):
                pass


class _Owner:
    """Shared by an array and its views; when the last one goes, so do its chunks."""

    def __init__(self, cache: ChunkCache, token: int) -> None:
        weakref.finalize(self, cache.drop, token).atexit = False


def _new_axes(items: tuple[Any, ...], ndim: int) -> list[bool]:
    """For each axis of the result, whether ``None`` asked for it."""
    missing = ndim - sum(i is not None and i is not Ellipsis for i in items)
    where: list[bool] = []
    seen = False
    for item in items:
        if item is None:
            where.append(True)
        elif item is Ellipsis:
            where += [False] * missing
            seen = True
        elif isinstance(item, slice):
            where.append(False)
    return where if seen else where + [False] * missing
