"""Memory that is used again: first touch of fresh pages costs more than decoding into warm ones."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["BufferPool", "shaped"]


def _references(holder: list[NDArray[np.uint8]]) -> tuple[int, NDArray[np.uint8]]:
    buffer = holder.pop()
    return sys.getrefcount(buffer), buffer


# how many references a buffer has here when nobody else holds one; it differs between Python versions
_ALONE: Final = _references([np.empty(1, np.uint8)])[0]


class BufferPool:
    """Byte buffers that come back.

    A buffer is handed out again only when nobody else refers to it, so an array that outlives its
    batch keeps its values.

    Parameters
    ----------
    max_idle_bytes : int
        What is kept for later; more is given back to the system.
    """

    def __init__(self, max_idle_bytes: int) -> None:
        self.max_idle_bytes = max_idle_bytes
        self._lock = threading.Lock()
        self._idle: list[NDArray[np.uint8]] = []  # by size
        self._sizes: list[int] = []
        self._idle_bytes = 0

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a buffer of at least ``nbytes``, contents undefined; smallest fitting one first.

        New ones are a quarter step of a power of two, so that later needs of about the size find them.
        """
        with self._lock:
            at = bisect_left(self._sizes, nbytes)
            if at < len(self._sizes) and self._sizes[at] <= max(2 * nbytes, 1 << 16):
                self._idle_bytes -= self._sizes.pop(at)
                return self._idle.pop(at)
        step = 1 << max(12, nbytes.bit_length() - 3)
        return np.empty(max(1, -(-nbytes // step)) * step, np.uint8)

    def give(self, holder: list[NDArray[np.uint8]]) -> None:
        """Take back the one buffer of a list, so that the caller keeps no name for it."""
        count, buffer = _references(holder)
        if count > _ALONE:
            return
        with self._lock:
            if self._idle_bytes + buffer.nbytes <= self.max_idle_bytes:
                at = bisect_left(self._sizes, buffer.nbytes)
                self._sizes.insert(at, buffer.nbytes)
                self._idle.insert(at, buffer)
                self._idle_bytes += buffer.nbytes

    def clear(self) -> None:
        """Give everything back to the system."""
        with self._lock:
            self._idle.clear()
            self._sizes.clear()
            self._idle_bytes = 0


def shaped(buffer: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """View the beginning of a buffer as an array."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return buffer[:count].view(dtype).reshape(shape)
