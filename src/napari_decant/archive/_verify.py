"""Prove an archive: recompute every original from what is stored, and look at every entry on the way."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from napari_decant.archive._encode import Counter
from napari_decant.archive._manifest import MANIFEST_KEY, MAX_MANIFEST_BYTES
from napari_decant.archive._reader import Archive, ArchivedFile
from napari_decant.archive._rebuild import UNIT, Fetch, read_entry, rebuild
from napari_decant.archive._report import MemberState, Problem, VerifyReport
from napari_decant.archive._workers import choose_workers, ordered
from napari_decant.archive._write import SUMS_KEY
from napari_decant.engine import ZarrArray
from napari_decant.errors import (
    DecantError,
    FormatError,
    IntegrityError,
    MissingKey,
    StorageError,
    UnsafeInput,
)
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores import Store, ZipStore
from napari_decant.stores._atomic import require_path

__all__ = ["recompute", "verify"]

_METADATA = (".zgroup", ".zattrs", ".zmetadata", ".zarray", "zarr.json")
_MAX_SUMS = 1 << 30
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
    with Archive(path) as archive:
        files = list(archive.files())
        if sorted(file.name for file in files) != sorted(hashes):
            raise IntegrityError(f"{path} does not hold the files that were packed into it")
        counter = Counter(
            progress, "verify", sum(file.size for file in files), archive.manifest.original_name
        )
        for file, found in hash_files(files, workers=workers, counter=counter, cancel=cancel):
            if isinstance(found, DecantError):
                raise IntegrityError(
                    f"{file.name} could not be read back from its archive: {found}"
                ) from found
            if found != hashes[file.name]:
                raise IntegrityError(
                    f"{file.name} read back from its archive has sha256 {found}, not {hashes[file.name]}"
                )


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
        except (FormatError, IntegrityError, StorageError) as error:
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


def verify(
    archive: str | Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    memory: int | None = None,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> VerifyReport:
    """Check an archive.

    Parameters
    ----------
    archive : path
        ``NAME.zarr.zip`` or an unpacked archive folder.
    quick : bool
        Check structure, directory and metadata only. The report's ``whole`` is None then.
    workers : int, optional
        Threads; one a core by default.
    memory : int, optional
        Limit in bytes; workers drop to fit.
    progress : callable
        Gets a `Progress` about every few megabytes.
    cancel : CancelToken, optional
        Stops the work.

    Returns
    -------
    VerifyReport
        Damage is reported in it, not raised.

    Raises
    ------
    UsageError
        There is nothing at the path.
    UnsupportedOperation
        The archive needs a newer version of this program.
    UnsafeInput
        It asks for something that is never done.
    FormatError
        It is not an archive at all.
    Cancelled
        ``cancel`` was used.
    """
    path = Path(archive)
    depth = "quick" if quick else "full"
    cancel = cancel or CancelToken()
    require_path(path)
    try:
        opened = Archive(path)
    except UnsafeInput:
        raise
    except FormatError as error:
        return VerifyReport(path, depth, False, (), (Problem("damaged", MANIFEST_KEY, str(error)),))
    with opened:
        return _Verifier(opened, quick, workers, memory, progress, cancel).run()


class _Verifier:
    """One run over one archive; problems are collected from all threads."""

    def __init__(
        self,
        archive: Archive,
        quick: bool,
        workers: int | None,
        memory: int | None,
        progress: ProgressCallback,
        cancel: CancelToken,
    ) -> None:
        self._archive, self._quick = archive, quick
        self._wanted, self._memory = workers, memory
        self._progress, self._cancel = progress, cancel
        self._lock = threading.Lock()
        self._problems: dict[tuple[str, str], Problem] = {}
        self._absent: dict[str, None] = {}
        self._seen: set[str] = set()
        self._sums: dict[str, str] | None = None

    def run(self) -> VerifyReport:
        store = self._archive.store
        self._sums = self._read_sums()
        self._check_directory(store)
        self._check_keys(store)
        members = list(self._members())
        if not self._quick:
            self._check_rest(store)
        problems = tuple(sorted(self._problems.values(), key=lambda problem: (problem.kind, problem.key)))
        whole = (
            None if self._quick and not problems else not problems and all(member.whole for member in members)
        )
        return VerifyReport(
            self._archive.path, "quick" if self._quick else "full", whole, tuple(members), problems
        )

    def _note(self, kind: str, key: str, message: str) -> None:
        with self._lock:
            self._problems.setdefault((kind, key), Problem(kind, key, message))

    def _read_sums(self) -> dict[str, str] | None:
        """The list of hashes; None for an archive without one, which verifies by its own hash."""
        try:
            text = self._archive.store.read(SUMS_KEY, limit=_MAX_SUMS).decode("ascii")
        except MissingKey:
            return None
        except (StorageError, FormatError, UnicodeDecodeError) as error:
            self._note("damaged", SUMS_KEY, f"the list of hashes cannot be read: {error}")
            return None
        sums = {}
        for line in text.splitlines():
            digest, _, key = line.partition("  ")
            sums[key] = digest
        return sums

    def _check_directory(self, store: Store) -> None:
        """Names that stand twice, and local headers that contradict the directory."""
        if not isinstance(store, ZipStore):
            return
        for name in store.entries.duplicates:
            self._note("duplicate", name, f"{name} stands more than once in the archive")
        for entry in store.entries:
            self._cancel.check()
            try:
                store.check_local_header(entry)
            except (FormatError, StorageError) as error:
                self._note("damaged", entry.name, str(error))

    def _check_keys(self, store: Store) -> None:
        """Compare what is there with the list of hashes, and read the metadata entries."""
        keys = set(store.keys())
        if self._sums is not None:
            for key in sorted(self._sums.keys() - keys):
                self._note("missing", key, f"{key} is missing")
            for key in sorted(keys - self._sums.keys() - {SUMS_KEY}):
                self._note("unexpected", key, f"{key} is not part of the archive")
        for key in sorted(keys):
            if key.rpartition("/")[2] in _METADATA or key in (MANIFEST_KEY, SUMS_KEY):
                self._check_entry(store, key)

    def _check_entry(self, store: Store, key: str) -> None:
        try:
            data = store.read(key, limit=MAX_MANIFEST_BYTES)
        except (FormatError, StorageError) as error:
            self._note("damaged", key, f"{key} cannot be read: {error}")
            return
        self._check_bytes(store, key, data)

    def _check_bytes(self, store: Store, key: str, data: bytes) -> bool:
        """Compare an entry's bytes with its CRC and its hash."""
        self._seen.add(key)
        if isinstance(store, ZipStore) and zlib.crc32(data) != store.entry(key).crc:
            self._note("damaged", key, f"{key} does not match its checksum in the zip directory")
            return False
        recorded = (self._sums or {}).get(key) if store is self._archive.store else None
        if recorded is not None and hashlib.sha256(data).hexdigest() != recorded:
            self._note("damaged", key, f"{key} does not match its hash")
            return False
        return True

    def _fetch(self, array: ZarrArray, key: str) -> bytes | None:
        """Read a chunk for rebuilding and check it on the way; damage is noted, not raised."""
        store = array.store
        try:
            data = read_entry(array, key)
        except (FormatError, StorageError) as error:
            self._note("damaged", key, f"{key} cannot be read: {error}")
            return None
        if data is None:
            with self._lock:
                self._absent[key] = None
            return None
        return data if self._check_bytes(store, key, data) else None

    def _members(self) -> Iterator[MemberState]:
        files: list[ArchivedFile] = []
        try:
            files.extend(self._archive.files())
        except FormatError as error:
            self._note("damaged", MANIFEST_KEY, str(error))
        if self._quick:
            for file in files:
                yield MemberState(file.name, file.size, file.sha256, None)
            return
        largest = max((file.pages[0].nbytes for file in files if file.pages), default=0)
        workers = choose_workers(max(largest, UNIT), self._wanted, self._memory) or 1
        name = self._archive.manifest.original_name
        counter = Counter(self._progress, "verify", sum(file.size for file in files), name)
        for file, found in hash_files(
            files, workers=workers, counter=counter, cancel=self._cancel, fetch=self._fetch
        ):
            if isinstance(found, DecantError):
                self._note("damaged", file.name, f"{file.name} cannot be rebuilt: {found}")
            elif found != file.sha256:
                self._note_difference(file, found)
            yield MemberState(file.name, file.size, file.sha256, found == file.sha256)

    def _note_difference(self, file: ArchivedFile, found: str) -> None:
        # Chunks that nothing lists read as zeros, which is right for some writers' archives.
        for key in self._absent:
            self._note("missing", key, f"{key} is missing")
        self._note(
            "differs",
            file.name,
            f"{file.name} rebuilt from the archive has sha256 {found}, not {file.sha256}",
        )

    def _check_rest(self, store: Store) -> None:
        """Read every entry that rebuilding did not touch: pyramid levels, foreign keys."""
        rest = sorted(set(store.keys()) - self._seen)
        for _ in ordered(
            lambda key: self._check_entry(store, key), rest, workers=self._wanted or 2, cancel=self._cancel
        ):
            pass
