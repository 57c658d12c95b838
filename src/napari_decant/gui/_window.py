"""The window: a panel a verb, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QSize, Qt, QTimer
from qtpy.QtGui import QGuiApplication, QKeySequence, QShortcut
from qtpy.QtWidgets import (
    QHBoxLayout,
    QMainWindow,
    QMessageBox,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_decant.gui._check import CheckPanel
from napari_decant.gui._desk import Desk
from napari_decant.gui._export import ExportPanel
from napari_decant.gui._inspect import InspectPanel
from napari_decant.gui._pack import PackPanel
from napari_decant.gui._panel import JobPanel
from napari_decant.gui._restore import RestorePanel
from napari_decant.gui._stopping import ask_to_stop
from napari_decant.gui._style import style_sheet
from napari_decant.gui._verify import VerifyPanel
from napari_decant.gui._widgets import Action, bind_icon
from napari_decant.gui._words import count, size_text
from napari_decant.gui.jobs import Job, JobState, Leftover, Task

__all__ = ["Window"]

_NAME = "Decant"
_WORDS_FROM = 40  # heights of the font: as wide as the tabs are with their words
_VERBS = {
    "pack": "Packing",
    "verify": "Verifying",
    "restore": "Restoring",
    "export": "Exporting",
    "check": "Checking",
}


class _Stack(QStackedWidget):
    """As small as what it shows: the pages behind do not insist on room."""

    def __init__(self) -> None:
        super().__init__()
        self.currentChanged.connect(lambda _: self.updateGeometry())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        shown = self.currentWidget()
        hint: QSize = shown.minimumSizeHint() if shown is not None else super().minimumSizeHint()
        return hint


class Window(QMainWindow):
    """Pack, verify, restore, inspect, export and check, a tab each.

    Parameters
    ----------
    desk : Desk
        Closed together with the window.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._closing = False
        self.question: QMessageBox | None = None
        self.setWindowTitle(_NAME)
        self.setAcceptDrops(True)
        self.pack, self.verify = PackPanel(desk), VerifyPanel(desk)
        self.restore, self.inspect = RestorePanel(desk), InspectPanel(desk)
        self.export, self.check = ExportPanel(desk), CheckPanel(desk)
        self.panels: tuple[JobPanel | InspectPanel, ...] = (
            self.pack,
            self.verify,
            self.restore,
            self.inspect,
            self.export,
            self.check,
        )
        self.stack = _Stack()
        self.tabs: list[QToolButton] = []
        page = QWidget()
        page.setObjectName("decantPage")
        box = QVBoxLayout(page)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._tabs())
        box.addWidget(self.stack, 1)
        self.setCentralWidget(page)
        for panel in self.panels:
            self.stack.addWidget(panel)
            panel.handed.connect(self._hand)
            panel.progressed.connect(self._retitle)
        self._show(0)
        desk.look.changed.connect(self._restyle)
        self._restyle()
        height = self.fontMetrics().height()
        room = QGuiApplication.primaryScreen().availableGeometry().size()
        self.resize(QSize(height * 66, height * 44).boundedTo(room))

    def _tabs(self) -> QWidget:
        bar = QWidget()
        bar.setObjectName("decantTabs")
        bar.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(bar)
        row.setContentsMargins(self.fontMetrics().height() // 2, 0, 0, 0)
        row.setSpacing(0)
        for number, panel in enumerate(self.panels):
            button = QToolButton()
            button.setObjectName("decantTab")
            button.setText(f" {panel.TITLE}")
            button.setToolTip(f"{panel.TIP} (Ctrl+{number + 1})")
            button.setAccessibleName(panel.TITLE)
            button.setCheckable(True)
            button.setAutoExclusive(True)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            bind_icon(button, self.desk.look, panel.KEY)
            button.clicked.connect(lambda checked=False, number=number: self._show(number))
            QShortcut(QKeySequence(f"Ctrl+{number + 1}"), self, lambda number=number: self._show(number))
            row.addWidget(button)
            self.tabs.append(button)
        row.addStretch()
        # In a narrow window the words give way, so the bar must not insist on room for them.
        bar.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        return bar

    def resizeEvent(self, event: Any) -> None:  # noqa: N802
        words = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        icons = Qt.ToolButtonStyle.ToolButtonIconOnly
        wide = self.width() >= self.fontMetrics().height() * _WORDS_FROM
        for tab in self.tabs:
            tab.setToolButtonStyle(words if wide else icons)
        super().resizeEvent(event)

    def _restyle(self) -> None:
        self.centralWidget().setStyleSheet(style_sheet(self.desk.look.theme, self.font()))

    def _show(self, number: int) -> None:
        self.tabs[number].setChecked(True)
        self.stack.setCurrentIndex(number)

    def panel(self, key: str) -> Any:
        """The panel of a verb."""
        return next(panel for panel in self.panels if key == panel.KEY)

    def _hand(self, key: str, paths: list[Path]) -> None:
        """Go to another panel with paths."""
        panel = self.panel(key)
        self._show(self.panels.index(panel))
        panel.add(paths)

    def add(self, paths: Sequence[Path]) -> None:
        """Take paths in: archives to verify, anything else to pack."""
        archives = [path for path in paths if path.name.endswith((".zarr.zip", ".zarr"))]
        others = [path for path in paths if path not in archives]
        if archives:
            self._hand("verify", archives)
        if others:
            self._hand("pack", others)

    def dragEnterEvent(self, event: Any) -> None:  # noqa: N802
        if event.mimeData().hasUrls():
            event.acceptProposedAction()
            self.stack.currentWidget().drop.set_hot(True)

    def dragLeaveEvent(self, event: Any) -> None:  # noqa: N802
        self.stack.currentWidget().drop.set_hot(False)

    def dropEvent(self, event: Any) -> None:  # noqa: N802
        panel = self.stack.currentWidget()
        panel.drop.set_hot(False)
        if panel.take(event.mimeData()):
            event.acceptProposedAction()

    def _retitle(self) -> None:
        """Show the progress in the title, which the task bar shows too."""
        for panel in self.panels:
            batch = panel.batch if isinstance(panel, JobPanel) else None
            if batch is not None:
                self.setWindowTitle(f"{100 * batch.fraction:.0f} %  {_VERBS[panel.KEY]}  {_NAME}")
                return
        self.setWindowTitle(_NAME)

    # --- what an interrupted run left ---

    def look_for_leftovers(self) -> None:
        """Offer to remove what a run that was killed left in the folders it wrote to."""
        folders = [Path(line) for line in self.desk.settings.busy_folders.splitlines() if line]
        self.desk.settings.busy_folders = ""
        if folders:
            task = Task("find_leftovers", {"folders": folders})
            self.pack.look_at(task, "", end=self._offer_removal)

    def _offer_removal(self, job: Job) -> None:
        files: list[Leftover] = job.result or []
        if not files:
            return
        size = size_text(sum(file.size for file in files))
        where = files[0].path.parent
        remove = Action("&Remove", "trash", "Delete these unfinished files", lambda: self._remove(files))
        left = f"{count(len(files), 'unfinished file')} ({size})"
        self.pack.note(f"An earlier run was interrupted and left {left} in {where}.", remove, kind="warn")

    def _remove(self, files: Sequence[Leftover]) -> None:
        def removed(job: Job) -> None:
            if job.state is JobState.DONE:
                kept = job.result
                words = [f"{path} stays: {why}" for path, why in kept]
                self.pack.note("; ".join(words) or "Removed.", kind="warn" if kept else "info")

        self.pack.look_at(Task("remove_leftovers", {"files": list(files)}), "", end=removed)

    # --- the end ---

    def closeEvent(self, event: Any) -> None:  # noqa: N802
        if not self.desk.runner.busy:
            for panel in self.panels:
                panel.leave()
            self.desk.close()
            event.accept()
            return
        event.ignore()
        if self._closing or self.question is not None:
            return
        if self.desk.at_work:
            self.question = ask_to_stop(self, lambda: self.desk.at_work, self._stop)
            self.question.finished.connect(self._answered)
        else:  # files are only being looked at
            self._stop()

    def _answered(self) -> None:
        self.question = None

    def _stop(self) -> None:
        self._closing = True
        self.setWindowTitle(f"Stopping  {_NAME}")
        for panel in self.panels:
            if isinstance(panel, JobPanel):
                panel.cancel()
        self.desk.runner.cancel_all()
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self.desk.runner.busy:
            QTimer.singleShot(50, self._close_when_idle)
        else:
            self.close()
