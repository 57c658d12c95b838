"""The foot of a panel: how far the work is, Cancel, and the one button that starts it."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QBoxLayout, QHBoxLayout, QProgressBar, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_decant.gui._theme import Look
from napari_decant.gui._widgets import Action, main_button, side_button
from napari_decant.gui._words import seconds_text, speed_text
from napari_decant.gui.jobs import Batch, JobState

__all__ = ["Footer", "progress_text"]

_REFRESH_MS = 200
_OVER = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


def progress_text(batch: Batch) -> str:
    """``38 %   212 MB/s   about 4 min left   3 of 8``."""
    parts = [f"{100 * batch.fraction:.0f} %"]
    speed, left = speed_text(batch.bytes_per_second), batch.seconds_left
    if speed:
        parts.append(speed)
    parts.append(f"about {seconds_text(left)} left" if left else f"for {seconds_text(batch.seconds)}")
    parts.append(f"{batch.count(*_OVER):,} of {len(batch):,}")
    failed = batch.count(JobState.FAILED)
    if failed:
        parts.append(f"{failed:,} failed")
    return "   ".join(parts)


class Footer(QWidget):
    """Progress and buttons.

    Parameters
    ----------
    look : Look
    start, cancel : callable
        What the buttons do.
    """

    def __init__(self, look: Look, start: Callable[[], object], cancel: Callable[[], object]) -> None:
        super().__init__()
        self._batch: Batch | None = None
        self._stopping = False
        self.bar = QProgressBar()
        self.bar.setObjectName("decantBar")
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setToolTip("How much of the work is done")
        self.bar.setAccessibleName("Progress")
        self.text = QElidingLabel()
        self.text.setAccessibleName("Progress in words")
        self.main = main_button(look, Action("Start", "", "", start))
        self.main.setShortcut("Ctrl+Return")
        self.cancel = side_button(
            look,
            Action(
                "&Cancel", "cancelled", "Stop; what is unfinished is removed, what is finished stays", cancel
            ),
        )
        self._row = QHBoxLayout()
        self._row.addWidget(self.text, 1)
        self._row.addWidget(self.cancel)
        self._row.addWidget(self.main)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.bar)
        box.addLayout(self._row)
        self._timer = QTimer(self)
        self._timer.setInterval(_REFRESH_MS)
        self._timer.timeout.connect(self.refresh)
        self.show_batch(None)

    def set_narrow(self, narrow: bool) -> None:
        """Put the words above the buttons, or beside them."""
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)

    def set_main(self, text: str, tip: str, enabled: bool) -> None:
        """Say what the main button will do."""
        self.main.setText(text)
        self.main.setAccessibleName(text)
        self.main.setToolTip(f"{tip} (Ctrl+Return)" if enabled else tip)
        if not enabled and self.main.hasFocus():  # Qt would hand the focus to any button, which Space clicks
            self.parentWidget().setFocus()
        self.main.setEnabled(enabled)
        self.main.setShortcut("Ctrl+Return")  # a button forgets it when its text changes

    def show_batch(self, batch: Batch | None) -> None:
        """Show the progress of a run; None hides it."""
        self._batch = batch
        self._stopping = False
        running = batch is not None
        self.bar.setVisible(running)
        self.cancel.setVisible(running)
        self.cancel.setEnabled(running)
        self.cancel.setText(" &Cancel")
        if running:
            self.bar.setValue(0)
            self._timer.start()
        else:
            self._timer.stop()
        self.refresh()

    def stopping(self) -> None:
        """Say that cancelling is under way."""
        self._stopping = True
        self.cancel.setEnabled(False)
        self.cancel.setText(" Stopping")
        self.refresh()

    def refresh(self) -> None:
        """Show the numbers of this moment."""
        batch = self._batch
        if batch is None:
            self.text.setText("")
            return
        self.bar.setValue(int(1000 * batch.fraction))
        self.text.setText(
            "Stopping: what is unfinished is being removed" if self._stopping else progress_text(batch)
        )
