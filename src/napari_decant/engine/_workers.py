"""Threads that take work from a queue. Nothing else: errors are the work's own business."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

__all__ = ["WorkerPool"]

_Work = tuple[Callable[..., None], tuple[Any, ...]]


def _serve(queue: SimpleQueue[_Work | None]) -> None:
    while (work := queue.get()) is not None:
        call, arguments = work
        call(*arguments)
        del work, call, arguments  # or an idle thread would keep the last batch alive


def _stop(queue: SimpleQueue[_Work | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        queue.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()


class WorkerPool:
    """A fixed number of threads, started with the first work and ended when closed or forgotten.

    Parameters
    ----------
    workers : int
    name : str
        Begins the threads' names.
    """

    def __init__(self, workers: int, name: str) -> None:
        self.workers, self.name = workers, name
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._stop: weakref.finalize[Any, Any] | None = None

    def submit(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have a thread call ``call(*arguments)``, which must not raise."""
        if self._stop is None:
            self._start()
        self._queue.put((call, arguments))

    def _start(self) -> None:
        with self._lock:
            if self._stop is not None:
                return
            threads = [
                threading.Thread(target=_serve, args=(self._queue,), name=f"{self.name}-{i}", daemon=True)
                for i in range(self.workers)
            ]
            for thread in threads:
                thread.start()
            self._stop = weakref.finalize(self, _stop, self._queue, threads)

    def close(self) -> None:
        """Finish what was submitted and end the threads; later work starts new ones."""
        with self._lock:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()
