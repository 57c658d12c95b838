"""The one way from a location to a store."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from napari_decant.errors import StorageError, UnsupportedOperation, UsageError
from napari_decant.stores._base import Store
from napari_decant.stores._folder import FolderStore
from napari_decant.stores._memory import MemoryStore
from napari_decant.stores._positional import LocalFile, PositionalFile
from napari_decant.stores._zip import ZipStore
from napari_decant.stores._zip_directory import ZipLimits

__all__ = ["ZIP_SUFFIXES", "local_path", "open_positional", "open_store", "open_zip"]

ZIP_SUFFIXES = (".zip", ".ozx")
_REMOTE = ("http", "https", "s3")


def _scheme(location: str) -> str:
    scheme = urlsplit(location).scheme.lower() if "://" in location else ""
    return scheme if len(scheme) > 1 else ""  # one letter is a Windows drive


def local_path(location: str | os.PathLike[str]) -> Path | None:
    """Return the path that a location names on this machine, or None if it is elsewhere."""
    if not isinstance(location, str):
        return Path(location)
    scheme = _scheme(location)
    if not scheme:
        return Path(location)
    if scheme != "file":
        return None
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost") and os.name != "nt":
        raise UsageError(f"{location} names another machine; mount it and give the path")
    host = f"//{parts.netloc}" if parts.netloc not in ("", "localhost") else ""
    return Path(url2pathname(host + parts.path))


def open_positional(location: str | os.PathLike[str]) -> PositionalFile:
    """Open one file (path, ``file://``, ``http(s)://``, ``s3://``) for positional reads.

    Raises
    ------
    StorageError
        It does not exist or cannot be read.
    UsageError
        The location's kind is unknown.
    """
    path = local_path(location)
    if path is not None:
        return LocalFile(path)
    if _scheme(str(location)) in _REMOTE:
        from napari_decant.stores._remote import RemoteFile

        return RemoteFile(str(location))
    raise UsageError(f"{location} is of an unknown kind; give a path or a file, http, https or s3 address")


def open_zip(
    location: str | os.PathLike[str], limits: ZipLimits | None = None, strict: bool = False
) -> ZipStore:
    """Open a zip file as a store; see `ZipStore` for what is refused."""
    return ZipStore(open_positional(location), limits, strict=strict)


def open_store(location: str | os.PathLike[str] | Store) -> Store:
    """Open whatever holds keys and bytes.

    Parameters
    ----------
    location : str, path or Store
        A folder, a zip file (``.zarr.zip``, ``.ozx``, or any file that begins like one), an address
        (``file://``, ``http://``, ``https://``, ``s3://``; a zip file there by its suffix), or
        ``memory://NAME``. A store is returned as it is.

    Returns
    -------
    Store
        The store; closing it is the caller's.

    Raises
    ------
    StorageError
        The location does not exist or cannot be read.
    UnsupportedOperation
        It is a file, but no zip file.
    FormatError, UnsafeInput
        It is a zip file that is damaged or unsafe.
    UsageError
        The location's kind is unknown.
    """
    if isinstance(location, Store):
        return location
    path = local_path(location)
    if path is None:
        text = str(location)
        scheme = _scheme(text)
        if scheme == "memory":
            return MemoryStore.named(text.partition("://")[2].rstrip("/"))
        if scheme in _REMOTE and not text.lower().rstrip("/").endswith(ZIP_SUFFIXES):
            from napari_decant.stores._remote import RemoteStore

            return RemoteStore(text)
        return open_zip(text)
    if path.is_dir():
        return FolderStore(path)
    if not path.exists():
        raise StorageError(f"{path} does not exist")
    path = Path(os.path.realpath(path))
    if not path.name.lower().endswith(ZIP_SUFFIXES):
        with LocalFile(path) as file:
            start = file.read_at(0, min(4, file.size))
        if start not in (b"PK\3\4", b"PK\5\6"):
            raise UnsupportedOperation(f"{path} is a file, but neither a folder nor a zip file with an image")
    return open_zip(path)
