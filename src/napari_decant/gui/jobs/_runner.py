"""Run jobs: a few threads, each with a worker process, and queues in front of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from napari_decant.gui.jobs._model import Failure, Job, JobList, JobState, Task
from napari_decant.gui.jobs._process import Worker, WorkerProcess
from napari_decant.gui.jobs._worker import failure_of
from napari_decant.progress import Progress

__all__ = ["JobRunner"]

_STOPPED = Failure("cancelled; nothing was left behind", cancelled=True, kind="Cancelled")
_PATIENCE = 1.2  # seconds for stopping by themselves
_HARMLESS = ("check",)  # jobs that write nothing, whose process may be ended at any moment


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
        self._put_down: set[int] = set()
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
        """Start all workers, and run a task for the short jobs that loads what the first will need."""
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
                    if job.verb in _HARMLESS:
                        timer = threading.Timer(_PATIENCE, self._insist, (job, worker))
                        timer.daemon = True
                        timer.start()
            with self._change:
                self._unwanted.pop(job.id, None)

    def abandon(self, jobs: Iterable[Job]) -> None:
        """Cancel jobs that nobody will ask about any more."""
        given = list(jobs)
        self.jobs.disown(given)
        self.cancel(given)

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
        if self._warm is not None:
            # Starting a process holds Python's lock until the system has got it going, which takes long
            # once the machine is busy: so all are started before there is anything to do.
            worker, _ = self._worker(None)
            if lane == self.LOOK and worker is not None:
                worker.run(0, self._warm, lambda kind, content: None)
                import_module("napari_decant.archive")  # the results are of its classes
        while (job := self._next(lane)) is not None:
            worker, failure = self._worker(worker)
            if worker is None:
                self.jobs.finish(job, failure=failure)
            else:
                self._run(job, worker)
        if worker is not None:
            worker.close()

    def _worker(self, worker: Worker | None) -> tuple[Worker | None, Failure | None]:
        """The worker, or a new one if it is gone; None and the reason if the system gives none."""
        if worker is not None:
            if worker.alive:
                return worker, None
            worker.close()
        try:
            return self._make(), None
        except OSError as error:
            return None, failure_of(error)

    def _run(self, job: Job, worker: Worker) -> None:
        with self._change:
            self._running[job.id] = worker
        try:
            if not self.jobs.start(job):
                return
            result, failure = worker.run(job.id, job.task, lambda *event: self._hear(job, *event))
        except Exception as error:  # noqa: BLE001 - one job's, and the lane goes on with the next
            result, failure = None, failure_of(error)
        finally:
            with self._change:
                del self._running[job.id]
                put_down = job.id in self._put_down
                self._put_down.discard(job.id)
        self.jobs.finish(job, result, _STOPPED if put_down and failure is not None else failure)

    def _insist(self, job: Job, worker: Worker) -> None:
        """End the process of a job that does not stop, such as one that waits for a server."""
        with self._change:
            if self._running.get(job.id) is not worker:
                return
            self._put_down.add(job.id)
            worker.kill()

    def _hear(self, job: Job, kind: str, content: Any) -> None:
        if kind == "progress" and isinstance(content, Progress):
            self.jobs.advance(job, content)
        elif kind == "part":
            self.jobs.part(job, content)
        elif kind == "log":
            job.note(str(content))
