"""Forms for the settings, closed until they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psygnal import EmissionInfo
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)
from superqt import QElidingLabel

from napari_decant.gui._settings import Settings
from napari_decant.gui._theme import Look
from napari_decant.gui._widgets import Action, bind_icon, calm_wheel, flat_button

if TYPE_CHECKING:
    from magicgui.widgets.bases import ValueWidget

__all__ = ["Field", "Options", "threads_field"]


@dataclass(frozen=True)
class Field:
    """One line of a form.

    Attributes
    ----------
    name : str
        Of the setting.
    kind : str
        magicgui's widget: ``FileEdit``, ``ComboBox``, ``CheckBox``, ``SpinBox``, ``LineEdit``.
    label, tip : str
        For the user.
    options : dict
        For the widget.
    placeholder : str
        What an empty line means.
    read, write : callable
        From the setting to the widget's value, and back.
    """

    name: str
    kind: str
    label: str
    tip: str
    options: dict[str, Any]
    placeholder: str = ""
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value


def folder_field(name: str, label: str, tip: str, none: str) -> Field:
    """A folder to choose; ``none`` says what happens without one."""
    return Field(
        name, "FileEdit", label, tip, {"mode": "d", "nullable": True}, none,
        lambda value: Path(value) if value else None,
        lambda value: str(value) if value and str(value) != "." else "",
    )  # fmt: skip


class _Area(QScrollArea):
    """As high as its contents where there is room, and scrolled where there is not."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("decantFormArea")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setMinimumHeight(self.fontMetrics().height() * 5)

    def sizeHint(self) -> QSize:  # noqa: N802
        hint: QSize = self.widget().sizeHint()
        return hint

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(self.widget().minimumSizeHint().width(), self.minimumHeight())


def threads_field(of: str) -> Field:
    """How many threads work on one thing, such as ``"a file"``."""
    label = f"Threads {of} (0: one a core)"
    return Field("workers", "SpinBox", label, "How many work on it at once", {"min": 0, "max": 256})


class Options(QWidget):
    """A line that unfolds into a form.

    Parameters
    ----------
    look : Look
    settings : Settings
    fields : sequence of Field
    words : callable
        Says what differs from the defaults, for the line.
    """

    changed = Signal(str)

    def __init__(
        self, look: Look, settings: Settings, fields: Sequence[Field], words: Callable[[Settings], str]
    ) -> None:
        super().__init__()
        self._look, self._settings, self._fields, self._words = look, settings, fields, words
        self.widgets: dict[str, ValueWidget[Any]] = {}
        self.toggle = flat_button(look, Action("&Options", "right", "Show or hide the options", self._toggle))
        self.toggle.setCheckable(True)
        self._line = QElidingLabel()
        self._line.setProperty("muted", "true")
        head = QHBoxLayout()
        head.addWidget(self.toggle)
        head.addWidget(self._line, 1)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        self._box.addLayout(head)
        self._form: QWidget | None = None
        settings.events.connect(self._on_setting)
        events, heard = settings.events, self._on_setting
        self.destroyed.connect(lambda: events.disconnect(heard, missing_ok=True))
        self._say()

    def open(self) -> None:
        """Unfold the form."""
        if not self.toggle.isChecked():
            self.toggle.click()

    def _toggle(self) -> None:
        shown = self.toggle.isChecked()
        bind_icon(self.toggle, self._look, "down" if shown else "right")
        if shown and self._form is None:
            self._form = self._make()
            self._box.addWidget(self._form)
        if self._form is not None:
            self._form.setVisible(shown)
        self._say()

    def _make(self) -> QWidget:
        from magicgui import widgets  # only now: it takes a while to import

        form: Any = widgets.Container(labels=True)
        for field in self._fields:
            # A check box has its words at its side.
            words = {"text" if field.kind == "CheckBox" else "label": field.label}
            widget = getattr(widgets, field.kind)(
                name=field.name, tooltip=field.tip, **words, **field.options
            )
            widget.value = field.read(getattr(self._settings, field.name))
            widget.changed.connect(lambda value, field=field: self._set(field, value))
            form.append(widget)
            self.widgets[field.name] = widget
        native: QWidget = form.native
        native.setObjectName("decantForm")
        for field in self._fields:
            own: QWidget = self.widgets[field.name].native
            own.setAccessibleName(field.label)
            if isinstance(own, QAbstractSpinBox | QComboBox):
                calm_wheel(own)
            for part in own.findChildren(QWidget):
                part.setToolTip(field.tip)
            for button in own.findChildren(QPushButton):
                button.setProperty("side", "true")
                button.setText("Choose…")
                button.setAccessibleName(f"Choose: {field.label}")
            lines = own.findChildren(QLineEdit) if not isinstance(own, QLineEdit) else [own]
            for line in lines if field.placeholder else []:
                line.setPlaceholderText(field.placeholder)
        height = self.fontMetrics().height()
        native.layout().setContentsMargins(height, 0, height // 2, 0)
        area = _Area()
        area.setWidget(native)
        return area

    def _set(self, field: Field, value: Any) -> None:
        setattr(self._settings, field.name, field.write(value))

    def _on_setting(self, info: EmissionInfo) -> None:
        name = info.signal.name
        field = next((field for field in self._fields if field.name == name), None)
        if field is None:
            return
        value = field.read(info.args[0])
        widget = self.widgets.get(name)
        if widget is not None and widget.value != value:
            widget.value = value
        self._say()
        self.changed.emit(name)

    def _say(self) -> None:
        self._line.setText("" if self.toggle.isChecked() else self._words(self._settings))
