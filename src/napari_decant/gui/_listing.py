"""A table of rows with the details of the chosen one and a menu: common to panels with jobs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from qtpy.QtCore import QPoint, Qt, QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_decant.gui._desk import Desk
from napari_decant.gui._intake import beside
from napari_decant.gui._looking import Looking
from napari_decant.gui._menu import pop_up
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._table import Table
from napari_decant.gui._widgets import Action, label

__all__ = ["Listing"]

_REFRESH_MS = 80


class Listing(Looking):
    """A panel with a row for each thing that it got.

    Parameters
    ----------
    desk : Desk
    parent : QWidget, optional
    """

    COLUMNS: ClassVar[Sequence[tuple[str, str]]]

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_REFRESH_MS)
        self._soon.timeout.connect(self.refresh)
        self.table = Table(self.look, self.COLUMNS)
        self.table.setToolTip("Right click or the Menu key: what can be done with a row; Delete takes it off")
        self.rows = self.table.rows
        self.table.menu_wanted.connect(self._show_menu)
        self.table.remove_wanted.connect(lambda: self.remove(self.table.chosen()))
        self.table.copy_wanted.connect(lambda: self.copy(self.table.chosen()))
        self.table.row_chosen.connect(self._show_detail)
        self.detail = label(wrap=True)
        self.detail.setObjectName("decantDetail")
        self.detail.setMargin(self.fontMetrics().height() // 2)
        self.detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.detail.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Maximum)
        self.detail.hide()

    @abstractmethod
    def row_actions(self, row: Row) -> list[Action]:
        """What can be done with a row, for its menu, besides removing it."""

    @abstractmethod
    def cancel_rows(self, rows: Iterable[Row]) -> None:
        """Stop the work on some rows."""

    def place(self) -> str:
        """See `Intake.place`: beside what was added last."""
        return beside(row.path for row in reversed(self.rows.root.children))

    def refresh_soon(self) -> None:
        """Refresh a moment later, once for many changes."""
        if not self._soon.isActive():
            self._soon.start()

    def busy(self, row: Row) -> bool:
        """Whether the row waits or is worked on."""
        return row.mark in (Mark.QUEUED, Mark.RUNNING)

    def remove(self, rows: Iterable[Row]) -> None:
        """Take rows that are not being worked on off the list; files stay."""
        self.rows.remove(row for row in rows if row.parent is self.rows.root and not self.busy(row))
        self.refresh()

    def copy(self, rows: Iterable[Row]) -> None:
        """Copy rows as text."""
        QGuiApplication.clipboard().setText("\n".join(self.report(row) for row in rows))

    def report(self, row: Row) -> str:
        """A row in words."""
        facts = [str(row.path or row.name), row.what, row.size_words, row.state, row.detail]
        return "\n  ".join(fact for fact in facts if fact)

    def _show_detail(self, row: Row | None) -> None:
        text = row.detail if row is not None else ""
        self.detail.setText(text if len(text) < 600 else text[:600] + "…")
        self.detail.setVisible(bool(text))

    def _show_menu(self, point: QPoint, row: Row) -> None:
        chosen = self.table.chosen()
        actions = self.row_actions(row)
        if any(self.busy(each) for each in chosen):
            tip = "Stop the work on it"
            actions.insert(0, Action("Cancel this", "cancelled", tip, lambda: self.cancel_rows(chosen)))
        actions.append(Action("Copy report", "copy", "Copy what is known of it", lambda: self.copy(chosen)))
        if not any(self.busy(each) for each in chosen):
            tip = "Take it off this list; no file is touched"
            actions.append(Action("Remove from list", "close", tip, lambda: self.remove(chosen)))
        self.menu = pop_up(self, self.look, actions, point)
