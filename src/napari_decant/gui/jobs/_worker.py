"""The other side: a process that does one task after the other and never shows a window.

Work in a process of its own cannot hold up the window by holding Python's lock, and a library that
crashes on a hostile file takes one job with it. When the window dies, even killed, its pipe closes:
the task is cancelled and cleans up like any other.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from napari_decant.errors import Cancelled, DecantError, StorageError
from napari_decant.gui.jobs._channel import Channel
from napari_decant.gui.jobs._model import Failure, Task
from napari_decant.gui.jobs._rows import Outcome
from napari_decant.progress import CancelToken, Progress

__all__ = ["Context", "failure_of", "in_parts", "main", "perform"]

_EVENT_SECONDS = 0.05
_PART_SECONDS, _PART_ITEMS = 0.2, 64
_GRACE_SECONDS = 10.0  # for cleaning up once the window is gone


class Context:
    """What a task gets to talk to the window.

    Parameters
    ----------
    cancel : CancelToken
    send : callable
        ``send(kind, content)`` with the kinds ``progress``, ``part`` and ``log``.
    """

    def __init__(self, cancel: CancelToken, send: Callable[[str, Any], None]) -> None:
        self.cancel = cancel
        self._send = send
        self._next = 0.0
        self._last = ("", "")
        self._lock = threading.Lock()

    def progress(self, event: Progress) -> None:
        """Pass an event on: at most twenty a second, and the first of every stage and file."""
        now = time.monotonic()
        key = (event.stage, event.item)
        with self._lock:
            if now < self._next and key == self._last:
                return
            self._next, self._last = now + _EVENT_SECONDS, key
        self._send("progress", event)

    def part(self, part: Any) -> None:
        """Hand out a part of the result."""
        self._send("part", part)

    def log(self, line: str) -> None:
        """Add a line to the job's log."""
        self._send("log", line)


def in_parts[T](items: Iterable[T], tell: Callable[[list[T]], None]) -> int:
    """Hand items out in small lists, so that neither side waits for the other; returns the count."""
    part: list[T] = []
    count, due = 0, time.monotonic() + _PART_SECONDS
    for item in items:
        part.append(item)
        count += 1
        if len(part) >= _PART_ITEMS or time.monotonic() >= due:
            tell(part)
            part, due = [], time.monotonic() + _PART_SECONDS
    if part:
        tell(part)
    return count


class _LogHandler(logging.Handler):
    def __init__(self, context: Context) -> None:
        super().__init__(logging.INFO)
        self._context = context

    def emit(self, record: logging.LogRecord) -> None:
        self._context.log(f"{record.levelname.lower()}: {record.getMessage()}")


def failure_of(error: BaseException) -> Failure:
    """An error as a sentence for the user and details for a report."""
    kind = type(error).__name__
    if isinstance(error, DecantError):
        return Failure(str(error), cancelled=isinstance(error, Cancelled), kind=kind)
    details = "".join(traceback.format_exception(error))
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return Failure(f"{error.strerror or error}{where}", details, kind=StorageError.__name__)
    if isinstance(error, MemoryError):
        return Failure("out of memory; choose fewer workers in the options and try again", details, kind=kind)
    return Failure(
        f"unexpected {kind}: {error}; this is a fault of the program, please copy the report and send it in",
        details,
        kind=kind,
    )


def perform(task: Task, context: Context) -> tuple[Any, Failure | None]:
    """Run a task; returns its result and no failure, or None and the failure."""
    handler = _LogHandler(context)
    logger = logging.getLogger("napari_decant")
    logger.addHandler(handler)
    try:
        result = task.resolve()(context, **task.arguments)
        if isinstance(result, Outcome):
            return result.result, Failure(result.message)
        return result, None
    except Exception as error:  # noqa: BLE001 - becomes the job's failure, which the user reads
        return None, failure_of(error)
    finally:
        logger.removeHandler(handler)


class _Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._tasks: queue.SimpleQueue[tuple[int, Task] | None] = queue.SimpleQueue()
        self._tokens: dict[int, CancelToken] = {}

    def run(self) -> None:
        threading.Thread(target=self._listen, name="window", daemon=True).start()
        while (item := self._tasks.get()) is not None:
            number, task = item
            token = self._tokens.setdefault(number, CancelToken())

            def send(kind: str, content: Any, number: int = number) -> None:
                self._tell(kind, number, content)

            result, failure = perform(task, Context(token, send))
            self._tokens.pop(number, None)
            self._tell("end", number, (result, failure))

    def _tell(self, *message: Any) -> None:
        try:
            self._channel.send(*message)
        except (OSError, ValueError):  # the window is gone
            self._abandon()

    def _listen(self) -> None:
        try:
            while True:
                kind, *rest = self._channel.receive()
                if kind == "run":
                    number, task = rest
                    self._tokens.setdefault(number, CancelToken())
                    self._tasks.put((number, task))
                elif kind == "cancel":
                    # Also one that has not arrived yet; numbers are never used twice.
                    self._tokens.setdefault(rest[0], CancelToken()).cancel()
        except (EOFError, OSError, ValueError):
            self._abandon()

    def _abandon(self) -> None:
        """The window is gone: stop, clean up, end."""
        for token in list(self._tokens.values()):
            token.cancel()
        self._tasks.put(None)
        timer = threading.Timer(_GRACE_SECONDS, os._exit, (1,))
        timer.daemon = True
        timer.start()


def main() -> None:
    """Serve tasks from standard input until it closes."""
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever some library prints must not end up among the messages
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the window to handle
    if hasattr(os, "nice"):
        os.nice(4)  # the window goes first
    _Worker(Channel(reading, writing)).run()
