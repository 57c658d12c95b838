"""Progress events, the cancel token and claims of work: plain, picklable, no Qt."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from napari_decant.errors import Cancelled

__all__ = [
    "CancelToken",
    "Claim",
    "FileProgress",
    "Progress",
    "ProgressCallback",
    "close_claims",
    "ignore_progress",
    "read_progress",
]


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a long job.

    Attributes
    ----------
    stage : str
        What is being done: ``"pack"``, ``"verify"``, ``"restore"``, ...
    done, total : int
        Work done and to do, in bytes of raw data unless ``unit`` says otherwise.
    item : str
        What it is done to (a file name), for display.
    unit : str
        ``"bytes"`` or a plural noun.
    """

    stage: str
    done: int
    total: int
    item: str = ""
    unit: str = "bytes"


ProgressCallback = Callable[[Progress], None]


def ignore_progress(event: Progress) -> None:
    """Do nothing with the event: the default callback."""


class FileProgress:
    """A progress callback for another process: `read_progress` reads the last event from a small file.

    Parameters
    ----------
    path : Path
        In a folder that both processes see.
    """

    _SECONDS = 0.2  # between two writes

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = 0.0

    def __call__(self, event: Progress) -> None:
        """Write the event, unless the last one is very fresh."""
        now = time.monotonic()
        if now < self._next and event.done < event.total:
            return
        self._next = now + self._SECONDS
        line = json.dumps([event.stage, event.done, event.total, event.item, event.unit])
        # One write of one line: a reader sees the old line or the new one, or skips a torn one.
        # A full disk, or a folder whose reader is gone, is no reason to stop the work itself.
        with contextlib.suppress(OSError):
            self.path.write_text(line + "\n", encoding="utf-8")


def read_progress(path: Path) -> Progress | None:
    """The last event that a `FileProgress` wrote; None before the first one."""
    try:
        stage, done, total, item, unit = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Progress(stage, done, total, item, unit)


class CancelToken:
    """Asks running work to stop at its next step.

    Parameters
    ----------
    path : Path, optional
        A file whose existence means "cancelled", as does the end of the folder it would lie in: whoever
        asked for the work has stopped waiting. With it the token works across processes (it pickles as the
        path); without it, across threads of this process only.
    """

    _POLL_SECONDS = 0.1  # a stat per chunk would cost more than the chunk on network drives

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._event = threading.Event()
        self._next_poll = 0.0

    def cancel(self) -> None:
        """Ask for a stop; returns at once."""
        self._event.set()
        if self.path is not None:
            self.path.touch()

    @property
    def cancelled(self) -> bool:
        """Whether a stop was asked for."""
        if self._event.is_set():
            return True
        if self.path is not None and time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + self._POLL_SECONDS
            if self.path.exists() or not self.path.parent.exists():
                self._event.set()
        return self._event.is_set()

    def check(self) -> None:
        """Raise `Cancelled` if a stop was asked for."""
        if self.cancelled:
            raise Cancelled("cancelled; nothing was left behind")

    def __reduce__(self) -> tuple[type[CancelToken], tuple[Path | None]]:
        if self.path is None:
            raise TypeError("a cancel token without a file cannot go to another process; give it a path")
        return type(self), (self.path,)


class Claim:
    """Settles, between processes, whether a piece of work was begun before it was taken back.

    An executor can't say it: `Future.cancel` of a cluster forgets work that its worker is at, which
    then goes on unwatched. Here the worker makes a file, and whoever takes the work back makes a folder of
    the same name; only one of them can.

    Parameters
    ----------
    path : Path
        A name that is free, in a folder that both processes see.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> bool:
        """Claim the work, in the worker; false if it was taken back, or nobody waits for it any more.

        Work that a lost worker had begun can be claimed again.
        """
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return not self.path.is_dir()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def take_back(self) -> bool:
        """Take the work back; false if a worker has begun it, whose answer is then to be waited for."""
        try:
            self.path.mkdir()
        except FileExistsError:
            return self.path.is_dir()
        except OSError:  # the worker, which looks at the cancel token, ends it instead
            return False
        return True

    @property
    def begun(self) -> bool:
        """Whether a worker has begun the work."""
        return self.path.is_file()


def close_claims(folder: Path, gone: Path) -> None:
    """Remove a folder of claims, tokens and progress; from one moment on, nothing can be claimed in it.

    Parameters
    ----------
    folder : Path
    gone : Path
        A free name beside it. Were the folder emptied under its own name, work that was taken back could be
        claimed anew as soon as its claim is removed.
    """
    with contextlib.suppress(OSError):  # where a file of it is open, some systems do not rename it
        folder.rename(gone)
    for path in (gone, folder):
        shutil.rmtree(path, ignore_errors=True)
