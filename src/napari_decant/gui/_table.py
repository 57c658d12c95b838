"""The table of a panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QModelIndex, QPoint, QSize, Qt, Signal
from qtpy.QtGui import QKeySequence, QPainter
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTreeView

from napari_decant.gui._delegate import RowDelegate
from napari_decant.gui._row import Row
from napari_decant.gui._theme import Look
from napari_decant.gui._tree import ROW, RowModel

__all__ = ["Table"]

_SAMPLES = {"size": "999 bytes", "packed": "~ 99.9 MB", "state": "written, read back"}


class Table(QTreeView):
    """Rows with aligned numbers; in a narrow place the name has all facts below it.

    Parameters
    ----------
    look : Look
    columns : sequence of (str, str)
        See `RowModel`.
    """

    menu_wanted = Signal(QPoint, object)
    remove_wanted = Signal()
    copy_wanted = Signal()
    row_chosen = Signal(object)

    def __init__(self, look: Look, columns: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.setObjectName("decantTable")
        self.setAccessibleName("Files")
        self.rows = RowModel(columns, self)
        self.setModel(self.rows)
        self._delegate = RowDelegate(look, self)
        self.setItemDelegate(self._delegate)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.customContextMenuRequested.connect(self._on_menu)
        self.setTabKeyNavigation(False)
        self.setMinimumHeight(self.fontMetrics().height() * 5)
        header = self.header()
        header.setStretchLastSection(False)
        header.setSectionsMovable(False)
        header.setSortIndicatorShown(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.setSectionsClickable(True)
        header.sectionClicked.connect(self._sort)
        header.setMinimumSectionSize(self.fontMetrics().height() * 2)
        header.setToolTip("Click to sort")
        self.selectionModel().currentChanged.connect(lambda *_: self.row_chosen.emit(self.current()))
        self._look = look
        look.changed.connect(self.viewport().update)
        self.set_narrow(False)

    def sizeHint(self) -> QSize:  # noqa: N802
        height = self.fontMetrics().height()
        return QSize(height * 20, height * 12)

    def set_narrow(self, narrow: bool) -> None:
        """Show the name and the state only, with the rest below the name."""
        self._delegate.narrow = narrow
        header = self.header()
        for column, key in enumerate(self.rows.keys):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
            self.setColumnHidden(column, narrow and key not in ("name", "state"))
        self._fit()
        self.scheduleDelayedItemsLayout()

    def resizeEvent(self, event: Any) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()

    def drawRow(self, painter: QPainter, option: Any, index: QModelIndex) -> None:  # noqa: N802
        super().drawRow(painter, option, index)
        if self._delegate.narrow:
            self._delegate.paint_below(painter, option, index.siblingAtColumn(0))
        # Below the whole row: a style sheet's line would leave out where branches are drawn.
        painter.setPen(self._look.color("raised"))
        painter.drawLine(option.rect.bottomLeft(), option.rect.bottomRight())

    def _fit(self) -> None:
        """Numbers and states get what they need; names and what becomes of them share the rest."""
        metrics = self.fontMetrics()
        free = self.viewport().width()
        shown = [key for i, key in enumerate(self.rows.keys) if not self.isColumnHidden(i)]
        for column, key in enumerate(self.rows.keys):
            if key in _SAMPLES and key in shown:
                sample = "restored, equal" if self._delegate.narrow else _SAMPLES[key]
                extra = metrics.height() * (3 if key == "state" else 1)
                width = metrics.horizontalAdvance(sample) + extra
                self.setColumnWidth(column, width)
                free -= width
        rest = [key for key in shown if key not in _SAMPLES]
        for key in rest:
            share = 1.0 if len(rest) == 1 else {"name": 0.48, "what": 0.52}[key]
            self.setColumnWidth(self.rows.keys.index(key), max(metrics.height() * 4, int(free * share)))

    def _sort(self, column: int) -> None:
        self.rows.sort(column, self.header().sortIndicatorOrder())

    def selectAll(self) -> None:  # noqa: N802
        """Select every row, also those that no scrolling has shown yet."""
        self.rows.show_all()
        super().selectAll()

    def current(self) -> Row | None:
        """The row that the cursor is on."""
        index = self.currentIndex()
        return index.data(ROW) if index.isValid() else None

    def chosen(self) -> list[Row]:
        """Rows that are selected, in the table's order."""
        rows = [index.data(ROW) for index in self.selectionModel().selectedRows(0)]
        return sorted(rows, key=lambda row: (row.parent.position if row.parent else 0, row.position))

    def _on_menu(self, point: QPoint) -> None:
        index = self.indexAt(point)
        if index.isValid():
            self.menu_wanted.emit(self.viewport().mapToGlobal(point), index.data(ROW))

    def keyPressEvent(self, event: Any) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Delete):
            self.remove_wanted.emit()
        elif event.matches(QKeySequence.StandardKey.Copy):
            self.copy_wanted.emit()
        elif event.key() == Qt.Key.Key_Menu and self.currentIndex().isValid():
            self._on_menu(self.visualRect(self.currentIndex()).center())
        else:
            super().keyPressEvent(event)
