"""The crop tool: choose layers, place a box, see what comes out, take it as a layer or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QFileDialog, QFrame, QMessageBox, QScrollArea, QVBoxLayout, QWidget

from napari_decant.errors import DecantError, TargetExists
from napari_decant.gui._theme import Look
from napari_decant.gui.crop._form import MODES, CropForm
from napari_decant.gui.crop._host import Host, Made
from napari_decant.gui.crop._make import (
    Facts,
    cut_layers,
    cut_pictures,
    files_of,
    fits,
    measure,
    warm,
    write_files,
)
from napari_decant.gui.crop._preview import PREVIEW_PIXELS
from napari_decant.gui.crop._queries import load_region, saved_query
from napari_decant.gui.crop._state import Intent, LayerFacts, Snapshot, changed, resolve
from napari_decant.gui.crop._work import Bench, Outcome
from napari_decant.images.crop import (
    Cutter,
    Pace,
    Region,
    SavedQuery,
    angles_of,
    check_target,
    placement_of,
)

__all__ = ["CropPanel"]

_MEMORY: Final = 2 << 30
_FACTS_MS: Final = 120  # numbers wait for a pause in dragging, pictures do not
_FILES: Final = "OME-Zarr folder (*.zarr);;OME-Zarr file (*.ozx)"
_QUERIES: Final = "Query (*.json)"


class CropPanel(QWidget):
    """The widget of the crop tool.

    Parameters
    ----------
    host : Host
        The viewer. It calls `refresh` when layers change, `set_region` when the box is dragged, and
        `drawn` when one was drawn.
    look : Look
    memory : int
        Bytes for one result and what it takes to make it.
    parent : QWidget, optional
    """

    def __init__(
        self, host: Host, look: Look, *, memory: int = _MEMORY, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName("Crop")
        self.host, self.memory = host, memory
        self.intent = Intent()
        self.snapshot: Snapshot | None = None
        self.facts: Facts | None = None
        self.follows = False
        self.cutter, self.pace = Cutter(memory), Pace()
        self.benches = [Bench(name, self) for name in ("preview", "facts", "crop")]
        self._preview, self._measure, self._work = self.benches
        self._then: Callable[[Any], object] = lambda value: None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_FACTS_MS)
        self._timer.timeout.connect(self._ask_facts)
        self.form = CropForm(look, host)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidget(self.form)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(area)
        self._connect()
        self._preview.start(lambda token: warm())
        self.refresh()

    def _connect(self) -> None:
        form = self.form
        form.chosen.connect(lambda keys: self._want(replace(self.intent, layers=keys)))
        form.mode_chosen.connect(self._on_mode)
        form.draw_wanted.connect(self.host.draw)
        form.reset_wanted.connect(self._on_reset)
        form.follow_wanted.connect(self._on_follow)
        form.fields.edited.connect(lambda: self.set_region(form.fields.region))
        form.snap.toggled.connect(lambda on: self._want(replace(self.intent, snap=on)))
        form.output.edited.connect(lambda: self._want(form.output.apply(self.intent)))
        form.add_wanted.connect(self.run)
        form.save_wanted.connect(self._ask_file)
        form.keep_wanted.connect(self._ask_keep)
        form.load_wanted.connect(self._ask_load)
        form.cancel_wanted.connect(self.cancel)
        self._preview.ended.connect(self._on_picture)
        self._measure.ended.connect(self._on_facts)
        self._work.ended.connect(self._on_end)
        self._work.progressed.connect(
            lambda event: form.bar.setValue(round(1000 * event.done / max(1, event.total)))
        )

    # --- state ---

    @property
    def busy(self) -> bool:
        """Whether a crop is being cut."""
        return self._work.busy

    @property
    def settled(self) -> bool:
        """Whether picture and numbers are those of the state."""
        return not (self._preview.busy or self._measure.busy or self._timer.isActive())

    def refresh(self) -> None:
        """Look at the viewer's layers again."""
        layers = list(self.host.layers())
        keys = [layer.key for layer in layers]
        chosen = tuple(key for key in self.intent.layers if key in keys)
        if not chosen:
            chosen = _first_choice(layers, set(self.host.selected()))
        self._want(replace(self.intent, layers=chosen), layers)

    def set_region(self, region: Region | None) -> None:
        """Take another box."""
        self._want(replace(self.intent, region=region))

    def drawn(self, region: Region | None) -> None:
        """Take the box that was drawn; None if drawing was given up."""
        self.form.draw.setChecked(False)
        if region is not None:
            mode = "box" if self.intent.mode == "whole" else self.intent.mode
            self._want(replace(self.intent, region=region, mode=mode))

    def camera_moved(self) -> None:
        """Turn the plane to face the viewer, where it is to follow."""
        region = self.intent.region
        if not self.follows or self.intent.mode != "plane" or region is None or region.rank != 3:
            return
        rotation = self.host.camera()
        if rotation is not None:
            self.set_region(region.moved(angles=angles_of(rotation)))

    def _want(self, intent: Intent, layers: Sequence[LayerFacts] | None = None) -> None:
        self.intent = intent
        there = layers if layers is not None else (self.snapshot.layers if self.snapshot else ())
        old, self.snapshot = self.snapshot, resolve(intent, there)
        parts = changed(old, self.snapshot)
        if not parts:
            return
        self.form.show_snapshot(self.snapshot)
        if {"layers", "region", "intent"} & parts:
            self.host.show(self.snapshot if intent.mode != "whole" else None)
        if {"cuts", "layers", "region"} & parts:
            self.facts = None
            self.form.show_facts(None, lazy=False)
            self._ask_picture()
            self._timer.start()

    # --- what the user does ---

    def _on_mode(self, number: int) -> None:
        mode = MODES[number]
        intent = replace(self.intent, mode=mode)
        region = intent.region
        if mode == "plane" and self.snapshot is not None and self.snapshot.rank == 3:
            region = region if region is not None and region.rank == 3 else self.host.suggestion()
            if region is not None and region.rank == 3:
                intent = replace(intent, region=self._thin(region))
                if intent.grid == "native":
                    intent = replace(intent, grid="isotropic")
        elif mode == "box" and self.intent.mode == "plane" and region is not None:
            deep = self.host.suggestion()
            if deep is not None and deep.rank == region.rank == 3:
                size = (max(deep.size[0], region.size[0]), *region.size[1:])
                intent = replace(intent, region=region.moved(size=size))
        self._want(intent)
        self.camera_moved()

    def _thin(self, region: Region) -> Region:
        """One voxel thick."""
        assert self.snapshot is not None
        worlds = [one.world for one in self.snapshot.chosen if one.rank == 3 and one.world is not None]
        thin = min(worlds[0].pitch) if worlds else 1.0
        return region.moved(size=(thin, *region.size[1:]))

    def _on_reset(self) -> None:
        region = self.host.suggestion()
        if region is not None:
            thin = self.intent.mode == "plane" and region.rank == 3
            self.set_region(self._thin(region) if thin else region)

    def _on_follow(self, on: bool) -> None:
        self.follows = on
        self.camera_moved()

    # --- preview and facts ---

    def _ask_picture(self) -> None:
        snapshot, cutter = self.snapshot, self.cutter
        if snapshot is None or not snapshot.cuts:
            self._preview.drop()
            words = snapshot.problems[0].text if snapshot is not None and snapshot.problems else ""
            self.form.picture.say(words)
            return
        self.form.picture.set_stale()
        self._preview.start(lambda token: cut_pictures(cutter, snapshot, PREVIEW_PIXELS, token))

    def _on_picture(self, outcome: Outcome) -> None:
        if outcome.error is not None and not outcome.cancelled:
            self.form.picture.say(f"There is no preview: {outcome.error}.")
        if outcome.error is not None or not outcome.value:
            return
        shown = None
        for key, plane in outcome.value:
            painted = self.host.paint(key, plane)
            if shown is None or painted.shape != shown.shape:
                shown = painted
            elif self.host.additive(key):
                shown = shown + painted
            else:  # what is black lets through what lies below
                shown = np.where(painted.any(axis=-1, keepdims=True), painted, shown)
        if shown is not None:
            self.form.picture.show_pixels(shown)

    def _ask_facts(self) -> None:
        snapshot, cutter, pace = self.snapshot, self.cutter, self.pace
        if snapshot is not None and snapshot.cuts:
            self._measure.start(lambda token: measure(cutter, snapshot, pace, token))

    def _on_facts(self, outcome: Outcome) -> None:
        if outcome.error is None and self.snapshot is not None:
            self.facts = outcome.value
            self.form.show_facts(self.facts, lazy=not fits(self.cutter, self.snapshot))
        elif not outcome.cancelled:
            self.form.numbers.setText(f"{outcome.error}.")

    # --- the work ---

    def run(self) -> None:
        """Cut, and add what was cut as layers."""
        snapshot, cutter, pace, tell = self.snapshot, self.cutter, self.pace, self._work.tell
        if snapshot is not None and snapshot.ready and not self._work.busy:
            self._begin(lambda token: cut_layers(cutter, snapshot, pace, tell, token), self._add_layers)

    def _add_layers(self, made: list[Made]) -> None:
        self.form.note(" ".join(self.host.add(made)))

    def save_to(self, path: Path, *, overwrite: bool = False) -> None:
        """Cut into a file, or into several where layers do not go together."""
        snapshot, memory, tell = self.snapshot, self.memory, self._work.tell
        if snapshot is None or not snapshot.ready or self._work.busy:
            return
        try:
            described = []
            for job in files_of(snapshot, check_target(path)):
                cut = job.cut
                placement = placement_of(cut.source, cut.resolution, cut.layer.placed)
                described.append((job, self.host.describe(cut, placement)))
        except DecantError as error:
            self.form.note(f"{error}.", "bad")
            return
        self._begin(
            lambda token: write_files(described, tell, token, memory=memory, overwrite=overwrite),
            lambda written: self.form.note(f"Saved {', '.join(map(str, written))}."),
        )

    def _begin(self, work: Any, then: Callable[[Any], object]) -> None:
        self.form.forget()
        self._then = then
        self._work.start(work)
        self.form.show_running(True)

    def cancel(self) -> None:
        """Stop the crop that is being cut."""
        self.form.cancel.setEnabled(False)
        self._work.cancel()

    def _on_end(self, outcome: Outcome) -> None:
        self.form.show_running(False)
        if outcome.cancelled:
            self.form.note("Cancelled; nothing was left behind.")
        elif outcome.error is not None:
            known = isinstance(outcome.error, TargetExists)
            self.form.note(f"{outcome.error}.", "warn" if known else "bad")
        else:
            self._then(outcome.value)

    # --- files ---

    def _ask_file(self) -> None:
        assert self.snapshot is not None
        name = f"{self.snapshot.cuts[0].layer.name} crop.zarr"
        path, kind = QFileDialog.getSaveFileName(self, "Save the crop", name, _FILES)
        if not path:
            return
        target = Path(path)
        if target.suffix.lower() not in (".zarr", ".ozx"):
            target = target.with_name(target.name + (".ozx" if "ozx" in kind else ".zarr"))
        exists = target.exists()
        if exists:
            asked = QMessageBox.question(self, "Replace?", f"{target.name} exists. Replace it?")
            if asked != QMessageBox.StandardButton.Yes:
                return
        self.save_to(target, overwrite=exists)

    def _ask_keep(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save the query", "crop.json", _QUERIES)
        if path:
            self.keep_query(Path(path if path.lower().endswith(".json") else f"{path}.json"))

    def keep_query(self, path: Path) -> None:
        """Save what is cut out of the first layer as a query; it replaces a file of that name."""
        assert self.snapshot is not None
        try:
            saved_query(self.snapshot).save(path, overwrite=True)
        except DecantError as error:
            self.form.note(f"{error}.", "bad")
            return
        self.form.note(f"Saved the query as {path.name}.")

    def _ask_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load a query", "", _QUERIES)
        if path:
            self.load_query(Path(path))

    def load_query(self, path: Path) -> None:
        """Place the box where a saved query cuts the first chosen layer."""
        assert self.snapshot is not None
        try:
            self._want(load_region(self.intent, self.snapshot, SavedQuery.load(path)))
        except DecantError as error:
            self.form.note(f"{error}.", "bad")
            return
        self.form.note(f"The box lies as {path.name} says.")

    # --- the end ---

    def close_down(self) -> None:
        """Cancel everything, wait for it, and let go of files and of the box in the view."""
        self._timer.stop()
        for bench in self.benches:
            bench.close()
        self.cutter.close()
        self.host.draw(False)
        self.host.show(None)


def _first_choice(layers: Sequence[LayerFacts], selected: set[Any]) -> tuple[Any, ...]:
    """The selected layer, or the topmost, with the other channels of its image."""
    usable = [layer for layer in layers if layer.source is not None]
    first = next((layer for layer in usable if layer.key in selected), usable[0] if usable else None)
    if first is None:
        return ()
    return tuple(layer.key for layer in usable if layer.source is first.source or layer.key in selected)
