"""Run jobs: a few threads, each with a worker process, and queues in front of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from napari_decant.gui.jobs._model import Failure, Job, JobList, JobState, Task
from napari_decant.gui.jobs._process import Worker, WorkerProcess
from napari_decant.progress import Progress

__all__ = ["JobRunner"]

_STOPPED = Failure("cancelled; nothing was left behind", cancelled=True, kind="Cancelled")


class JobRunner:
    """Runs the jobs of a list.

    There are two lanes, so that looking at what was just dropped never waits for hours of packing.

    Parameters
    ----------
    jobs : JobList
        Where they are kept.
    slots : int
        How many of the long jobs run at the same time.
    worker : callable
        Makes a `Worker`.
    """

    LOOK, WORK = "look", "work"

    def __init__(
        self, jobs: JobList, *, slots: int = 2, worker: Callable[[], Worker] = WorkerProcess
    ) -> None:
        self.jobs = jobs
        self._make = worker
        self._waiting: dict[str, deque[Job]] = {self.LOOK: deque(), self.WORK: deque()}
        self._running: dict[int, Worker] = {}
        self._unwanted: dict[int, Job] = {}
        self._stopping: list[threading.Thread] = []
        self._change = threading.Condition()
        self._closing = False
        self._warm: Task | None = None
        self._lanes = [self.LOOK, *[self.WORK] * slots]
        self._threads: list[threading.Thread] = []

    def submit(self, jobs: Iterable[Job], lane: str = WORK) -> None:
        """Queue jobs; returns at once.

        Raises
        ------
        RuntimeError
            The runner was closed.
        """
        new = self.jobs.add(jobs)
        with self._change:
            if self._closing:
                raise RuntimeError("the job runner was closed")
            self._waiting[lane].extend(new)
            self._start_threads()
            self._change.notify_all()

    def warm(self, task: Task) -> None:
        """Start the lane for short jobs and run a task there that loads what the first job will need."""
        with self._change:
            self._warm = task
            self._start_threads()

    def cancel(self, jobs: Iterable[Job]) -> None:
        """Ask jobs to stop; returns at once.

        None of those that wait begins any more; those that run stop within a second or two.
        """
        unwanted = {job.id: job for job in jobs if not job.state.over}
        if not unwanted:
            return
        with self._change:
            self._unwanted.update(unwanted)
        # There may be very many, and telling of each takes a moment.
        thread = threading.Thread(
            target=self._stop, args=(list(unwanted.values()),), name="decant-cancel", daemon=True
        )
        with self._change:
            self._stopping = [each for each in self._stopping if each.is_alive()]
            self._stopping.append(thread)
            thread.start()

    def _stop(self, unwanted: Iterable[Job]) -> None:
        with self._change:
            running = dict(self._running)
        for job in sorted(unwanted, key=lambda job: job.id not in running):
            if not self.jobs.withdraw(job, _STOPPED):
                with self._change:
                    worker = self._running.get(job.id)
                if worker is not None:
                    job.note("asked to stop")
                    worker.cancel(job.id)
            with self._change:
                self._unwanted.pop(job.id, None)

    def cancel_all(self) -> None:
        """Cancel every job."""
        self.cancel(self.jobs.active)

    @property
    def busy(self) -> bool:
        """Whether long jobs wait or run."""
        return any(job.verb != "look" for job in self.jobs.active)

    def close(self) -> None:
        """Cancel everything and wait until it has stopped."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._stop(self.jobs.active)
        # Nobody may hear of a job any more once this returns: listeners are let go of next.
        for thread in [*self._stopping, *self._threads]:
            thread.join()

    def _start_threads(self) -> None:
        if self._threads:
            return
        for number, lane in enumerate(self._lanes):
            thread = threading.Thread(
                target=self._serve, args=(lane,), name=f"decant-{lane}-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _next(self, lane: str) -> Job | None:
        with self._change:
            while not self._closing:
                while self._waiting[lane]:
                    job = self._waiting[lane].popleft()
                    if job.state is JobState.QUEUED and job.id not in self._unwanted:
                        return job
                self._change.wait()
        return None

    def _serve(self, lane: str) -> None:
        worker: Worker | None = None
        if lane == self.LOOK and self._warm is not None:
            worker = self._make()
            worker.run(0, self._warm, lambda kind, content: None)
            import_module("napari_decant.archive")  # the results are of its classes
        while (job := self._next(lane)) is not None:
            if worker is not None and not worker.alive:
                worker.close()
                worker = None
            if worker is None:
                worker = self._make()
            self._run(job, worker)
        if worker is not None:
            worker.close()

    def _run(self, job: Job, worker: Worker) -> None:
        with self._change:
            self._running[job.id] = worker
        try:
            if not self.jobs.start(job):
                return
            result, failure = worker.run(job.id, job.task, lambda *event: self._hear(job, *event))
        finally:
            with self._change:
                del self._running[job.id]
        self.jobs.finish(job, result, failure)

    def _hear(self, job: Job, kind: str, content: Any) -> None:
        if kind == "progress" and isinstance(content, Progress):
            self.jobs.advance(job, content)
        elif kind == "part":
            self.jobs.part(job, content)
        elif kind == "log":
            job.note(str(content))
