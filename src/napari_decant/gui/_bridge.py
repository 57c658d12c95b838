"""From the jobs' threads to the window's: changes are collected and handed out in small helpings."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from qtpy.QtCore import QObject, QTimer, Signal

from napari_decant.gui.jobs import Job, JobList

__all__ = ["JobBridge"]

_HELPING_SECONDS = 0.012  # then the window gets to draw and to answer
_PAUSE_MS = 40


class JobBridge(QObject):
    """Tells widgets, in their own thread, of what happened to jobs.

    However many events there are, the window's thread is taken for a few milliseconds at a time, and of
    several changes of one job only the last is seen.

    Parameters
    ----------
    jobs : JobList
        What is listened to.
    """

    changed = Signal(object)
    parted = Signal(object, object)
    _wake = Signal()

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._changed: dict[int, Job] = {}
        self._parts: deque[tuple[Job, Any]] = deque()
        self._woken = False
        self._closed = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._flush)
        self._wake.connect(self._begin)
        self._jobs = jobs
        jobs.changed.connect(self._on_change)
        jobs.parted.connect(self._on_part)

    def close(self) -> None:
        """Stop listening; a thread that is about to tell something finds nobody."""
        with self._lock:
            self._closed = True
        self._jobs.changed.disconnect(self._on_change)
        self._jobs.parted.disconnect(self._on_part)

    def _on_change(self, job: Job) -> None:
        with self._lock:
            self._changed[job.id] = job
            self._rouse()

    def _on_part(self, job: Job, part: Any) -> None:
        with self._lock:
            self._parts.append((job, part))
            self._rouse()

    def _rouse(self) -> None:
        if not self._woken and not self._closed:
            self._woken = True
            self._wake.emit()  # queued, since the sender is another thread

    def _begin(self) -> None:
        if not self._timer.isActive():
            self._timer.start(_PAUSE_MS)

    def _flush(self) -> None:
        end = time.monotonic() + _HELPING_SECONDS
        while time.monotonic() < end:
            if self._hand_out_part():
                continue
            with self._lock:
                if not self._changed:
                    self._woken = False
                    return
                job = self._changed.pop(next(iter(self._changed)))
            self.changed.emit(job)
        self._timer.start(5)

    def _hand_out_part(self) -> bool:
        with self._lock:
            part = self._parts.popleft() if self._parts else None
        if part is not None:
            self.parted.emit(*part)
        return part is not None

    def catch_up(self) -> None:
        """Hand out all parts that wait: whoever sees a job's end must have seen its parts."""
        while self._hand_out_part():
            pass
