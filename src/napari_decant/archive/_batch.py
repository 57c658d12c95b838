"""Pack many files and series: spread over an executor, keep going, resume, report."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from napari_decant.archive._manifest import Manifest
from napari_decant.archive._pack import pack
from napari_decant.archive._pack_series import pack_series
from napari_decant.archive._plan import PlanRow
from napari_decant.archive._reader import Archive
from napari_decant.archive._report import Jsonable
from napari_decant.archive._workers import available_cores
from napari_decant.errors import Cancelled, DecantError, StorageError, TargetExists
from napari_decant.progress import (
    CancelToken,
    FileProgress,
    Progress,
    ProgressCallback,
    ignore_progress,
    read_progress,
)
from napari_decant.stores._atomic import AtomicFile

__all__ = ["BatchReport", "BatchRow", "pack_batch", "restore_folder", "write_reports"]

_POLL_SECONDS = 0.2
_SPREAD_FROM = 2  # rows: a single one is spread over threads of this process instead


@dataclass(frozen=True, slots=True)
class BatchRow(Jsonable):
    """What became of one row of a plan.

    Attributes
    ----------
    source, archive : Path
    state : {"packed", "skipped", "failed", "cancelled"}
        Skipped: the archive was there already, of this very source.
    message : str
        Of a failure.
    exit_code : int
        Of a failure.
    files : tuple of (str, str, int)
        Path, sha256 and size of each original inside, as restoring the archive places it.
    """

    source: Path
    archive: Path
    state: str
    mode: str = ""
    reason: str | None = None
    message: str = ""
    exit_code: int = 0
    original_size: int = 0
    archive_size: int = 0
    files: tuple[tuple[str, str, int], ...] = ()
    relative: str = ""
    mtime_ns: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchReport(Jsonable):
    """What `pack_batch` did, row by row in the plan's order."""

    rows: tuple[BatchRow, ...]
    seconds: float

    def count(self, state: str) -> int:
        """Rows in a state."""
        return sum(row.state == state for row in self.rows)

    @property
    def exit_code(self) -> int:
        """Of the first failure; 0 without one."""
        return next((row.exit_code for row in self.rows if row.exit_code), 0)

    def sentence(self) -> str:
        """The result in words."""
        done = [row for row in self.rows if row.state in ("packed", "skipped")]
        files = sum(len(row.files) for row in done)
        text = f"{files:,} files are in {len(done):,} archives; every byte of what was packed was checked"
        if self.count("skipped"):
            text += f"; {self.count('skipped'):,} were packed already"
        if self.count("failed"):
            text += f"; {self.count('failed'):,} failed"
        return text


@dataclass(frozen=True, slots=True)
class _Task:
    """What goes to another process: plain data."""

    row: PlanRow
    codec: str
    levels: int
    workers: int | None
    memory: int | None
    overwrite: bool


def pack_batch(
    rows: Sequence[PlanRow],
    *,
    codec: str = "default",
    levels: int = 0,
    workers: int | None = None,
    memory: int | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> BatchReport:
    """Pack the rows of a plan; a failure does not stop the others.

    Parameters
    ----------
    rows : sequence of PlanRow
        From `plan`.
    codec, levels, overwrite
        As for `pack`.
    workers : int, optional
        Processes, or threads where there is one row only; one a core by default.
    memory : int, optional
        Limit in bytes for all processes of this machine together.
    executor : concurrent.futures.Executor, optional
        Where the rows are packed: any executor, such as that of a cluster. By default
        processes of this machine. Another machine must see the same paths.
    progress : callable
        Gets events about all rows together.
    cancel : CancelToken, optional
        Ends running rows cleanly and drops the others.

    Returns
    -------
    BatchReport
        Rows already packed and unchanged are skipped, so that calling again resumes.

    Raises
    ------
    Cancelled
        ``cancel`` was used; finished archives stay.
    """
    begun = time.monotonic()
    cancel = cancel or CancelToken()
    results: dict[int, BatchRow] = {}
    todo: list[int] = []
    for i, row in enumerate(rows):
        cancel.check()
        settled = _settle(row, overwrite)
        if settled is None:
            todo.append(i)
        else:
            results[i] = settled
    total = sum(rows[i].original_size for i in todo)
    processes = min(len(todo), workers or available_cores())
    if executor is None and (len(todo) < _SPREAD_FROM or processes < _SPREAD_FROM):
        done = 0
        for i in todo:
            task = _Task(rows[i], codec, levels, workers, memory, overwrite)
            results[i] = _run(task, _Shifted(progress, done, total), cancel)
            done += rows[i].original_size
    else:
        share = None if memory is None else memory // max(1, processes)
        tasks = {i: _Task(rows[i], codec, levels, 1, share, overwrite) for i in todo}
        with _processes(executor, processes) as pool:
            results |= _spread(pool, tasks, total, progress, cancel)
    cancel.check()
    return BatchReport(tuple(results[i] for i in range(len(rows))), time.monotonic() - begun)


class _Shifted:
    """Places the events of one row among those of all rows."""

    def __init__(self, progress: ProgressCallback, before: int, total: int) -> None:
        self._progress, self._before, self._total = progress, before, total

    def __call__(self, event: Progress) -> None:
        if event.stage == "pack":
            event = replace(event, done=self._before + event.done, total=self._total)
        self._progress(event)


@contextmanager
def _processes(executor: Executor | None, count: int) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    # never fork: this process may have threads that hold locks
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def _spread(
    pool: Executor, tasks: dict[int, _Task], total: int, progress: ProgressCallback, cancel: CancelToken
) -> dict[int, BatchRow]:
    """Run tasks elsewhere; cancel and progress travel through files in a common folder."""
    results: dict[int, BatchRow] = {}
    folder = Path(tempfile.mkdtemp(prefix=".decant-", dir=_common_folder(tasks)))
    token = CancelToken(folder / "cancel")
    pending: dict[Future[BatchRow], int] = {}
    try:
        for i, task in tasks.items():
            pending[pool.submit(_run, task, FileProgress(folder / str(i)), token)] = i
        while pending:
            finished, _ = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            if cancel.cancelled and not token.cancelled:
                token.cancel()
                for future in pending:
                    future.cancel()
            for future in finished:
                i = pending.pop(future)
                results[i] = _result(future, tasks[i].row)
                (folder / str(i)).unlink(missing_ok=True)
            _report_all(folder, tasks, results, total, progress)
    except BaseException:
        token.cancel()
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _common_folder(tasks: dict[int, _Task]) -> Path:
    """A folder that every worker sees: the archives' own."""
    folder = Path(os.path.commonpath([task.row.target.absolute().parent for task in tasks.values()]))
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _result(future: Future[BatchRow], row: PlanRow) -> BatchRow:
    if future.cancelled():
        return _failed(row, Cancelled("cancelled before it was begun"))
    error = future.exception()
    if error is None:
        return future.result()
    return _failed(row, StorageError(f"{row.source}: the worker process ended ({error}); pack it again"))


def _report_all(
    folder: Path,
    tasks: dict[int, _Task],
    results: dict[int, BatchRow],
    total: int,
    progress: ProgressCallback,
) -> None:
    done = 0
    item = ""
    for i, task in tasks.items():
        if i in results:
            done += task.row.original_size
            continue
        event = read_progress(folder / str(i))
        if event is not None:
            item = event.item
            done += event.done if event.stage == "pack" else task.row.original_size
    progress(Progress("pack", min(done, total), total, item))


def _run(task: _Task, progress: ProgressCallback, cancel: CancelToken) -> BatchRow:
    """Pack one row; runs anywhere. Faults become the row's state."""
    row = task.row
    try:
        if row.series is not None:
            report = pack_series(
                row.series, row.target, codec=task.codec, levels=task.levels, workers=task.workers,
                memory=task.memory, overwrite=task.overwrite, progress=progress, cancel=cancel,
            )  # fmt: skip
        else:
            report = pack(
                row.source, row.target.parent, codec=task.codec, levels=task.levels, workers=task.workers,
                memory=task.memory, overwrite=task.overwrite, progress=progress, cancel=cancel,
            )  # fmt: skip
        with Archive(report.archive) as archive:
            files = _files(archive.manifest)
    except DecantError as error:
        return _failed(row, error)
    except MemoryError:
        return _failed(row, StorageError(f"{row.source}: out of memory; use fewer workers or a memory limit"))
    return BatchRow(
        row.source, report.archive, "packed", report.mode, report.reason, "", 0, report.original_size,
        report.archive_size, files, row.relative, row.mtime_ns, report.notes,
    )  # fmt: skip


def _failed(row: PlanRow, error: DecantError) -> BatchRow:
    state = "cancelled" if isinstance(error, Cancelled) else "failed"
    return BatchRow(
        row.source, row.target, state, row.mode, None, str(error), error.exit_code, row.original_size,
        relative=row.relative,
    )  # fmt: skip


def _files(manifest: Manifest) -> tuple[tuple[str, str, int], ...]:
    if manifest.mode != "series":
        return ((manifest.original_name, manifest.original_sha256, manifest.original_size),)
    return tuple((m.relpath, m.original_sha256, m.original_size) for m in manifest.members)


def _settle(row: PlanRow, overwrite: bool) -> BatchRow | None:
    """What needs no work: rows that failed in planning, and archives that are there already."""
    if row.mode == "failed":
        return BatchRow(
            row.source,
            row.target,
            "failed",
            "failed",
            None,
            row.reason or "",
            row.exit_code,
            relative=row.relative,
        )
    if overwrite or not os.path.lexists(row.target):
        return None
    try:
        with Archive(row.target) as archive:
            files = _files(archive.manifest)
            same = _same_source(row, archive)
    except DecantError as error:
        return _failed(row, TargetExists(f"{row.target} exists and is no whole archive ({error}); remove it"))
    if not same:
        return _failed(
            row,
            TargetExists(f"{row.target} exists already, of another state of {row.source.name}; remove it"),
        )
    size = row.target.stat().st_size
    return BatchRow(
        row.source, row.target, "skipped", archive.manifest.mode, None, "", 0, row.original_size, size, files,
        row.relative, row.mtime_ns,
    )  # fmt: skip


def _same_source(row: PlanRow, archive: Archive) -> bool:
    """Whether an archive was made of the very file, or files, that lie there now."""
    if row.series is None:
        size = archive.manifest.original_size
        return size == row.original_size and archive.facts.get("mtime_ns") == row.mtime_ns
    members, facts = archive.manifest.members, archive.facts.get("members", [])
    if len(members) != len(row.series.members) or len(facts) != len(members):
        return False
    return all(
        planned.relpath == member.relpath
        and planned.layout.size == member.original_size
        and fact.get("mtime_ns") == planned.path.stat().st_mtime_ns
        for planned, member, fact in zip(row.series.members, members, facts, strict=True)
    )


def restore_folder(relative: str, *, series: bool, alone: bool) -> PurePosixPath:
    """Folder, below the one restored into, for the files of an archive that lies at ``relative``.

    The tree is kept. A series gets a folder of its own name, unless it is restored alone.
    """
    path = PurePosixPath(relative)
    return path if series and not alone else path.parent


def write_reports(report: BatchReport, folder: Path) -> tuple[Path, Path]:
    """Write ``report.json`` and ``SHA256SUMS`` into a folder, replacing older ones.

    ``sha256sum -c SHA256SUMS`` accepts the originals once the archives are restored into one
    folder with the tree they came from.

    Returns
    -------
    (Path, Path)
        The two files.
    """
    lines = []
    alone = len(report.rows) == 1
    for row in report.rows:
        if row.state not in ("packed", "skipped"):
            continue
        folder_of_row = restore_folder(row.relative, series=row.mode == "series", alone=alone)
        for name, digest, _ in row.files:
            path = (folder_of_row / name).as_posix()
            if "\\" in path or "\n" in path:  # as sha256sum itself writes such names
                lines.append(f"\\{digest}  " + path.replace("\\", "\\\\").replace("\n", "\\n"))
            else:
                lines.append(f"{digest}  {path}")
    outputs = (folder / "report.json", folder / "SHA256SUMS")
    texts = (json.dumps(report.to_json(), indent=1) + "\n", "".join(line + "\n" for line in lines))
    for target, text in zip(outputs, texts, strict=True):
        with AtomicFile(target, overwrite=True) as output:
            output.file.write(text.encode("utf-8", "surrogateescape"))
            output.commit()
    return outputs
