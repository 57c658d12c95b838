"""Rows as a Qt model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qtpy.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    Qt,
    Signal,
)

from napari_decant.gui._row import Mark, Row

__all__ = ["RIGHT", "ROW", "RowModel"]

ROW = Qt.ItemDataRole.UserRole + 1
_PAGE = 4000
_PLAIN = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_FLAGS = {
    (checkable, leaf): _PLAIN
    | (Qt.ItemFlag.ItemIsUserCheckable if checkable else _PLAIN)
    | (Qt.ItemFlag.ItemNeverHasChildren if leaf else _PLAIN)
    for checkable in (False, True)
    for leaf in (False, True)
}
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_SORT: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name.casefold(),
    "what": lambda row: row.what.casefold(),
    "size": lambda row: row.size,
    "packed": lambda row: row.packed,
    "state": lambda row: (list(Mark).index(row.mark), row.fraction),
}


class RowModel(QAbstractItemModel):
    """A tree of rows.

    Parameters
    ----------
    columns : sequence of (str, str)
        Key and heading: the keys are ``name``, ``what``, ``size``, ``packed``, ``state``.
    """

    checked = Signal()

    def __init__(self, columns: Sequence[tuple[str, str]], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.root = Row("")
        self.columns = list(columns)
        self.keys = [key for key, _ in columns]
        self._shown = 0  # top-level rows that views know of; they lay out each one they know

    # --- changing rows ---

    def add(self, rows: Iterable[Row], parent: Row | None = None) -> None:
        """Append rows."""
        new = list(rows)
        if not new:
            return
        above = parent or self.root
        first = len(above.children)
        for position, row in enumerate(new, first):
            row.parent, row.position = above, position
            row.number_children()
        if above is self.root:
            above.children.extend(new)
            self._show_up_to(min(len(above.children), max(self._shown, _PAGE)))
            return
        self.beginInsertRows(self.index_of(above), first, first + len(new) - 1)
        above.children.extend(new)
        self.endInsertRows()

    def _show_up_to(self, count: int) -> None:
        if count > self._shown:
            self.beginInsertRows(QModelIndex(), self._shown, count - 1)
            self._shown = count
            self.endInsertRows()

    def show_all(self) -> None:
        """Let views know of every row."""
        self._show_up_to(len(self.root.children))

    def canFetchMore(self, parent: QModelIndex) -> bool:  # noqa: N802
        return not parent.isValid() and self._shown < len(self.root.children)

    def fetchMore(self, parent: QModelIndex) -> None:  # noqa: N802
        self._show_up_to(min(len(self.root.children), self._shown + _PAGE))

    def set_children(self, row: Row, children: Sequence[Row]) -> None:
        """Replace what is below a row."""
        if row.children:
            self.beginRemoveRows(self.index_of(row), 0, len(row.children) - 1)
            row.children = []
            self.endRemoveRows()
        self.add(children, row)

    def remove(self, rows: Iterable[Row]) -> None:
        """Take top-level rows away."""
        gone = {id(row) for row in rows}
        if not gone:
            return
        self.beginResetModel()
        self.root.children = [row for row in self.root.children if id(row) not in gone]
        self.root.number_children()
        self._shown = min(len(self.root.children), _PAGE)
        self.endResetModel()

    def touch(self, row: Row) -> None:
        """Draw a row anew."""
        if row.parent is self.root and row.position >= self._shown:
            return
        first = self.index_of(row)
        self.dataChanged.emit(first, first.siblingAtColumn(len(self.keys) - 1))

    def touch_all(self) -> None:
        """Draw all top-level rows anew."""
        if self._shown:
            self.dataChanged.emit(self.index(0, 0), self.index(self._shown - 1, len(self.keys) - 1))

    def index_of(self, row: Row) -> QModelIndex:
        """Where a row is."""
        return QModelIndex() if row is self.root else self.createIndex(row.position, 0, row)

    # --- what Qt asks ---

    def index(self, row: int, column: int, parent: QModelIndex = QModelIndex()) -> QModelIndex:  # noqa: B008
        rows = (parent.internalPointer() if parent.isValid() else self.root).children
        if 0 <= row < len(rows) and 0 <= column < len(self.keys):
            return self.createIndex(row, column, rows[row])
        return QModelIndex()

    def parent(self, index: QModelIndex = QModelIndex()) -> Any:  # noqa: B008
        above = self._row(index).parent
        return QModelIndex() if above is None else self.index_of(above)

    def _row(self, index: QModelIndex) -> Row:
        row: Row = index.internalPointer() if index.isValid() else self.root
        return row

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008, N802
        if not parent.isValid():
            return self._shown
        return 0 if parent.column() > 0 else len(parent.internalPointer().children)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008, N802
        return len(self.keys)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        key, title = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return title
        if role == Qt.ItemDataRole.TextAlignmentRole and key in ("size", "packed"):
            return RIGHT
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, key = self._row(index), self.keys[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, key)
        if role == ROW:
            return row
        if role == Qt.ItemDataRole.TextAlignmentRole and key in ("size", "packed"):
            return RIGHT
        if role == Qt.ItemDataRole.ToolTipRole:
            lines = [str(row.path) if row.path else row.name, row.detail]
            return "\n".join(line for line in lines if line) if key == "name" else self._tip(row, key)
        if role == Qt.ItemDataRole.CheckStateRole and key == "name" and row.checked is not None:
            return self._check_state(row)
        return None

    @staticmethod
    def _text(row: Row, key: str) -> str:
        if key == "size":
            return row.size_words
        if key == "packed":
            return row.packed_words
        return row.state if key == "state" else str(getattr(row, key))

    def _tip(self, row: Row, key: str) -> str:
        if key == "state":
            return row.detail or row.state
        if key in ("size", "packed"):
            value = getattr(row, key)
            return f"{value:,} bytes" if value >= 0 else ""
        return self._text(row, key)

    def _check_state(self, row: Row) -> Qt.CheckState:
        below = {child.checked for child in row.children if child.checked is not None}
        if len(below) == 2:
            return Qt.CheckState.PartiallyChecked
        chosen = True in below if below else bool(row.checked)
        return Qt.CheckState.Checked if chosen else Qt.CheckState.Unchecked

    def setData(self, index: QModelIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        if role != Qt.ItemDataRole.CheckStateRole:
            return False
        row = self._row(index)
        chosen = Qt.CheckState(value) == Qt.CheckState.Checked
        for each in row.walk():
            if each.checked is not None:
                each.checked = chosen
        self.touch(row)
        if row.children:
            last = row.children[-1]
            self.dataChanged.emit(self.index_of(row.children[0]), self.index_of(last))
        if row.parent is not None and row.parent is not self.root:
            self.touch(row.parent)
        self.checked.emit()
        return True

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        # Asked of every row whenever a view lays itself out.
        row = index.internalPointer() if index.isValid() else self.root
        checkable = row.checked is not None and index.column() == 0
        return _FLAGS[checkable, not row.children]

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if not 0 <= column < len(self.keys):
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rows = [(self._row(index), index.column()) for index in before]
        self.root.children.sort(key=_SORT[self.keys[column]], reverse=order == Qt.SortOrder.DescendingOrder)
        self.root.number_children()
        self.changePersistentIndexList(
            before, [self.createIndex(row.position, column, row) for row, column in rows]
        )
        self.layoutChanged.emit()
