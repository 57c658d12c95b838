"""Run the rows of a batch elsewhere: in processes of this machine, or in any executor."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from napari_decant.archive._batch_report import BatchRow
from napari_decant.archive._pack import pack
from napari_decant.archive._pack_series import pack_series
from napari_decant.archive._plan import PlanRow
from napari_decant.archive._reader import Archive
from napari_decant.archive._settled import failed_row, files_of, settle
from napari_decant.errors import Cancelled, DecantError, StorageError
from napari_decant.progress import (
    CancelToken,
    Claim,
    FileProgress,
    Progress,
    ProgressCallback,
    close_claims,
    read_progress,
)
from napari_decant.stores._atomic import make_folder, storage_error
from napari_decant.stores._partial import partial_path

__all__ = ["Task", "run_task", "share_done", "spread"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_LEAVE_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Task:
    """What goes to another process: plain data."""

    row: PlanRow
    codec: str
    levels: int
    workers: int | None
    memory: int | None
    overwrite: bool


def run_task(task: Task, progress: ProgressCallback, cancel: CancelToken) -> BatchRow:
    """Pack one row; runs anywhere. Faults become the row's state, so that the others go on."""
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
            files = files_of(archive)
    except DecantError as error:
        return failed_row(row, error)
    except OSError as error:
        return failed_row(row, storage_error("packing", row.source, error))
    except MemoryError:
        return failed_row(
            row, StorageError(f"{row.source}: out of memory; use fewer workers or a memory limit")
        )
    except Exception as error:
        logger.exception("packing %s failed", row.source)
        return failed_row(
            row, DecantError(f"{row.source}: unexpected {type(error).__name__}: {error}; please report it")
        )
    return BatchRow(
        row.source, report.archive, "packed", report.mode, report.reason, "", 0, report.original_size,
        report.archive_size, files, row.relative, row.mtime_ns, report.notes,
    )  # fmt: skip


def _run_claimed(task: Task, claim: Claim, progress: FileProgress, cancel: CancelToken) -> BatchRow:
    again = claim.begun
    try:
        begun = claim.begin()  # should this process die now, it is known over which row
    except OSError as error:
        return failed_row(task.row, storage_error("writing", claim.path, error))
    if not begun:
        return failed_row(task.row, Cancelled("cancelled before it was begun"))
    if again and not task.overwrite:  # its archive may have been finished, and only the answer was lost
        settled = settle(task.row, overwrite=False)
        if settled is not None and settled.state == "skipped":
            return replace(settled, state="packed")
    return run_task(task, progress, cancel)


def share_done(event: Progress | None) -> float:
    """How much of a row an event says is done: packing is one half of it, proving the other."""
    if event is None or event.stage not in ("pack", "verify"):
        return 0.0
    part = min(1.0, event.done / event.total) if event.total else 1.0
    return 0.5 * part if event.stage == "pack" else 0.5 + 0.5 * part


def spread(
    tasks: Mapping[int, Task],
    total: int,
    *,
    executor: Executor | None,
    processes: int,
    progress: ProgressCallback,
    cancel: CancelToken,
) -> dict[int, BatchRow]:
    """Run tasks in an executor, by default in as many processes of this machine.

    A process of ours that dies takes the others with it: those rows that were begun then run
    again, each in a process of its own, and the rest in fresh ones. So only the row that is the
    cause fails.
    """
    results: dict[int, BatchRow] = {}
    first = next(iter(tasks.values()))
    # Cancel and progress travel through files in a folder that every worker sees: an archive's own.
    beside = Path(os.path.abspath(first.row.target)).with_name("batch")
    folder = partial_path(beside)
    make_folder(folder)
    watch = _Watch(folder, tasks, results, total, progress, cancel)
    try:
        if executor is not None:
            watch.run(executor, tasks)
            return results
        left = dict(tasks)
        while left:
            with _processes(min(processes, len(left))) as pool:
                broken = watch.run(pool, left)
            if cancel.cancelled:
                results |= {i: failed_row(left[i].row, Cancelled("cancelled")) for i in broken}
                return results
            begun = {i: left[i] for i in broken if watch.claim(i).begun}
            for i, task in (begun or {i: left[i] for i in broken[:1]}).items():
                with _processes(1) as pool:
                    if watch.run(pool, {i: task}):
                        results[i] = _lost(task.row)
            left = {i: task for i, task in left.items() if i not in results}
    except BaseException:
        watch.token.cancel()
        raise
    finally:
        close_claims(folder, partial_path(beside))
    return results


class _Watch:
    """Hands tasks out, collects results, and passes cancel and progress on."""

    def __init__(
        self,
        folder: Path,
        tasks: Mapping[int, Task],
        results: dict[int, BatchRow],
        total: int,
        progress: ProgressCallback,
        cancel: CancelToken,
    ) -> None:
        self._folder, self._tasks, self._results = folder, tasks, results
        self._total, self._progress, self._cancel = total, progress, cancel
        self._most = 0
        self.token = CancelToken(folder / "cancel")

    def run(self, pool: Executor, tasks: Mapping[int, Task]) -> list[int]:
        """Run tasks; returns those that were lost with a process of the pool."""
        pending: dict[Future[BatchRow], int] = {}
        broken: list[int] = []
        with _without_ctrl_c():  # the first one starts the processes
            for i, task in tasks.items():
                try:
                    told = FileProgress(self._folder / str(i))
                    future = pool.submit(_run_claimed, task, self.claim(i), told, self.token)
                except BrokenExecutor:  # it broke while tasks were still being handed out
                    broken.append(i)
                    continue
                pending[future] = i
        while pending:
            finished, _ = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            if self._cancel.cancelled and not self.token.cancelled:
                self.token.cancel()
                finished |= {
                    future for future, i in pending.items() if self.claim(i).take_back() and future.cancel()
                }
            for future in finished:
                i = pending.pop(future)
                row = self._result(future, tasks[i].row)
                if row is None:
                    broken.append(i)
                    continue
                self._results[i] = row
            self._report()
        return broken

    def claim(self, i: int) -> Claim:
        """Of a task."""
        return Claim(self._folder / f"{i}.claim")

    def _result(self, future: Future[BatchRow], row: PlanRow) -> BatchRow | None:
        """The row of a finished future; None if a process of ours died under it."""
        error = None if future.cancelled() else future.exception()
        if not future.cancelled() and error is None:
            return future.result()
        if self._cancel.cancelled:
            return failed_row(row, Cancelled("cancelled before it was finished"))
        if isinstance(error, BrokenExecutor):
            return None
        if isinstance(error, DecantError):
            return failed_row(row, error)
        why = "" if error is None else f" ({error})"
        return failed_row(row, StorageError(f"{row.source}: its worker was lost{why}; pack it again"))

    def _report(self) -> None:
        done, item = 0.0, ""
        for i, task in self._tasks.items():
            if i in self._results:
                done += task.row.original_size
                continue
            event = read_progress(self._folder / str(i))
            if event is not None:
                item = event.item or item
                done += task.row.original_size * share_done(event)
        # a row that starts anew must not take the bar back
        self._most = max(self._most, min(int(done), self._total))
        self._progress(Progress("pack", self._most, self._total, item))


def _lost(row: PlanRow) -> BatchRow:
    return failed_row(
        row, StorageError(f"{row.source}: the process that packed it ended (out of memory?); pack it again")
    )


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    # never fork: this process may have threads that hold locks
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_follow_parent) as pool:
        yield pool


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C, which reaches all processes of a terminal, from those that are started here.

    They inherit what is blocked, and so never die of it half-way through their imports.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """In a worker: the parent alone decides about Ctrl-C, and its end is ours, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches every process of a terminal
    parent = multiprocessing.parent_process()
    if parent is not None:
        _exit_after(parent.join)
    # Last: until there is work to tidy up, the pool would only report how its start was interrupted.
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, frame: object) -> None:
    """Remove what is unfinished, then end; the pool would go on with the next row."""
    _exit_after(lambda: time.sleep(_LEAVE_SECONDS))
    sys.exit(1)


def _exit_after(wait_for: Callable[[], None]) -> None:
    def work() -> None:
        wait_for()
        os._exit(1)

    threading.Thread(target=work, daemon=True, name="decant-end").start()
