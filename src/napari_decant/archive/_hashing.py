"""Hash a file from its first byte to its last while others work on it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from napari_decant.stores._positional import PositionalFile

__all__ = ["FollowingHasher", "hash_whole"]

_BLOCK = 1 << 20  # stays in the cache of one core between the read and the hash


def hash_whole(file: PositionalFile, size: int, advance: Callable[[int], None] | None = None) -> str:
    """Compute sha256 of a file in this thread.

    Parameters
    ----------
    file : PositionalFile
    size : int
        Bytes to hash.
    advance : callable, optional
        Gets the number of bytes hashed so far, now and then; may raise to stop.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(_BLOCK, max(1, size))))
    for start in range(0, size, _BLOCK):
        block = buffer[: min(_BLOCK, size - start)]
        file.read_into(start, block)
        digest.update(block)
        if advance is not None:
            advance(start + len(block))
    return digest.hexdigest()


class FollowingHasher:
    """Computes sha256 of a file in a thread of its own, never beyond a moving limit.

    While packing, the limit keeps the hasher close to the workers, so that both read the file
    from the system's cache and a disk is read once. While restoring, the limit is what has
    been written, so that what is hashed is what the file holds.

    Parameters
    ----------
    file : PositionalFile
        The file.
    size : int
        Bytes to hash.
    """

    def __init__(self, file: PositionalFile, size: int) -> None:
        self._file, self._size = file, size
        self._limit = 0
        self._stop = False
        self._error: BaseException | None = None
        self._hash = hashlib.sha256()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="decant-hash", daemon=True)
        self._thread.start()

    def allow(self, limit: int) -> None:
        """Let the hasher go on to this offset."""
        with self._changed:
            if limit > self._limit:
                self._limit = min(limit, self._size)
                self._changed.notify()

    def result(self) -> str:
        """Wait for the end of the file; return the hash in hex."""
        self.allow(self._size)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._hash.hexdigest()

    def stop(self) -> None:
        """End the thread without a result; harmless after `result`."""
        with self._changed:
            self._stop = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        buffer = memoryview(bytearray(min(_BLOCK, max(1, self._size))))
        position = 0
        try:
            while position < self._size:
                with self._changed:
                    while not self._stop and self._limit <= position:
                        self._changed.wait()
                    if self._stop:
                        return
                    stop = min(self._limit, position + len(buffer))
                block = buffer[: stop - position]
                self._file.read_into(position, block)
                self._hash.update(block)
                position = stop
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks for the result
            self._error = error
