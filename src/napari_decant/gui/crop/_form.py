"""The pieces of the crop tool and how they show a snapshot; what they do is the panel's."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any, Final, Literal

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_decant.gui._theme import Look
from napari_decant.gui._widgets import Action, label, side_button
from napari_decant.gui._words import count, seconds_text, size_text
from napari_decant.gui.crop._fields import RegionFields
from napari_decant.gui.crop._host import Host
from napari_decant.gui.crop._make import Facts
from napari_decant.gui.crop._output import OutputForm
from napari_decant.gui.crop._picture import Picture
from napari_decant.gui.crop._state import Snapshot

__all__ = ["MODES", "CropForm"]

MODES: Final[tuple[Literal["box", "plane", "whole"], ...]] = ("box", "plane", "whole")
_KEEP = "Keep what is cut, for other images and the command line"
_LOAD = "Place the box as a saved query says"
_SNAP = "Straight boxes end between voxels, so that voxels are copied unchanged"
_VOXELS = "Numbers count voxels of the first layer, not the world's units"
_FOLLOW = "The plane faces you, however the view is turned"


class CropForm(QWidget):
    """What is cut and how, in one column; the buttons that cut are below it.

    Parameters
    ----------
    look : Look
    host : Host
    """

    chosen = Signal(tuple)  # keys of layers
    mode_chosen = Signal(int)
    draw_wanted = Signal(bool)
    reset_wanted = Signal()
    follow_wanted = Signal(bool)
    keep_wanted = Signal()
    load_wanted = Signal()

    def __init__(self, look: Look, host: Host) -> None:
        super().__init__()
        self.look, self.host = look, host
        self.snapshot: Snapshot | None = None
        self._keys: list[Hashable] = []
        gap = self.fontMetrics().height() // 2
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(gap, gap, gap, gap)
        self._box.setSpacing(gap)
        self._build_layers()
        self._build_region()
        self._build_result()

    # --- putting it together ---

    def _build_layers(self) -> None:
        self._box.addWidget(_heading("Layers"))
        self.list = QListWidget()
        self.list.setAccessibleName("Layers to cut from")
        self.list.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)  # it would hide a line
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.itemChanged.connect(self._on_check)
        self._box.addWidget(self.list)
        self.problems = {name: _problem() for name in ("layers", "region")}
        self._box.addWidget(self.problems["layers"])

    def _build_region(self) -> None:
        self._box.addWidget(_heading("Region"))
        self.modes = QButtonGroup(self)
        tips = ("A box, straight or turned", "A slice of any direction", "All of every layer")
        buttons: list[QWidget] = []
        for number, (mode, tip) in enumerate(zip(MODES, tips, strict=True)):
            button = QPushButton(mode.capitalize())
            button.setCheckable(True)
            button.setProperty("side", "true")
            button.setToolTip(tip)
            button.setAccessibleName(mode.capitalize())
            self.modes.addButton(button, number)
            buttons.append(button)
        self.modes.idClicked.connect(self.mode_chosen)
        self._row(buttons, stretch=True)
        self.draw = self._side("&Draw in view", "Then drag in the view, from corner to corner", lambda: None)
        self.draw.setCheckable(True)
        self.draw.toggled.connect(self.draw_wanted)
        self.reset = self._side(
            "&Reset", "A straight box in the middle of the view", lambda: self.reset_wanted.emit()
        )
        self.follow = QCheckBox("&Follow the camera")
        self.follow.setToolTip(_FOLLOW)
        self.follow.toggled.connect(self.follow_wanted)
        self._row([self.draw, self.reset])
        self._box.addWidget(self.follow)
        self.fields = RegionFields()
        self._box.addWidget(self.fields)
        self.snap = QCheckBox("Sna&p to voxels")
        self.snap.setToolTip(_SNAP)
        self.voxels = QCheckBox("In &voxels")
        self.voxels.setToolTip(_VOXELS)
        self.voxels.toggled.connect(lambda: self._draw_fields())
        self._row([self.snap, self.voxels])
        self._box.addWidget(self.problems["region"])

    def _build_result(self) -> None:
        self.output = OutputForm(self.look)
        self.picture = Picture(self.look)
        self.headline, self.numbers = label(wrap=True), label(muted=True, wrap=True)
        for widget in (self.output, self.picture, self.headline, self.numbers):
            self._box.addWidget(widget)
        self.keep = self._side("Save &query…", _KEEP, lambda: self.keep_wanted.emit())
        self.load = self._side("&Load query…", _LOAD, lambda: self.load_wanted.emit())
        self._row([self.keep, self.load])
        self._box.addStretch()

    def _side(self, text: str, tip: str, run: Any, icon: str = "") -> QPushButton:
        return side_button(self.look, Action(text, icon, tip, run))

    def _row(self, widgets: list[QWidget], *, stretch: bool = False) -> None:
        line = QHBoxLayout()
        for widget in widgets:
            line.addWidget(widget, 1 if stretch else 0)
        if not stretch:
            line.addStretch()
        self._box.addLayout(line)

    # --- showing ---

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show what is wanted and what comes of it."""
        self.snapshot = snapshot
        intent = snapshot.intent
        self._draw_list(snapshot)
        self.modes.button(MODES.index(intent.mode)).setChecked(True)
        for name, said in self.problems.items():
            text = snapshot.problem(name)
            said.setText(text or "")
            said.setVisible(text is not None)
        self.output.show_snapshot(snapshot, self.host.unit)
        for widget in (self.draw, self.reset, self.fields, self.snap, self.voxels):
            widget.setVisible(intent.mode != "whole")
        self.follow.setVisible(intent.mode == "plane")
        turned = snapshot.region is not None and snapshot.region.is_turned
        _check(self.snap, intent.snap and not turned)
        self.snap.setEnabled(not turned)
        self.snap.setToolTip("A turned box has no whole voxels to end between" if turned else _SNAP)
        self._draw_fields()
        self.headline.setText(snapshot.headline)
        self.keep.setEnabled(snapshot.ready)
        self.keep.setToolTip(next((problem.text for problem in snapshot.problems), _KEEP))

    def show_camera(self, turns: bool) -> None:
        """Offer to follow the camera, or say that it does not turn."""
        self.follow.setEnabled(turns)
        self.follow.setText("&Follow the camera" if turns else "&Follow the camera (in the 3-D view)")
        self.follow.setToolTip(_FOLLOW if turns else "The 2-D view cannot be turned: switch to 3-D")

    def _draw_list(self, snapshot: Snapshot) -> None:
        layers = snapshot.layers
        self._keys = [layer.key for layer in layers]
        blocker = QSignalBlocker(self.list)
        while self.list.count() > len(layers):
            self.list.takeItem(self.list.count() - 1)
        for row, layer in enumerate(layers):
            item = self.list.item(row) or QListWidgetItem(self.list)
            on = layer.key in snapshot.intent.layers
            item.setText(f"{layer.name}: {layer.problem}" if layer.problem else layer.name)
            item.setToolTip(item.text())  # which may be elided
            usable = layer.problem is None or on
            flags = Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsEnabled
            item.setFlags(flags if usable else Qt.ItemFlag.NoItemFlags)
            item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
        blocker.unblock()
        lines = min(5, max(1, len(layers)))
        line = max(self.list.sizeHintForRow(0), self.fontMetrics().height())
        self.list.setFixedHeight(lines * line + 2 * self.list.frameWidth() + 6)

    def _draw_fields(self) -> None:
        snapshot = self.snapshot
        if snapshot is None or not snapshot.rank:
            self.fields.show_region(None, None, ())
            return
        self.fields.set_axes(list(self.host.axis_names)[-snapshot.rank :])
        for before, after in pairwise([self.follow, *self.fields.numbers]):
            QWidget.setTabOrder(before, after)
        first = next((layer for layer in snapshot.chosen if layer.rank == snapshot.rank), None)
        world = first.world if first is not None else None
        plain = world is not None and world.is_straight
        self.voxels.setEnabled(plain)
        self.voxels.setToolTip(_VOXELS if plain else "The first layer's voxels do not lie along these axes")
        steps = world.pitch if world is not None else (1.0,) * snapshot.rank
        region = snapshot.region or snapshot.intent.region
        if region is not None and region.rank != snapshot.rank:
            region = None
        counted = self.voxels.isChecked() and plain
        unit = "voxels" if counted else self.host.unit
        self.fields.show_region(region, world if counted else None, steps, unit)

    def show_facts(self, facts: Facts | None, *, lazy: bool) -> None:
        """Show what it costs; ``lazy`` says that a layer would be cut when it is looked at."""
        if facts is None:
            self.numbers.setText("")
            return
        seconds = facts.total("seconds")
        parts = [count(facts.chunks, "chunk")] if facts.chunks is not None else []
        parts += [f"{size_text(facts.to_read)} to read", f"{size_text(facts.total('output_bytes'))} result"]
        parts += [f"{size_text(facts.total('memory'))} of memory"] if not lazy else []
        parts.append(f"about {seconds_text(seconds)}" if seconds >= 1 else "less than a second")
        words = ", ".join(parts)
        words = words if facts.exact else f"Estimated: {words}"
        more = ". Too large for memory: as a layer it is cut where you look." if lazy else ""
        self.numbers.setText(words + more)

    def _on_check(self) -> None:
        keys = []
        for row, key in enumerate(self._keys):
            item = self.list.item(row)
            if item is not None and item.checkState() == Qt.CheckState.Checked:
                keys.append(key)
        self.chosen.emit(tuple(keys))


def _heading(text: str) -> QWidget:
    made = label(text)
    made.setObjectName("cropHeading")
    return made


def _problem() -> Any:
    said = label(wrap=True)
    said.setProperty("problem", "true")
    said.hide()
    return said


def _check(box: QCheckBox, on: bool) -> None:
    blocker = QSignalBlocker(box)
    box.setChecked(on)
    blocker.unblock()
