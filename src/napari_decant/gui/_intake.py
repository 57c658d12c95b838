"""How files come into a panel, and the messages above it: common to all panels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from qtpy.QtCore import QEvent, Qt, Signal
from qtpy.QtGui import QGuiApplication, QKeySequence
from qtpy.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from napari_decant.gui._desk import Desk
from napari_decant.gui._style import style_sheet
from napari_decant.gui._widgets import Action, DropArea, Notice

__all__ = ["Intake", "beside", "paths_of"]

_NARROW = 44  # in heights of the font


def _unwritten(kind: type) -> list[str]:
    """Abstract methods that a class still has; `ABCMeta` and the metaclass of PySide6 do not go together."""
    ours = (each for each in kind.__mro__ if each.__module__.startswith(__name__.partition(".")[0]))
    names = {name for each in ours for name in vars(each)}
    return sorted(n for n in names if getattr(getattr(kind, n, None), "__isabstractmethod__", False))


class Intake(QWidget):
    """A panel that files are dropped on, picked for, or pasted into.

    Parameters
    ----------
    desk : Desk
    parent : QWidget, optional
    """

    KEY: ClassVar[str]
    TITLE: ClassVar[str]
    TIP: ClassVar[str]
    DROP: ClassVar[tuple[str, str, str]]
    FILTER: ClassVar[str]

    handed = Signal(str, list)  # paths that another panel is for

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        if lacking := _unwritten(type(self)):
            raise TypeError(f"{type(self).__name__} is abstract: it lacks {', '.join(lacking)}")
        super().__init__(parent)
        self.setObjectName("decantPanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.TITLE)
        self.setAcceptDrops(True)
        self.desk, self.look = desk, desk.look
        self._narrow: bool | None = None
        self._styled = 0.0
        title, text, short = self.DROP
        self.drop = DropArea(self.look, title, text, short, self.ways_in())
        self._news = QVBoxLayout()
        self.look.changed.connect(self._restyle)
        self._restyle()

    @abstractmethod
    def add(self, paths: Sequence[Path]) -> None:
        """Take files and folders in."""

    @abstractmethod
    def refresh(self) -> None:
        """Bring buttons and areas in line with what there is."""

    def ways_in(self) -> list[Action]:
        """Buttons for those who would rather pick than drop."""
        return [
            Action("Add &files…", "add-file", "Choose files (Ctrl+O)", self.pick_files),
            Action("Add f&older…", "add-folder", "Choose a folder (Ctrl+Shift+O)", self.pick_folder),
        ]

    def take(self, data: Any) -> bool:
        """Take in what was dropped or pasted; False if there is nothing for this panel."""
        paths = paths_of(data)
        if paths:
            self.add(paths)
        return bool(paths)

    def _restyle(self) -> None:
        self._styled = self.font().pointSizeF()
        self.setStyleSheet(style_sheet(self.look.theme, self.font()))

    def changeEvent(self, event: Any) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and self.font().pointSizeF() != self._styled:
            self._restyle()  # as in napari, which sets the size when the panel is docked

    def resizeEvent(self, event: Any) -> None:  # noqa: N802
        narrow = self.width() < _NARROW * self.fontMetrics().height()
        if narrow != self._narrow:
            self._narrow = narrow
            self.set_narrow(narrow)
        super().resizeEvent(event)

    def set_narrow(self, narrow: bool) -> None:
        """Fit a single column, or spread out."""
        self.drop.set_narrow(narrow)
        for notice in self.notices():
            notice.set_narrow(narrow)

    # --- files in ---

    def place(self) -> str:
        """The folder where dialogs start: that of the files in the panel, or the dialogs' last one."""
        return ""

    def pick_files(self) -> None:
        """Let the user choose files."""
        names, _ = QFileDialog.getOpenFileNames(self, self.DROP[0], self.place(), self.FILTER)
        if names:
            self.add([Path(name) for name in names])

    def pick_folder(self) -> None:
        """Let the user choose a folder."""
        name = QFileDialog.getExistingDirectory(self, "Choose a folder", self.place())
        if name:
            self.add([Path(name)])

    def keyPressEvent(self, event: Any) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Open):
            self.pick_files()
        elif event.matches(QKeySequence.StandardKey.Paste):
            self.take(QGuiApplication.clipboard().mimeData())
        elif event.key() == Qt.Key.Key_O and event.modifiers() == (
            Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        ):
            self.pick_folder()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: Any) -> None:  # noqa: N802
        if event.mimeData().hasUrls():
            event.acceptProposedAction()
            self.drop.set_hot(True)

    def dragLeaveEvent(self, event: Any) -> None:  # noqa: N802
        self.drop.set_hot(False)

    def dropEvent(self, event: Any) -> None:  # noqa: N802
        self.drop.set_hot(False)
        if self.take(event.mimeData()):
            event.acceptProposedAction()

    def note(self, text: str, *actions: Action, kind: str = "info", closable: bool = True) -> Notice:
        """Show a message above everything else; one of the same words only once."""
        for old in self.notices():
            if old.text == text:
                return old
        return self._show_notice(Notice(self.look, text, actions, kind=kind, closable=closable))

    def _show_notice(self, notice: Notice) -> Notice:
        notice.set_narrow(bool(self._narrow))
        self._news.addWidget(notice)
        notice.show()
        for button in notice.buttons:
            button.clicked.connect(notice.put_away)
        return notice

    def notices(self) -> list[Notice]:
        """Messages that are shown."""
        items = (self._news.itemAt(i).widget() for i in range(self._news.count()))
        return [item for item in items if isinstance(item, Notice)]


def beside(paths: Iterable[Path | None]) -> str:
    """The folder where a dialog starts: that of the first file there is; empty for the dialogs' last one."""
    return next((str(path.parent) for path in paths if path is not None), "")


def paths_of(data: Any) -> list[Path]:
    """Local files among what was dropped or copied."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
