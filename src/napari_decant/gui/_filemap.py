"""A small map of a file: where its pixels are, and where everything else is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QRectF, QSize, Qt
from qtpy.QtGui import QColor, QPainter, QPainterPath
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_decant.gui._theme import Look
from napari_decant.gui._words import size_text

__all__ = ["FileMap"]

_NAMES = {
    "pixels": "pixels, compressed",
    "levels": "smaller copies for viewing",
    "husk": "every other byte of the original",
    "metadata": "manifest, hashes, directory",
}


class FileMap(QWidget):
    """Two bars: the original from its first to its last byte, and what the archive holds of it.

    Parameters
    ----------
    look : Look
    """

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._original: Sequence[float] = ()
        self._archive: Sequence[tuple[str, int]] = ()
        self._title = ""
        look.changed.connect(self.update)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Map of the file")

    def show_file(self, title: str, original: Sequence[float], archive: Sequence[tuple[str, int]]) -> None:
        """Show the map of a file.

        Parameters
        ----------
        title : str
            What the first bar is.
        original : sequence of float
            For equal stretches of the original, the share of it that is pixels.
        archive : sequence of (str, int)
            Stored bytes by kind.
        """
        self._title, self._original, self._archive = title, original, archive
        total = sum(original) / len(original) if original else 0
        words = [f"{title}: {100 * total:.1f} % pixels"] if original else []
        words += [f"{_NAMES[kind]}: {size_text(size)}" for kind, size in archive]
        self.setToolTip("\n".join(words))
        self.setAccessibleDescription("; ".join(words))
        self.setVisible(bool(original or archive))
        self.updateGeometry()
        self.update()

    def _lines(self) -> int:
        return (3 if self._original else 0) + (2 + len(self._archive) if self._archive else 0)

    def sizeHint(self) -> QSize:  # noqa: N802
        height = self.fontMetrics().height()
        return QSize(height * 20, round(height * (1.25 * self._lines() + 0.6)))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(self.fontMetrics().height() * 8, self.sizeHint().height())

    def color(self, kind: str) -> QColor:
        """The colour of a kind of bytes."""
        roles = {"pixels": "accent", "levels": "good", "husk": "warn", "metadata": "muted"}
        return self._look.color(roles[kind])

    def paintEvent(self, event: Any) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line = self.fontMetrics().height() * 1.25
        y = 0.0
        if self._original:
            y = self._heading(painter, y, line, self._title)
            self._paint_original(painter, QRectF(0, y, self.width(), line))
            y = self._legend(
                painter, y + line, line, [("pixels", "pixels"), ("husk", "everything else: the husk")]
            )
        if self._archive:
            y = self._heading(painter, y + line * 0.4, line, "The archive holds")
            self._paint_archive(painter, QRectF(0, y, self.width(), line))
            y += line
            for kind, size in self._archive:
                y = self._legend(painter, y, line, [(kind, f"{_NAMES[kind]}: {size_text(size)}")])
        painter.end()

    def _heading(self, painter: QPainter, y: float, line: float, text: str) -> float:
        painter.setPen(self._look.color("muted"))
        text = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, self.width())
        painter.drawText(QRectF(0, y, self.width(), line), int(Qt.AlignmentFlag.AlignVCenter), text)
        return y + line

    def _legend(self, painter: QPainter, y: float, line: float, entries: Sequence[tuple[str, str]]) -> float:
        x, dot = 0.0, line * 0.45
        for kind, text in entries:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self.color(kind))
            painter.drawRoundedRect(QRectF(x, y + (line - dot) / 2, dot, dot), 2, 2)
            painter.setPen(self._look.color("text"))
            room = self.width() - x - 1.6 * dot
            shown = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(room))
            painter.drawText(QRectF(x + 1.6 * dot, y, room, line), int(Qt.AlignmentFlag.AlignVCenter), shown)
            x += 1.6 * dot + self.fontMetrics().horizontalAdvance(shown) + 2 * dot
        return y + line

    def _clip(self, painter: QPainter, rect: QRectF) -> None:
        path = QPainterPath()
        path.addRoundedRect(rect, 4, 4)
        painter.setClipPath(path)

    def _paint_original(self, painter: QPainter, rect: QRectF) -> None:
        painter.save()
        self._clip(painter, rect)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.fillRect(rect, self.color("husk"))
        bins = len(self._original)
        width = rect.width() / bins
        for i, share in enumerate(self._original):
            if share <= 0:
                continue
            # A few bytes of husk among many pixels still show, as a notch at the top.
            full = rect.height() if share >= 1 else min(rect.height() - 3, rect.height() * share)
            area = QRectF(rect.left() + i * width, rect.bottom() - full, width + 0.5, full)
            painter.fillRect(area, self.color("pixels"))
        painter.restore()

    def _paint_archive(self, painter: QPainter, rect: QRectF) -> None:
        painter.save()
        self._clip(painter, rect)
        total = sum(size for _, size in self._archive) or 1
        x = rect.left()
        for kind, size in self._archive:
            width = max(2.0, rect.width() * size / total)
            painter.fillRect(QRectF(x, rect.top(), width, rect.height()), self.color(kind))
            x += width
        painter.restore()
