"""Files read at positions, by many threads at once, without a common lock."""

from __future__ import annotations

import os
import stat
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from napari_decant.errors import StorageError, UnsafeInput

__all__ = ["BytesFile", "LocalFile", "ParkedFile", "PositionalFile"]

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# A pipe in place of a file must not hang the open; on regular files the flag does nothing.
_OPEN_FLAGS |= getattr(os, "O_NONBLOCK", 0)
_MAX_READ = 1 << 30  # one read call returns less than 2 GiB on every system


class Handle:
    """One open descriptor; closes when the last thread that holds it lets go.

    Closing by reference count means that ``close()`` while another thread reads can never hand that
    thread a descriptor number which the system has given to another file.
    """

    __slots__ = ("_lock", "fd")

    def __init__(self, path: str | Path) -> None:
        self.fd = -1
        self._lock = None if hasattr(os, "pread") else threading.Lock()
        self.fd = os.open(path, _OPEN_FLAGS)
        if not stat.S_ISREG(os.fstat(self.fd).st_mode):
            raise UnsafeInput(f"{path} is not a regular file; pipes and devices are never read")

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill ``out`` from ``offset``; return how many bytes there were."""
        done = 0
        total = out.nbytes
        while done < total:
            part = out[done : min(total, done + _MAX_READ)]
            if self._lock is None:
                got = self._pread_into(part, offset + done)
            else:
                with self._lock:  # Windows has no positional read in Python: seek and read belong together
                    os.lseek(self.fd, offset + done, os.SEEK_SET)
                    data = os.read(self.fd, part.nbytes)
                part[: len(data)] = data
                got = len(data)
            if got == 0:
                break
            done += got
        return done

    def _pread_into(self, part: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self.fd, [part], offset)
        data = os.pread(self.fd, part.nbytes, offset)
        part[: len(data)] = data
        return len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; less only at the end of the file."""
        if self._lock is None and length <= _MAX_READ:
            data = os.pread(self.fd, length, offset)
            if len(data) == length:
                return data
        # Never more than the file holds, whatever the caller was told.
        buffer = bytearray(max(0, min(length, self.size() - offset)))
        return bytes(memoryview(buffer)[: self.read_into(offset, memoryview(buffer))])


class PositionalFile(ABC):
    """A read-only file of known size that any number of threads read at positions.

    Attributes
    ----------
    uri : str
        Names the file in messages and reopens it.
    size : int
        Its length in bytes when it was opened.
    remote : bool
        Whether a read costs a round trip.
    """

    uri: str
    size: int
    remote: bool = False

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes; raise `StorageError` if the file has fewer."""

    @abstractmethod
    def read_into(self, offset: int, out: memoryview) -> None:
        """Fill ``out`` whole from ``offset``; raise `StorageError` if the file has fewer bytes."""

    @abstractmethod
    def close(self) -> None:
        """Release the handle; later reads raise `StorageError`."""

    def tail(self, length: int) -> bytes:
        """Read the last ``length`` bytes, or the whole file where it is shorter."""
        length = min(length, self.size)
        return self.read_at(self.size - length, length)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _short(self, offset: int, length: int) -> StorageError:
        return StorageError(
            f"{self.uri} has no {length:,} bytes at {offset:,}; it is cut short or changed while it was read"
        )


class LocalFile(PositionalFile):
    """A file of this machine.

    Parameters
    ----------
    path : str or Path
        The file. It is opened for reading only and never locked.

    Raises
    ------
    StorageError
        It cannot be opened.
    UnsafeInput
        It is not a regular file.
    """

    def __init__(self, path: str | Path) -> None:
        self.uri = str(path)
        try:
            self._handle: Handle | None = Handle(path)
        except OSError as error:
            raise StorageError(f"cannot open {path}: {error.strerror or error}") from error
        self.size = self._handle.size()

    def _held(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise StorageError(f"{self.uri} is closed")
        return handle

    def read_at(self, offset: int, length: int) -> bytes:
        """See `PositionalFile.read_at`."""
        handle = self._held()
        try:
            data = handle.read(offset, length)
        except OSError as error:
            raise StorageError(f"cannot read {self.uri}: {error.strerror or error}") from error
        if len(data) != length:
            raise self._short(offset, length)
        return data

    def read_into(self, offset: int, out: memoryview) -> None:
        """See `PositionalFile.read_into`."""
        handle = self._held()
        out = out.cast("B")
        try:
            got = handle.read_into(offset, out)
        except OSError as error:
            raise StorageError(f"cannot read {self.uri}: {error.strerror or error}") from error
        if got != out.nbytes:
            raise self._short(offset, out.nbytes)

    def close(self) -> None:
        """See `PositionalFile.close`."""
        self._handle = None


class ParkedFile(PositionalFile):
    """A file of this machine that is open only while it is read: thousands need no more handles than threads.

    Parameters
    ----------
    path : str or Path
        The file; it must stay as it is.

    Raises
    ------
    StorageError, UnsafeInput
        As `LocalFile`.
    """

    def __init__(self, path: str | Path) -> None:
        self.uri = str(path)
        self._path: str | Path | None = path
        with LocalFile(path) as file:
            self.size = file.size

    def _opened(self) -> LocalFile:
        if self._path is None:
            raise StorageError(f"{self.uri} is closed")
        file = LocalFile(self._path)
        if file.size != self.size:
            raise StorageError(f"{self.uri} changed while it was read; read it again")
        return file

    def read_at(self, offset: int, length: int) -> bytes:
        """See `PositionalFile.read_at`."""
        with self._opened() as file:
            return file.read_at(offset, length)

    def read_into(self, offset: int, out: memoryview) -> None:
        """See `PositionalFile.read_into`."""
        with self._opened() as file:
            file.read_into(offset, out)

    def close(self) -> None:
        """See `PositionalFile.close`."""
        self._path = None


class BytesFile(PositionalFile):
    """Bytes in memory as a file.

    Parameters
    ----------
    data : bytes
        The contents.
    uri : str, optional
        What messages call it.
    """

    def __init__(self, data: bytes, uri: str = "memory") -> None:
        self.uri, self.size = uri, len(data)
        self._data: bytes | None = data

    def read_at(self, offset: int, length: int) -> bytes:
        """See `PositionalFile.read_at`."""
        data = self._data
        if data is None:
            raise StorageError(f"{self.uri} is closed")
        if offset < 0 or offset + length > len(data):
            raise self._short(offset, length)
        return data[offset : offset + length]

    def read_into(self, offset: int, out: memoryview) -> None:
        """See `PositionalFile.read_into`."""
        out = out.cast("B")
        out[:] = self.read_at(offset, out.nbytes)

    def close(self) -> None:
        """See `PositionalFile.close`."""
        self._data = None
