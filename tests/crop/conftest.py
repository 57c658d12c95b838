"""One napari viewer, with a window as large as a person's, for all tests of the crop tool."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator

import pytest
from qtpy.QtWidgets import QApplication

with warnings.catch_warnings():
    # What napari's own dependencies warn of while they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    import napari
    import napari.viewer

from tests.crop.in_viewer import ready
from tests.plugin.conftest import open_viewer

from napari_decant.plugin._screenshots import settle
from napari_decant.plugin.crop import CropWidget


@pytest.fixture(scope="package")
def _viewer() -> Iterator[napari.Viewer]:
    viewer = open_viewer(1400, 900)
    settle(viewer, 0.2)
    gc.freeze()  # napari collects garbage whenever a dock or a layer goes: not again what stays anyway
    yield viewer
    gc.unfreeze()
    viewer.close()


@pytest.fixture
def viewer(_viewer: napari.Viewer) -> Iterator[napari.Viewer]:
    """Return an empty viewer with a window."""
    _viewer.layers.clear()
    _viewer.dims.ndisplay = 2
    settle(_viewer, 0.05)
    yield _viewer
    _viewer.layers.clear()
    settle(_viewer, 0.05)


@pytest.fixture
def tool(viewer: napari.Viewer, qtbot) -> Iterator[Callable[[], CropWidget]]:
    """Dock the tool; it goes before the viewer's layers do."""
    made = []

    def dock() -> CropWidget:
        widget = CropWidget(viewer)
        viewer.window.add_dock_widget(widget, name="Crop a region", area="right")
        made.append(widget)
        settle(viewer, 0.05)
        ready(qtbot, widget)
        return widget

    yield dock
    for widget in made:
        if widget._open:
            viewer.window.remove_dock_widget(widget)
    QApplication.processEvents()
