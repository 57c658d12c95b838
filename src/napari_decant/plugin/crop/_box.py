"""The box in the view, and how mouse and keys change it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.gui.crop import Drag, Handle, View, handles, nearest_handle, outline
from napari_decant.images.crop import Region, angles_of
from napari_decant.plugin.crop._box_layers import BoxLayers
from napari_decant.spatial import rotation_matrix

if TYPE_CHECKING:
    import napari

__all__ = ["BoxView"]

_REACH: Final = 11.0  # canvas pixels within which a handle is hit
_ARM: Final = 34.0  # of the rotation handle from the box
_SMALLEST_DRAWN: Final = 5.0


class BoxView:
    """Shows a region in a viewer and lets it be dragged, drawn and nudged.

    Parameters
    ----------
    viewer : napari.Viewer
    changed : callable
        Told the new region while and after it is dragged.
    drawn : callable
        Told the region that was drawn, or None.
    removed : callable
        Called when the user removes the box.
    later : callable
        Calls a function soon: layers are not added while the viewer is busy with another one.
    """

    def __init__(
        self,
        viewer: napari.Viewer,
        changed: Callable[[Region], object],
        drawn: Callable[[Region | None], object],
        removed: Callable[[], object],
        later: Callable[[Callable[[], object]], object],
    ) -> None:
        self.viewer, self._later = viewer, later
        self._changed, self._drawn, self._removed = changed, drawn, removed
        self.region: Region | None = None
        self.axes: tuple[int, ...] = ()  # world axes of the region, counted from the last
        self.steps: tuple[float, ...] = ()  # a voxel, in world units
        self.depth: Callable[[], Region | None] = lambda: None
        self.drawing = False
        self.handles: tuple[Handle, ...] = ()
        self.layers = BoxLayers(viewer, self._key_map(), self._on_view)
        viewer.mouse_drag_callbacks.append(self._on_drag)
        self._events = (
            (viewer.dims.events.point, self._on_view),
            (viewer.dims.events.ndisplay, self._on_view),
            (viewer.dims.events.order, self._on_view),
            (viewer.scene.camera.events.zoom, self._on_view),
            (viewer.layers.events.removed, self._on_removed),
        )
        for emitter, callback in self._events:
            emitter.connect(callback)

    def close(self) -> None:
        """Take the box away and let go of the viewer."""
        for emitter, callback in self._events:
            emitter.disconnect(callback)
        if self._on_drag in self.viewer.mouse_drag_callbacks:
            self.viewer.mouse_drag_callbacks.remove(self._on_drag)
        self.show(None, ())

    # --- showing ---

    def show(self, region: Region | None, axes: Sequence[int], steps: Sequence[float] = ()) -> None:
        """Show a region along these world axes, or take it away."""
        self.region, self.axes, self.steps = region, tuple(axes), tuple(steps)
        if region is None or len(axes) != region.rank or self.viewer.dims.ndim < -min(axes):
            self._remove()
        else:
            self._update()

    @property
    def view(self) -> View | None:
        """How the region's axes are seen; None where others are shown."""
        ndim = self.viewer.dims.ndim
        shown = [axis - ndim for axis in self.viewer.dims.displayed]
        point = tuple(float(self.viewer.dims.point[axis]) for axis in self.axes)
        seen = tuple(sorted(self.axes.index(axis) for axis in shown if axis in self.axes))
        if len(seen) != len(shown) and not (len(self.axes) == 2 and len(seen) == 2):
            return None
        return View(seen, point)

    @property
    def pixel(self) -> float:
        """World length of a canvas pixel."""
        return 1.0 / max(float(self.viewer.scene.camera.zoom), 1e-12)

    def _update(self) -> None:
        region = self.region
        if region is None:
            return
        view, faint = self.view, False
        if view is None:
            lines, self.handles = np.empty((0, 2, region.rank)), ()
        else:
            lines = outline(region, view)
            flat = len(self.viewer.dims.displayed) == 2
            faint = flat and not len(lines)
            if faint:  # the slider has left the box: show how it looks in its middle
                lines = outline(region.moved(center=self._in_view(region, view)), view)
            grips = flat or region.rank == 3
            self.handles = handles(region, view, _ARM * self.pixel) if grips else ()
        spots = np.asarray([handle.position for handle in self.handles]).reshape(-1, region.rank)
        ends = self._world(lines.reshape(-1, region.rank)).reshape(len(lines), 2, self.viewer.dims.ndim)
        self.layers.draw(ends, self.handles, self._world(spots), self.pixel, faint=faint)

    @staticmethod
    def _in_view(region: Region, view: View) -> tuple[float, ...]:
        """The centre, moved into the plane that is seen."""
        return tuple(
            here if axis in view.displayed else there
            for axis, (here, there) in enumerate(zip(region.center, view.point, strict=True))
        )

    def _world(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points of the region's axes as points of the whole world, in what is shown of the other axes."""
        whole = np.tile(np.asarray(self.viewer.dims.point, np.float64), (len(places), 1))
        for column, axis in enumerate(self.axes):
            whole[:, axis] = places[:, column]
        return whole

    def _remove(self) -> None:
        self.layers.remove()
        self.handles = ()

    def _on_view(self, event: Any = None) -> None:
        if self.region is None or not self.layers.there or self.layers.busy:
            return
        if self.layers.fit:
            self._update()
        else:
            self._later(self._update)

    def _on_removed(self, event: Any) -> None:
        if not self.layers.busy and self.layers.has(event.value):
            self._remove()
            self._removed()

    # --- keys ---

    def _key_map(self) -> dict[str, Callable[[], object]]:
        """Arrows nudge by a voxel, with Shift by ten; brackets turn; Page keys go through the depth."""
        keys: dict[str, Callable[[], object]] = {}
        for key, (row, column) in {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}.items():
            for prefix, times in (("", 1), ("Shift-", 10)):
                keys[f"{prefix}{key}"] = partial(self.nudge, row * times, column * times)
        return keys | {
            "[": partial(self.turn, -1.0),
            "]": partial(self.turn, 1.0),
            "PageUp": partial(self.nudge, 0, 0, -1),
            "PageDown": partial(self.nudge, 0, 0, 1),
        }

    def nudge(self, rows: float, columns: float, depth: float = 0) -> None:
        """Move the box by voxels along what is seen."""
        region, view = self.region, self.view
        if region is None or view is None:
            return
        center = list(region.center)
        seen = view.displayed[-2:]
        hidden = [axis for axis in range(region.rank) if axis not in seen]
        for axis, count in ((seen[0], rows), (seen[1], columns), *((axis, depth) for axis in hidden)):
            center[axis] += count * self.steps[axis]
        self._changed(region.moved(center=tuple(center)))

    def turn(self, degrees: float) -> None:
        """Turn the box in what is seen, or about its first axis."""
        region = self.region
        if region is None:
            return
        if region.rank == 2:
            self._changed(region.moved(angles=(region.angles[0] + degrees,)))
            return
        view = self.view
        hidden = [axis for axis in range(3) if view is None or axis not in view.displayed] or [0]
        turn = np.eye(3)
        others = [axis for axis in range(3) if axis != hidden[0]]
        turn[np.ix_(others, others)] = rotation_matrix(degrees)
        self._changed(region.moved(angles=angles_of(turn @ region.rotation)))

    # --- the mouse ---

    def _on_drag(self, viewer: Any, event: Any) -> Generator[None]:
        if event.button != 1 or (event.modifiers and "Alt" in event.modifiers):
            return
        active = viewer.layers.selection.active
        if active is not None and active.mode != "pan_zoom":
            return
        if self.drawing:
            yield from self._draw(event)
        elif self.region is not None and self.handles and self.layers.grips:
            yield from self._drag(event)

    def _here(self, event: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Point and direction of the pointer, along the region's axes."""
        point = np.asarray(event.position, np.float64)
        ray = event.view_direction
        pick = list(self.axes)
        return point[pick], None if ray is None else np.asarray(ray, np.float64)[pick]

    def _drag(self, event: Any) -> Generator[None]:
        region, view = self.region, self.view
        if region is None or view is None:
            return
        point, ray = self._here(event)
        handle = nearest_handle(self.handles, view, point, ray, _REACH * self.pixel)
        if handle is None:
            return
        least = min(self.steps) if self.steps else 1e-9
        drag = Drag(region, handle, view, point, ray, least)
        event.handled = True
        yield
        moved = False
        while event.type == "mouse_move":
            moved = True
            self._drag_to(drag, event)
            event.handled = True
            yield
        if moved:  # moves in quick succession are left out, the last one too
            self._drag_to(drag, event)

    def _drag_to(self, drag: Drag, event: Any) -> None:
        point, ray = self._here(event)
        keys = [str(key) for key in event.modifiers]
        self._changed(drag.to(point, ray, snap="Shift" in keys, center="Control" in keys))

    def _draw(self, event: Any) -> Generator[None]:
        view = self.view
        if view is None or len(self.viewer.dims.displayed) != 2:
            return
        begin, _ = self._here(event)
        made: Region | None = None
        event.handled = True
        yield
        while event.type == "mouse_move":
            end, _ = self._here(event)
            made = self._between(begin, end, view)
            if made is not None:
                self._preview(made)
            event.handled = True
            yield
        end, _ = self._here(event)
        self.drawing = False
        self._drawn(self._between(begin, end, view) or made)

    def _between(self, begin: NDArray[np.float64], end: NDArray[np.float64], view: View) -> Region | None:
        """The box with two corners in what is seen, as deep as the image."""
        seen = list(view.displayed)
        span = np.abs(end - begin)
        if span[seen].min() < _SMALLEST_DRAWN * self.pixel:
            return None
        middle = (begin + end) / 2
        whole = self.depth()
        for axis in range(len(self.axes)):
            if axis not in seen and whole is not None:
                low, high = whole.corners().min(axis=0)[axis], whole.corners().max(axis=0)[axis]
                middle[axis], span[axis] = (low + high) / 2, high - low
        angles = (0.0,) if len(self.axes) == 2 else (0.0, 0.0, 0.0)
        return Region(tuple(map(float, middle)), tuple(map(float, span)), angles)

    def _preview(self, region: Region) -> None:
        """Show a box that is being drawn."""
        self.region = region
        self._update()
