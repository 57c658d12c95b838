"""Decoded chunks kept for the next read, within a bound, and each decoded once at a time."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from numpy.typing import NDArray

__all__ = ["ChunkCache", "default_cache"]

Key = tuple[int, tuple[int, ...]]


class ChunkCache:
    """Least recently used chunks of any number of arrays.

    Parameters
    ----------
    max_bytes : int
        Sum of the sizes of what is kept. A chunk larger than this is handed out and not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._chunks: OrderedDict[Key, NDArray[Any]] = OrderedDict()
        self._running: dict[Key, Future[NDArray[Any]]] = {}
        self._dropped: deque[int] = deque()
        self._tokens = itertools.count()
        self._lock = threading.Lock()

    def new_token(self) -> int:
        """Return a number under which one array keeps its chunks."""
        return next(self._tokens)

    def peek(self, key: Key) -> NDArray[Any] | None:
        """Return a chunk if it is kept."""
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._chunks.move_to_end(key)
            return chunk

    def get(self, key: Key, load: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return a chunk, calling ``load`` if it is not kept; threads that ask meanwhile wait for that call.

        The array is shared and read-only.
        """
        with self._lock:
            self._forget()
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._chunks.move_to_end(key)
                return chunk
            future = self._running.get(key)
            mine = future is None
            if future is None:
                future = self._running[key] = Future()
        if not mine:
            return future.result()
        try:
            chunk = load()
            chunk.flags.writeable = False
        except BaseException as error:
            with self._lock:
                self._running.pop(key, None)
            future.set_exception(error)
            raise
        with self._lock:
            self._running.pop(key, None)
            self._keep(key, chunk)
            self._forget()
        future.set_result(chunk)
        return chunk

    def _keep(self, key: Key, chunk: NDArray[Any]) -> None:
        if chunk.nbytes > self.max_bytes:
            return
        self._chunks[key] = chunk
        self.nbytes += chunk.nbytes
        while self.nbytes > self.max_bytes:
            _, old = self._chunks.popitem(last=False)
            self.nbytes -= old.nbytes

    def drop(self, token: int) -> None:
        """Forget every chunk of one array; safe where a garbage collection calls it at any moment."""
        self._dropped.append(token)
        # The thread that runs this may hold the lock already, further up its own stack: never wait here.
        if self._lock.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._lock.release()

    def _forget(self) -> None:
        """Remove what was dropped; the lock is held."""
        while self._dropped:
            token = self._dropped.popleft()
            for key in [key for key in self._chunks if key[0] == token]:
                self.nbytes -= self._chunks.pop(key).nbytes


_default: ChunkCache | None = None
_default_lock = threading.Lock()


def default_cache() -> ChunkCache:
    """Return the cache that all images share unless they are given one: 512 MiB."""
    global _default
    with _default_lock:
        if _default is None:
            _default = ChunkCache(512 << 20)
        return _default
