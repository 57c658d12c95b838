"""The question before a window is closed in mid-job."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtWidgets import QMessageBox, QWidget

from napari_decant.gui._words import count

__all__ = ["ask_to_stop"]


def ask_to_stop(parent: QWidget, jobs: int, stop: Callable[[], object]) -> QMessageBox:
    """Ask whether work is to be stopped, and stop it then; returns at once.

    Parameters
    ----------
    parent : QWidget
        The window that is to be closed.
    jobs : int
        How many would be stopped.
    stop : callable
        Called if the user wants that.
    """
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle("Work is under way")
    box.setText(f"{count(jobs, 'job')} would be stopped.")
    box.setInformativeText("What is finished stays; what is unfinished is removed. Originals are untouched.")
    yes = box.addButton("&Stop and close", QMessageBox.ButtonRole.DestructiveRole)
    stay = box.addButton("&Keep working", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(stay)
    box.setEscapeButton(stay)
    box.buttonClicked.connect(lambda button: stop() if button is yes else None)
    box.open()
    return box
