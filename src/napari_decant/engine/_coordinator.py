"""The thread behind a pipeline: it plans queued batches and starts the runs that make them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

from numpy.typing import NDArray

from napari_decant.engine._convert import check_conversion
from napari_decant.engine._executor import Executor
from napari_decant.engine._jobs import Job, JobQueue
from napari_decant.engine._limits import BatchSpec
from napari_decant.engine._memory import shaped
from napari_decant.engine._plan import Plan
from napari_decant.engine._planner import ChunkPlanner, Resolution
from napari_decant.engine._run import Run
from napari_decant.engine._stats import Stats
from napari_decant.errors import BudgetExceeded, Cancelled, DecantError

__all__ = ["POLL_SECONDS", "Coordinator"]

POLL_SECONDS: Final = 0.05
_RUNNING: Final = 2


class Coordinator:
    """Makes the batches of a queue, several at once.

    Parameters
    ----------
    planner : ChunkPlanner
    executor : CpuExecutor or CudaExecutor
    output : BatchSpec
    queue : JobQueue
        Its ``changed`` guards what is below.

    Attributes
    ----------
    running : int
        Plans and runs under way that do not wait for memory.
    stats : Stats
    closed, cancelled : bool
    """

    def __init__(self, planner: ChunkPlanner, executor: Executor, output: BatchSpec, queue: JobQueue) -> None:
        self._planner, self._executor, self._output, self._queue = planner, executor, output, queue
        self._changed = queue.changed
        self.running = 0
        self.stats = Stats()
        self.closed = False
        self.cancelled = False
        self._runs: set[Run] = set()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin once there is something to do; called with the lock."""
        if self._queue.queued and self._thread is None:
            self._thread = threading.Thread(target=self._coordinate, name="pipeline", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """Stop all runs at their next chunk; called with the lock."""
        self.cancelled = True
        for run in self._runs:
            run.cancel()

    def close(self) -> None:
        """Wait for running work to end; nothing is begun any more."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            while self.running:
                self._changed.wait()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _coordinate(self) -> None:
        """Plan and start batches in order, those that wait together as one."""
        memory = self._executor.memory
        while True:
            with self._changed:
                while not self.closed and (not self._queue.queued or self.running >= _RUNNING):
                    self._changed.wait()
                if self.closed:
                    return
                jobs = self._queue.gather((memory.limit - memory.used) // 2)
                self.running += 1
            try:
                if self.cancelled:
                    raise Cancelled("the pipeline was cancelled")
                began = perf_counter()
                plan = self._plan([sample for job in jobs for sample in job.samples])
                took = perf_counter() - began
                with self._changed:
                    self.stats.plan_seconds += took
                self._begin(jobs, plan)
            except Exception as error:  # noqa: BLE001 - it belongs to the batches' samples, not to this thread
                if isinstance(error, BudgetExceeded) and len(jobs) > 1:
                    with self._changed:
                        self._queue.part(jobs)  # each may fit by itself
                else:
                    for job in jobs:
                        self._end(job, [error] * len(job.samples))
                self._stopped()

    def _plan(self, samples: list[Resolution]) -> Plan:
        try:
            return self._planner.plan(samples, keep_errors=True)
        except BudgetExceeded:
            if len(samples) == 1:
                raise
        # one sample may be too large by itself: the others should not suffer for it
        errors: list[Exception | None] = []
        for sample in samples:
            try:
                self._planner.plan([sample], keep_errors=True)
                errors.append(None)
            except BudgetExceeded as error:
                errors.append(error)
        return self._planner.plan(samples, keep_errors=True, failed=errors)

    def _begin(self, jobs: list[Job], plan: Plan) -> None:
        errors = list(plan.errors)
        for number, output in enumerate(plan.outputs):
            if output is not None and errors[number] is None:
                try:
                    check_conversion(plan.arrays[output.array].meta.native_dtype, self._output.dtype)
                except DecantError as error:
                    errors[number] = error
        size = self._output.nbytes
        targets = [None if error is not None else self._output.dtype for error in errors]
        memory = self._executor.memory
        # what others hold may be lent for long: a smaller working set that fits now beats a wait for it
        room = max(memory.limit - memory.used, memory.limit // 2) - size * len(jobs)
        working, held = self._executor.working_bytes(plan, targets, room)
        self._promise(jobs, size * len(jobs) + working)
        groups: list[int] = []
        outputs: list[NDArray[Any] | None] = []
        for number, job in enumerate(jobs):
            job.promised = size
            job.buffer = [self._executor.buffers.take(size)]
            array = shaped(job.buffer[0], (self._output.samples, *self._output.shape), self._output.dtype)
            for at in range(len(job.samples)):
                outputs.append(array[at] if errors[len(groups)] is None else None)
                groups.append(number)

        def group_done(run: Run, group: int) -> None:
            for uri, key in run.stale.copy():
                self._planner.metadata.cache.forget(uri, key)
            mine = [i for i, other in enumerate(groups) if other == group]
            self._end(jobs[group], [run.errors[i] or errors[i] for i in mine])

        def done(run: Run) -> None:
            self._executor.memory.give(working)
            self._stopped(run.stats)

        run = self._executor.prepare(plan, outputs, held, done, groups, group_done)
        with self._changed:
            self._runs.add(run)
            if self.cancelled:
                run.cancel()
        run.start()

    def _promise(self, jobs: list[Job], need: int) -> None:
        """Promise memory, waiting until others give some back."""
        while not self._executor.memory.take(need, "a batch with what it takes to make it", wait=False):
            with self._changed:
                self.running -= 1  # it is not running while it waits
                jobs[0].blocked = need
                self._changed.notify_all()
                self._changed.wait(POLL_SECONDS)
                self.running += 1
                jobs[0].blocked = 0
                if self.closed or self.cancelled:
                    raise Cancelled("the pipeline was cancelled")

    def _end(self, job: Job, errors: Sequence[Exception | None]) -> None:
        with self._changed:
            job.errors = tuple(errors)
            job.done = True
            self._changed.notify_all()

    def _stopped(self, stats: Stats | None = None) -> None:
        with self._changed:
            self.running -= 1
            self._runs = {run for run in self._runs if not run.finished}
            if stats is not None:
                self.stats.add(stats)
            self._changed.notify_all()
