"""What every source of bytes offers, read-only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

__all__ = ["Extent", "Store"]


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the bytes of a key lie, so that touching reads of one file can be merged.

    Attributes
    ----------
    file : str
        Names the file (or remote object) within the store; pass it back to `Store.read_file`.
    offset, length : int
        The key's bytes are ``[offset, offset + length)`` of that file.
    """

    file: str
    offset: int
    length: int


class Store(ABC):
    """A read-only mapping from keys (POSIX, no leading slash) to bytes.

    Every method may be called from any thread at the same time. A store pickles as its
    location and reopens where it is unpickled. Keys that would leave the store
    (``..``, absolute, backslash, drive, NUL) raise `UnsafeInput`; absent ones `MissingKey`.
    """

    uri: str
    remote: bool = False
    """Whether a read costs a round trip, so that several should be in flight."""
    listable: bool = True
    """Whether `list_dir` and `keys` work; http servers cannot say what they hold."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the container but was tolerated, a sentence each."""
        return ()

    @abstractmethod
    def extent(self, key: str) -> Extent | None:
        """Where the key's bytes lie in `read_file` terms, or None if it is absent.

        A key whose bytes cannot be addressed (a DEFLATED zip entry) has an extent of its own:
        ``file`` names the entry and ``length`` is the inflated size.
        """

    @abstractmethod
    def read_file(self, file: str, offset: int, length: int) -> bytes:
        """Read ``length`` bytes at ``offset`` of an `Extent`'s file; short reads raise `StorageError`."""

    @abstractmethod
    def read_file_into(self, file: str, offset: int, out: memoryview) -> None:
        """As `read_file`, filling ``out`` (contiguous, writable) whole."""

    @abstractmethod
    def list_dir(self, prefix: str = "") -> tuple[list[str], list[str]]:
        """Names directly below ``prefix``: (groups, keys), each sorted, without the prefix."""

    @abstractmethod
    def keys(self, prefix: str = "") -> Iterator[str]:
        """Every key below ``prefix``, in sorted order."""

    @abstractmethod
    def close(self) -> None:
        """Release handles; later reads raise `StorageError`. Closing twice is fine."""

    def exists(self, key: str) -> bool:
        """Whether the key is present."""
        return self.extent(key) is not None

    def read(self, key: str, start: int = 0, stop: int | None = None, *, limit: int | None = None) -> bytes:
        """Read a key, or ``[start, stop)`` of it; ``limit`` refuses larger reads before allocating.

        Raises
        ------
        MissingKey
            The key is absent.
        UnsafeInput
            More than ``limit`` bytes would be read.
        """
        from napari_decant.errors import MissingKey, UnsafeInput

        where = self.extent(key)
        if where is None:
            raise MissingKey(f"{self.uri} has no entry {key!r}")
        stop = where.length if stop is None else min(stop, where.length)
        if limit is not None and stop - start > limit:
            raise UnsafeInput(
                f"{key!r} in {self.uri} has {stop - start:,} bytes; more than {limit:,} are not read"
            )
        return self.read_file(where.file, where.offset + start, max(0, stop - start))

    def read_optional(self, key: str, reserve: Callable[[int], None] | None = None) -> bytes | None:
        """Read a whole key, or return None if it is absent.

        Parameters
        ----------
        key : str
            The key.
        reserve : callable, optional
            Called with the size in bytes before anything of that size is allocated or read; it may raise
            to refuse.
        """
        where = self.extent(key)
        if where is None:
            return None
        if reserve is not None:
            reserve(where.length)
        return self.read_file(where.file, where.offset, where.length)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
