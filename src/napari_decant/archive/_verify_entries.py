"""One run over the entries of one archive: each is compared with what the archive says of it."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from napari_decant.archive._against import hash_and_compare
from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._documents import read_documents
from napari_decant.archive._encode import Counter
from napari_decant.archive._manifest import MANIFEST_KEY, Member
from napari_decant.archive._reader import Archive
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
    UsageError,
)
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores import Store, ZipStore

__all__ = ["Checker", "Options"]

_METADATA = (".zgroup", ".zattrs", ".zmetadata", ".zarray", "zarr.json")
_DOCUMENTS = (*_METADATA, MANIFEST_KEY, SUMS_KEY)
_MAX_SUMS = 1 << 30
_SMALL_PART = 64 << 20


def _all_keys(store: Store) -> set[str]:
    # a zip file's names need no sorting here
    return (
        {n for n in store.entries.names if n[-1] != "/"} if isinstance(store, ZipStore) else set(store.keys())
    )


def _is_document(key: str) -> bool:
    return key in (MANIFEST_KEY, SUMS_KEY) or key.rpartition("/")[2] in _METADATA


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
        self._odd: set[int] = set()

    def run(self) -> VerifyReport:
        """Check everything and report."""
        store, quick = self._archive.store, self._options.quick
        self._sums = self._read_sums()
        self._check_directory(store)
        self._check_keys(store)
        members = tuple(self._nested_members() if self._archive.nested else self._members())
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
        lines = text.split("\n")
        if all(line[64:66] == "  " for line in lines[:-1]) and not lines[-1]:
            return {line[66:]: line[:64] for line in lines[:-1]}
        parts = [line.partition("  ") for line in lines if line]
        return {key: digest for digest, _, key in parts}

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
        keys = _all_keys(store)
        if self._sums is not None:
            for key in sorted(self._sums.keys() - keys):
                self.note("missing", key, f"{key} is missing")
            for key in sorted(keys - self._sums.keys() - {SUMS_KEY}):
                self.note("unexpected", key, f"{key} is not part of the archive")
        documents = [key for key in keys if key.endswith(_DOCUMENTS) and _is_document(key)]
        husks = self._husks() if self._options.quick else {}
        known: set[bytes] = set()  # documents of husks with the size cut out: they are parsed once
        for key, data in read_documents(store, documents, self._note_unreadable):
            right = self._check_bytes(store, key, data)
            if right and key in husks:
                number, size = husks[key]
                form = data.replace(b"%d" % size, b"#")
                if form in known or self._opens(number):
                    known.add(form)
                    del husks[key]
        self._odd = {number for number, _ in husks.values()}

    def _opens(self, number: int) -> bool:
        """Whether the arrays of a file are as the manifest says."""
        try:
            self._archive.file(number)
        except (FormatError, StorageError, UnsupportedOperation):
            return False  # it is opened again later, and the reason noted
        return True

    def _husks(self) -> dict[str, tuple[int, int]]:
        """Key of the document of each husk that is not empty: the number of its file and its size."""
        if self._archive.nested:
            return {}
        records = enumerate(self._archive.records)
        return {f"{r.husk_array}/.zarray": (k, r.husk_raw_size) for k, r in records if r.husk_raw_size}

    def _check_entry(self, store: Store, key: str) -> None:
        for _, data in read_documents(store, [key], self._note_unreadable):
            self._check_bytes(store, key, data)

    def _note_unreadable(self, key: str, error: DecantError) -> None:
        self.note("damaged", key, f"{key} cannot be read: {error}")

    def _check_bytes(self, store: Store, key: str, data: bytes) -> bool:
        """Compare an entry's bytes with its CRC and its hash."""
        self._seen.add(key)
        if isinstance(store, ZipStore) and zlib.crc32(data) != store.crc(key):
            self.note("damaged", key, f"{key} does not match its checksum in the zip directory")
            return False
        recorded = (self._sums or {}).get(key)
        if recorded is None or hashlib.sha256(data).hexdigest() == recorded:
            return True
        if _is_document(key):
            self.note("changed", key, f"{key} is not as it was written: its hash is another one")
        else:
            self.note("damaged", key, f"{key} does not match its hash")
        return False

    def _fetch(self, array: ZarrArray, key: str) -> bytes | None:
        """Read a chunk for rebuilding and check it on the way; damage is noted, not raised."""
        try:
            data = read_entry(array, key)
        except (FormatError, StorageError) as error:
            self._note_unreadable(key, error)
            return None
        if data is None:
            with self._lock:
                self._absent[key] = None
            return None
        return data if self._check_bytes(array.store, key, data) else None

    def _members(self) -> Iterator[MemberState]:
        archive, quick = self._archive, self._options.quick
        files: list[ArchivedFile] = []
        broken: set[int] = set()
        for number, record in enumerate(archive.records):
            try:
                if quick and number not in archive.faults and number not in self._odd:
                    continue
                file = archive.file(number)
                if not quick:
                    files.append(file)
            except (FormatError, StorageError, UnsupportedOperation) as error:
                self.note("damaged", record.relpath, str(error))
                broken.add(number)
        hashes = iter(()) if quick else self._hashes(files)
        for number, record in enumerate(archive.records):
            whole = None if quick and number not in broken else False
            if not quick and number not in broken:
                file, found, difference = next(hashes)
                whole = found == file.sha256
                self._note_found(file, found, difference)
            yield MemberState(record.relpath, record.original_size, record.original_sha256, whole)

    def _note_found(self, file: ArchivedFile, found: str | DecantError, difference: str) -> None:
        if isinstance(found, DecantError):
            self.note("damaged", file.name, f"{file.name} cannot be rebuilt: {found}")
        elif found != file.sha256:
            self._note_difference(file, found)
        elif difference:
            self.note("differs", file.name, f"{file.name} is whole, but {difference}")

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
        except (FormatError, StorageError, UnsupportedOperation, UsageError) as error:
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
        parts = (
            {member.subarchive for member in self._archive.manifest.members}
            if self._archive.nested
            else set()
        )
        rest = sorted(set(store.keys()) - self._seen - parts)
        for _ in ordered(
            lambda key: self._check_entry(store, key),
            rest,
            workers=2 if self._options.workers is None else self._options.workers,
            cancel=self._options.cancel,
        ):
            pass
