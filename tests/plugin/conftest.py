"""One napari viewer for all tests that need one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest

with warnings.catch_warnings():
    # What napari's own dependencies warn of while they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    import napari
    import napari.layers
    import napari.qt.threading
    import napari.viewer

from napari.utils.notifications import notification_manager

from napari_decant.plugin._screenshots import settle


def has_display() -> bool:
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY"))


def open_viewer(width: int, height: int) -> napari.Viewer:
    """Open a viewer that slices at once; skips the test where there is no display."""
    if not has_display():
        pytest.skip("no display; run under xvfb-run")
    from napari.settings import get_settings

    get_settings().experimental.async_ = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        viewer = napari.Viewer(show=True)
    viewer.window.resize(width, height)
    return viewer


@pytest.fixture(scope="session")
def _viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[napari.Viewer]:
    viewer = open_viewer(900, 700)
    yield viewer
    viewer.close()


@pytest.fixture
def viewer(_viewer: napari.Viewer) -> Iterator[napari.Viewer]:
    """Return an empty viewer with a window."""
    _viewer.layers.clear()
    _viewer.dims.ndisplay = 2
    notification_manager.records.clear()
    yield _viewer
    _viewer.layers.clear()
    settle(_viewer, 0.05)


@pytest.fixture(autouse=True)
def _no_other_viewer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for no viewer has none, though the one of other tests may be open still."""
    if "viewer" not in request.fixturenames:
        monkeypatch.setattr(napari, "current_viewer", lambda: None)


@pytest.fixture
def told() -> Callable[[], list[str]]:
    """What the user was told since the test began."""
    notification_manager.records.clear()
    return lambda: [record.message for record in notification_manager.records]
