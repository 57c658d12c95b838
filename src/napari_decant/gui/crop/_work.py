"""Work in threads: the newest wish is the one that counts, and results arrive in the window's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import QObject, Qt, Signal

from napari_decant.errors import Cancelled
from napari_decant.progress import CancelToken, Progress

__all__ = ["Bench", "Outcome"]

Work = Callable[[CancelToken], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a piece of work ended.

    Attributes
    ----------
    value : object
        What it returned.
    error : Exception or None
        What it raised; `Cancelled` if it was cancelled.
    """

    value: Any = None
    error: Exception | None = None

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return isinstance(self.error, Cancelled)


class Bench(QObject):
    """A thread in which one piece of work is done at a time, the newest one.

    A new one cancels the one that is under way and takes the place of one that waits; neither of those
    reports an end then.

    Parameters
    ----------
    name : str
        Of the thread.
    parent : QObject, optional
    """

    ended = Signal(object)
    progressed = Signal(object)
    _done = Signal(int, object)
    _told = Signal(int, object)

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._number = 0
        self._token: CancelToken | None = None
        self._closed = False
        queued = Qt.ConnectionType.QueuedConnection
        self._done.connect(self._deliver, queued)
        self._told.connect(self._pass_on, queued)

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return self._token is not None

    def start(self, work: Work) -> None:
        """Do something in the thread; called in the window's."""
        if self._closed:
            return
        if self._token is not None:
            self._token.cancel()
        self._number += 1
        number, token = self._number, CancelToken()
        self._token = token
        self._pool.submit(self._run, number, token, work)

    def cancel(self) -> None:
        """Ask the work that is under way to stop; it ends as cancelled."""
        if self._token is not None:
            self._token.cancel()

    def drop(self) -> None:
        """Cancel, and report no end."""
        self.cancel()
        self._number += 1
        self._token = None

    def tell(self, progress: Progress) -> None:
        """Pass progress on to the window; called by the work."""
        self._told.emit(self._number, progress)

    def _run(self, number: int, token: CancelToken, work: Work) -> None:
        try:
            token.check()
            outcome = Outcome(work(token))
        except Exception as error:  # noqa: BLE001 - it is shown in the window
            outcome = Outcome(error=error)
        if not self._closed:
            self._done.emit(number, outcome)

    def _deliver(self, number: int, outcome: Outcome) -> None:
        if number == self._number and not self._closed:
            self._token = None
            self.ended.emit(outcome)

    def _pass_on(self, number: int, progress: Progress) -> None:
        if number == self._number and not self._closed:
            self.progressed.emit(progress)

    def close(self) -> None:
        """Cancel, and wait for the thread."""
        self._closed = True
        if self._token is not None:
            self._token.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)
