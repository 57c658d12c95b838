"""A store in memory, for tests and for images that never touch a disk."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping

from napari_decant.errors import MissingKey, StorageError
from napari_decant.stores._base import Extent, Store
from napari_decant.stores._keys import check_key, check_prefix, children

__all__ = ["MemoryStore"]

_counter = itertools.count(1)
_named: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()


class MemoryStore(Store):
    """Keys and bytes in memory.

    Parameters
    ----------
    data : mapping of str to bytes, optional
        The contents; copied as a mapping, the bytes are shared.
    name : str, optional
        ``open_store("memory://NAME")`` finds the store by it as long as it lives; made up if not given.
    """

    def __init__(self, data: Mapping[str, bytes] | None = None, name: str | None = None) -> None:
        self.name = name or f"store-{next(_counter)}"
        self.uri = f"memory://{self.name}"
        self._data: dict[str, bytes] | None = {
            check_key(key, self.uri): bytes(value) for key, value in (data or {}).items()
        }
        _named[self.name] = self

    def __reduce__(self) -> tuple[type[MemoryStore], tuple[dict[str, bytes], str]]:
        return type(self), (self._held(), self.name)

    @staticmethod
    def named(name: str) -> MemoryStore:
        """Return the living store of that name, or raise `StorageError`."""
        store = _named.get(name)
        if store is None:
            raise StorageError(f"memory://{name} does not exist in this process")
        return store

    def _held(self) -> dict[str, bytes]:
        if self._data is None:
            raise StorageError(f"{self.uri} is closed")
        return self._data

    def extent(self, key: str) -> Extent | None:
        """See `Store.extent`."""
        value = self._held().get(check_key(key, self.uri))
        return None if value is None else Extent(key, 0, len(value))

    def read_file(self, file: str, offset: int, length: int) -> bytes:
        """See `Store.read_file`."""
        value = self._held().get(check_key(file, self.uri))
        if value is None:
            raise MissingKey(f"{self.uri} has no entry {file!r}")
        if offset < 0 or offset + length > len(value):
            raise StorageError(f"{file!r} in {self.uri} has no {length:,} bytes at {offset:,}")
        return value[offset : offset + length]

    def read_file_into(self, file: str, offset: int, out: memoryview) -> None:
        """See `Store.read_file_into`."""
        view = out.cast("B")
        view[:] = self.read_file(file, offset, view.nbytes)

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[str]]:
        """See `Store.list_dir`."""
        prefix = check_prefix(prefix, self.uri)
        return children((k for k in self._held() if k.startswith(prefix)), prefix)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        prefix = check_prefix(prefix, self.uri)
        return iter(sorted(k for k in self._held() if k.startswith(prefix)))

    def close(self) -> None:
        """See `Store.close`."""
        self._data = None
