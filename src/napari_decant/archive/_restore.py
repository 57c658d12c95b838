"""Write originals back: each file is recomputed, written beside its place, read back, then renamed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._encode import Counter
from napari_decant.archive._hashing import FollowingHasher, hash_whole
from napari_decant.archive._manifest import MANIFEST_KEY, safe_relpath
from napari_decant.archive._names import natural_key, stored_name, system_name
from napari_decant.archive._reader import Archive
from napari_decant.archive._rebuild import UNIT, rebuild
from napari_decant.archive._report import RestoreReport
from napari_decant.archive._series import cannot_read
from napari_decant.archive._workers import choose_workers, ordered
from napari_decant.errors import (
    BudgetExceeded,
    FormatError,
    IntegrityError,
    TargetExists,
    UnsafeInput,
    UsageError,
)
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores import LocalFile
from napari_decant.stores._aligned import AlignedWriter
from napari_decant.stores._atomic import AtomicFile, make_folder, require_path, storage_error
from napari_decant.stores._partial import is_partial_name
from napari_decant.stores._space import require_space

__all__ = ["find_archives", "restore"]

logger = logging.getLogger(__name__)

_SMALL_FILE = 64 << 20
_SYNC_STEP = 128 << 20  # the disk works while the rest is rebuilt


def find_archives(paths: Sequence[Path]) -> dict[Path, str]:
    """Archives among paths and below folders, each with its place below what was given.

    Parameters
    ----------
    paths : sequence of Path
        Archives (files, or unpacked folders), or folders that hold archives.

    Returns
    -------
    dict
        POSIX path of each archive below the given folder, without the archive's suffix.

    Raises
    ------
    UsageError
        A path does not exist, or a folder holds no archive.
    """
    found: dict[Path, str] = {}
    for path in paths:
        require_path(path)
        if not path.is_dir() or (path / MANIFEST_KEY).is_file():
            found[path] = _stem(path.name)
            continue
        below = sorted(_finished(path), key=lambda item: natural_key(item.relative_to(path).as_posix()))
        inside = [item for item in below if item.name.endswith(".zarr") and (item / MANIFEST_KEY).is_file()]
        files = [item for item in below if item.name.endswith(".zarr.zip") and item.is_file()]
        archives = inside + [file for file in files if not any(folder in file.parents for folder in inside)]
        if not archives:
            raise UsageError(f"{path} holds no archives (NAME.zarr.zip); choose another folder")
        for archive in archives:
            found[archive] = _stem(archive.relative_to(path).as_posix())
    return found


def _finished(folder: Path) -> Iterator[Path]:
    """Everything below a folder but what is unfinished."""
    for root, folders, names in os.walk(folder, onerror=cannot_read):
        folders[:] = [name for name in folders if not is_partial_name(name)]
        yield from (Path(root) / name for name in (*folders, *names))


def _stem(name: str) -> str:
    return name.removesuffix(".zip").removesuffix(".zarr")


def restore(
    archive: str | Path,
    output_dir: str | Path,
    *,
    member: str | None = None,
    overwrite: bool = False,
    salvage: bool = False,
    workers: int | None = None,
    memory: int | None = None,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> RestoreReport:
    """Restore the originals of an archive, byte for byte.

    Each file is written under a temporary name, its sha256 is computed from the written file,
    and it gets its name only if that is the recorded one.

    Parameters
    ----------
    archive : path
        ``NAME.zarr.zip`` or an unpacked archive folder.
    output_dir : path
        Folder to write to; made if it is missing.
    member : str, optional
        Restore only this file of a series, by its path within it.
    overwrite : bool
        Replace existing files.
    salvage : bool
        Of an archive that was cut short, use what is left; see `verify`.
    workers : int, optional
        Threads; one a core by default.
    memory : int, optional
        Limit in bytes; workers drop to fit.
    progress : callable
        Gets a `Progress` about every few megabytes.
    cancel : CancelToken, optional
        Stops the work; a file in the making is removed.

    Returns
    -------
    RestoreReport

    Raises
    ------
    UsageError
        No such archive or member.
    TargetExists
        A file is in the way; nothing was written.
    IntegrityError
        The rebuilt bytes are not the original's; no such file was left.
    FormatError, UnsafeInput, UnsupportedOperation
        The archive is damaged, unsafe, or needs a newer version.
    DiskFull
        The disk has not enough room; nothing was written.
    StorageError
        Writing failed.
    BudgetExceeded
        A plane does not fit ``memory``.
    """
    path, folder = Path(archive), Path(output_dir)
    cancel = cancel or CancelToken()
    with Archive(path, salvage=salvage) as opened:
        files = list(opened.files(None if member is None else stored_name(member)))
        if not files:
            raise UsageError(f"{path} has no member {member!r}; `info` lists them")
        targets, notes = _targets(folder, opened.real_names(), files, overwrite)
        require_space(folder, _room(files, targets), f"restoring {path}")
        largest = max([UNIT, *(file.pages[0].nbytes for file in files if file.pages)])
        threads = choose_workers(largest, workers, memory)
        if not threads:
            raise BudgetExceeded("memory", (400 << 20) + 4 * largest, memory or 0, f"restoring {path}")
        total = sum(file.size for file in files)
        made = _make_folders(folder, targets)
        counter = Counter(progress, "restore", total, opened.manifest.original_name)
        jobs = [
            _Job(file, target, overwrite, _time(opened.kept.get(file.name, {})))
            for file, target in zip(files, targets, strict=True)
        ]
        _restore_all(jobs, threads, counter, cancel)
        _set_folder_times(folder, made, opened.facts.get("folders"))
        sums = [file.sha256 for file in files]
        return RestoreReport(path, tuple(targets), tuple(sums), total, tuple(notes))


def _targets(
    folder: Path, names: dict[str, str], files: list[ArchivedFile], overwrite: bool
) -> tuple[list[Path], list[str]]:
    """Where each file goes, and which cannot have its name here; all is refused before the first write."""
    targets, notes = [], []
    for file in files:
        safe_relpath(file.name, "the member name")
        name = system_name(names[file.name])
        if name != names[file.name]:
            notes.append(f"{names[file.name]} is no name for this system and was restored as {name}")
        targets.append(folder.joinpath(*name.split("/")))
    for target in targets:
        if target.is_dir() and not target.is_symlink():
            raise TargetExists(f"{target} is a folder, where a file would be restored; choose another folder")
    if not overwrite:
        taken = [target for target in targets if os.path.lexists(target)]
        if taken:
            more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
            raise TargetExists(f"{taken[0]}{more} exists already; choose another folder or ask to overwrite")
    return targets, notes


def _room(files: list[ArchivedFile], targets: list[Path]) -> int:
    """Most bytes that are needed at a time: a file that is replaced goes once the new one is there."""
    used = most = 0
    for file, target in zip(files, targets, strict=True):
        most = max(most, used + file.size)
        try:
            old = os.lstat(target).st_size
        except OSError:  # it is not there
            old = 0
        used += file.size - old
    return most


def _make_folders(folder: Path, targets: list[Path]) -> set[Path]:
    """Make the folders of all files; returns the new ones, without ``folder`` itself."""
    needed = {above for target in targets for above in target.parents if folder in above.parents}
    made = {path for path in needed if not path.exists()}
    for path in (folder, *sorted(needed)):
        make_folder(path)
    return made


def _set_folder_times(folder: Path, made: set[Path], recorded: object) -> None:
    """Give new folders the times of the original ones, which writing files into them has changed."""
    if not isinstance(recorded, dict):
        return
    for path in sorted(made, reverse=True):  # those below come first
        mtime_ns = recorded.get(path.relative_to(folder).as_posix())
        if isinstance(mtime_ns, int):
            _set_time(path, mtime_ns)


@dataclass(frozen=True, slots=True)
class _Job:
    file: ArchivedFile
    target: Path
    overwrite: bool
    mtime_ns: int | None


def _time(facts: dict[str, Any]) -> int | None:
    mtime_ns = facts.get("mtime_ns")
    return mtime_ns if isinstance(mtime_ns, int) else None


def _restore_all(jobs: list[_Job], workers: int, counter: Counter, cancel: CancelToken) -> None:
    """Small files side by side, since each waits for the disk; a large one by all workers together."""

    def alone(job: _Job) -> None:
        _restore_file(job, 0, Counter(ignore_progress, "", 0, ""), cancel)

    small = [job for job in jobs if job.file.size <= _SMALL_FILE]
    for job, _ in zip(small, ordered(alone, small, workers=2 * workers, cancel=cancel), strict=True):
        counter.add(job.file.size)
    for job in jobs:
        if job.file.size > _SMALL_FILE:
            _restore_file(job, workers, counter, cancel)


def _restore_file(job: _Job, workers: int, counter: Counter, cancel: CancelToken) -> None:
    file = job.file
    with AtomicFile(job.target, overwrite=job.overwrite, buffering=0) as output:
        written = LocalFile(output.path)
        # What is hashed is what the file holds: read back, not what was meant to be written.
        hasher = FollowingHasher(written, file.size) if workers else None
        writer = AlignedWriter(output.file)
        synced = 0
        try:
            for _, data in rebuild(file, workers=workers, cancel=cancel):
                writer.write(data)
                counter.add(len(data))
                if hasher is not None:
                    hasher.allow(writer.written)
                if writer.written - synced >= _SYNC_STEP:
                    synced = writer.written
                    output.sync_behind()
            writer.finish()
            found = hasher.result() if hasher is not None else hash_whole(written, file.size)
        except OSError as error:
            raise storage_error("writing", job.target, error) from error
        except UnsafeInput:
            raise
        except FormatError as error:
            raise FormatError(
                f"{file.name} cannot be rebuilt, its archive is damaged ({error}); it was not restored"
            ) from error
        finally:
            if hasher is not None:
                hasher.stop()
            written.close()
        if found != file.sha256:
            raise IntegrityError(
                f"{file.name} rebuilt from the archive has sha256 {found}, not {file.sha256}; "
                "it was not restored"
            )
        if job.mtime_ns is not None:
            _set_time(output.path, job.mtime_ns)
        output.commit()


def _set_time(path: Path, mtime_ns: int) -> None:
    try:
        os.utime(path, ns=(mtime_ns, mtime_ns))
    except (OSError, OverflowError) as error:
        # a date that this disk cannot hold is no reason to lose the file
        logger.warning("the time of %s could not be set: %s", path, error)
