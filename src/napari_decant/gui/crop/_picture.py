"""The small picture of what will be cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QRect, QSize, Qt
from qtpy.QtGui import QColor, QImage, QPainter
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_decant.gui._theme import Look

__all__ = ["Picture", "blended"]

_PART: Final = "This image has no coarse levels: a picture of the whole box would read too much of it"


def blended(layers: Sequence[tuple[NDArray[np.float64], bool]]) -> NDArray[np.float64]:
    """Lay pictures over each other, topmost first, shape (rows, columns, 3) from 0 to 1.

    Parameters
    ----------
    layers : sequence of (array, bool)
        Colours, and whether they are added to those below; else what is black lets those through. Of unlike
        shapes, that of the topmost counts.
    """
    shown = np.zeros_like(layers[0][0])
    for painted, adds in reversed([layer for layer in layers if layer[0].shape == shown.shape]):
        shown = shown + painted if adds else np.where(painted.any(axis=-1, keepdims=True), painted, shown)
    return shown


class Picture(QWidget):
    """Shows a picture, as large as fits, or words where there is none.

    Parameters
    ----------
    look : Look
    """

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._image: QImage | None = None
        self._words = ""
        self._stale = self._part = False
        self.setAccessibleName("Preview")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(self.fontMetrics().height() * 11)
        look.changed.connect(self.update)

    @property
    def image(self) -> QImage | None:
        """What is shown."""
        return self._image

    @property
    def words(self) -> str:
        """What is said instead."""
        return self._words

    def show_pixels(self, pixels: NDArray[np.float64], *, part: bool = False) -> None:
        """Show a picture, shape (rows, columns, 3), values from 0 to 1; ``part`` is said below it."""
        data = np.ascontiguousarray(np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8))
        rows, columns = data.shape[:2]
        image = QImage(data.tobytes(), columns, rows, 3 * columns, QImage.Format.Format_RGB888)
        self._image, self._words, self._stale = image.copy(), "", False
        self._part = part
        self.setToolTip(_PART if part else "")
        self.update()

    def say(self, words: str) -> None:
        """Show words and no picture."""
        self._image, self._words, self._stale = None, words, False
        self.update()

    def set_stale(self) -> None:
        """Dim the picture until the next one comes."""
        self._stale = True
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Wide as the panel, a few lines high."""
        return QSize(self.fontMetrics().height() * 16, self.height())

    def paintEvent(self, event: Any) -> None:  # noqa: N802
        """Draw the picture or the words."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._look.color("raised"))
        if self._image is None:
            painter.setPen(self._look.color("muted"))
            inner = self.rect().adjusted(8, 4, -8, -4)
            flags = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
            painter.drawText(inner, flags, self._words)
        else:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            size = self._image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
            place = QRect(0, 0, size.width(), size.height())
            place.moveCenter(self.rect().center())
            painter.drawImage(place, self._image)
            if self._stale:
                veil = QColor(self._look.color("raised"))
                veil.setAlpha(90)
                painter.fillRect(place, veil)
            if self._part:
                line = self.rect()
                line.setTop(line.bottom() - round(1.4 * self.fontMetrics().height()))
                painter.fillRect(line, self._look.color("raised"))
                painter.setPen(self._look.color("muted"))
                painter.drawText(line, int(Qt.AlignmentFlag.AlignCenter), "the middle only")
        painter.end()
