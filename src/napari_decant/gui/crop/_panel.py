"""The crop tool: choose layers, place a box, see what comes out, take it as a layer or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QEvent, QSize, Qt, QTimer
from qtpy.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from napari_decant.errors import DecantError
from napari_decant.gui._intake import beside
from napari_decant.gui._style import style_sheet
from napari_decant.gui._theme import Look
from napari_decant.gui.crop._dialogs import ask_query, ask_query_target, ask_target
from napari_decant.gui.crop._footer import CropFooter
from napari_decant.gui.crop._form import MODES, CropForm
from napari_decant.gui.crop._host import Host
from napari_decant.gui.crop._make import (
    Facts,
    Pictures,
    cut_pictures,
    fits,
    measure,
    warm,
)
from napari_decant.gui.crop._picture import blended
from napari_decant.gui.crop._preview import PREVIEW_PIXELS
from napari_decant.gui.crop._queries import load_region, saved_query
from napari_decant.gui.crop._resolve import in_mode, resolve, thin
from napari_decant.gui.crop._runner import Runner
from napari_decant.gui.crop._state import Intent, LayerFacts, Snapshot, changed
from napari_decant.gui.crop._work import Bench, Outcome
from napari_decant.images.crop import (
    Cutter,
    Pace,
    Region,
    SavedQuery,
    angles_of,
)

__all__ = ["CropPanel"]

_MEMORY: Final = 2 << 30
_WAKE_MS: Final = 50
_FACTS_MS: Final = 120  # numbers wait for a pause in dragging, pictures do not


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
        self.setObjectName("decantPanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Crop")
        self.host, self.look, self.memory = host, look, memory
        self.intent = Intent()
        self.snapshot: Snapshot | None = None
        self.facts: Facts | None = None
        self.follows = False
        self.cutter, self.pace = Cutter(memory, device="cpu"), Pace()
        self._offered: Region | None = None
        self._last: Path | None = None  # that a dialog was answered with
        self._preview, self._measure, self._warm = (
            Bench(name, self) for name in ("preview", "facts", "warm")
        )
        self._awake = self._warmed = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_FACTS_MS)
        self._timer.timeout.connect(self._ask_facts)
        self.form = CropForm(look, host)
        self.footer = CropFooter(look)
        self.runner = Runner(host, self.footer, memory, self.pace, self)
        self._area = area = _Column()
        area.setObjectName("decantFormArea")
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(self.form)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(area, 1)
        box.addWidget(self.footer)
        look.changed.connect(self._restyle)
        self._restyle()
        self._connect()
        self.refresh()

    def _restyle(self) -> None:
        theme = self.look.theme
        more = (
            f'#decantPanel QLabel[problem="true"] {{ color: {theme.warn}; }}'
            "#decantPanel QLabel#cropHeading { font-weight: 600; }"
            "#decantPanel QDoubleSpinBox { min-width: 4.5em; }"  # napari's are wider than what is in them
            f'#decantPanel QPushButton[side="true"]:checked {{ border: 2px solid {theme.accent}; }}'
        )
        self.setStyleSheet(style_sheet(theme, self.font()) + more)

    def _connect(self) -> None:
        form, footer = self.form, self.footer
        form.chosen.connect(lambda keys: self._want(replace(self.intent, layers=keys)))
        form.mode_chosen.connect(self._on_mode)
        form.draw_wanted.connect(self.host.draw)
        form.reset_wanted.connect(self._on_reset)
        form.follow_wanted.connect(self._on_follow)
        form.fields.edited.connect(lambda: self.set_region(form.fields.region))
        form.snap.toggled.connect(lambda on: self._want(replace(self.intent, snap=on)))
        form.output.edited.connect(lambda: self._want(form.output.apply(self.intent)))
        footer.add_wanted.connect(self.run)
        footer.save_wanted.connect(self._ask_file)
        form.keep_wanted.connect(self._ask_keep)
        form.load_wanted.connect(self._ask_load)
        self._preview.ended.connect(self._on_picture)
        self._measure.ended.connect(self._on_facts)
        self._warm.ended.connect(self._on_warm)

    # --- state ---

    @property
    def busy(self) -> bool:
        """Whether a crop is being cut."""
        return self.runner.busy

    @property
    def settled(self) -> bool:
        """Whether picture and numbers are those of the state."""
        return self._awake and not (self._preview.busy or self._measure.busy or self._timer.isActive())

    def showEvent(self, event: Any) -> None:  # noqa: N802
        """Begin to work once it is seen: loading what samples pixels takes a second of every thread."""
        super().showEvent(event)
        if not self._awake:
            QTimer.singleShot(_WAKE_MS, self._wake)

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._ask_picture()
            self._ask_facts()

    def refresh(self) -> None:
        """Look at the viewer's layers again."""
        layers = list(self.host.layers())
        keys = [layer.key for layer in layers]
        chosen = tuple(key for key in self.intent.layers if key in keys)
        if not chosen:
            chosen = _first_choice(layers, set(self.host.selected()))
        other = chosen != self.intent.layers
        self._want(replace(self.intent, layers=chosen), layers)
        if other or self._offered is None:
            self.offer()

    def offer(self) -> None:
        """Place a box in the middle of what is seen, as long as nobody has placed another one."""
        if self._offered is None or self.intent.region is self._offered:
            region = self._suggestion()
            if region is not None:
                self._offered = region
                self.set_region(region)

    def _suggestion(self) -> Region | None:
        """A box in the middle of what is seen, or a slice of it."""
        region = self.host.suggestion()
        if (
            self.snapshot is not None
            and self.intent.mode == "plane"
            and region is not None
            and region.rank == 3
        ):
            return thin(region, self.snapshot.chosen)
        return region

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
        if self.intent.mode != "plane":
            return
        region, rotation = self.intent.region, self.host.camera()
        self.form.show_camera(rotation is not None)
        if self.follows and rotation is not None and region is not None and region.rank == 3:
            self.set_region(region.moved(angles=angles_of(rotation)))

    def _want(self, intent: Intent, layers: Sequence[LayerFacts] | None = None) -> None:
        self.intent = intent
        there = layers if layers is not None else (self.snapshot.layers if self.snapshot else ())
        old, self.snapshot = self.snapshot, resolve(intent, there)
        parts = changed(old, self.snapshot)
        if not parts:
            return
        if old is not None and old.intent != intent:
            self.footer.forget()  # what it says is of what was wanted before
        if {"cuts", "layers", "region"} & parts:  # first of all: its thread works while the rest is drawn
            self._ask_picture()
        self.form.show_snapshot(self.snapshot)
        self.footer.show_snapshot(self.snapshot)
        if {"layers", "region", "intent"} & parts:
            self.host.show(self.snapshot if intent.mode != "whole" else None)
        if {"cuts", "layers", "region"} & parts:
            self.facts = None
            self.form.show_facts(None, lazy=False)
            self._timer.start()

    # --- what the user does ---

    def _on_mode(self, number: int) -> None:
        if self.snapshot is not None:
            self._want(in_mode(self.snapshot, MODES[number], self.host.suggestion()))
            self.camera_moved()

    def _on_reset(self) -> None:
        region = self._suggestion()
        if region is not None:
            self.set_region(region)

    def _on_follow(self, on: bool) -> None:
        self.follows = on
        self.camera_moved()

    # --- preview and facts ---

    def _ask_picture(self) -> None:
        snapshot, cutter = self.snapshot, self.cutter
        if not self._awake:
            return
        if snapshot is None or not snapshot.cuts:
            self._preview.drop()
            self.form.picture.say("The preview appears here")
            return
        self.form.picture.set_stale()
        self._preview.start(lambda token: cut_pictures(cutter, snapshot, PREVIEW_PIXELS, token))

    def _on_picture(self, outcome: Outcome) -> None:
        if outcome.error is not None and not outcome.cancelled:
            self.form.picture.say(f"There is no preview: {outcome.error}.")
        found = outcome.value
        if isinstance(found, Pictures) and found.planes:
            layers = [(self.host.paint(key, plane), self.host.additive(key)) for key, plane in found.planes]
            self.form.picture.show_pixels(blended(layers), part=found.share < 1)
        if not self._warmed:
            self._warmed = True
            self._warm.start(lambda token: warm(token))

    def _on_warm(self, outcome: Outcome) -> None:
        if outcome.error is None:
            self.form.output.show_gpu(outcome.value)

    def _ask_facts(self) -> None:
        snapshot, cutter, pace = self.snapshot, self.cutter, self.pace
        if self._awake and snapshot is not None and snapshot.cuts:
            self._measure.start(lambda token: measure(cutter, snapshot, pace, token))

    def _on_facts(self, outcome: Outcome) -> None:
        if outcome.error is None and self.snapshot is not None:
            self.facts = outcome.value
            self.form.show_facts(self.facts, lazy=not fits(self.memory, self.snapshot))
        elif not outcome.cancelled:
            self.form.numbers.setText(f"{outcome.error}.")

    # --- the work ---

    def run(self) -> None:
        """Cut, and add what was cut as layers."""
        if self.snapshot is not None:
            self.runner.add_layers(self.snapshot)

    def save_to(self, path: Path, *, overwrite: bool = False) -> None:
        """Cut into a file, or into several where layers do not go together."""
        if self.snapshot is not None:
            self.runner.save(self.snapshot, path, overwrite=overwrite)

    def cancel(self) -> None:
        """Stop the crop that is being cut."""
        self.runner.cancel()

    # --- files ---

    def place(self) -> str:
        """The folder where dialogs start: where the last file went or came from, or that of the image."""
        chosen = self.snapshot.chosen if self.snapshot is not None else ()
        return beside([self._last, *(self.host.file(layer.key) for layer in chosen)])

    def _ask_file(self) -> None:
        if self.snapshot is not None and self.snapshot.ready:
            first = self.snapshot.cuts[0]
            name = first.layer.name if len(self.snapshot.cuts) == 1 else first.source.name
            asked = ask_target(self, self.place(), name)
            if asked is not None:
                self._last = asked[0]
                self.save_to(asked[0], overwrite=asked[1])

    def _ask_keep(self) -> None:
        path = ask_query_target(self, self.place())
        if path is not None:
            self._last = path
            self.keep_query(path)

    def keep_query(self, path: Path) -> None:
        """Save what is cut out of the first layer as a query; it replaces a file of that name."""
        assert self.snapshot is not None
        try:
            saved_query(self.snapshot).save(path, overwrite=True)
        except DecantError as error:
            self.footer.note(f"{error}.", "bad")
            return
        self.footer.note(f"Saved the query as {path.name}.")

    def _ask_load(self) -> None:
        path = ask_query(self, self.place())
        if path is not None:
            self._last = path
            self.load_query(path)

    def load_query(self, path: Path) -> None:
        """Place the box where a saved query cuts the first chosen layer."""
        assert self.snapshot is not None
        try:
            self._want(load_region(self.intent, self.snapshot, SavedQuery.load(path)))
        except DecantError as error:
            self.footer.note(f"{error}.", "bad")
            return
        self.footer.note(f"The box lies as {path.name} says.")

    # --- the end ---

    def close_down(self) -> None:
        """Cancel everything, wait for it, and let go of files and of the box in the view."""
        self._timer.stop()
        self.stop_threads()
        self.host.draw(False)
        self.host.show(None)

    def stop_threads(self) -> None:
        """Cancel everything, wait for it, and let go of files; of a widget that Qt has deleted, too."""
        for bench in (self._preview, self._measure, self._warm, self.runner.bench):
            bench.close()
        self.cutter.close()


class _Column(QScrollArea):
    """Scrolls up and down only: it is as wide as what is in it."""

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802
        """Notice that the column has become wider or narrower."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return bool(super().eventFilter(watched, event))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Wide enough for the column and a scroll bar."""
        least = super().minimumSizeHint()
        inner, bar = self.widget(), self.verticalScrollBar()
        if inner is not None and bar is not None:
            least.setWidth(inner.minimumSizeHint().width() + bar.sizeHint().width())
        return least


def _first_choice(layers: Sequence[LayerFacts], selected: set[Any]) -> tuple[Any, ...]:
    """The selected layer, or the topmost, with the other channels of its image."""
    usable = [layer for layer in layers if layer.source is not None]
    first = next((layer for layer in usable if layer.key in selected), usable[0] if usable else None)
    if first is None:
        return ()
    return tuple(layer.key for layer in usable if layer.source is first.source or layer.key in selected)
