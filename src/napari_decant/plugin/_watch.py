"""Look after our layers while they are in a viewer: contrast limits, and letting go of files."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

from napari_decant.errors import DecantError
from napari_decant.images import ImageLayer
from napari_decant.plugin._opened import OpenedImage, opened_behind

__all__ = ["watch"]

logger = logging.getLogger(__name__)
_POLL_MS = 100
_watched: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(viewer: Any) -> None:
    """Take care of the layers of ours in a viewer, those to come included; doing it twice does nothing.

    A layer gets the whole range of its contrast slider, and limits measured on its coarsest level by a
    worker where the file names none. When its last layer is removed, an image lets go of its file.

    Parameters
    ----------
    viewer : napari.Viewer
        One with a window.
    """
    if viewer in _watched:
        return
    _watched.add(viewer)
    viewer.layers.events.inserted.connect(_on_inserted)
    viewer.layers.events.removed.connect(_on_removed)


def _on_inserted(event: Any) -> None:
    from napari.layers import Image, Labels

    found = opened_behind(event.value.data)
    if found is not None and isinstance(event.value, Labels):
        event.value.editable = False
    if found is None or not isinstance(event.value, Image) or event.value.rgb:
        return
    opened, number = found
    layer = opened.layers[number]
    _widen(event.value, layer)
    if layer.contrast_limits is None and not opened.measured:
        opened.measured = True
        _measure(opened, weakref.ref(event.source))


def _on_removed(event: Any) -> None:
    found = opened_behind(event.value.data)
    if found is None:
        return
    opened, _ = found
    others = (opened_behind(layer.data) for layer in event.source)
    if not any(other is not None and other[0] is opened for other in others):
        opened.close()


def _widen(layer: Any, known: ImageLayer) -> None:
    """Let the slider reach all values of the image, or of its data type."""
    if known.contrast_limits is None or known.contrast_range is None:
        return
    low, high = known.contrast_limits
    layer.contrast_limits_range = (min(low, known.contrast_range[0]), max(high, known.contrast_range[1]))
    layer.contrast_limits = (low, high)


def _measure(opened: OpenedImage, shown: weakref.ref[Any]) -> None:
    from napari.qt.threading import create_worker

    def measured() -> Iterator[tuple[int, tuple[float, float]]]:
        for number, layer in enumerate(opened.layers):
            if layer.contrast_limits is not None or layer.levels[0].dtype == bool:
                continue
            try:
                with opened.borrow() as layers:
                    limits = layers[number].measure_contrast()
                yield number, limits
            except DecantError as error:  # looking at the image says it where the user can see it
                logger.warning("the contrast of %s cannot be measured: %s", layer.name, error)

    def apply(result: tuple[int, tuple[float, float]]) -> None:
        number, limits = result
        for layer in shown() or ():
            if opened_behind(layer.data) == (opened, number):
                _set_limits(weakref.ref(layer), limits)

    create_worker(measured, _connect={"yielded": apply})


def _set_limits(layer: weakref.ref[Any], limits: tuple[float, float]) -> None:
    """Set measured limits, after napari has taken its own from the first plane."""
    alive = layer()
    if alive is None:
        return
    if not alive.loaded:
        from qtpy.QtCore import QTimer

        QTimer.singleShot(_POLL_MS, partial(_set_limits, layer, limits))
        return
    low, high = alive.contrast_limits if alive.auto_contrast else alive.contrast_limits_range
    alive.auto_contrast = False
    alive.contrast_limits_range = (min(low, limits[0]), max(high, limits[1]))
    alive.contrast_limits = limits
