"""The layers that show a box: an outline and handles, which carry the keys that nudge it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.gui.crop import Handle

if TYPE_CHECKING:
    import napari

__all__ = ["BoxLayers", "is_box_layer"]

_MARK: Final = "napari-decant crop box"
_SYMBOLS: Final = {"move": "cross", "face": "square", "corner": "square", "turn": "disc"}
_COLORS: Final = {"move": "#ffffff", "face": "#ffd23f", "corner": "#ffd23f", "turn": "#6fd3ff"}
_SIZES: Final = {"move": 16.0, "face": 11.0, "corner": 11.0, "turn": 15.0}
_LINE: Final = "#ffd23f"
_WIDTH: Final = {2: 2.0, 3: 3.0}  # canvas pixels; in space, lines are flat ribbons
_FAINT: Final = 0.35


def is_box_layer(layer: Any) -> bool:
    """Whether a layer is part of a box."""
    return bool(layer.metadata.get(_MARK))


class BoxLayers:
    """An outline and handles in a viewer; made when they are first drawn.

    Parameters
    ----------
    viewer : napari.Viewer
    keys : mapping of str to callable
        What keys do while the handles are the active layer.
    changed : callable
        Called when the user shows or hides them.
    """

    def __init__(
        self,
        viewer: napari.Viewer,
        keys: dict[str, Callable[[], object]],
        changed: Callable[..., object],
    ) -> None:
        keep_context(viewer)
        self.viewer, self._keys, self._changed = viewer, keys, changed
        self.busy = False
        self._lines: Any = None
        self._points: Any = None
        self._kinds: list[str] = []
        self._drawn = 0.0

    @property
    def there(self) -> bool:
        """Whether they were made."""
        return self._lines is not None

    @property
    def fit(self) -> bool:
        """Whether they have as many axes as the viewer."""
        return self.there and self._lines.ndim == self.viewer.dims.ndim

    @property
    def grips(self) -> bool:
        """Whether the handles can be seen."""
        return self.there and bool(self._points.visible)

    def has(self, layer: Any) -> bool:
        """Whether a layer is one of them."""
        return self.there and layer in (self._lines, self._points)

    def draw(
        self,
        lines: NDArray[np.float64],
        handles: Sequence[Handle],
        places: Any,
        pixel: float,
        *,
        faint: bool = False,
    ) -> None:
        """Show lines and handles.

        Parameters
        ----------
        lines : array
            Ends in the world, shape (lines, 2, ndim).
        handles : sequence of Handle
        places : array
            Of the handles in the world, shape (handles, ndim).
        pixel : float
            World length of a canvas pixel.
        faint : bool
            The box lies before or behind what is seen.
        """
        self._make()
        seen = list(self.viewer.dims.displayed)
        # What is hidden is not touched: napari would draw it with parts of the old and parts of the new.
        if self._lines.visible:
            scale = np.asarray(self._lines.scale)
            ends = lines / scale
            self._lines.data = np.stack([ends[:, 0], ends[:, 1] - ends[:, 0]], axis=1)
            width = _WIDTH[len(seen)] * pixel / float(scale[seen].mean())
            if self._lines.edge_width != width:
                self._lines.edge_width = width
            opacity = _FAINT if faint else 1.0
            if self._lines.opacity != opacity:
                self._lines.opacity = opacity
        if self._points.visible:
            self._draw_handles(handles, places, pixel / float(np.asarray(self._points.scale)[seen].mean()))

    def _draw_handles(self, handles: Sequence[Handle], places: Any, unit: float) -> None:
        points, kinds = self._points, [handle.kind for handle in handles]
        same = self._kinds == kinds and len(points.data) == len(kinds)
        points.data = places / np.asarray(points.scale)
        if points.selected_data:
            points.selected_data = set()
        if not kinds:
            self._kinds = kinds
            return
        if not same:
            points.symbol = [_SYMBOLS[kind] for kind in kinds]
            points.face_color = [_COLORS[kind] for kind in kinds]
        if not same or self._drawn != unit:  # setting a size draws everything anew
            points.size = np.array([_SIZES[kind] * unit for kind in kinds])
        self._kinds, self._drawn = kinds, unit

    def _make(self) -> None:
        there = self.there and self._lines in self.viewer.layers and self._points in self.viewer.layers
        if there and self.fit:
            return
        self.remove()
        from napari.layers import Points, Vectors

        ndim = self.viewer.dims.ndim
        largest = max(step.step or 1.0 for step in self.viewer.dims.range)
        common: dict[str, Any] = {
            # sliders step by the smallest scale of any layer, which this is not; handles stay round
            "scale": [largest] * ndim,
            "metadata": {_MARK: True},
            "ndim": ndim,
            "opacity": 1.0,
        }
        units = self.viewer.layers.units
        if units is not None:
            common["units"] = units
        self._lines = Vectors(
            np.empty((0, 2, ndim)), name="crop box", vector_style="line", edge_color=_LINE, **common
        )
        self._points = Points(
            np.empty((0, ndim)),
            name="crop handles",
            border_color="#20262d",
            border_width=0.12,
            canvas_size_limits=(6, 24),
            antialiasing=1,
            **common,
        )
        self._kinds = []
        for key, run in self._keys.items():
            self._points.bind_key(key, lambda _, run=run: run(), overwrite=True)
        self.busy = True
        try:
            for layer in (self._lines, self._points):
                self.viewer.layers.append(layer)
                layer.events.visible.connect(self._changed)
            self.viewer.layers.selection.active = self._points
        finally:
            self.busy = False

    def remove(self) -> None:
        """Take them out of the viewer."""
        self.busy = True
        try:
            for layer in (self._lines, self._points):
                if layer is not None and layer in self.viewer.layers:
                    layer.visible = True  # napari 0.9 may crash later if a hidden layer is removed
                    self.viewer.layers.remove(layer)
        finally:
            self.busy = False
        self._lines = self._points = None


def keep_context(viewer: napari.Viewer) -> None:
    """Make the canvas's OpenGL context the current one whenever a layer is removed, from now on.

    napari (0.9) deletes the shaders of a removed layer at once, in whatever context is current: often that of
    the window around the canvas. Some drivers then crash in the first frame after the canvas was resized.
    """
    native = getattr(getattr(getattr(viewer.window, "_qt_viewer", None), "canvas", None), "native", None)
    if native is None or native.property(_MARK):
        return
    native.setProperty(_MARK, True)

    def make_current(event: Any = None) -> None:
        with suppress(RuntimeError):  # the window is closed
            native.makeCurrent()

    viewer.layers.events.removing.connect(make_current)
