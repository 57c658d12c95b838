"""Samples in, batches out: planned, read and decoded ahead of the one who takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from time import monotonic
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._batch import Batch
from napari_decant.engine._coordinator import POLL_SECONDS, Coordinator
from napari_decant.engine._executor import Executor
from napari_decant.engine._jobs import Job, JobQueue
from napari_decant.engine._limits import BatchSpec, QueueLimits
from napari_decant.engine._memory import shaped
from napari_decant.engine._planner import ChunkPlanner, Resolution
from napari_decant.engine._stats import Stats
from napari_decant.errors import BudgetExceeded, Cancelled, UsageError
from napari_decant.progress import CancelToken

__all__ = ["Pipeline"]


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
        self._queue = JobQueue(output, self.queues.lookahead_samples)
        self._changed = self._queue.changed
        self._work = Coordinator(planner, executor, output, self._queue)
        self._lent = 0

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
                room = self._queue.room()
                if room > 0:
                    self._queue.waiting.extend(samples[accepted : accepted + room])
                    accepted = min(len(samples), accepted + room)
                    self._form(flush=False)
                elif deadline is None or monotonic() >= deadline:
                    break
                else:
                    self._changed.wait(min(POLL_SECONDS, max(0.0, deadline - monotonic())))
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
                if not self._queue.jobs and deadline is None:
                    rest = (
                        f" ({len(self._queue.waiting)} samples do not fill one; call flush)"
                        if self._queue.waiting
                        else ""
                    )
                    raise UsageError(f"no batch is on its way{rest}")
                if self._queue.jobs and self._queue.jobs[0].done:
                    return self._lend(self._queue.jobs.popleft())
                if self._queue.jobs and self._lent and not self._work.running:
                    need = self.executor.memory.used + self._queue.jobs[0].blocked
                    if self._queue.jobs[0].blocked and need > self.executor.memory.limit:
                        held = f"another batch while {self._lent} popped ones are not released"
                        raise BudgetExceeded(
                            self.executor.memory.knob, need, self.executor.memory.limit, held
                        )
                if deadline is not None and monotonic() >= deadline:
                    raise TimeoutError("no batch was finished in time")
                left = (
                    POLL_SECONDS if deadline is None else min(POLL_SECONDS, max(0.0, deadline - monotonic()))
                )
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
            if not self._queue.jobs:
                return
            yield self.pop()

    def stats(self) -> Stats:
        """Return counts and times of everything handed out and in flight so far."""
        total = Stats()
        with self._changed:
            total.add(self._work.stats)
        return total

    def cancel(self) -> None:
        """Stop all work at its next chunk; whoever waits gets `Cancelled`."""
        with self._changed:
            self._work.cancel()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, wait for running work, and give memory back."""
        self.cancel()
        self._work.close()
        with self._changed:
            while self._queue.jobs:
                self._queue.jobs.popleft().give_back(self.executor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._work.closed:
            raise UsageError("the pipeline is closed")
        if self._token is not None and self._token.cancelled and not self._work.cancelled:
            self._work.cancel()
        if self._work.cancelled:
            raise Cancelled("the pipeline was cancelled")

    def _wants_more(self) -> bool:
        """Whether half of the queue is free: what is pushed together is planned together."""
        with self._changed:
            room = self._queue.room()
            return not self._queue.jobs or 2 * room >= self.queues.lookahead_samples

    def _form(self, flush: bool) -> None:
        """Group waiting samples into batches and see that they are made; called with the lock."""
        self._queue.form(flush)
        self._work.start()
        self._changed.notify_all()

    def _lend(self, job: Job) -> Batch:
        """Hand out a finished batch; called with the lock."""
        failed = sum(error is not None for error in job.errors)
        self._work.stats.add(Stats(batches=1, samples=len(job.samples), failed_samples=failed))
        array: NDArray[Any] = np.empty((0,), self.output.dtype)
        if job.buffer:
            array = shaped(job.buffer[0], (len(job.samples), *self.output.shape), self.output.dtype)
            self._work.stats.output_bytes += array.nbytes
        self._lent += 1

        def release() -> None:
            with self._changed:
                self._lent -= 1
                job.give_back(self.executor)
                self._changed.notify_all()

        self._changed.notify_all()
        return Batch(array, job.errors, release)
