"""A folder as a store."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from napari_decant.errors import MissingKey, StorageError, UnsafeInput
from napari_decant.stores._base import Extent, Store
from napari_decant.stores._keys import check_key, check_prefix
from napari_decant.stores._positional import Handle

__all__ = ["FolderStore"]

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL}
_MAX_KNOWN_FOLDERS = 65_536


class FolderStore(Store):
    """The files below one folder.

    Links are followed while they stay below the folder; one that leaves it raises `UnsafeInput`, as
    do pipes and devices. Nothing is ever written.

    Parameters
    ----------
    root : str or Path
        The folder.
    max_open_files : int, optional
        How many files stay open for later reads. Least recently used ones are closed first.

    Raises
    ------
    StorageError
        The folder does not exist or cannot be listed.
    """

    def __init__(self, root: str | Path, max_open_files: int = 64) -> None:
        self.root = os.path.realpath(root)
        self.uri = self.root
        if not os.path.isdir(self.root):
            raise StorageError(f"{root} is not a folder")
        self._inside = self.root.rstrip(os.sep) + os.sep
        self._max_open_files = max_open_files
        self._lock = threading.Lock()  # guards the tables below, never held while reading
        self._open: OrderedDict[str, Handle] = OrderedDict()
        self._known_folders: set[str] = set()
        self._closed = False

    def __reduce__(self) -> tuple[type[FolderStore], tuple[str, int]]:
        return type(self), (self.root, self._max_open_files)

    def _stays_inside(self, path: str, key: str) -> None:
        real = os.path.realpath(path)
        if real != self.root and not real.startswith(self._inside):
            raise UnsafeInput(
                f"{key!r} in {self.uri} is a link to {real}, outside the folder; it is not followed"
            )

    def _path(self, key: str) -> str:
        """Path of a key in a folder known to lie inside the root."""
        check_key(key, self.uri)
        folder = key.rpartition("/")[0]
        if folder and folder not in self._known_folders:
            path = os.path.join(self.root, *folder.split("/"))
            self._stays_inside(path, folder)
            with self._lock:
                if len(self._known_folders) >= _MAX_KNOWN_FOLDERS:
                    self._known_folders.clear()
                self._known_folders.add(folder)
        return os.path.join(self.root, *key.split("/"))

    def _error(self, key: str, error: OSError) -> StorageError:
        return StorageError(f"cannot read {key!r} in {self.uri}: {error.strerror or error}")

    def _stat(self, key: str) -> os.stat_result | None:
        if self._closed:
            raise StorageError(f"{self.uri} is closed")
        path = self._path(key)
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                self._stays_inside(path, key)
                found = os.stat(path)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise self._error(key, error) from error
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeInput(
                f"{key!r} in {self.uri} is not a regular file; pipes and devices are never read"
            )
        return found

    def extent(self, key: str) -> Extent | None:
        """See `Store.extent`."""
        found = self._stat(key)
        return None if found is None else Extent(key, 0, found.st_size)

    def _handle(self, file: str) -> Handle:
        with self._lock:
            if self._closed:
                raise StorageError(f"{self.uri} is closed")
            handle = self._open.get(file)
            if handle is not None:
                self._open.move_to_end(file)
                return handle
        if self._stat(file) is None:
            raise MissingKey(f"{self.uri} has no entry {file!r}")
        try:
            handle = Handle(self._path(file))
        except OSError as error:
            raise self._error(file, error) from error
        with self._lock:
            if not self._closed:
                self._open[file] = handle
                while len(self._open) > self._max_open_files:
                    self._open.popitem(last=False)
        return handle

    def read_file(self, file: str, offset: int, length: int) -> bytes:
        """See `Store.read_file`."""
        try:
            data = self._handle(file).read(offset, length)
        except OSError as error:
            raise self._error(file, error) from error
        if len(data) != length:
            raise StorageError(
                f"{file!r} in {self.uri} has no {length:,} bytes at {offset:,}; it is cut short"
            )
        return data

    def read_file_into(self, file: str, offset: int, out: memoryview) -> None:
        """See `Store.read_file_into`."""
        out = out.cast("B")
        handle = self._handle(file)
        try:
            got = handle.read_into(offset, out)
        except OSError as error:
            raise self._error(file, error) from error
        if got != out.nbytes:
            raise StorageError(
                f"{file!r} in {self.uri} has no {out.nbytes:,} bytes at {offset:,}; it is cut short"
            )

    def _scan(self, prefix: str) -> list[tuple[str, bool]]:
        """Names in one folder with whether each is a folder, in the order of full keys."""
        if self._closed:
            raise StorageError(f"{self.uri} is closed")
        path = os.path.join(self.root, *prefix.rstrip("/").split("/")) if prefix else self.root
        if prefix:
            self._stays_inside(path, prefix)
        try:
            with os.scandir(path) as found:
                names = [(entry.name, entry.is_dir()) for entry in found]
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise self._error(prefix, error) from error
        return sorted(names, key=lambda item: item[0] + "/" if item[1] else item[0])

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[str]]:
        """See `Store.list_dir`."""
        found = self._scan(check_prefix(prefix, self.uri))
        return sorted(n for n, folder in found if folder), sorted(n for n, folder in found if not folder)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`; a linked folder is refused if it leaves the root or leads back into itself."""
        return self._walk(check_prefix(prefix, self.uri), ())

    def _walk(self, prefix: str, above: tuple[str, ...]) -> Iterator[str]:
        real = os.path.realpath(os.path.join(self.root, *prefix.rstrip("/").split("/")))
        if real in above:
            raise UnsafeInput(f"{prefix!r} in {self.uri} is a link to a folder that contains it")
        for name, folder in self._scan(prefix):
            if folder:
                yield from self._walk(f"{prefix}{name}/", (*above, real))
            else:
                yield prefix + name

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock:
            self._closed = True
            self._open.clear()
