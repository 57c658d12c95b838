"""napari as the crop tool sees it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.gui.crop import Cut, LayerFacts, Made, Snapshot
from napari_decant.images.crop import Placement, Region, Written
from napari_decant.plugin._opened import opened_behind
from napari_decant.plugin._writer import _refuse_source as refuse_source
from napari_decant.plugin.crop._box import BoxView
from napari_decant.plugin.crop._box_layers import is_box_layer
from napari_decant.plugin.crop._facts import LayerReader, layer_map, world_axes
from napari_decant.plugin.crop._results import layer_of, written_of

if TYPE_CHECKING:
    import napari
    from napari.layers import Layer

    from napari_decant.gui.crop import CropPanel

__all__ = ["NapariHost"]

_SHORT: Final = {"micrometer": "µm", "nanometer": "nm", "millimeter": "mm", "pixel": "px"}
_WATCHED: Final = ("affine", "axis_labels", "data", "name", "rotate", "scale", "shear", "translate", "units")
_SHARE: Final = 0.5  # of what is seen, for a box that is suggested


class NapariHost:
    """A viewer with its layers, and the box in it.

    Parameters
    ----------
    viewer : napari.Viewer
    later : callable
        Calls a function soon, once, however often it is asked to.
    """

    def __init__(self, viewer: napari.Viewer, later: Callable[[Callable[[], object]], object]) -> None:
        self.viewer = viewer
        self.panel: CropPanel | None = None
        self._later = later
        self._reader = LayerReader(viewer)
        self._facts: dict[Hashable, LayerFacts] = {}
        self._axes: tuple[int, ...] = (-2, -1)
        self.box = BoxView(viewer, self._moved, self._drawn, partial(self._moved, None), later)
        self.box.depth = self._whole
        for emitter, callback in self._connections():
            emitter.connect(callback)

    def _connections(self) -> list[tuple[Any, Callable[..., object]]]:
        layers = self.viewer.layers
        return [
            (layers.events.inserted, self._on_layers),
            (layers.events.removed, self._on_layers),
            (layers.events.reordered, self._on_layers),
            (layers.events.units, self._on_layers),
            (self.viewer.dims.events.point, self._on_point),
            (self.viewer.scene.camera.events.angles, self._on_camera),
            (self.viewer.dims.events.ndisplay, self._on_camera),
            (self.viewer.canvas.events.size, self._on_size),
        ]

    def close(self) -> None:
        """Let go of the viewer, and take the box out of it."""
        self.release()
        self.box.close()

    def release(self) -> None:
        """Let go of a viewer that is closed."""
        self.panel = None
        for emitter, callback in self._connections():
            emitter.disconnect(callback)
        for layer in self.viewer.layers:
            self._watch(layer, False)

    # --- what the panel asks ---

    @property
    def unit(self) -> str:
        """See `Host.unit`."""
        units = self.viewer.layers.units
        if units is None:
            return ""
        name = str(units[self._axes[-1]])
        return _SHORT.get(name, name)

    @property
    def axis_names(self) -> Sequence[str]:
        """See `Host.axis_names`."""
        labels = self.viewer.dims.axis_labels
        names = []
        for axis in self._axes:
            label = labels[axis] if len(labels) >= -axis else ""
            unnamed = not label or label.lstrip("-").isdigit()
            names.append("zyx"[axis] if unnamed and axis >= -3 else label)
        return names

    def _images(self) -> list[Layer]:
        from napari.layers import Image, Labels

        kinds = (Image, Labels)
        return [layer for layer in self.viewer.layers if isinstance(layer, kinds) and not is_box_layer(layer)]

    def layers(self) -> Sequence[LayerFacts]:
        """See `Host.layers`; the topmost first, as the viewer lists them."""
        images = self._images()[::-1]
        for layer in images:
            self._watch(layer, True)
        found = self._reader.facts(images)
        axes: tuple[int, ...] = ()
        for layer, facts in zip(images, found, strict=True):
            if facts.source is not None:
                axes = max(axes, world_axes(layer, facts.source), key=len)
        self._axes = axes or (-2, -1)
        for number, (layer, facts) in enumerate(zip(images, found, strict=True)):
            if facts.source is not None:
                own = world_axes(layer, facts.source)
                if own != self._axes[-len(own) :]:
                    found[number] = LayerFacts(
                        facts.key, facts.name, None, None, "its axes are others than those of other layers"
                    )
        self._facts = {facts.key: facts for facts in found}
        return found

    def selected(self) -> Sequence[Hashable]:
        """See `Host.selected`."""
        chosen = [layer for layer in self.viewer.layers.selection if layer in self._images()]
        return [layer.unique_id for layer in chosen]

    def _by_key(self) -> dict[Hashable, Layer]:
        return {layer.unique_id: layer for layer in self._images()}

    def file(self, key: Hashable) -> Path | None:
        """See `Host.file`."""
        layer = self._by_key().get(key)
        if layer is None:
            return None
        behind = opened_behind(layer.data)
        name = behind[0].location if behind is not None else layer.source.path
        return Path(name) if name and os.path.exists(name) else None

    def paint(self, key: Hashable, plane: NDArray[Any]) -> NDArray[np.float64]:
        """See `Host.paint`."""
        from napari.layers import Labels

        layer = self._by_key().get(key)
        if layer is None:
            return np.zeros((*plane.shape[:2], 3))
        if isinstance(layer, Labels):
            colors = np.asarray(layer.colormap.map(plane), np.float64)
            return colors[..., :3] * colors[..., 3:]
        if layer.rgb:
            full = float(np.iinfo(plane.dtype).max) if plane.dtype.kind in "iu" else 1.0
            return np.clip(plane[..., :3].astype(np.float64) / full, 0, 1)
        low, high = layer.contrast_limits
        share = np.clip((plane.astype(np.float64) - low) / max(high - low, 1e-300), 0, 1) ** layer.gamma
        colors = np.asarray(layer.colormap.map(share.ravel()), np.float64)
        return colors[:, :3].reshape(*plane.shape, 3) * layer.opacity

    def additive(self, key: Hashable) -> bool:
        """See `Host.additive`."""
        layer = self._by_key().get(key)
        return layer is not None and str(layer.blending) in ("additive", "minimum")

    def add(self, made: Sequence[Made]) -> Sequence[str]:
        """See `Host.add`."""
        layers = self._by_key()
        there = [one for one in made if one.cut.layer.key in layers]  # the others were removed meanwhile
        there.sort(key=lambda one: self.viewer.layers.index(layers[one.cut.layer.key]))
        results: list[Layer] = []
        top = self.viewer.layers.index(layers[there[-1].cut.layer.key]) + 1 if there else 0
        for one in there:
            layer = layers[one.cut.layer.key]
            with warnings.catch_warnings():  # said below, in words that help
                warnings.filterwarnings("ignore", message="Non-orthogonal slicing")
                result = layer_of(layer, one)
                if not results and self.additive(one.cut.layer.key):
                    # added to what it was cut from, it would be twice as bright: the lowest one covers that
                    result.blending = "translucent_no_depth"
                self.viewer.layers.insert(top + len(results), result)
            results.append(result)
        tilted = any(self._tilted(result) for result in results)
        if not results:
            said = ["The layers were removed meanwhile."]
        elif len(results) == 1:
            said = [f"Added {results[0].name}."]
        else:
            said = [f"Added {len(results)} layers; their names end with “crop”."]
        if tilted and len(self.viewer.dims.displayed) == 2:
            said.append(
                "It is tilted out of the planes that 2-D shows: look at it in 3-D to see it in place."
            )
        return said

    def _tilted(self, layer: Layer) -> bool:
        """Whether planes of a layer are none of the world's planes that are shown."""
        linear, _ = layer_map(layer)
        shown = [axis - self.viewer.dims.ndim + layer.ndim for axis in self.viewer.dims.displayed]
        hidden = [axis for axis in range(layer.ndim) if axis not in shown]
        mixed = np.abs(linear[np.ix_(shown, hidden)]).max(initial=0.0)
        return bool(mixed > 1e-9 * np.abs(linear).max())

    def check_target(self, target: Path) -> None:
        """See `Host.check_target`."""
        refuse_source(target, [], self.viewer)

    def describe(self, cut: Cut, placement: Placement) -> Written:
        """See `Host.describe`."""
        return written_of(cut, placement, self._by_key())

    def show(self, snapshot: Snapshot | None) -> None:
        """See `Host.show`."""
        region = None if snapshot is None else snapshot.region or snapshot.intent.region
        if region is None or snapshot is None:
            self.box.show(None, ())
            return
        worlds = [one.world for one in snapshot.chosen if one.world is not None and one.rank == region.rank]
        steps = worlds[0].pitch if worlds else (1.0,) * region.rank
        self.box.show(region, self._axes[-region.rank :], steps)

    def draw(self, active: bool) -> None:
        """See `Host.draw`."""
        if active and len(self.viewer.dims.displayed) == 3:
            # In space there is no plane to draw in: a box is put into the middle, with handles.
            self._later(partial(self._drawn, self.suggestion()))
            return
        self.box.drawing = active
        if active:
            self.box.axes = self._axes
            active_layer = self.viewer.layers.selection.active
            if active_layer is not None and active_layer.mode != "pan_zoom":
                active_layer.mode = "pan_zoom"

    def _whole(self) -> Region | None:
        """The box around what is chosen first."""
        snapshot = self.panel.snapshot if self.panel is not None else None
        chosen = [one for one in snapshot.chosen if one.source is not None] if snapshot is not None else []
        chosen.sort(key=lambda one: -one.rank)
        return chosen[0].whole() if chosen else None

    def suggestion(self) -> Region | None:
        """See `Host.suggestion`."""
        whole = self._whole()
        if whole is None:
            return None
        corners = whole.corners()
        low, high = corners.min(axis=0), corners.max(axis=0)
        middle, span = (low + high) / 2, (high - low).astype(np.float64)
        axes = self._axes[-whole.rank :]
        shown = [axes.index(d - self.viewer.dims.ndim) for d in self.viewer.dims.displayed
                 if d - self.viewer.dims.ndim in axes]  # fmt: skip
        if len(self.viewer.dims.displayed) == 2:
            center = np.asarray(self.viewer.scene.camera.center)[-2:]
            size = np.asarray(self.viewer.canvas.size, np.float64) / self.viewer.scene.camera.zoom
            for at, axis in enumerate(shown):
                a, b = max(low[axis], center[at] - size[at] / 2), min(high[axis], center[at] + size[at] / 2)
                if a < b:
                    middle[axis], span[axis] = (a + b) / 2, b - a
        for axis in shown:
            span[axis] *= _SHARE
        return Region(
            tuple(map(float, middle)), tuple(map(float, span)), (0.0,) if whole.rank == 2 else (0.0, 0.0, 0.0)
        )

    def camera(self) -> NDArray[np.float64] | None:
        """See `Host.camera`."""
        dims = self.viewer.dims
        if len(dims.displayed) != 3 or len(self._axes) != 3:
            return None
        order = [axis - dims.ndim for axis in dims.displayed]
        if sorted(order) != sorted(self._axes):
            return None
        at = [order.index(axis) for axis in self._axes]
        depth = np.asarray(self.viewer.scene.camera.view_direction, np.float64)[at]
        rows = -np.asarray(self.viewer.scene.camera.up_direction, np.float64)[at]
        depth /= np.linalg.norm(depth)
        rows = rows - depth * (rows @ depth)
        rows /= np.linalg.norm(rows)
        columns = np.cross(depth, rows)
        turn = np.column_stack([depth, rows, columns])
        return turn if np.linalg.det(turn) > 0 else np.column_stack([depth, rows, -columns])

    # --- what happens in the viewer ---

    def _watch(self, layer: Layer, on: bool) -> None:
        for name in _WATCHED:
            emitter = getattr(layer.events, name, None)
            if emitter is None:
                continue
            if on:
                emitter.connect(self._on_layers)
            else:
                emitter.disconnect(self._on_layers)

    def _on_layers(self, event: Any = None) -> None:
        if event is not None and getattr(event, "value", None) is not None and is_ours(event.value):
            return
        self._later(self._refresh)

    def _on_point(self, event: Any = None) -> None:
        if any(facts.shown for facts in self._facts.values()):
            self._later(self._refresh)

    def _refresh(self) -> None:
        if self.panel is not None:
            self.panel.refresh()

    def _on_camera(self, event: Any = None) -> None:
        if self.panel is not None:
            self.panel.camera_moved()

    def _on_size(self, event: Any = None) -> None:
        if self.panel is not None:
            self._later(self.panel.offer)

    def _moved(self, region: Region | None) -> None:
        if self.panel is not None:
            self.panel.set_region(region)

    def _drawn(self, region: Region | None) -> None:
        if self.panel is not None:
            self.panel.drawn(region)


def is_ours(value: Any) -> bool:
    """Whether an event is about the box's own layers."""
    return hasattr(value, "metadata") and hasattr(value, "unique_id") and is_box_layer(value)
