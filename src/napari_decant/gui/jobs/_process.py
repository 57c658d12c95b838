"""The window's side of a worker process: start it, give it tasks, hear what it says."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, cast

from napari_decant.gui.jobs._channel import Channel
from napari_decant.gui.jobs._model import Failure, Task
from napari_decant.gui.jobs._worker import Context, perform
from napari_decant.progress import CancelToken

__all__ = ["InlineWorker", "Listener", "Worker", "WorkerProcess"]

logger = logging.getLogger(__name__)

Listener = Callable[[str, Any], None]
"""Gets ``progress``, ``part`` and ``log`` with their contents, in the thread that runs the task."""

# The child imports what this process would import, and nothing of the program that started it: a script
# without an "if __name__" guard must not run again, as multiprocessing would have it.
_CODE = "import sys; sys.path[:] = {path!r}; from napari_decant.gui.jobs._worker import main; main()"
_END_SECONDS = 12.0


class Worker(Protocol):
    """Runs one task at a time."""

    def run(self, number: int, task: Task, listen: Listener) -> tuple[Any, Failure | None]:
        """Run a task to its end; returns its result, or None and the failure."""

    def cancel(self, number: int) -> None:
        """Ask the task of this number to stop; returns at once."""

    def kill(self) -> None:
        """End at once, if it is a process: for tasks that write nothing."""

    def close(self) -> None:
        """Stop what runs and let go of everything."""

    @property
    def alive(self) -> bool:
        """Whether it can run another task."""


class WorkerProcess:
    """A fresh Python process (never a fork) that runs tasks."""

    def __init__(self) -> None:
        path = [entry or os.getcwd() for entry in sys.path]
        flags = 0
        if sys.platform == "win32":
            flags = subprocess.CREATE_NO_WINDOW | subprocess.BELOW_NORMAL_PRIORITY_CLASS
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE.format(path=path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if _has_stderr() else subprocess.DEVNULL,
            creationflags=flags,
        )
        reading, writing = self._process.stdout, self._process.stdin
        self._channel = Channel(cast("BinaryIO", reading), cast("BinaryIO", writing))

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def run(self, number: int, task: Task, listen: Listener) -> tuple[Any, Failure | None]:
        """See `Worker.run`."""
        try:
            self._channel.send("run", number, task)
            while True:
                kind, who, content = self._channel.receive()
                if who != number:  # the last words of a task that ended already
                    continue
                if kind == "end":
                    result: tuple[Any, Failure | None] = content
                    return result
                listen(kind, content)
        except (EOFError, OSError, ValueError):
            code = self._process.wait()
            logger.warning("worker process %d ended with code %s", self._process.pid, code)
            return None, Failure(
                f"the process that worked on it ended unexpectedly (code {code}); "
                "try again with fewer workers, or without this file",
                kind="WorkerEnded",
            )

    def cancel(self, number: int) -> None:
        """See `Worker.cancel`."""
        try:
            self._channel.send("cancel", number)
        except (OSError, ValueError):
            logger.info("worker process %d is gone already", self._process.pid)

    def kill(self) -> None:
        """See `Worker.kill`."""
        self._process.kill()

    def close(self) -> None:
        """See `Worker.close`: a task that runs is cancelled and cleans up first."""
        stdin = self._process.stdin
        try:
            if stdin is not None:
                stdin.close()
        except OSError:
            logger.info("worker process %d is gone already", self._process.pid)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._channel.close()


class InlineWorker:
    """Runs tasks in the calling thread, for programs that bring their own threads, and for tests."""

    alive = True

    def __init__(self) -> None:
        self._tokens: dict[int, CancelToken] = {}
        self._lock = threading.Lock()

    def _token(self, number: int) -> CancelToken:
        with self._lock:
            return self._tokens.setdefault(number, CancelToken())

    def run(self, number: int, task: Task, listen: Listener) -> tuple[Any, Failure | None]:
        """See `Worker.run`."""
        outcome = perform(task, Context(self._token(number), listen))
        with self._lock:
            self._tokens.pop(number, None)
        return outcome

    def cancel(self, number: int) -> None:
        """See `Worker.cancel`."""
        self._token(number).cancel()

    def kill(self) -> None:
        """See `Worker.kill`: a thread cannot be ended."""

    def close(self) -> None:
        """See `Worker.close`."""
        with self._lock:
            for token in self._tokens.values():
                token.cancel()


def _has_stderr() -> bool:
    """Whether a child can write to this process's standard error (a window on Windows has none)."""
    try:
        return sys.__stderr__ is not None and sys.__stderr__.fileno() >= 0
    except (OSError, ValueError):
        return False
