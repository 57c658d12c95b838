"""Memory on the GPU, and page-locked memory on the way there, that is used again."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine.cuda._device import CudaDevice
from napari_decant.errors import BudgetExceeded, DeviceUnavailable

__all__ = ["DeviceBuffers", "Staging", "round_up"]

_SMALL: Final = 512
_LARGE: Final = 2 << 20


def round_up(nbytes: int) -> int:
    """Size of a buffer for so many bytes: few different sizes, so that later needs find one."""
    step = _LARGE if nbytes > _LARGE else _SMALL
    return max(1, -(-nbytes // step)) * step


class _Owner:
    """Stands for a lent buffer: gone when its last array is."""

    __slots__ = ("__weakref__",)


class DeviceBuffers:
    """Byte buffers on a GPU that come back.

    A buffer is used again, or freed, only once nobody refers to it: an array that outlives its batch
    keeps its values, and its memory is then no longer counted.

    Parameters
    ----------
    device : CudaDevice
    limit : int
        Bytes lent and kept for later, together; what is kept makes room for what is asked for.
    """

    def __init__(self, device: CudaDevice, limit: int) -> None:
        self._device, self.limit = device, limit
        self._lock = threading.Lock()
        self._lent = 0
        self._idle: list[Any] = []
        self._back: deque[Any] = deque()  # finalizers may run anywhere, so they only append here

    def take(self, nbytes: int) -> Any:
        """Return a flat uint8 array on the GPU, contents undefined.

        Raises
        ------
        DeviceUnavailable
            The GPU has no memory left.
        """
        size = max(1, nbytes)
        with self._lock:
            self._collect()
            memory = next((idle for idle in self._idle if idle.size == size), None)
            if memory is not None:
                self._idle.remove(memory)
            while memory is None and self._idle and self._kept() + self._lent + size > self.limit:
                self._idle.pop(0)
            self._lent += size
        try:
            if memory is None:
                memory = self._allocate(size)
            else:  # whoever had it may have work queued that still reads it
                self._device.follow_default_stream()
            owner = _Owner()
            weakref.finalize(owner, self._back.append, memory).atexit = False
            return self._device.array(memory, owner)
        except BaseException:
            with self._lock:
                self._lent -= size
            raise

    def _allocate(self, size: int) -> Any:
        try:
            return self._device.allocate(size)
        except DeviceUnavailable:
            self.clear()  # another program may have taken what was free; what is kept for later goes first
            return self._device.allocate(size)

    def give(self, holder: list[Any]) -> None:
        """Take back the one buffer of a list, so that the caller keeps no name for it."""
        size = holder.pop().nbytes
        with self._lock:
            self._lent -= size
            self._collect()

    def clear(self) -> None:
        """Free what nobody uses."""
        with self._lock:
            self._collect()
            self._idle.clear()

    def _collect(self) -> None:
        while self._back:
            memory = self._back.popleft()
            if self._kept() + self._lent + memory.size <= self.limit:
                self._idle.append(memory)

    def _kept(self) -> int:
        return sum(idle.size for idle in self._idle)


class Staging:
    """Page-locked buffers that chunks are decoded into on their way to the GPU.

    Parameters
    ----------
    device : CudaDevice
    limit : int
        Bytes in all.
    most : int
        Buffers in all: more would only be waiting.
    """

    def __init__(self, device: CudaDevice, limit: int, most: int) -> None:
        self._device, self.limit, self.most = device, limit, most
        self._changed = threading.Condition()
        self._idle: deque[tuple[NDArray[np.uint8], Any]] = deque()
        self._sizes: list[int] = []

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a buffer of at least so many bytes, waiting until one is free.

        Raises
        ------
        BudgetExceeded
            There can never be one.
        DeviceUnavailable
            What was copied from it before failed.
        """
        size = round_up(nbytes)
        if size > self.limit:
            raise BudgetExceeded("max_memory_bytes", 4 * size, 4 * self.limit, "staging one decoded chunk")
        while True:
            drop: tuple[NDArray[np.uint8], Any] | None = None
            with self._changed:
                found = next((held for held in self._idle if size <= held[0].nbytes <= 2 * size), None)
                if found is None and len(self._sizes) < self.most and sum(self._sizes) + size <= self.limit:
                    self._sizes.append(size)
                    break
                if found is None:
                    if not self._idle:
                        self._changed.wait()
                        continue
                    drop = self._idle.popleft()
                else:
                    self._remove(found)
            buffer, event = found or drop  # type: ignore[misc]
            try:
                if event is not None:
                    self._device.wait(event)
            except BaseException:
                self._forget(buffer.nbytes)
                raise
            if found is not None:
                return buffer
            size_before = buffer.nbytes
            del buffer, event, drop  # freed before it is counted as gone
            self._forget(size_before)
        try:
            return self._device.pinned(size)
        except BaseException:
            self._forget(size)
            raise

    def _remove(self, found: tuple[NDArray[np.uint8], Any]) -> None:
        for at, held in enumerate(self._idle):  # arrays do not compare, so not deque.remove
            if held is found:
                del self._idle[at]
                return

    def _forget(self, size: int) -> None:
        with self._changed:
            self._sizes.remove(size)
            self._changed.notify_all()

    def give(self, buffer: NDArray[np.uint8], event: Any = None) -> None:
        """Take a buffer back; it is used again when the event is over."""
        with self._changed:
            self._idle.append((buffer, event))
            self._changed.notify_all()

    def clear(self) -> None:
        """Wait for what is under way and free what nobody uses."""
        with self._changed:
            held = list(self._idle)
            self._idle.clear()
        if held:
            self._device.settle()
        sizes = [buffer.nbytes for buffer, _ in held]
        held.clear()
        for size in sizes:
            self._forget(size)
