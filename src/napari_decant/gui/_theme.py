"""Colours for light and dark, and everything that depends on them: icons, the style sheet, the palette."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from qtpy.QtCore import QByteArray, QObject, QRectF, Qt, Signal
from qtpy.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from qtpy.QtSvg import QSvgRenderer

import napari_decant

__all__ = ["DARK", "LIGHT", "Look", "Theme", "icon_file", "mix", "system_theme"]

_SIZES = (16, 20, 24, 32, 48, 64, 96)


@dataclass(frozen=True)
class Theme:
    """A set of colours by what they are for; all are ``#rrggbb``."""

    dark: bool
    window: str
    surface: str
    raised: str
    text: str
    muted: str
    border: str
    accent: str
    on_accent: str
    good: str
    bad: str
    warn: str

    @cached_property
    def selection(self) -> str:
        """Behind chosen rows."""
        return mix(self.surface, self.accent, 0.28 if self.dark else 0.16)

    @cached_property
    def hover(self) -> str:
        """Behind what the pointer is on."""
        return mix(self.surface, self.text, 0.07)


LIGHT = Theme(
    dark=False,
    window="#f3f5f8",
    surface="#ffffff",
    raised="#e9edf2",
    text="#1b2430",
    muted="#586474",
    border="#cfd6df",
    accent="#0b6f9c",
    on_accent="#ffffff",
    good="#1a7f43",
    bad="#bf2f26",
    warn="#8f5f00",
)
DARK = Theme(
    dark=True,
    window="#1b2027",
    surface="#232a33",
    raised="#2d3641",
    text="#e5eaf0",
    muted="#9ba8b7",
    border="#3b4653",
    accent="#43b1df",
    on_accent="#0d1a22",
    good="#51c583",
    bad="#ff8379",
    warn="#e3b04b",
)


def mix(first: str, second: str, share: float) -> str:
    """A colour between two; ``share`` of the second one."""
    a, b = QColor(first), QColor(second)
    parts = zip(
        (a.red(), a.green(), a.blue()),
        (b.red(), b.green(), b.blue()),
        strict=True,
    )
    return "#" + "".join(f"{round(x + (y - x) * share):02x}" for x, y in parts)


def system_theme() -> Theme:
    """Light or dark, as the system is set."""
    hints = QGuiApplication.styleHints()
    scheme = getattr(hints, "colorScheme", None)  # Qt 6.5
    if scheme is not None and scheme() != Qt.ColorScheme.Unknown:
        return DARK if scheme() == Qt.ColorScheme.Dark else LIGHT
    return DARK if QGuiApplication.palette().color(QPalette.ColorRole.Window).lightness() < 128 else LIGHT


class Look(QObject):
    """The theme in force; widgets repaint themselves when it changes.

    Parameters
    ----------
    theme : Theme
        To start with.
    """

    changed = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._icons: dict[tuple[str, str], QIcon] = {}

    @property
    def theme(self) -> Theme:
        """The colours."""
        return self._theme

    def set_theme(self, theme: Theme) -> None:
        """Change the colours everywhere."""
        if theme != self._theme:
            self._theme = theme
            self._icons.clear()
            self.changed.emit()

    def color(self, role: str) -> QColor:
        """A colour of the theme by its name."""
        return QColor(getattr(self._theme, role))

    def icon(self, name: str, role: str = "text") -> QIcon:
        """One of our icons in a colour of the theme, sharp at any size."""
        key = (name, role)
        if key not in self._icons:
            icon = QIcon()
            for size in _SIZES:
                pixmap = self._pixmap(name, role, size)
                for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):  # Qt would tint those of chosen rows
                    icon.addPixmap(pixmap, mode)
                icon.addPixmap(self._pixmap(name, "border", size), QIcon.Mode.Disabled)
            self._icons[key] = icon
        return self._icons[key]

    def _pixmap(self, name: str, role: str, size: int) -> QPixmap:
        svg = _svg(name).replace("currentColor", self.color(role).name())
        pixmap = QPixmap(size, size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        QSvgRenderer(QByteArray(svg.encode())).render(painter, QRectF(0, 0, size, size))
        painter.end()
        return pixmap

    def palette(self) -> QPalette:
        """For a program of our own; inside napari its style sheet rules."""
        t, palette, role = self._theme, QPalette(), QPalette.ColorRole
        colors = {
            role.Window: t.window,
            role.WindowText: t.text,
            role.Base: t.surface,
            role.AlternateBase: t.raised,
            role.Text: t.text,
            role.PlaceholderText: t.muted,
            role.Button: t.raised,
            role.ButtonText: t.text,
            role.BrightText: t.bad,
            role.ToolTipBase: t.surface,
            role.ToolTipText: t.text,
            role.Highlight: t.accent,
            role.HighlightedText: t.on_accent,
            role.Link: t.accent,
            role.Light: mix(t.raised, "#ffffff", 0.2),
            role.Midlight: t.raised,
            role.Mid: t.border,
            role.Dark: mix(t.border, "#000000", 0.3),
            role.Shadow: "#000000",
        }
        for which, color in colors.items():
            palette.setColor(which, QColor(color))
        off = QColor(mix(t.muted, t.window, 0.35))
        for which in (role.WindowText, role.Text, role.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, which, off)
        return palette


def icon_file(name: str) -> Path:
    """Where one of our icons lies."""
    return Path(napari_decant.__file__).parent / "resources" / "icons" / f"{name}.svg"


def _svg(name: str) -> str:
    return icon_file(name).read_text(encoding="utf-8")
