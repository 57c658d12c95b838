"""How the crop is made: spacing, filter, what lies outside, type and device. Closed until it is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QHBoxLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)
from superqt import QElidingLabel

from napari_decant.gui._theme import Look
from napari_decant.gui._widgets import Action, bind_icon, calm_wheel, flat_button, label, repolish
from napari_decant.gui.crop._fields import Number
from napari_decant.gui.crop._state import Grid, Intent, Snapshot

__all__ = ["OutputForm"]

_DTYPES: Final = (None, "uint8", "uint16", "float32")
_CONTROLS: Final = ("grid", "filter", "outside", "moments", "dtype", "device")


class OutputForm(QWidget):
    """A line that says how the crop is made, and unfolds into a form.

    Attributes
    ----------
    edited : Signal
        The user has changed something; `apply` puts it into an intent.
    """

    edited = Signal()

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.toggle = flat_button(
            look,
            Action("&Options", "right", "Spacing, filter, what lies outside, type and device", self._fold),
        )
        self.toggle.setCheckable(True)
        self._line = QElidingLabel()
        self._line.setProperty("muted", "true")
        head = QHBoxLayout()
        head.addWidget(self.toggle)
        head.addWidget(self._line, 1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addLayout(head)
        self._form = QWidget()
        self._form.hide()
        box.addWidget(self._form)
        self._levels = 1
        self._build()

    def _build(self) -> None:
        self.grid = self._combo("Spacing", ["as the image has it", "the same along all axes", "custom"])
        self.pitch = Number("Distance of the output's voxels", 0.0)
        self.filter = self._combo("Filter", ["linear", "nearest"])
        self.outside = self._combo("Outside", ["fill with", "repeat the edge", "refuse"])
        self.fill = Number("Value outside the image")
        self.moments = self._combo("Other axes", ["all of them", "only what is shown"])
        self.dtype = self._combo("Type", ["as the image", "uint8", "uint16", "float32"])
        self.device = self._combo("Device", ["auto", "CPU", "GPU"])
        self.device.setToolTip("What computes")
        layout = QGridLayout(self._form)
        layout.setContentsMargins(self.fontMetrics().height(), 0, 0, 0)
        layout.setVerticalSpacing(self.fontMetrics().height() // 4)
        self.problems: dict[str, Any] = {}
        self.rows: dict[str, list[QWidget]] = {}
        extras: dict[str, QDoubleSpinBox] = {"grid": self.pitch, "outside": self.fill}
        words = ("Spacing", "Filter", "Outside", "Other axes", "Type", "Device")
        for row, (control, text) in enumerate(zip(_CONTROLS, words, strict=True)):
            name, combo = label(text), getattr(self, control)
            layout.addWidget(name, 2 * row, 0)
            line = QHBoxLayout()
            line.addWidget(combo, 1)
            self.rows[control] = [name, combo]
            if control in extras:  # which leaves its room to the other one where it is not needed
                line.addWidget(extras[control])
            layout.addLayout(line, 2 * row, 1)
            said = label("", wrap=True)
            said.setProperty("problem", "true")
            said.hide()
            layout.addWidget(said, 2 * row + 1, 0, 1, 2)
            self.problems[control] = said
        layout.setColumnStretch(1, 1)
        for number in (self.pitch, self.fill):
            number.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
            number.valueChanged.connect(lambda: self.edited.emit())

    def _combo(self, name: str, items: Sequence[str]) -> QComboBox:
        combo = QComboBox()
        combo.addItems(list(items))
        combo.setAccessibleName(name)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.currentIndexChanged.connect(lambda: self.edited.emit())
        calm_wheel(combo)
        return combo

    def _fold(self) -> None:
        shown = self.toggle.isChecked()
        bind_icon(self.toggle, self._look, "down" if shown else "right")
        self._form.setVisible(shown)

    def open(self) -> None:
        """Unfold."""
        if not self.toggle.isChecked():
            self.toggle.click()

    def show_gpu(self, problem: str | None) -> None:
        """Say why there is no GPU, once that is known: finding out may take seconds."""
        self.device.setToolTip(f"Only the CPU is used: {problem}." if problem else "What computes")

    def apply(self, intent: Intent) -> Intent:
        """Put what the form says into an intent."""
        at = self.grid.currentIndex()
        names: tuple[Grid, ...] = ("native", "isotropic", "custom")
        level = at - len(names)
        return replace(
            intent,
            grid="level" if level >= 0 else names[at],
            level=max(0, level),
            pitch=self.pitch.value(),
            filter=("linear", "nearest")[self.filter.currentIndex()],
            outside=("fill", "edge", "refuse")[self.outside.currentIndex()],
            fill=self.fill.value(),
            moments=("all", "shown")[self.moments.currentIndex()],
            dtype=_DTYPES[self.dtype.currentIndex()],
            device=("auto", "cpu", "cuda")[self.device.currentIndex()],
        )

    def show_snapshot(self, snapshot: Snapshot, unit: str) -> None:
        """Show what an intent says, and what cannot be done."""
        intent = snapshot.intent
        levels = max((len(layer.source.levels) for layer in snapshot.chosen if layer.source), default=1)
        self._set_levels(levels)
        at = {"native": 0, "isotropic": 1, "custom": 2}.get(intent.grid, 3 + intent.level)
        pairs: list[tuple[QComboBox, int]] = [
            (self.grid, at),
            (self.filter, ("linear", "nearest").index(intent.filter)),
            (self.outside, ("fill", "edge", "refuse").index(intent.outside)),
            (self.moments, ("all", "shown").index(intent.moments)),
            (self.dtype, _DTYPES.index(intent.dtype) if intent.dtype in _DTYPES else 0),
            (self.device, ("auto", "cpu", "cuda").index(intent.device)),
        ]
        for combo, index in pairs:
            blocker = QSignalBlocker(combo)
            combo.setCurrentIndex(min(index, combo.count() - 1))
            blocker.unblock()
        for number, value in ((self.pitch, intent.pitch), (self.fill, intent.fill)):
            blocker = QSignalBlocker(number)
            number.setValue(value)
            blocker.unblock()
        self.pitch.setSuffix(f" {unit}")
        self.pitch.setVisible(intent.grid == "custom")
        self.fill.setVisible(intent.outside == "fill")
        more = any(layer.shown for layer in snapshot.chosen)
        for widget in self.rows["moments"]:
            widget.setVisible(more)
        only_labels = bool(snapshot.cuts) and all(cut.source.is_label for cut in snapshot.cuts)
        self.filter.setEnabled(not only_labels)
        hint = "Labels have no values between them: the nearest is taken." if only_labels else ""
        self.filter.setToolTip(hint or "Between voxels")
        self._say(snapshot, {"filter": hint})

    def _set_levels(self, levels: int) -> None:
        if levels == self._levels:
            return
        blocker = QSignalBlocker(self.grid)
        while self.grid.count() > 3:
            self.grid.removeItem(3)
        if levels > 1:
            self.grid.addItems([f"level {n}" for n in range(levels)])
        blocker.unblock()
        self._levels = levels

    def _say(self, snapshot: Snapshot, hints: Mapping[str, str]) -> None:
        for control, said in self.problems.items():
            problem = snapshot.problem(control)
            text = problem or hints.get(control, "")
            said.setText(text)
            said.setVisible(bool(text))
            if said.property("problem") != str(problem is not None).lower():
                said.setProperty("problem", str(problem is not None).lower())
                repolish(said)
            if problem is not None:
                self.open()
        words = [self.grid.currentText() if self.grid.currentIndex() else "spacing of the image"]
        words.append(self.filter.currentText())
        if self.dtype.currentIndex():
            words.append(self.dtype.currentText())
        self._line.setText(", ".join(words))
