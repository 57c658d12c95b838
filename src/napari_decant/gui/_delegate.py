"""How the cells of rows are drawn."""

from __future__ import annotations

from qtpy.QtCore import QModelIndex, QObject, QRect, QSize, Qt
from qtpy.QtGui import QPainter
from qtpy.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from napari_decant.gui._row import Mark, Row
from napari_decant.gui._theme import Look
from napari_decant.gui._tree import RIGHT, ROW, RowModel

__all__ = ["RowDelegate"]


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
        painter.drawText(rect.adjusted(pad, 0, -pad, 0), int(RIGHT), words)
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
