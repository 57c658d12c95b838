"""What runs, what waits and how it went: plain data with psygnal signals, and no window in it."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any

from psygnal import Signal

from napari_decant.progress import Progress

__all__ = ["Failure", "Job", "JobList", "JobState", "Task"]

_TASKS = "napari_decant.gui.jobs._tasks"
_LOG_LINES = 200
_ids = itertools.count(1)

# How much of a job each of its stages is; packing reads everything once more before it is done.
_STAGES = {"pack": {"pack": 0.8, "verify": 0.2}}
_NEARLY = 0.995  # only the result makes a job whole


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Task:
    """Work that a worker process can do.

    Attributes
    ----------
    function : str
        ``"module:name"`` of ``function(context, **arguments)``, or the name of one of ours.
    arguments : dict
        Plain data.
    """

    function: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def resolve(self) -> Callable[..., Any]:
        """Import the function; a window never does, since what it needs is heavy."""
        module, _, name = self.function.rpartition(":")
        found: Callable[..., Any] = getattr(import_module(module or _TASKS), name)
        return found


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has no result.

    Attributes
    ----------
    message : str
        One sentence: what, where, what to do.
    details : str
        For a report, such as a traceback; often empty.
    cancelled : bool
        It was asked to stop.
    kind : str
        Name of the error's class.
    """

    message: str
    details: str = ""
    cancelled: bool = False
    kind: str = ""


@dataclass(eq=False, slots=True)
class Job:
    """One piece of work.

    Attributes
    ----------
    verb : str
        ``"pack"``, ``"verify"``, ``"restore"``, or what prepares them: ``"look"``.
    title : str
        The file concerned, for display.
    task : Task
        What to run.
    size : int
        Bytes of raw data to go through; 0 if unknown.
    state : JobState
    stage : str
        What is being done at the moment.
    fraction : float
        0 to 1; never falls, and is 1 only when the job is done.
    result : object
        What the task returned.
    failure : Failure or None
    started, finished : float or None
        Seconds of `time.monotonic`.
    log : deque of str
        The last lines of what happened.
    """

    verb: str
    title: str
    task: Task
    size: int = 0
    id: int = field(default_factory=lambda: next(_ids))
    state: JobState = JobState.QUEUED
    stage: str = ""
    fraction: float = 0.0
    result: Any = None
    failure: Failure | None = None
    started: float | None = None
    finished: float | None = None
    log: deque[str] = field(default_factory=lambda: deque(maxlen=_LOG_LINES))
    _stages: dict[str, _Stage] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        if self.started is None:
            return 0.0
        return (time.monotonic() if self.finished is None else self.finished) - self.started

    @property
    def bytes_done(self) -> float:
        """Raw bytes gone through; the rest of a job that failed counts as done with."""
        return self.size * (1.0 if self.state.over else self.fraction)

    @property
    def bytes_per_second(self) -> float:
        """Raw bytes a second over the whole run; 0 before there is anything to say."""
        return self.size * self.fraction / self.seconds if self.seconds > 0 else 0.0

    def note(self, line: str) -> None:
        """Add a line to the log."""
        self.log.append(f"{time.strftime('%H:%M:%S')} {line}")

    def advance(self, event: Progress) -> None:
        """Take in a progress event of the engine.

        Events count within one file of one stage; a job may have several of both, in turns.
        """
        if event.stage != self.stage:
            self.note(f"{event.stage}: {event.item}")
            self.stage = event.stage
        self._stages.setdefault(event.stage, _Stage()).take(event)
        weights = _STAGES.get(self.verb) or {stage: 1 / len(self._stages) for stage in self._stages}
        parts = {stage: found.part(self.size) for stage, found in self._stages.items()}
        done = sum(weight * parts.get(stage, 0.0) for stage, weight in weights.items())
        self.fraction = max(self.fraction, min(done, _NEARLY))


@dataclass(slots=True)
class _Stage:
    """How far one stage is, over all files of the job."""

    item: str | None = None
    before: int = 0
    done: int = 0
    total: int = 0

    def take(self, event: Progress) -> None:
        if event.item != self.item and self.item is not None:
            self.before += self.total
        self.item, self.done, self.total = event.item, event.done, event.total

    def part(self, size: int) -> float:
        whole = max(size, self.before + self.total)
        return min(1.0, (self.before + self.done) / whole) if whole else 0.0


class JobList:
    """All jobs of one window; safe to use from any thread.

    Signals come from the thread that made the change and must be handled quickly: a window
    only takes note in them and looks at the jobs later, in its own thread.

    Attributes
    ----------
    added : Signal
        With a tuple of jobs.
    changed : Signal
        With a job.
    parted : Signal
        With a job and a part of its result, for tasks that give their results piece by piece.
    """

    added = Signal(tuple)
    changed = Signal(Job)
    parted = Signal(Job, object)

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._disowned: set[int] = set()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        with self._lock:
            return iter(list(self._jobs.values()))

    def __getitem__(self, number: int) -> Job:
        return self._jobs[number]

    def add(self, jobs: Iterable[Job]) -> tuple[Job, ...]:
        """Take jobs in."""
        new = tuple(jobs)
        with self._lock:
            self._jobs.update((job.id, job) for job in new)
        self.added.emit(new)
        return new

    def forget(self, jobs: Iterable[Job]) -> None:
        """Drop jobs that are over."""
        with self._lock:
            for job in jobs:
                if job.state.over:
                    self._jobs.pop(job.id, None)

    def disown(self, jobs: Iterable[Job]) -> None:
        """Drop jobs as soon as they are over: whoever asked for them is gone."""
        with self._lock:
            given = list(jobs)
            self._disowned.update(job.id for job in given if not job.state.over)
        self.forget(given)

    @property
    def active(self) -> list[Job]:
        """Jobs that wait or run."""
        return [job for job in self if not job.state.over]

    def start(self, job: Job) -> bool:
        """Mark a queued job as running; False if it was cancelled meanwhile."""
        with self._lock:
            if job.state is not JobState.QUEUED:
                return False
            job.state, job.started = JobState.RUNNING, time.monotonic()
        job.note(f"{job.verb} began: {job.title}")
        self.changed.emit(job)
        return True

    def advance(self, job: Job, event: Progress) -> None:
        """Pass a progress event on to its job."""
        with self._lock:
            if job.state is not JobState.RUNNING:
                return
            job.advance(event)
        self.changed.emit(job)

    def part(self, job: Job, part: object) -> None:
        """Hand out a part of a job's result."""
        self.parted.emit(job, part)

    def withdraw(self, job: Job, failure: Failure) -> bool:
        """End a job that has not begun; False if it has."""
        with self._lock:
            return job.state is JobState.QUEUED and self.finish(job, failure=failure)

    def finish(self, job: Job, result: object = None, failure: Failure | None = None) -> bool:
        """End a job with its result or its failure; False if it was over already."""
        with self._lock:
            if job.state.over:
                return False
            job.result, job.failure, job.finished = result, failure, time.monotonic()
            if failure is None:
                job.state, job.fraction = JobState.DONE, 1.0
            else:
                job.state = JobState.CANCELLED if failure.cancelled else JobState.FAILED
            if job.id in self._disowned:
                self._disowned.discard(job.id)
                self._jobs.pop(job.id, None)
        job.note(failure.message if failure else f"done in {job.seconds:.1f} s")
        self.changed.emit(job)
        return True
