"""The foot of the crop tool, always in sight: news, how far the work is, and the buttons that start it."""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_decant.gui._theme import Look
from napari_decant.gui._widgets import Action, Notice, main_button, side_button
from napari_decant.gui.crop._state import Snapshot
from napari_decant.progress import Progress

__all__ = ["CropFooter"]

_ADD: Final = "Cut, and show the result as a layer in its place"
_SAVE: Final = "Cut into a file"


class CropFooter(QWidget):
    """News, progress, and the buttons that cut.

    Parameters
    ----------
    look : Look
    """

    add_wanted = Signal()
    save_wanted = Signal()
    cancel_wanted = Signal()

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._busy = False
        self._snapshot: Snapshot | None = None
        self._notice: Notice | None = None
        self._focused: QPushButton | None = None
        self.bar = QProgressBar()
        self.bar.setObjectName("decantBar")
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress")
        self.text = QElidingLabel()
        self.text.setProperty("muted", "true")
        self.cancel = side_button(
            look,
            Action("&Cancel", "", "Stop; nothing unfinished is left", lambda: self.cancel_wanted.emit()),
        )
        self.add = main_button(look, Action("&Add as layer", "", _ADD, lambda: self.add_wanted.emit()))
        self.save = side_button(look, Action("&Save as…", "", _SAVE, lambda: self.save_wanted.emit()))
        gap = self.fontMetrics().height() // 2
        box = QVBoxLayout(self)
        box.setContentsMargins(gap, gap, gap, gap)
        box.setSpacing(gap)
        self._news = QVBoxLayout()
        box.addLayout(self._news)
        self._running = QWidget()
        progress = QVBoxLayout()
        progress.addWidget(self.text)
        progress.addWidget(self.bar)
        line = QHBoxLayout(self._running)
        line.setContentsMargins(0, 0, 0, 0)
        line.addLayout(progress, 1)
        line.addWidget(self.cancel)
        box.addWidget(self._running)
        buttons = QHBoxLayout()
        buttons.addWidget(self.add, 1)
        buttons.addWidget(self.save)
        box.addLayout(buttons)
        self.show_running(False)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer what can be done with a snapshot, or say why nothing can."""
        self._snapshot = snapshot
        number = len(snapshot.cuts)
        self.add.setText("&Add as layer" if number < 2 else f"&Add {number} layers")
        why = next((problem.text for problem in snapshot.problems), None)
        for button, tip in ((self.add, _ADD), (self.save, _SAVE)):
            button.setEnabled(snapshot.ready and not self._busy)
            button.setToolTip(why or tip)

    def show_running(self, running: bool) -> None:
        """Show the bar and Cancel, or take them away."""
        self._busy = running
        begin = (self.add, self.save)
        held = next((button for button in begin if button.hasFocus()), None)
        back = self._focused if self.cancel.hasFocus() else None
        self._running.setVisible(running)
        self.cancel.setEnabled(running)
        if running and held is not None:  # a button that is disabled gives the focus to some field
            self._focused = held
            self.cancel.setFocus()
        self.bar.setValue(0)
        self.text.setText("Cutting")
        if self._snapshot is not None:
            self.show_snapshot(self._snapshot)
        if not running and back is not None:
            back.setFocus()

    def show_stopping(self) -> None:
        """Say that cancelling is under way."""
        self.cancel.setEnabled(False)
        self.text.setText("Stopping: what is unfinished is being removed")

    def show_progress(self, event: Progress) -> None:
        """Show how far the work is."""
        share = event.done / max(1, event.total)
        self.bar.setValue(round(1000 * share))
        if self.cancel.isEnabled():
            self.text.setText(f"Cutting: {100 * share:.0f} %")

    @property
    def notice(self) -> Notice | None:
        """What is being said."""
        return self._notice

    def note(self, text: str, kind: str = "info") -> None:
        """Say something, in the place of what was said before."""
        self.forget()
        self._notice = Notice(self._look, text, kind=kind)
        self._notice.closed.connect(self._on_put_away)
        self._news.addWidget(self._notice)

    def forget(self) -> None:
        """Take the message away."""
        if self._notice is not None:
            self._notice.put_away()

    def _on_put_away(self) -> None:
        self._notice = None
