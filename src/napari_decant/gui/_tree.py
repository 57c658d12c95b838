"""Rows as a Qt model, and how their cells are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qtpy.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QRect,
    QSize,
    Qt,
    Signal,
)
from qtpy.QtGui import QPainter
from qtpy.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from napari_decant.gui._row import Mark, Row
from napari_decant.gui._theme import Look

__all__ = ["ROW", "RowDelegate", "RowModel"]

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
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
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
            return _RIGHT
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, key = self._row(index), self.keys[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, key)
        if role == ROW:
            return row
        if role == Qt.ItemDataRole.TextAlignmentRole and key in ("size", "packed"):
            return _RIGHT
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


class RowDelegate(QStyledItemDelegate):
    """Draws cells: the state with its mark or a bar, and in a narrow table all facts below the name.

    Parameters
    ----------
    look : Look
        Colours and icons.
    """

    def __init__(self, look: Look, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self.narrow = False

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:  # noqa: N802
        height = option.fontMetrics.height()
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), round(height * (2.9 if self.narrow else 1.9)))

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex) -> None:  # noqa: N802
        super().initStyleOption(option, index)
        row: Row = index.data(ROW)
        key = self._key(index)
        size = round(option.fontMetrics.height() * 1.15)
        option.decorationSize = QSize(size, size)
        icon = ""
        role = "muted"
        if key == "name":
            icon = row.icon
        elif key == "state":
            icon, role = row.mark.value.icon, row.mark.value.role
        if icon:
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            option.icon = self._look.icon(icon, role)
        option.textElideMode = (
            Qt.TextElideMode.ElideMiddle if key in ("name", "what") else Qt.TextElideMode.ElideRight
        )

    @staticmethod
    def _key(index: QModelIndex) -> str:
        model = index.model()
        return model.keys[index.column()] if isinstance(model, RowModel) else ""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        row: Row = index.data(ROW)
        key = self._key(index)
        if self.narrow and key == "name":
            self._paint_name(painter, option, index, row)
            return
        if self.narrow:  # beside the name, above the line for the rest
            self._background(painter, option, index, icon=False)
            option = QStyleOptionViewItem(option)
            height = option.fontMetrics.height()
            option.rect.setTop(option.rect.center().y() - height)
            option.rect.setHeight(height)
        if key == "state" and row.mark is Mark.RUNNING:
            self._paint_bar(painter, option, index, row)
        else:
            super().paint(painter, option, index)

    def _background(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex, *, icon: bool = True
    ) -> QStyleOptionViewItem:
        """Draw everything but the text, and return the option."""
        full = QStyleOptionViewItem(option)
        self.initStyleOption(full, index)
        if not icon:
            full.features &= ~QStyleOptionViewItem.ViewItemFeature.HasDecoration
        text, full.text = full.text, ""
        style = full.widget.style() if full.widget is not None else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, full, painter, full.widget)
        full.text = text
        return full

    def _paint_bar(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex, row: Row
    ) -> None:
        full = self._background(painter, option, index)
        rect, height = full.rect, full.fontMetrics.height()
        pad = height // 2
        words = row.state
        wide = full.fontMetrics.horizontalAdvance("100 %") + pad
        bar = QRect(
            rect.left() + pad, rect.center().y() - height // 6, rect.width() - 2 * pad - wide, height // 3
        )
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if bar.width() > height:
            painter.setBrush(self._look.color("raised"))
            painter.drawRoundedRect(bar, bar.height() / 2, bar.height() / 2)
            done = QRect(bar)
            done.setWidth(max(bar.height(), round(bar.width() * row.fraction)))
            painter.setBrush(self._look.color("accent"))
            painter.drawRoundedRect(done, bar.height() / 2, bar.height() / 2)
        painter.setPen(self._look.color("text"))
        painter.drawText(rect.adjusted(pad, 0, -pad, 0), int(_RIGHT), words)
        painter.restore()

    def _paint_name(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex, row: Row
    ) -> None:
        full = self._background(painter, option, index)
        height, left = full.fontMetrics.height(), self._text_left(full)
        place = QRect(left, full.rect.center().y() - height, full.rect.right() - left, height)
        self._paint_line(painter, place, row.name, "text", Qt.TextElideMode.ElideMiddle)

    def paint_below(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        """Draw the rest of a narrow row, below its name and state; ``option.rect`` is that of the row."""
        row: Row = index.data(ROW)
        first = QStyleOptionViewItem(option)
        first.rect = option.widget.visualRect(index)
        self.initStyleOption(first, index)
        space = option.fontMetrics.horizontalAdvance(" ")
        left, top = self._text_left(first), first.rect.center().y()
        place = QRect(left, top, option.rect.right() - left - space, option.fontMetrics.height())
        sizes = " \N{RIGHTWARDS ARROW} ".join(words for words in (row.size_words, row.packed_words) if words)
        sizes = f", {sizes}" if row.what and sizes else sizes
        room = place.width() - option.fontMetrics.horizontalAdvance(sizes)
        what = option.fontMetrics.elidedText(row.what, Qt.TextElideMode.ElideRight, room)
        self._paint_line(painter, place, what + sizes, "muted", Qt.TextElideMode.ElideRight)

    @staticmethod
    def _text_left(option: QStyleOptionViewItem) -> int:
        """Where the text of an item begins."""
        style = option.widget.style() if option.widget is not None else QApplication.style()
        option.features |= QStyleOptionViewItem.ViewItemFeature.HasDisplay
        area = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, option, option.widget)
        return int(area.left() + option.fontMetrics.horizontalAdvance(" "))

    def _paint_line(
        self, painter: QPainter, place: QRect, text: str, role: str, elide: Qt.TextElideMode
    ) -> None:
        painter.save()
        painter.setPen(self._look.color(role))
        line = painter.fontMetrics().elidedText(text, elide, place.width())
        painter.drawText(place, int(Qt.AlignmentFlag.AlignVCenter), line)
        painter.restore()
