"""Array metadata and shard indexes, cached by bytes; and the stores both lie in."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from napari_decant.engine._shards import ShardIndex, index_range, parse_shard_index
from napari_decant.errors import DecantError, UsageError
from napari_decant.ngff._zarr import ArrayMeta, load_array_meta
from napari_decant.stores import Extent, FileMetadataReader, Store, open_store

__all__ = ["LocatedShard", "MetadataCache", "StoreHolder", "ZarrMetadata"]

LocatedShard = tuple[Extent, ShardIndex]


class _Stores:
    """Open stores by location, shared by all holders of this process and closed with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Store, int]] = {}

    def acquire(self, uri: str) -> Store:
        with self._lock:
            if uri in self._open:
                store, holders = self._open[uri]
                self._open[uri] = store, holders + 1
                return store
        opened = open_store(uri)  # may take a round trip, so not under the lock
        with self._lock:
            store, holders = self._open.get(uri, (opened, 0))
            self._open[uri] = store, holders + 1
        if store is not opened:
            _close(opened)
        return store

    def release(self, uri: str) -> None:
        with self._lock:
            store, holders = self._open.pop(uri)
            if holders > 1:
                self._open[uri] = store, holders - 1
                return
        _close(store)


def _close(store: Store) -> None:
    if not store.uri.startswith("memory://"):  # those belong to whoever made them
        store.close()


_stores = _Stores()


def _release_all(held: dict[str, Store]) -> None:
    while held:
        _stores.release(held.popitem()[0])


class StoreHolder:
    """Keeps the stores it was asked for open until it is closed."""

    def __init__(self) -> None:
        self._held: dict[str, Store] = {}
        self._guard = threading.Lock()
        weakref.finalize(self, _release_all, self._held)

    def store(self, uri: str) -> Store:
        """Return the open store at a location.

        Raises
        ------
        StorageError, UsageError
            It cannot be opened.
        """
        store = self._held.get(uri)
        if store is not None:
            return store
        store = _stores.acquire(uri)
        with self._guard:
            if uri not in self._held:
                self._held[uri] = store
                return store
        _stores.release(uri)
        return store

    def close(self) -> None:
        """Let go of every store; the next use opens it again."""
        with self._guard:
            _release_all(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MetadataCache:
    """Array metadata and shard indexes, least recently used ones dropped first; safe for threads.

    Parameters
    ----------
    max_bytes : int
        Roughly what the cached entries may take.
    """

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        if max_bytes < 1:
            raise UsageError(f"max_bytes is {max_bytes}; it must be at least 1")
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._arrays: OrderedDict[tuple[str, str], ArrayMeta] = OrderedDict()
        self._shards: OrderedDict[tuple[str, str], LocatedShard] = OrderedDict()
        self._bytes = 0

    def array(self, uri: str, path: str) -> ArrayMeta | None:
        """Return cached array metadata."""
        return self._arrays.get((uri, path))

    def put_array(self, uri: str, path: str, meta: ArrayMeta) -> None:
        """Remember array metadata."""
        with self._lock:
            self._arrays[uri, path] = meta
            while len(self._arrays) > 4096:
                self._arrays.popitem(last=False)

    def shard(self, uri: str, key: str) -> LocatedShard | None:
        """Return a cached shard index with where the shard lies."""
        found = self._shards.get((uri, key))
        if found is not None:
            with self._lock:
                if (uri, key) in self._shards:
                    self._shards.move_to_end((uri, key))
        return found

    def put_shard(self, uri: str, key: str, located: LocatedShard) -> None:
        """Remember a shard index."""
        with self._lock:
            self._drop(uri, key)
            self._shards[uri, key] = located
            self._bytes += _size(located)
            while self._bytes > self.max_bytes and len(self._shards) > 1:
                _, old = self._shards.popitem(last=False)
                self._bytes -= _size(old)

    def forget(self, uri: str, key: str) -> None:
        """Drop a shard index that turned out to be stale."""
        with self._lock:
            self._drop(uri, key)

    def _drop(self, uri: str, key: str) -> None:
        old = self._shards.pop((uri, key), None)
        if old is not None:
            self._bytes -= _size(old)


def _size(located: LocatedShard) -> int:
    return located[1].offsets.nbytes + located[1].lengths.nbytes + 512


class ZarrMetadata(StoreHolder):
    """What planning needs to know of arrays: their metadata and where their chunks lie.

    Parameters
    ----------
    reader : FileMetadataReader, optional
        Its ``concurrency`` says how many shard indexes are read at once from remote stores.
    cache : MetadataCache, optional
        May be shared by several planners.
    """

    def __init__(self, reader: FileMetadataReader | None = None, cache: MetadataCache | None = None) -> None:
        super().__init__()
        self.reader = reader if reader is not None else FileMetadataReader()
        self.cache = cache if cache is not None else MetadataCache()

    def array(self, uri: str, path: str) -> ArrayMeta:
        """Return the metadata of an array, read once.

        Raises
        ------
        MissingKey, FormatError, UnsafeInput, UnsupportedOperation
            As `load_array_meta`.
        """
        meta = self.cache.array(uri, path)
        if meta is None:
            meta = load_array_meta(self.store(uri), path)
            self.cache.put_array(uri, path, meta)
        return meta

    def extents(self, uri: str, keys: Sequence[str]) -> list[Extent | DecantError | None]:
        """Return where whole objects lie: None if absent, the error where it cannot be told."""
        store = self.store(uri)
        return self._each(store, store.extent, keys)

    def shards(
        self, uri: str, meta: ArrayMeta, keys: Sequence[str]
    ) -> list[LocatedShard | DecantError | None]:
        """Return shard indexes, from the cache or read and checked.

        An absent shard is None, one that is cut short or damaged its error, so that one bad shard does not
        spoil the others.
        """
        found: dict[str, LocatedShard | DecantError | None] = {
            key: self.cache.shard(uri, key) for key in keys
        }
        missing = [key for key, located in found.items() if located is None]
        if missing:
            store = self.store(uri)
            for key, located in zip(
                missing, self._each(store, lambda key: _read_shard(store, meta, key), missing), strict=True
            ):
                found[key] = located
                if isinstance(located, tuple):
                    self.cache.put_shard(uri, key, located)
        return [found[key] for key in keys]

    def _each[T](self, store: Store, call: Callable[[str], T], keys: Iterable[str]) -> list[T | DecantError]:
        def attempt(key: str) -> T | DecantError:
            try:
                return call(key)
            except DecantError as error:
                return error

        wanted = list(keys)
        workers = min(self.reader.concurrency, len(wanted)) if store.remote else 1
        if workers <= 1:
            return [attempt(key) for key in wanted]
        with ThreadPoolExecutor(workers, thread_name_prefix="locate") as pool:
            return list(pool.map(attempt, wanted))


def _read_shard(store: Store, meta: ArrayMeta, key: str) -> LocatedShard | None:
    extent = store.extent(key)
    if extent is None:
        return None
    start, size = index_range(meta, extent.length, key)
    raw = store.read_file(extent.file, extent.offset + start, size)
    return extent, parse_shard_index(meta, raw, extent.length, key)
