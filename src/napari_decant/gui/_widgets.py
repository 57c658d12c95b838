"""The pieces that panels are made of: buttons, the drop area, notices, the card at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import QEvent, QObject, QSize, Qt, Signal
from qtpy.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QFlowLayout

from napari_decant.gui._theme import Look

__all__ = [
    "Action",
    "Card",
    "DropArea",
    "Notice",
    "bind_icon",
    "breakable",
    "calm_wheel",
    "flat_button",
    "main_button",
    "repolish",
    "side_button",
]


_PLACES = re.compile(r"(?<=[_./\\-])(?=\w)|(?<=\w{16})(?=\w)")  # where a long name may be broken


@dataclass(frozen=True)
class Action:
    """A button to be: its words, icon, tooltip and what it does."""

    text: str
    icon: str
    tip: str
    run: Callable[[], object]


class _IconBinding(QObject):
    def __init__(self, widget: QWidget, look: Look, name: str, role: str) -> None:
        super().__init__(widget)
        self._widget, self._look, self.name, self.role = widget, look, name, role
        look.changed.connect(self.update)
        self.update()

    def update(self) -> None:
        if isinstance(self._widget, QLabel):
            height = self._widget.property("iconSize") or self._widget.fontMetrics().height()
            ratio = self._widget.devicePixelRatioF()
            icon = self._look.icon(self.name, self.role)
            self._widget.setPixmap(icon.pixmap(QSize(height, height), ratio))
        else:
            self._widget.setIcon(self._look.icon(self.name, self.role))


def bind_icon(widget: QWidget, look: Look, name: str, role: str = "text") -> None:
    """Give a button or a label one of our icons, now and whenever the theme changes."""
    for old in widget.findChildren(_IconBinding):
        old.name, old.role = name, role
        old.update()
        return
    _IconBinding(widget, look, name, role)


class _CalmWheel(QObject):
    def eventFilter(self, watched: Any, event: QEvent) -> bool:  # noqa: N802
        if event.type() != QEvent.Type.Wheel or watched.hasFocus():
            return False
        event.ignore()  # so that what is around it gets it
        return True


def calm_wheel(widget: QWidget) -> None:
    """Let the wheel change a field only once it was clicked: over any other one it scrolls the form."""
    widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    widget.installEventFilter(_CalmWheel(widget))


def repolish(widget: QWidget) -> None:
    """Apply the style sheet anew after a property that it asks for was changed."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)


def _button(look: Look, action: Action, kind: str, value: str, role: str) -> QPushButton:
    button = QPushButton(f" {action.text}" if action.icon else action.text)
    button.setProperty(kind, value)
    button.setToolTip(action.tip)
    button.setAccessibleName(action.text.replace("&", ""))
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.clicked.connect(lambda: action.run())
    if action.icon:
        bind_icon(button, look, action.icon, role)
    return button


def main_button(look: Look, action: Action, *, danger: bool = False) -> QPushButton:
    """The one button that does the work."""
    return _button(look, action, "main", "danger" if danger else "true", "on_accent")


def side_button(look: Look, action: Action) -> QPushButton:
    """Any other button with words."""
    return _button(look, action, "side", "true", "text")


def flat_button(look: Look, action: Action) -> QToolButton:
    """A small button without a border; without words if it has an icon alone."""
    button = QToolButton()
    button.setProperty("flat", "true")
    button.setText(action.text)
    button.setToolTip(action.tip)
    button.setAccessibleName(action.text or action.tip)
    style = Qt.ToolButtonStyle
    button.setToolButtonStyle(style.ToolButtonTextBesideIcon if action.text else style.ToolButtonIconOnly)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.clicked.connect(lambda: action.run())
    if action.icon:
        bind_icon(button, look, action.icon)
    return button


def breakable(text: str) -> str:
    """Let long names go on in the next line: they have no spaces, and would be cut off."""
    return re.sub(r"\S{24,}", lambda name: _PLACES.sub("\u200b", name[0]), text)


def label(text: str = "", *, muted: bool = False, wrap: bool = False) -> QLabel:
    """A label in the theme's colours."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)  # file names may look like markup
    if muted:
        made.setProperty("muted", "true")
    if wrap:
        made.setWordWrap(True)
        made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        made.setMinimumWidth(made.fontMetrics().averageCharWidth() * 12)
    return made


class DropArea(QFrame):
    """Says what to drop, and has buttons for those who would rather pick.

    Large as long as there is nothing else; a strip once there are rows.
    """

    def __init__(self, look: Look, title: str, text: str, short: str, actions: Sequence[Action]) -> None:
        super().__init__()
        self.setObjectName("decantDrop")
        self._title, self._short = title, short
        self._picture = label()
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._picture.setProperty("iconSize", self.fontMetrics().height() * 4)
        bind_icon(self._picture, look, "drop", "accent")
        self._head = label(title)
        self._head.setObjectName("dropTitle")
        self._text = label(text, muted=True)
        for each in (self._head, self._text):
            each.setAlignment(Qt.AlignmentFlag.AlignCenter)
            each.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.buttons = [side_button(look, action) for action in actions]
        row = QWidget()
        self._row = QHBoxLayout(row)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addStretch()
        for button in self.buttons:
            self._row.addWidget(button)
        self._row.addStretch()
        self._box = QVBoxLayout(self)
        self._box.addStretch()
        for each in (self._picture, self._head, self._text, row):
            self._box.addWidget(each)
        self._box.addStretch()
        self._box.setSpacing(self.fontMetrics().height() // 2)
        self._strip, self._narrow = False, False
        self.set_strip(False)

    @property
    def strip(self) -> bool:
        """Whether it is small."""
        return self._strip

    def set_strip(self, strip: bool) -> None:
        """Make it small or large."""
        self._strip = strip
        self.setProperty("strip", "true" if strip else "false")
        self._picture.setVisible(not strip)
        self._text.setVisible(not strip)
        self._arrange()
        repolish(self)
        repolish(self._head)

    def set_narrow(self, narrow: bool) -> None:
        """Fit a single column: buttons one below the other."""
        self._narrow = narrow
        self._arrange()

    def _arrange(self) -> None:
        strip, narrow = self._strip, self._narrow
        self._head.setText(self._short if strip else self._title)
        self._head.setObjectName("dropStrip" if strip else "dropTitle")
        self._head.setVisible(not (strip and narrow))
        gap = self.fontMetrics().height() // (3 if strip else 1)
        self._box.setContentsMargins(gap, gap, gap, gap)
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._box.setDirection(across if strip and not narrow else down)
        for place in (0, self._box.count() - 1):
            self._box.setStretch(place, 0 if strip else 1)
        # Wrapped text asks for the height that it would need in a narrow place.
        for words in (self._head, self._text):
            words.setWordWrap(narrow)
        fit = QSizePolicy.Policy.Expanding if strip and not narrow else QSizePolicy.Policy.Ignored
        self._head.setSizePolicy(fit, QSizePolicy.Policy.Preferred)
        self._row.setDirection(down if narrow and not strip else across)
        vertical = QSizePolicy.Policy.Fixed if strip else QSizePolicy.Policy.Expanding
        self.setSizePolicy(QSizePolicy.Policy.Preferred, vertical)

    def set_hot(self, hot: bool) -> None:
        """Show that what is being dragged may be dropped."""
        self.setProperty("hot", "true" if hot else "false")
        repolish(self)


class Notice(QFrame):
    """A line of news with buttons; it can be put away."""

    closed = Signal()

    def __init__(
        self,
        look: Look,
        text: str,
        actions: Sequence[Action] = (),
        *,
        kind: str = "info",
        closable: bool = True,
    ) -> None:
        super().__init__()
        self.setObjectName("decantNotice")
        self.setProperty("kind", kind)
        icon = label()
        names = {"info": ("info", "accent"), "warn": ("warning", "warn"), "bad": ("failed", "bad")}
        bind_icon(icon, look, *names[kind])
        self._said, self._away = text, False
        self._text = label(breakable(text), wrap=True)
        gap = self.fontMetrics().height() // 3
        self.buttons = [side_button(look, action) for action in actions]
        self._inner = QHBoxLayout()
        self._inner.addWidget(self._text, 1)
        for button in self.buttons:
            self._inner.addWidget(button)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * gap, gap, gap, gap)
        row.addWidget(icon, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addLayout(self._inner, 1)
        if closable:
            away = flat_button(look, Action("", "close", "Put this message away", self.put_away))
            row.addWidget(away, 0, Qt.AlignmentFlag.AlignVCenter)

    def set_narrow(self, narrow: bool) -> None:
        """Put buttons below the words, or beside them."""
        direction = QBoxLayout.Direction
        self._inner.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)

    @property
    def text(self) -> str:
        """What it says."""
        return self._said

    def set_text(self, text: str) -> None:
        """Say something else."""
        self._said = text
        self._text.setText(breakable(text))

    def put_away(self) -> None:
        """Remove it; what its button does may have done so already."""
        if self._away:
            return
        self._away = True
        self.closed.emit()
        self.hide()
        self.setParent(None)
        self.deleteLater()


class Card(QFrame):
    """What was done, what failed, and what to do next."""

    def __init__(
        self, look: Look, icon: tuple[str, str], title: str, lines: Sequence[str], actions: Sequence[Action]
    ) -> None:
        super().__init__()
        self.setObjectName("decantCard")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        height = self.fontMetrics().height()
        picture = label()
        picture.setProperty("iconSize", round(height * 2.4))
        bind_icon(picture, look, *icon)
        self.title = label(title, wrap=True)
        self.title.setObjectName("cardTitle")
        self.lines = [label(line, muted=True, wrap=True) for line in lines]
        for each in (self.title, *self.lines):
            each.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        words = QVBoxLayout()
        words.setSpacing(height // 4)
        for each in (self.title, *self.lines):
            words.addWidget(each)
        head = QHBoxLayout()
        head.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        head.addLayout(words, 1)
        head.setSpacing(height)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(height, height // 2, height, height // 2)
        whole.addLayout(head)
        self.buttons = [side_button(look, action) for action in actions]
        if self.buttons:
            row = QWidget()
            flow = QFlowLayout(row)
            flow.setContentsMargins(0, 0, 0, 0)
            for button in self.buttons:
                flow.addWidget(button)
            whole.addWidget(row)
