"""The question before a window is closed in mid-job."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QMessageBox, QWidget

from napari_decant.gui._words import count

__all__ = ["ask_to_stop"]

_REFRESH_MS = 200


def ask_to_stop(parent: QWidget, jobs: Callable[[], int], stop: Callable[[], object]) -> QMessageBox:
    """Ask whether work is to be stopped, and stop it then; returns at once.

    The question goes by itself when the work ends before the answer: there is nothing to stop any more.

    Parameters
    ----------
    parent : QWidget
        The window that is to be closed.
    jobs : callable
        How many would be stopped.
    stop : callable
        Called if the user wants that.
    """
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle("Work is under way")
    timer = QTimer(box)
    timer.setInterval(_REFRESH_MS)

    def refresh() -> None:
        number = jobs()
        if number:
            box.setText(f"{count(number, 'job')} would be stopped.")
        else:
            box.reject()

    timer.timeout.connect(refresh)
    box.finished.connect(timer.stop)
    box.setInformativeText("What is finished stays; what is unfinished is removed. Originals are untouched.")
    yes = box.addButton("&Stop and close", QMessageBox.ButtonRole.DestructiveRole)
    stay = box.addButton("&Keep working", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(stay)
    box.setEscapeButton(stay)
    box.buttonClicked.connect(lambda button: stop() if button is yes else None)
    refresh()
    box.open()
    timer.start()
    return box
