"""One run over the entries of one archive: each is compared with what the archive says of it."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from napari_decant.archive._against import hash_and_compare
from napari_decant.archive._encode import Counter
from napari_decant.archive._manifest import MANIFEST_KEY, MAX_MANIFEST_BYTES, Member
from napari_decant.archive._reader import Archive, ArchivedFile
from napari_decant.archive._rebuild import UNIT, read_entry
from napari_decant.archive._report import MemberState, Problem, VerifyReport
from napari_decant.archive._verify import hash_files
from napari_decant.archive._workers import choose_workers, ordered
from napari_decant.archive._write import SUMS_KEY
from napari_decant.engine import ZarrArray
from napari_decant.errors import (
    DecantError,
    FormatError,
    IntegrityError,
    MissingKey,
    StorageError,
    UnsupportedOperation,
)
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores import Store, ZipStore

__all__ = ["Checker", "Options"]

_METADATA = (".zgroup", ".zattrs", ".zmetadata", ".zarray", "zarr.json")
_MAX_SUMS = 1 << 30
_SMALL_PART = 64 << 20

Found = tuple[ArchivedFile, str | DecantError, str]
"""A file, its hash or why there is none, and how it differs from its peer."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to check; ``workers`` 0 works in the calling thread."""

    quick: bool
    workers: int | None
    memory: int | None
    progress: ProgressCallback
    cancel: CancelToken

    @property
    def depth(self) -> str:
        """As the report says it."""
        return "quick" if self.quick else "full"


class Checker:
    """One run over one archive; problems are collected from all threads.

    Parameters
    ----------
    archive : Archive
    options : Options

    Attributes
    ----------
    peers : mapping
        Files on disk to compare originals with, by the originals' names.
    """

    def __init__(self, archive: Archive, options: Options) -> None:
        self._archive, self._options = archive, options
        self.peers: Mapping[str, Path] = {}
        self._lock = threading.Lock()
        self._problems: dict[tuple[str, str], Problem] = {}
        self._absent: dict[str, None] = {}
        self._seen: set[str] = set()
        self._sums: dict[str, str] | None = None

    @property
    def _nested(self) -> bool:
        manifest = self._archive.manifest
        return manifest.mode == "series" and not manifest.series_consolidated

    def run(self) -> VerifyReport:
        """Check everything and report."""
        store, quick = self._archive.store, self._options.quick
        self._sums = self._read_sums()
        self._check_directory(store)
        self._check_keys(store)
        members = tuple(self._nested_members() if self._nested else self._members())
        if not quick:
            self._check_rest(store)
        problems = tuple(sorted(self._problems.values(), key=lambda problem: (problem.kind, problem.key)))
        whole = None if quick and not problems else not problems and all(member.whole for member in members)
        return VerifyReport(self._archive.path, self._options.depth, whole, members, problems)

    def note(self, kind: str, key: str, message: str) -> None:
        """Add a problem; the first one of a kind about a key counts."""
        with self._lock:
            self._problems.setdefault((kind, key), Problem(kind, key, message))

    def _read_sums(self) -> dict[str, str] | None:
        """The list of hashes; None for an archive without one, which verifies by its own hash."""
        try:
            text = self._archive.store.read(SUMS_KEY, limit=_MAX_SUMS).decode("ascii")
        except MissingKey:
            return None
        except (StorageError, FormatError, UnicodeDecodeError) as error:
            self.note("damaged", SUMS_KEY, f"the list of hashes cannot be read: {error}")
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
            self.note("duplicate", name, f"{name} stands more than once in the archive")
        for name, fault in store.check_headers(self._options.cancel.check):
            self.note("damaged", name, fault)

    def _check_keys(self, store: Store) -> None:
        """Compare what is there with the list of hashes, and read the metadata entries."""
        keys = set(store.keys())
        if self._sums is not None:
            for key in sorted(self._sums.keys() - keys):
                self.note("missing", key, f"{key} is missing")
            for key in sorted(keys - self._sums.keys() - {SUMS_KEY}):
                self.note("unexpected", key, f"{key} is not part of the archive")
        for key in sorted(keys):
            if key.rpartition("/")[2] in _METADATA or key in (MANIFEST_KEY, SUMS_KEY):
                self._check_entry(store, key)

    def _check_entry(self, store: Store, key: str) -> None:
        try:
            data = store.read(key, limit=MAX_MANIFEST_BYTES)
        except (FormatError, StorageError) as error:
            self.note("damaged", key, f"{key} cannot be read: {error}")
            return
        self._check_bytes(store, key, data)

    def _check_bytes(self, store: Store, key: str, data: bytes) -> bool:
        """Compare an entry's bytes with its CRC and its hash."""
        self._seen.add(key)
        if isinstance(store, ZipStore) and zlib.crc32(data) != store.entry(key).crc:
            self.note("damaged", key, f"{key} does not match its checksum in the zip directory")
            return False
        recorded = (self._sums or {}).get(key)
        if recorded is None or hashlib.sha256(data).hexdigest() == recorded:
            return True
        if key.rpartition("/")[2] in _METADATA or key == MANIFEST_KEY:
            self.note("changed", key, f"{key} is not as it was written: its hash is another one")
        else:
            self.note("damaged", key, f"{key} does not match its hash")
        return False

    def _fetch(self, array: ZarrArray, key: str) -> bytes | None:
        """Read a chunk for rebuilding and check it on the way; damage is noted, not raised."""
        try:
            data = read_entry(array, key)
        except (FormatError, StorageError) as error:
            self.note("damaged", key, f"{key} cannot be read: {error}")
            return None
        if data is None:
            with self._lock:
                self._absent[key] = None
            return None
        return data if self._check_bytes(array.store, key, data) else None

    def _members(self) -> Iterator[MemberState]:
        files: list[ArchivedFile] = []
        try:
            files.extend(self._archive.files())
        except (FormatError, StorageError, UnsupportedOperation) as error:
            self.note("damaged", MANIFEST_KEY, str(error))
        if self._options.quick:
            for file in files:
                yield MemberState(file.name, file.size, file.sha256, None)
            return
        for file, found, difference in self._hashes(files):
            if isinstance(found, DecantError):
                self.note("damaged", file.name, f"{file.name} cannot be rebuilt: {found}")
            elif found != file.sha256:
                self._note_difference(file, found)
            elif difference:
                self.note("differs", file.name, f"{file.name} is whole, but {difference}")
            yield MemberState(file.name, file.size, file.sha256, found == file.sha256)

    def _hashes(self, files: list[ArchivedFile]) -> Iterator[Found]:
        options, name = self._options, self._archive.manifest.original_name
        largest = max((file.pages[0].nbytes for file in files if file.pages), default=0)
        workers = 0
        if options.workers != 0:
            workers = choose_workers(max(largest, UNIT), options.workers, options.memory) or 1
        counter = Counter(options.progress, "verify", sum(file.size for file in files), name)
        if not self.peers:
            hashes = hash_files(
                files, workers=workers, counter=counter, cancel=options.cancel, fetch=self._fetch
            )
            yield from ((file, found, "") for file, found in hashes)
            return
        for file in files:
            try:
                found, difference = hash_and_compare(
                    file, self.peers[file.name], workers=workers, fetch=self._fetch, advance=counter.add,
                    cancel=options.cancel,
                )  # fmt: skip
            except (FormatError, IntegrityError, StorageError, UnsupportedOperation) as error:
                yield file, error, ""
                continue
            yield file, found, difference

    def _note_difference(self, file: ArchivedFile, found: str) -> None:
        # Chunks that nothing lists read as zeros, which is right for some writers' archives.
        for key in self._absent:
            self.note("missing", key, f"{key} is missing")
        self.note(
            "differs",
            file.name,
            f"{file.name} rebuilt from the archive has sha256 {found}, not {file.sha256}",
        )

    def _nested_members(self) -> Iterator[MemberState]:
        """Check each part of a nested series as the archive it is: small ones side by side."""
        members, options = self._archive.manifest.members, self._options
        total = sum(member.original_size for member in members)
        counter = Counter(options.progress, "verify", total, self._archive.manifest.original_name)
        small = [member for member in members if member.original_size <= _SMALL_PART]
        quiet = replace(options, workers=0, progress=ignore_progress)
        threads = choose_workers(UNIT, options.workers, options.memory) or 1
        states: dict[str, MemberState] = {}
        checks = ordered(
            lambda member: self._check_part(member, quiet), small, workers=threads, cancel=options.cancel
        )
        for member, state in zip(small, checks, strict=True):
            states[member.relpath] = state
            counter.add(member.original_size)
        for member in members:
            options.cancel.check()
            if member.relpath not in states:
                states[member.relpath] = self._check_part(member, replace(options, progress=ignore_progress))
                counter.add(member.original_size)
            yield states[member.relpath]

    def _check_part(self, member: Member, options: Options) -> MemberState:
        """Check one part; its problems become problems of the series, by part and key."""
        name = member.subarchive
        whole: bool | None = False
        try:
            with Archive(self._archive.part_path(member)) as part:
                inner = part.only_file(member).name
                checker = Checker(part, options)
                if member.relpath in self.peers:
                    checker.peers = {inner: self.peers[member.relpath]}
                report = checker.run()
        except (FormatError, StorageError, UnsupportedOperation) as error:
            self.note("damaged", name or member.relpath, str(error))
        else:
            (state,) = report.members
            whole = state.whole
            for problem in report.problems:
                of_file = problem.key == inner
                key = member.relpath if of_file else f"{name}/{problem.key}"
                self.note(problem.kind, key, problem.message)
        return MemberState(member.relpath, member.original_size, member.original_sha256, whole)

    def _check_rest(self, store: Store) -> None:
        """Read every entry that rebuilding did not touch: pyramid levels, foreign keys."""
        parts = {member.subarchive for member in self._archive.manifest.members} if self._nested else set()
        rest = sorted(set(store.keys()) - self._seen - parts)
        for _ in ordered(
            lambda key: self._check_entry(store, key),
            rest,
            workers=2 if self._options.workers is None else self._options.workers,
            cancel=self._options.cancel,
        ):
            pass
