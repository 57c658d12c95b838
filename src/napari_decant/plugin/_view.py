"""``napari-decant view``: a napari window with images in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from napari_decant.errors import UnsupportedOperation

if TYPE_CHECKING:
    import napari

__all__ = ["add_to_viewer", "has_display", "open_viewer", "view"]


def has_display() -> bool:
    """Whether windows can be opened."""
    names = ("DISPLAY", "WAYLAND_DISPLAY")
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names)


def view(paths: Sequence[Path]) -> None:
    """Open images in napari and return when the window is closed.

    Parameters
    ----------
    paths : sequence of Path
        Archives, OME-Zarr folders and zip files, TIFFs.

    Raises
    ------
    UnsupportedOperation
        There is no display.
    DecantError
        One of them cannot be opened; no window stays.
    """
    if not has_display():
        raise UnsupportedOperation("there is no display to open a window on; run this on a desktop")
    import napari
    from qtpy.QtWidgets import QApplication

    viewer = open_viewer(show=False)
    try:
        for path in paths:
            add_to_viewer(viewer, path)
    except BaseException:
        viewer.close()
        raise
    viewer.window.show()
    QApplication.processEvents()  # only now does the canvas have the size that the view is fitted to
    viewer.reset_view()
    napari.run()


def open_viewer(*, show: bool) -> napari.Viewer:
    """Make a viewer that reads planes in a thread of its own, so that slow disks do not stop the window."""
    # Napari takes its preferences from the environment without saving them; the user's own choice stands.
    os.environ.setdefault("NAPARI_ASYNC", "1")
    import napari

    from napari_decant.plugin._watch import watch

    viewer = napari.Viewer(show=show)
    watch(viewer)
    return viewer


def add_to_viewer(viewer: napari.Viewer, path: Path) -> list[napari.layers.Layer]:
    """Add what a path shows; several images are offered in the window, and none is added yet.

    Raises
    ------
    DecantError
        As `napari_decant.plugin.read_layers`.
    """
    from napari.layers import Layer

    from napari_decant.plugin._open import offer_in, read_layers

    found = read_layers(str(path), choose=offer_in(viewer, str(path)))
    return [viewer.add_layer(Layer.create(*data)) for data in found]
