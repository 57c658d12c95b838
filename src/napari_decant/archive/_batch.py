"""Pack many files and series: spread over an executor, keep going, resume."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor

from napari_decant.archive._batch_report import BatchReport, BatchRow
from napari_decant.archive._codec import parse_codec
from napari_decant.archive._levels import plan_levels
from napari_decant.archive._plan import PlanRow
from napari_decant.archive._reader import Archive
from napari_decant.archive._spread import Task, failed_row, files_of, run_task, share_done, spread
from napari_decant.archive._workers import available_cores, choose_workers
from napari_decant.errors import Cancelled, DecantError, TargetExists
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress

__all__ = ["pack_batch"]

# A process takes a second or two to start: less work than this is done in this one, with threads.
_SPREAD_BYTES = 256 << 20
_SPREAD_ROWS = 100


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
    UsageError
        An option is wrong.
    Cancelled
        ``cancel`` was used; finished archives stay.
    """
    parse_codec(codec)
    plan_levels((1, 1), levels)
    choose_workers(0, workers, memory)
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
    cores = workers or available_cores()
    processes = min(len(todo), cores)
    little = total < _SPREAD_BYTES and len(todo) < _SPREAD_ROWS
    if executor is None and (processes < 2 or little):
        done = 0
        for i in todo:
            if cancel.cancelled:
                break
            task = Task(rows[i], codec, levels, workers, memory, overwrite)
            tell = progress if len(todo) == 1 else _Among(progress, rows[i].original_size, done, total)
            results[i] = run_task(task, tell, cancel)
            done += rows[i].original_size
    elif todo:
        threads = 1 if executor is not None else max(1, cores // processes)
        share = None if memory is None else memory // max(1, processes)
        tasks = {i: Task(rows[i], codec, levels, threads, share, overwrite) for i in todo}
        results |= spread(
            tasks, total, executor=executor, processes=processes, progress=progress, cancel=cancel
        )
    if cancel.cancelled:
        packed = sum(row.state == "packed" for row in results.values())
        stay = f"; {packed:,} finished archives stay, run it again to go on" if packed else ""
        raise Cancelled(f"cancelled, nothing unfinished was left behind{stay}")
    return BatchReport(tuple(results[i] for i in range(len(rows))), time.monotonic() - begun)


class _Among:
    """Places the events of one row among those of all rows; nothing ever goes backwards."""

    def __init__(self, progress: ProgressCallback, size: int, before: int, total: int) -> None:
        self._progress, self._size, self._before, self._total = progress, size, before, total
        self._most = 0

    def __call__(self, event: Progress) -> None:
        self._most = max(self._most, int(self._size * share_done(event)))
        self._progress(Progress("pack", self._before + self._most, self._total, event.item))


def _settle(row: PlanRow, overwrite: bool) -> BatchRow | None:
    """What needs no work: rows that failed in planning, and archives that are there already."""
    if row.mode == "failed":
        return BatchRow(
            row.source, row.target, "failed", "failed", None, row.reason or "", row.exit_code,
            relative=row.relative,
        )  # fmt: skip
    if overwrite or not os.path.lexists(row.target):
        return None
    try:
        with Archive(row.target) as archive:
            files = files_of(archive)
            same = _same_source(row, archive)
            mode, reason = archive.manifest.mode, archive.facts.get("reason")
    except DecantError as error:
        return failed_row(
            row, TargetExists(f"{row.target} exists and is no whole archive ({error}); remove it")
        )
    if not same:
        why = f"{row.target} exists already, of another state of {row.source.name}; remove it"
        return failed_row(row, TargetExists(why))
    size = row.target.stat().st_size if row.target.is_file() else _size_below(row.target)
    return BatchRow(
        row.source, row.target, "skipped", mode, reason if isinstance(reason, str) else None, "", 0,
        row.original_size, size, files, row.relative, row.mtime_ns,
    )  # fmt: skip


def _size_below(folder: os.PathLike[str]) -> int:
    return sum(
        os.lstat(os.path.join(root, name)).st_size for root, _, names in os.walk(folder) for name in names
    )


def _same_source(row: PlanRow, archive: Archive) -> bool:
    """Whether an archive was made of the very file, or files, that lie there now."""
    if row.series is None:
        size, name = archive.manifest.original_size, archive.manifest.original_name
        found = (size, archive.real_names()[name], archive.facts.get("mtime_ns"))
        return found == (row.original_size, row.source.name, row.mtime_ns)
    members = archive.manifest.members
    if len(members) != len(row.series.members):
        return False
    try:
        return all(
            planned.relpath == member.relpath
            and planned.layout.size == member.original_size
            and archive.kept.get(member.relpath, {}).get("mtime_ns") == planned.path.stat().st_mtime_ns
            for planned, member in zip(row.series.members, members, strict=True)
        )
    except OSError:  # a file went away since it was looked at
        return False
