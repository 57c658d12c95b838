"""Recompute originals from an archive and compare their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._encode import Counter
from napari_decant.archive._reader import Archive
from napari_decant.archive._rebuild import Fetch, read_entry, rebuild
from napari_decant.archive._workers import ordered
from napari_decant.errors import DecantError, FormatError, IntegrityError, StorageError, UnsupportedOperation
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress

__all__ = ["find_differences", "hash_files", "recompute"]

_SMALL_FILE = 64 << 20


def hash_file(
    file: ArchivedFile, *, workers: int, counter: Counter, cancel: CancelToken, fetch: Fetch = read_entry
) -> str:
    """Rebuild a file from its archive and return its sha256."""
    digest = hashlib.sha256()
    for _, data in rebuild(file, workers=workers, fetch=fetch, cancel=cancel):
        digest.update(data)
        counter.add(len(data))
    return digest.hexdigest()


def recompute(
    path: Path,
    hashes: Mapping[str, str],
    *,
    workers: int,
    progress: ProgressCallback,
    cancel: CancelToken,
) -> None:
    """Prove that an archive just written gives back the files with these hashes.

    Parameters
    ----------
    path : Path
        The archive.
    hashes : mapping
        sha256 of each file by its name within the archive; no other file may be in it.

    Raises
    ------
    IntegrityError
        It does not.
    """
    for reason in find_differences(path, hashes, workers=workers, progress=progress, cancel=cancel).values():
        raise IntegrityError(reason)


def find_differences(
    path: Path,
    hashes: Mapping[str, str],
    *,
    workers: int,
    progress: ProgressCallback,
    cancel: CancelToken,
) -> dict[str, str]:
    """As `recompute`, but return the names of the files that do not come back, each with the reason.

    Raises
    ------
    IntegrityError
        The archive holds other files.
    """
    wrong: dict[str, str] = {}
    with Archive(path) as archive:
        files = list(archive.files())
        if sorted(file.name for file in files) != sorted(hashes):
            raise IntegrityError(f"{path} does not hold the files that were packed into it")
        counter = Counter(
            progress, "verify", sum(file.size for file in files), archive.manifest.original_name
        )
        for file, found in hash_files(files, workers=workers, counter=counter, cancel=cancel):
            if isinstance(found, DecantError):
                wrong[file.name] = f"{file.name} could not be read back from its archive: {found}"
            elif found != hashes[file.name]:
                wrong[file.name] = (
                    f"{file.name} read back from its archive has sha256 {found}, not {hashes[file.name]}"
                )
    return wrong


def hash_files(
    files: Sequence[ArchivedFile],
    *,
    workers: int,
    counter: Counter,
    cancel: CancelToken,
    fetch: Fetch = read_entry,
) -> Iterator[tuple[ArchivedFile, str | DecantError]]:
    """Hash rebuilt files in order; what cannot be rebuilt comes with its error instead.

    Small files are rebuilt side by side, a large one by all workers together.
    """

    def one(file: ArchivedFile, threads: int, count: Counter) -> str | DecantError:
        try:
            return hash_file(file, workers=threads, counter=count, cancel=cancel, fetch=fetch)
        except (FormatError, IntegrityError, StorageError, UnsupportedOperation) as error:
            return error

    def alone(file: ArchivedFile) -> str | DecantError:
        return one(file, 0, Counter(ignore_progress, "", file.size, ""))

    start = 0
    while start < len(files):
        stop = start
        while stop < len(files) and files[stop].size <= _SMALL_FILE:
            stop += 1
        if stop - start < 2:
            yield files[start], one(files[start], workers, counter)
            start += 1
            continue
        group = files[start:stop]
        for file, found in zip(group, ordered(alone, group, workers=workers, cancel=cancel), strict=True):
            counter.add(file.size)
            yield file, found
        start = stop
