"""Pack many files and series: spread over an executor, keep going, resume."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor

from napari_decant.archive._batch_report import BatchReport, BatchRow
from napari_decant.archive._codec import parse_codec
from napari_decant.archive._levels import plan_levels
from napari_decant.archive._plan import PlanRow
from napari_decant.archive._settled import settle
from napari_decant.archive._spread import Task, run_task, share_done, spread
from napari_decant.archive._workers import available_cores, choose_workers
from napari_decant.errors import Cancelled
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
        settled = settle(row, overwrite=overwrite)
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
