"""Closing napari in mid-job: ask, then stop the work cleanly, then close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import QEvent, QObject, QTimer
from qtpy.QtWidgets import QMessageBox

from napari_decant.gui._stopping import ask_to_stop

__all__ = ["Work", "guard"]

_POLL_MS = 50


@dataclass(frozen=True, eq=False)
class Work:
    """Work that a viewer's window must not be closed over.

    Attributes
    ----------
    jobs : callable
        How many jobs would be stopped; 0 where there is nothing to ask about.
    stop : callable
        Cancels them, and returns at once.
    busy : callable
        Whether something is being stopped still.
    """

    jobs: Callable[[], int]
    stop: Callable[[], object]
    busy: Callable[[], bool]


def guard(viewer: Any, work: Work) -> Callable[[], None]:
    """Ask before a viewer's window is closed while work is under way; call what is returned at its end.

    Napari's own list of tasks asks for some ways of closing only, and does not wait until all is tidied up.
    """
    window = viewer.window._qt_window
    found: _Guard = window.findChild(_Guard) or _Guard(viewer.window)
    found.works.append(work)
    return lambda: found.works.remove(work)


class _Guard(QObject):
    """Watches one window."""

    def __init__(self, window: Any) -> None:
        super().__init__(window._qt_window)
        self.works: list[Work] = []
        self.question: QMessageBox | None = None
        self._window = window
        window._qt_window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() != QEvent.Type.Close or not self._window._qt_viewer.isVisible():
            return False  # `viewer.close()` has taken the window apart already; nobody is there to be asked
        if not self._jobs():
            return False
        event.ignore()
        if self.question is None:
            self.question = ask_to_stop(self._window._qt_window, self._jobs, self._stop)
            self.question.finished.connect(self._answered)
        return True

    def _jobs(self) -> int:
        return sum(work.jobs() for work in self.works)

    def _answered(self) -> None:
        self.question = None

    def _stop(self) -> None:
        for work in list(self.works):
            work.stop()
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if any(work.busy() for work in self.works):
            QTimer.singleShot(_POLL_MS, self._close_when_idle)
        else:
            window = self._window._qt_window
            window.close(quit_app=window._quit_app)
