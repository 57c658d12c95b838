"""The array that a multiscale layer holds.

napari cuts the visible tile out of *every* plane of a level first (``data[tile]``) and takes the plane
that is shown out of the result afterwards. With an array that reads when it is indexed, one step along z
would read the whole stack; here the first cut waits for the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from napari_decant.errors import UnsupportedOperation

__all__ = ["LevelArray"]


class LevelArray(NDArrayOperatorsMixin):
    """Part of a lazy array: cutting it with slices alone reads nothing, anything else reads.

    Complex values, which napari does not show, are given by their magnitude.

    Parameters
    ----------
    get : callable
        Returns a context that lends the array, which reads when it is indexed with integers and slices. It is
        asked anew for every read, so that a file can be let go in between; shape and dtype never change.
    """

    def __init__(self, get: Callable[[], AbstractContextManager[Any]]) -> None:
        self.get = get
        with get() as array:
            self._selection = tuple(slice(0, n, 1) for n in array.shape)
            self._complex = array.dtype.kind == "c"
            self.dtype: np.dtype[Any] = np.empty(0, array.dtype).real.dtype
            self.chunks: tuple[int, ...] = tuple(array.chunks)

    def _with(self, **changes: Any) -> LevelArray:
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | changes
        return other

    def _read(self, index: tuple[slice | int, ...]) -> NDArray[Any] | Any:
        with self.get() as array:
            values = array[index]
        return (np.abs(values) if self._complex else values).astype(self.dtype, copy=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(len(range(s.start, s.stop, s.step)) for s in self._selection)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._selection)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """Bytes that reading everything would take."""
        return self.size * self.dtype.itemsize

    @property
    def is_whole(self) -> bool:
        """Whether it gives the array as it is: all of it, in its own data type."""
        with self.get() as array:
            own = np.dtype(array.dtype) == self.dtype and not self._complex
            return own and tuple(array.shape) == self.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __deepcopy__(self, memo: dict[int, Any]) -> LevelArray:
        return self._with()  # what cannot be written can be shared: napari's Duplicate copies nothing

    def __repr__(self) -> str:
        return f"<LevelArray {self.shape} {self.dtype}>"

    def __getitem__(self, key: Any) -> LevelArray | NDArray[Any] | Any:
        items = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in [item for item in items if not isinstance(item, np.ndarray)]:
            at = next(i for i, item in enumerate(items) if item is Ellipsis)
            items[at : at + 1] = [slice(None)] * (self.ndim - len(items) + 1)
        items += [slice(None)] * (self.ndim - len(items))
        if len(items) > self.ndim or not all(isinstance(item, slice | int | np.integer) for item in items):
            return np.asarray(self)[key]
        picked = [
            range(s.start, s.stop, s.step)[item] for s, item in zip(self._selection, items, strict=True)
        ]
        if all(isinstance(part, range) and part.step > 0 for part in picked):
            cut = tuple(slice(part.start, max(part.start, part.stop), part.step) for part in picked)
            return self._with(_selection=cut)
        return self._read(tuple(_index(part) for part in picked))

    def __setitem__(self, key: Any, value: Any) -> None:
        raise UnsupportedOperation(
            "images and labels in files are read, never written; to paint, make a layer of your own from them"
        )

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("chunks are read into a new array; copy=False cannot be kept")
        values = np.asarray(self._read(self._selection))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        read = [np.asarray(item) if isinstance(item, LevelArray) else item for item in inputs]
        return getattr(ufunc, method)(*read, **kwargs)

    def astype(self, dtype: DTypeLike, casting: Any = "unsafe", **unused: Any) -> LevelArray:
        """Return the same part, converting what it reads."""
        if not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"cannot cast {self.dtype} to {np.dtype(dtype)} by the rule {casting!r}")
        return self._with(dtype=np.dtype(dtype))


def _index(part: range | int) -> slice | int:
    if isinstance(part, int):
        return part
    # A negative step that ends before the first element has no stop to write down.
    stop = part.stop if part.step > 0 or part.stop >= 0 else None
    return slice(part.start, stop, part.step)
