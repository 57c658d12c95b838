"""Jobs started together: how far they are, how fast, and how long it will take."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable

from napari_decant.gui.jobs._model import Job, JobState

__all__ = ["Batch"]

_SPEED_SECONDS = 5.0
_REST_SECONDS = 30.0
_SAMPLE_SECONDS = 0.25
_SETTLE_SECONDS = 2.0


class Batch:
    """A run over many files.

    Parameters
    ----------
    verb : str
        What is done.
    clock : callable
        Seconds; another one in tests.
    in_bytes : bool
        Whether the jobs' sizes are bytes; otherwise there is no speed.
    """

    def __init__(
        self, verb: str, clock: Callable[[], float] = time.monotonic, *, in_bytes: bool = True
    ) -> None:
        self.verb = verb
        self.in_bytes = in_bytes
        self.jobs: list[Job] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._size = 0
        self._expected = 0
        self._done = 0.0
        self._counted: dict[int, tuple[JobState, float]] = {}
        self._states: Counter[JobState] = Counter()
        self._samples: deque[tuple[float, float]] = deque()
        self._started = clock()
        self._shown = 0.0

    def __len__(self) -> int:
        return max(self._expected, len(self.jobs))

    def __contains__(self, job: Job) -> bool:
        return job.id in self._counted

    def expect(self, count: int) -> None:
        """Say how many more jobs will be added soon; 0 for none, however many were expected before."""
        with self._lock:
            self._expected = max(self._expected, len(self.jobs)) + count if count else 0

    def add(self, jobs: Iterable[Job]) -> None:
        """Take more jobs into the run."""
        with self._lock:
            for job in jobs:
                self.jobs.append(job)
                self._size += job.size
                self._counted[job.id] = (job.state, job.bytes_done)
                self._states[job.state] += 1
                self._done += job.bytes_done

    def update(self, job: Job) -> None:
        """Count a job that changed anew."""
        with self._lock:
            if job.id not in self._counted:
                return
            state, done = self._counted[job.id]
            self._counted[job.id] = (job.state, job.bytes_done)
            self._states[state] -= 1
            self._states[job.state] += 1
            self._done += job.bytes_done - done
            now = self._clock()
            if not self._samples or now - self._samples[-1][0] >= _SAMPLE_SECONDS:
                self._samples.append((now, self._done))
            while len(self._samples) > 2 and now - self._samples[0][0] > _REST_SECONDS:
                self._samples.popleft()

    def count(self, *states: JobState) -> int:
        """How many jobs are in these states."""
        with self._lock:
            return sum(self._states[state] for state in states)

    @property
    def over(self) -> bool:
        """Whether every job has ended."""
        return self.count(JobState.DONE, JobState.FAILED, JobState.CANCELLED) == len(self)

    @property
    def fraction(self) -> float:
        """0 to 1; never falls while the run lasts, and is 1 only when everything has ended."""
        if self.over:
            return 1.0
        with self._lock:
            # Bytes alone would not move for thousands of empty files, nor for files of unknown size.
            ended = sum(count for state, count in self._states.items() if state.over)
            now = self._done / self._size if self._size else ended / max(1, len(self))
            self._shown = max(self._shown, min(now, 0.999))
            return self._shown

    def _speed(self, window: float) -> float:
        now = self._clock()
        with self._lock:
            old = next(((t, done) for t, done in self._samples if now - t <= window), None)
            if old is None or now - old[0] <= 0:
                return 0.0
            return max(0.0, (self._done - old[1]) / (now - old[0]))

    @property
    def bytes_per_second(self) -> float:
        """Raw bytes a second over the last few seconds; 0 where sizes are no bytes."""
        return self._speed(_SPEED_SECONDS) if self.in_bytes else 0.0

    @property
    def seconds_left(self) -> float | None:
        """An estimate; None as long as there is nothing to base it on."""
        speed = self._speed(_REST_SECONDS)
        if self.over or speed <= 0 or self._clock() - self._started < _SETTLE_SECONDS:
            return None
        with self._lock:
            return (self._size - self._done) / speed

    @property
    def seconds(self) -> float:
        """How long the run has lasted."""
        return self._clock() - self._started
