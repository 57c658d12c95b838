"""The numbers of the box: centre, size and angles, in the world's units or in voxels."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QSignalBlocker, QSize, Signal
from qtpy.QtWidgets import QDoubleSpinBox, QGridLayout, QSizePolicy, QWidget

from napari_decant.gui._widgets import calm_wheel, label
from napari_decant.images.crop import Region, WorldMap

__all__ = ["Number", "RegionFields"]

_FAR = 1e12


class Number(QDoubleSpinBox):
    """A number that is taken when it is finished, shown with as few digits as say it.

    Parameters
    ----------
    name : str
        For those who cannot see it.
    least : float
    """

    def __init__(self, name: str, least: float = -_FAR) -> None:
        super().__init__()
        self.setDecimals(6)
        self.setRange(least, _FAR)
        self.setKeyboardTracking(False)
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setSizePolicy(QSizePolicy.Policy.MinimumExpanding, QSizePolicy.Policy.Fixed)
        self.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        calm_wheel(self)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Wide enough for seven digits, not for the largest number there is."""
        return QSize(self.fontMetrics().averageCharWidth() * 9, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """See `sizeHint`."""
        return self.sizeHint()

    def textFromValue(self, value: float) -> str:  # noqa: N802
        """Six significant digits, none that says nothing."""
        text = f"{value:.3f}" if abs(value) < 1e6 else f"{value:.0f}"
        if value and abs(value) < 0.1:
            text = f"{value:.6f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text


class RegionFields(QWidget):
    """Centre, size and angles.

    Attributes
    ----------
    edited : Signal
        The user has changed a number; `region` has the new box.
    """

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(self.fontMetrics().averageCharWidth())
        self._grid.setVerticalSpacing(self.fontMetrics().height() // 4)
        self._names: tuple[str, ...] = ()
        self._world: WorldMap | None = None
        self._region: Region | None = None
        self._unit = label("", muted=True)
        self.center: list[Number] = []
        self.size_: list[Number] = []
        self.angles: list[Number] = []

    @property
    def region(self) -> Region | None:
        """The box that the numbers say."""
        return self._region

    @property
    def numbers(self) -> list[Number]:
        """All fields, in reading order."""
        return [*self.center, *self.size_, *self.angles]

    def set_axes(self, names: Sequence[str]) -> None:
        """Have fields for these axes, two or three; new ones are the last that Tab reaches."""
        if tuple(names) == self._names:
            return
        self._names = tuple(names)
        while self._grid.count():
            item = self._grid.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.setParent(None)
                widget.deleteLater()
        self._unit = label("", muted=True)
        self._grid.addWidget(self._unit, 0, 0)
        for column, name in enumerate(names, 1):
            self._grid.addWidget(label(name, muted=True), 0, column)
            self._grid.setColumnStretch(column, 1)
        turns = names if len(names) == 3 else ("the view",)
        self.center = [Number(f"Centre along {name}") for name in names]
        self.size_ = [Number(f"Size along {name}", 0.0) for name in names]
        self.angles = [Number(f"Turned about {name}, in degrees") for name in turns]
        for number in self.angles:
            number.setSuffix("°")
            number.setSingleStep(1.0)
        for row, (words, fields) in enumerate(
            (("Centre", self.center), ("Size", self.size_), ("Turned", self.angles)), 1
        ):
            self._grid.addWidget(label(words), row, 0)
            for column, number in enumerate(fields, 1):
                number.valueChanged.connect(self._on_edit)
                self._grid.addWidget(number, row, column)

    def show_region(
        self, region: Region | None, world: WorldMap | None, steps: Sequence[float], unit: str = ""
    ) -> None:
        """Show a box.

        Parameters
        ----------
        region : Region or None
        world : WorldMap or None
            In whose voxels the numbers are; None for the world's units.
        steps : sequence of float
            What an arrow key changes along each axis, in the world's units.
        unit : str
            Of the numbers.
        """
        self._region, self._world = region, world
        self._unit.setText(unit)
        self.setEnabled(region is not None)
        if region is None or region.rank != len(self._names):
            return
        pitch = world.pitch if world is not None else (1.0,) * region.rank
        origin = [o - p / 2 for o, p in zip(world.offset, pitch, strict=True)] if world is not None else None
        for i, number in enumerate(self.center):
            shift = origin[i] if origin is not None else 0.0
            self._set(number, (region.center[i] - shift) / pitch[i], steps[i] / pitch[i])
        for i, number in enumerate(self.size_):
            self._set(number, region.size[i] / pitch[i], steps[i] / pitch[i])
        for number, angle in zip(self.angles, region.angles, strict=True):
            self._set(number, angle, 1.0)

    @staticmethod
    def _set(number: Number, value: float, step: float) -> None:
        if number.hasFocus() and abs(number.value() - value) < 1e-6:
            return  # do not take the text from under the cursor
        blocker = QSignalBlocker(number)
        number.setSingleStep(step)
        number.setValue(value)
        blocker.unblock()

    def _on_edit(self) -> None:
        old = self._region
        if old is None or old.rank != len(self._names):
            return
        pitch = self._world.pitch if self._world is not None else (1.0,) * old.rank
        shift = (
            [o - p / 2 for o, p in zip(self._world.offset, pitch, strict=True)]
            if self._world is not None
            else [0.0] * old.rank
        )
        # numbers that are shown rounded, and were not touched, keep all their digits
        center = [
            self._read(number, (was - s) / p) * p + s
            for number, was, p, s in zip(self.center, old.center, pitch, shift, strict=True)
        ]
        size = [
            self._read(number, was / p) * p
            for number, was, p in zip(self.size_, old.size, pitch, strict=True)
        ]
        angles = [self._read(number, was) for number, was in zip(self.angles, old.angles, strict=True)]
        if min(size) <= 0:
            steps = [number.singleStep() * p for number, p in zip(self.size_, pitch, strict=True)]
            self.show_region(old, self._world, steps, self._unit.text())
            return
        self._region = Region(tuple(center), tuple(size), tuple(angles))
        self.edited.emit()

    @staticmethod
    def _read(number: Number, was: float) -> float:
        return was if abs(number.value() - was) <= 5.1e-7 else number.value()
