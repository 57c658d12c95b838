"""Compare what an archive gives back with files on disk, byte for byte."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._reader import Archive
from napari_decant.archive._rebuild import Fetch, rebuild
from napari_decant.archive._series import is_ours
from napari_decant.errors import StorageError, UsageError
from napari_decant.progress import CancelToken
from napari_decant.stores import LocalFile

__all__ = ["hash_and_compare", "not_archived", "peers_of"]


def peers_of(archive: Archive, against: Path) -> dict[str, Path]:
    """The file on disk that each original is compared with, by the original's stored name.

    Parameters
    ----------
    archive : Archive
    against : Path
        A file, for an archive of one file; or a folder, with the names that restoring gives.

    Raises
    ------
    UsageError
        A series is compared with one file.
    """
    names = archive.real_names()
    if against.is_dir():
        return {stored: against.joinpath(*real.split("/")) for stored, real in names.items()}
    if archive.manifest.mode == "series":
        raise UsageError(f"{archive.path} holds several files; compare it with the folder that they are in")
    return dict.fromkeys(names, against)


def not_archived(archive: Archive, folder: Path) -> Iterator[str]:
    """Files below a folder that a series does not hold: they would be lost with the folder."""
    held = set(archive.real_names().values())
    for root, folders, names in os.walk(folder):
        here = Path(root)
        folders.sort()
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if not is_ours(name)]
        for name in sorted([*names, *links]):
            relative = (here / name).relative_to(folder).as_posix()
            if relative not in held and not is_ours(name):
                yield relative


def hash_and_compare(
    file: ArchivedFile,
    peer: Path,
    *,
    workers: int,
    fetch: Fetch,
    advance: Callable[[int], None],
    cancel: CancelToken,
) -> tuple[str, str]:
    """Rebuild a file, hash it, and compare every byte with a file on disk.

    Returns
    -------
    (str, str)
        The sha256, and in words where the two differ first; empty if they do not.
    """
    digest = hashlib.sha256()
    difference = ""
    try:
        other: LocalFile | None = LocalFile(peer)
    except StorageError as error:
        other, difference = None, str(error)
    try:
        if other is not None and other.size != file.size:
            difference = f"{peer} has {other.size:,} bytes, not {file.size:,}"
        for offset, data in rebuild(file, workers=workers, fetch=fetch, cancel=cancel):
            digest.update(data)
            if other is not None and not difference:
                difference = _compare(other, peer, offset, data)
            advance(len(data))
    finally:
        if other is not None:
            other.close()
    return digest.hexdigest(), difference


def _compare(other: LocalFile, peer: Path, offset: int, data: memoryview) -> str:
    theirs = np.empty(len(data), np.uint8)
    try:
        other.read_into(offset, memoryview(theirs))
    except StorageError as error:
        return str(error)
    unlike = np.frombuffer(data, np.uint8) != theirs
    return f"{peer} differs from byte {offset + int(unlike.argmax()):,} on" if unlike.any() else ""
