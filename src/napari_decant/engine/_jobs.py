"""Batches on their way through a pipeline, and the samples that wait to become some."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._executor import Executor
from napari_decant.engine._limits import BatchSpec
from napari_decant.engine._planner import Resolution

__all__ = ["Job", "JobQueue"]

_TOGETHER: Final = 32  # samples planned as one, if so many wait


class Job:
    """One batch on its way.

    Attributes
    ----------
    samples : list of SpatialResolution or IndexResolution
    errors : tuple of (Exception or None)
        Why each sample failed.
    buffer : list of uint8 array
        Memory of the batch; empty before it is begun and after it is given back.
    promised : int
        Bytes that it counts for.
    done, single : bool
        Whether it can be handed out, and whether it is planned by itself.
    blocked : int
        Bytes that it waits for.
    """

    def __init__(self, samples: list[Resolution]) -> None:
        self.samples = samples
        self.errors: tuple[Exception | None, ...] = (None,) * len(samples)
        self.buffer: list[NDArray[np.uint8]] = []
        self.promised = 0
        self.done = False
        self.single = False
        self.blocked = 0

    def give_back(self, executor: Executor) -> None:
        """Return memory and what was promised of it."""
        if self.buffer:
            executor.buffers.give(self.buffer)
        executor.memory.give(self.promised)
        self.promised = 0


class JobQueue:
    """Samples and batches in order; all methods are called with ``changed`` held.

    Parameters
    ----------
    output : BatchSpec
    lookahead : int
        Most samples in the queue.

    Attributes
    ----------
    changed : Condition
        Guards the queue and the state of its batches, and tells of changes.
    waiting : deque of SpatialResolution or IndexResolution
        Samples that do not fill a batch yet.
    jobs, queued : deque of Job
        Batches not handed out, and those of them not begun.
    """

    def __init__(self, output: BatchSpec, lookahead: int) -> None:
        self._output, self._lookahead = output, lookahead
        self.changed = threading.Condition()
        self.waiting: deque[Resolution] = deque()
        self.jobs: deque[Job] = deque()
        self.queued: deque[Job] = deque()

    def room(self) -> int:
        """How many more samples fit."""
        return self._lookahead - len(self.waiting) - sum(len(job.samples) for job in self.jobs)

    def form(self, flush: bool) -> None:
        """Group waiting samples into batches; with ``flush`` the last one may be smaller."""
        size = self._output.samples
        while len(self.waiting) >= size or (flush and self.waiting):
            job = Job([self.waiting.popleft() for _ in range(min(size, len(self.waiting)))])
            self.jobs.append(job)
            self.queued.append(job)

    def gather(self, memory: int) -> list[Job]:
        """Take the next batch with those that wait behind it and fit: they share chunks then.

        Never more than half of the queue, so that one half is planned while the other one is decoded,
        nor than fit into so many bytes.
        """
        jobs = [self.queued.popleft()]
        size = self._output.nbytes
        most = min(_TOGETHER, self._lookahead // 2)
        while self.queued and sum(len(job.samples) for job in jobs) < most:
            if jobs[0].single or self.queued[0].single or (len(jobs) + 1) * size > memory:
                break
            jobs.append(self.queued.popleft())
        return jobs

    def part(self, jobs: list[Job]) -> None:
        """Put batches back, to be planned one by one."""
        for job in reversed(jobs):
            job.single = True
            self.queued.appendleft(job)
