"""Work that napari shows: in its activity dock, with Cancel, and in its notifications."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from napari import current_viewer
from napari.utils.progress import cancelable_progress
from qtpy.QtCore import QEventLoop, QThread, QTimer
from qtpy.QtWidgets import QApplication

from napari_decant.errors import Cancelled
from napari_decant.plugin._leaving import Work, guard
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress

__all__ = ["DockBar", "run_alive"]

_POLL_MS = 50
_PATIENCE = 0.5  # seconds before a bar appears: what is done at once needs none


class DockBar:
    """A bar in napari's activity dock, with speed and time left.

    Parameters
    ----------
    title : str
        What is done.
    stop : callable
        Called at once when the user clicks Cancel.
    unit : str
        Of the numbers: ``"B"`` for bytes.
    """

    def __init__(self, title: str, stop: Callable[[], object], *, unit: str = "B") -> None:
        self._title = title
        # Napari shows what stands behind the last "|"; more words would push Cancel out of the dock.
        words = "{remaining} left, {rate_fmt}" if unit == "B" else "{remaining} left"
        self._bar = _Cancelable(
            desc=title, total=0, unit=unit, unit_scale=True, bar_format="{l_bar}{bar}| " + words
        )
        self._bar.cancel_callback = stop
        self._showing = False

    def show(self, done: float, total: float, title: str | None = None) -> None:
        """Show how far the work is; from the thread of the window."""
        if self._showing:  # napari handles events while it draws a bar, and may come here again
            return
        self._showing = True
        try:
            if title is not None and title != self._title:
                self._title = title
                self._bar.set_description(title)
            if self._bar.total != total:
                self._bar.total = int(total)
            self._bar.update(int(done) - self._bar.n)
        finally:
            self._showing = False

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()


class _Cancelable(cancelable_progress):
    """Napari's own calls back at the next step of a loop, and there is no loop here."""

    def cancel(self) -> None:
        super().cancel()
        if self.cancel_callback is not None:
            self.cancel_callback()


def _in_window() -> bool:
    """Whether this is the thread of a viewer's window, which would stand still."""
    app = QApplication.instance()
    return app is not None and QThread.currentThread() == app.thread() and current_viewer() is not None


def run_alive[T](
    work: Callable[[ProgressCallback, CancelToken], T], title: str, *, abandon: bool = False
) -> T:
    """Do something long and return its result, while the window goes on drawing and answering.

    Parameters
    ----------
    work : callable
        Is given a progress callback and a cancel token, and runs in a thread of its own.
    title : str
        For the bar in the activity dock, which shows up after a moment.
    abandon : bool
        Do not wait after Cancel: for work that writes nothing and may hang on a server that is silent.

    Raises
    ------
    Cancelled
        The user clicked Cancel, or the program ends.
    """
    cancel = CancelToken()
    if not _in_window():
        return work(ignore_progress, cancel)
    last: list[Progress] = []
    ended: list[tuple[T | None, BaseException | None]] = []

    def hear(event: Progress) -> None:
        last[:] = [event]

    def run() -> None:
        try:
            ended.append((work(hear, cancel), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            ended.append((None, error))

    thread = threading.Thread(target=run, name="decant-work", daemon=True)
    loop, timer = QEventLoop(), QTimer()
    begun = time.monotonic()
    bar: DockBar | None = None

    making = False

    def look() -> None:
        nonlocal bar, making
        if not thread.is_alive() or (abandon and cancel.cancelled):
            loop.quit()
        elif time.monotonic() - begun > _PATIENCE and not making:
            if bar is None:
                making = True  # napari handles events while it makes a bar, and comes here again
                bar = DockBar(title, cancel.cancel)
                making = False
            for event in last:
                bar.show(event.done, event.total)

    timer.timeout.connect(look)
    thread.start()
    timer.start(_POLL_MS)
    unguard = guard(current_viewer(), Work(lambda: 1, cancel.cancel, lambda: True))  # until it is taken away
    try:
        loop.exec()
    finally:
        timer.stop()
        if thread.is_alive():  # the program ends while it works
            cancel.cancel()
        if not abandon:
            thread.join()
        unguard()
        if bar is not None:
            bar.close()
    if not ended:
        raise Cancelled(f"{title} was cancelled")
    result, error = ended[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
