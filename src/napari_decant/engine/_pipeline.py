"""Samples in, batches out: planned, read and decoded ahead of the one who takes them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from time import monotonic, perf_counter
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._batch import Batch
from napari_decant.engine._convert import check_conversion
from napari_decant.engine._executor import Executor
from napari_decant.engine._limits import BatchSpec, QueueLimits
from napari_decant.engine._memory import shaped
from napari_decant.engine._plan import Plan
from napari_decant.engine._planner import ChunkPlanner, Resolution
from napari_decant.engine._run import Run
from napari_decant.engine._stats import Stats
from napari_decant.errors import BudgetExceeded, Cancelled, DecantError, UsageError
from napari_decant.progress import CancelToken

__all__ = ["Pipeline"]

_POLL: Final = 0.05
_RUNNING: Final = 2
_TOGETHER: Final = 32  # samples planned as one, if so many wait


class _Job:
    """One batch on its way."""

    def __init__(self, samples: list[Resolution]) -> None:
        self.samples = samples
        self.errors: tuple[Exception | None, ...] = (None,) * len(samples)
        self.buffer: list[NDArray[np.uint8]] = []
        self.promised = 0
        self.done = False
        self.single = False  # whether it is planned by itself
        self.blocked = 0  # memory it waits for


class Pipeline:
    """Turns resolved queries into batches, several in flight.

    Parameters
    ----------
    planner : ChunkPlanner
    executor : CpuExecutor or CudaExecutor
        Its threads and memory limit may serve several pipelines.
    output : BatchSpec
        Samples, shape and element type of every batch.
    queues : QueueLimits, optional
    cancel : CancelToken, optional
        Asked while waiting.

    Examples
    --------
    >>> with Pipeline(planner, executor, output) as pipeline:  # doctest: +SKIP
    ...     for batch in pipeline.map(resolved):
    ...         with batch:
    ...             train(np.from_dlpack(batch))
    """

    def __init__(
        self,
        planner: ChunkPlanner,
        executor: Executor,
        output: BatchSpec,
        queues: QueueLimits | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self.planner, self.executor, self.output = planner, executor, output
        self.queues = queues if queues is not None else QueueLimits()
        if self.queues.lookahead_samples < output.samples:
            raise BudgetExceeded(
                "lookahead_samples", output.samples, self.queues.lookahead_samples, "one batch"
            )
        executor.memory.check(output.nbytes + 1, "one batch")
        self._token = cancel
        self._changed = threading.Condition()
        self._waiting: deque[Resolution] = deque()
        self._jobs: deque[_Job] = deque()
        self._queued: deque[_Job] = deque()
        self._runs: set[Run] = set()
        self._running = 0
        self._lent = 0
        self._stats = Stats()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cancelled = False

    def push(self, samples: Sequence[Resolution], timeout: float | None = None) -> int:
        """Accept samples in order.

        Parameters
        ----------
        samples : sequence of SpatialResolution or IndexResolution
        timeout : float, optional
            Seconds to wait for room; without it only what fits now is accepted.

        Returns
        -------
        int
            How many were accepted; push the rest again after a `pop`. `map` does that by itself.

        Raises
        ------
        UsageError
            A sample has another shape than the batch; none is accepted then.
        Cancelled
            The pipeline was cancelled.
        """
        for sample in samples:
            if tuple(sample.shape) != self.output.shape:
                raise UsageError(
                    f"a sample has the shape {sample.shape}; the batch asks for {self.output.shape}"
                )
        deadline = None if timeout is None else monotonic() + timeout
        accepted = 0
        with self._changed:
            while accepted < len(samples):
                self._check()
                room = self.queues.lookahead_samples - self._ahead()
                if room > 0:
                    self._waiting.extend(samples[accepted : accepted + room])
                    accepted = min(len(samples), accepted + room)
                    self._form(flush=False)
                elif deadline is None or monotonic() >= deadline:
                    break
                else:
                    self._changed.wait(min(_POLL, max(0.0, deadline - monotonic())))
        return accepted

    def flush(self) -> None:
        """Make a batch of the samples that do not fill one; it has fewer samples."""
        with self._changed:
            self._check()
            self._form(flush=True)

    def pop(self, timeout: float | None = None) -> Batch:
        """Return the next batch, waiting for it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait, also for a batch that has not been pushed yet.

        Raises
        ------
        UsageError
            No batch is on its way and no timeout was given.
        TimeoutError
            The time is over.
        BudgetExceeded
            The batch waits for memory that batches hold which were popped and not released.
        Cancelled
            The pipeline was cancelled.
        """
        deadline = None if timeout is None else monotonic() + timeout
        with self._changed:
            while True:
                self._check()
                if not self._jobs and deadline is None:
                    rest = (
                        f" ({len(self._waiting)} samples do not fill one; call flush)"
                        if self._waiting
                        else ""
                    )
                    raise UsageError(f"no batch is on its way{rest}")
                if self._jobs and self._jobs[0].done:
                    return self._lend(self._jobs.popleft())
                if self._jobs and self._lent and not self._running:
                    need = self.executor.memory.used + self._jobs[0].blocked
                    if self._jobs[0].blocked and need > self.executor.memory.limit:
                        held = f"another batch while {self._lent} popped ones are not released"
                        raise BudgetExceeded(
                            self.executor.memory.knob, need, self.executor.memory.limit, held
                        )
                if deadline is not None and monotonic() >= deadline:
                    raise TimeoutError("no batch was finished in time")
                left = _POLL if deadline is None else min(_POLL, max(0.0, deadline - monotonic()))
                self._changed.wait(left)

    def map(self, samples: Iterable[Resolution]) -> Iterator[Batch]:
        """Yield the batches of any number of samples, the last one perhaps smaller.

        Each batch is the caller's to release.
        """
        rest = iter(samples)
        held: list[Resolution] = []
        ended = False
        while True:
            while not ended and self._wants_more():
                if not held:
                    # many at once, for what waits together is planned together
                    held = list(islice(rest, self.queues.lookahead_samples))
                    ended = not held
                accepted = self.push(held)
                held = held[accepted:]
                if held:
                    break
            if ended:
                self.flush()
            if not self._jobs:
                return
            yield self.pop()

    def stats(self) -> Stats:
        """Return counts and times of everything handed out and in flight so far."""
        total = Stats()
        with self._changed:
            total.add(self._stats)
        return total

    def cancel(self) -> None:
        """Stop all work at its next chunk; whoever waits gets `Cancelled`."""
        with self._changed:
            self._cancelled = True
            for run in self._runs:
                run.cancel()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, wait for running work, and give memory back."""
        self.cancel()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._running:
                self._changed.wait()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._changed:
            while self._jobs:
                self._give_back(self._jobs.popleft())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise UsageError("the pipeline is closed")
        if self._token is not None and self._token.cancelled and not self._cancelled:
            self._cancelled = True
            for run in self._runs:
                run.cancel()
        if self._cancelled:
            raise Cancelled("the pipeline was cancelled")

    def _wants_more(self) -> bool:
        """Whether half of the queue is free: what is pushed together is planned together."""
        with self._changed:
            room = self.queues.lookahead_samples - self._ahead()
            return not self._jobs or 2 * room >= self.queues.lookahead_samples

    def _ahead(self) -> int:
        return len(self._waiting) + sum(len(job.samples) for job in self._jobs)

    def _form(self, flush: bool) -> None:
        """Group waiting samples into batches; called with the lock."""
        size = self.output.samples
        while len(self._waiting) >= size or (flush and self._waiting):
            job = _Job([self._waiting.popleft() for _ in range(min(size, len(self._waiting)))])
            self._jobs.append(job)
            self._queued.append(job)
        if self._queued and self._thread is None:
            self._thread = threading.Thread(target=self._coordinate, name="pipeline", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _coordinate(self) -> None:
        """Plan and start batches in order, those that wait together as one."""
        while True:
            with self._changed:
                while not self._closed and (not self._queued or self._running >= _RUNNING):
                    self._changed.wait()
                if self._closed:
                    return
                jobs = self._gather()
                self._running += 1
            try:
                if self._cancelled:
                    raise Cancelled("the pipeline was cancelled")
                began = perf_counter()
                plan = self._plan([sample for job in jobs for sample in job.samples])
                took = perf_counter() - began
                with self._changed:
                    self._stats.plan_seconds += took
                self._begin(jobs, plan)
            except Exception as error:  # noqa: BLE001 - it belongs to the batches' samples, not to this thread
                if isinstance(error, BudgetExceeded) and len(jobs) > 1:
                    self._part(jobs)  # each may fit by itself
                else:
                    for job in jobs:
                        self._end(job, [error] * len(job.samples))
                self._stopped()

    def _part(self, jobs: list[_Job]) -> None:
        """Put batches back, to be planned one by one."""
        with self._changed:
            for job in reversed(jobs):
                job.single = True
                self._queued.appendleft(job)

    def _gather(self) -> list[_Job]:
        """Take the next batch with those that wait behind it and fit: they share chunks then.

        Never more than half of the queue, so that one half is planned while the other one is decoded.
        """
        jobs = [self._queued.popleft()]
        size = self.output.nbytes
        most = min(_TOGETHER, self.queues.lookahead_samples // 2)
        room = (self.executor.memory.limit - self.executor.memory.used) // 2
        while self._queued and sum(len(job.samples) for job in jobs) < most:
            if jobs[0].single or self._queued[0].single or (len(jobs) + 1) * size > room:
                break
            jobs.append(self._queued.popleft())
        return jobs

    def _plan(self, samples: list[Resolution]) -> Plan:
        try:
            return self.planner.plan(samples, keep_errors=True)
        except BudgetExceeded:
            if len(samples) == 1:
                raise
        # one sample may be too large by itself: the others should not suffer for it
        errors: list[Exception | None] = []
        for sample in samples:
            try:
                self.planner.plan([sample], keep_errors=True)
                errors.append(None)
            except BudgetExceeded as error:
                errors.append(error)
        return self.planner.plan(samples, keep_errors=True, failed=errors)

    def _begin(self, jobs: list[_Job], plan: Plan) -> None:
        errors = list(plan.errors)
        for number, output in enumerate(plan.outputs):
            if output is not None and errors[number] is None:
                try:
                    check_conversion(plan.arrays[output.array].meta.native_dtype, self.output.dtype)
                except DecantError as error:
                    errors[number] = error
        size = self.output.nbytes
        targets = [None if error is not None else self.output.dtype for error in errors]
        memory = self.executor.memory
        # what others hold may be lent for long: a smaller working set that fits now beats a wait for it
        room = max(memory.limit - memory.used, memory.limit // 2) - size * len(jobs)
        working, held = self.executor.working_bytes(plan, targets, room)
        self._promise(jobs, size * len(jobs) + working)
        groups: list[int] = []
        outputs: list[NDArray[Any] | None] = []
        for number, job in enumerate(jobs):
            job.promised = size
            job.buffer = [self.executor.buffers.take(size)]
            array = shaped(job.buffer[0], (self.output.samples, *self.output.shape), self.output.dtype)
            for at in range(len(job.samples)):
                outputs.append(array[at] if errors[len(groups)] is None else None)
                groups.append(number)

        def group_done(run: Run, group: int) -> None:
            for uri, key in run.stale.copy():
                self.planner.metadata.cache.forget(uri, key)
            mine = [i for i, other in enumerate(groups) if other == group]
            self._end(jobs[group], [run.errors[i] or errors[i] for i in mine])

        def done(run: Run) -> None:
            self.executor.memory.give(working)
            self._stopped(run.stats)

        run = self.executor.prepare(plan, outputs, held, done, groups, group_done)
        with self._changed:
            self._runs.add(run)
            if self._cancelled:
                run.cancel()
        run.start()

    def _promise(self, jobs: list[_Job], need: int) -> None:
        """Promise memory, waiting until others give some back."""
        while not self.executor.memory.take(need, "a batch with what it takes to make it", wait=False):
            with self._changed:
                self._running -= 1  # it is not running while it waits
                jobs[0].blocked = need
                self._changed.notify_all()
                self._changed.wait(_POLL)
                self._running += 1
                jobs[0].blocked = 0
                if self._closed or self._cancelled:
                    raise Cancelled("the pipeline was cancelled")

    def _end(self, job: _Job, errors: Sequence[Exception | None]) -> None:
        with self._changed:
            job.errors = tuple(errors)
            job.done = True
            self._changed.notify_all()

    def _stopped(self, stats: Stats | None = None) -> None:
        with self._changed:
            self._running -= 1
            self._runs = {run for run in self._runs if not run.finished}
            if stats is not None:
                self._stats.add(stats)
            self._changed.notify_all()

    def _lend(self, job: _Job) -> Batch:
        """Hand out a finished batch; called with the lock."""
        failed = sum(error is not None for error in job.errors)
        self._stats.add(Stats(batches=1, samples=len(job.samples), failed_samples=failed))
        array: NDArray[Any] = np.empty((0,), self.output.dtype)
        if job.buffer:
            array = shaped(job.buffer[0], (len(job.samples), *self.output.shape), self.output.dtype)
            self._stats.output_bytes += array.nbytes
        self._lent += 1

        def release() -> None:
            with self._changed:
                self._lent -= 1
                self._give_back(job)
                self._changed.notify_all()

        self._changed.notify_all()
        return Batch(array, job.errors, release)

    def _give_back(self, job: _Job) -> None:
        if job.buffer:
            self.executor.buffers.give(job.buffer)
        self.executor.memory.give(job.promised)
        job.promised = 0
