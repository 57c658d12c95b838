"""Closing napari in mid-job: it asks, and then leaves nothing unfinished behind."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import napari
import numpy as np
import pytest
from qtpy.QtCore import Qt, QTimer
from qtpy.QtWidgets import QMessageBox
from tests.support.gui import settled
from tests.support.tiffwriter import write_sparse_imagej

from napari_decant.errors import Cancelled
from napari_decant.plugin import _jobs, _widgets, _writer, write_layers
from napari_decant.plugin._leaving import _Guard

pytestmark = pytest.mark.viewer


@pytest.fixture
def own(viewer) -> Iterator[napari.Viewer]:
    """A window that a test may close."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = napari.Viewer(show=True)
    gone = watched(made)
    yield made
    if not gone and hasattr(made.window, "_qt_window"):
        made.close()


def watched(viewer: napari.Viewer) -> list[bool]:
    """Filled once the window is gone; one that closes is deleted soon, and must not be asked anything."""
    gone: list[bool] = []
    viewer.window._qt_window.destroyed.connect(lambda: gone.append(True))
    return gone


def packing(qtbot, viewer: napari.Viewer, folder: Path) -> Any:
    """A panel that packs a large file."""
    write_sparse_imagej(folder / "big.tif", 600, 1024, 1024)
    _, panel = viewer.window.add_plugin_dock_widget("napari-decant", "Pack TIFFs")
    panel.add([folder / "big.tif"])
    settled(qtbot, panel, timeout=60_000)
    panel.footer.main.click()
    qtbot.waitUntil(lambda: panel.batch is not None and panel.batch.fraction > 0.01, timeout=60_000)
    return panel


def question(viewer: napari.Viewer) -> QMessageBox:
    """The question that is shown."""
    guard = viewer.window._qt_window.findChild(_Guard)
    assert guard is not None
    assert guard.question is not None
    return guard.question


def answer(qtbot, box: QMessageBox, words: str) -> None:
    """Click one of the answers."""
    (button,) = [one for one in box.buttons() if words in one.text()]
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_closing_in_mid_job_asks_and_then_cancels_cleanly(qtbot, own: napari.Viewer, tmp_path: Path) -> None:
    panel = packing(qtbot, own, tmp_path)
    runner, window, gone = panel.desk.runner, own.window._qt_window, watched(own)
    assert not window.close()
    assert window.isVisible()
    box = question(own)
    assert box.text() == "1 job would be stopped."
    assert box.defaultButton().text().endswith("working")
    answer(qtbot, box, "Keep")
    assert panel.batch is not None
    assert window.isVisible()

    window.close(quit_app=False, confirm_need=True)  # File > Close Window
    answer(qtbot, question(own), "Stop")
    qtbot.waitUntil(lambda: bool(gone), timeout=20_000)
    assert not runner.busy
    assert sorted(os.listdir(tmp_path)) == ["big.tif"]
    qtbot.waitUntil(lambda: not _widgets._seats, timeout=20_000)


def test_a_script_that_closes_its_viewer_is_not_asked(qtbot, own: napari.Viewer, tmp_path: Path) -> None:
    runner = packing(qtbot, own, tmp_path).desk.runner
    own.close()
    qtbot.waitUntil(lambda: not runner.busy, timeout=20_000)
    qtbot.waitUntil(lambda: sorted(os.listdir(tmp_path)) == ["big.tif"], timeout=20_000)
    qtbot.waitUntil(lambda: not _widgets._seats, timeout=20_000)


def test_closing_while_layers_are_saved_asks_too(
    qtbot, own: napari.Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.add_image(1 + np.arange(64 * 256 * 256, dtype=np.uint32).reshape(64, 256, 256), name="a")
    monkeypatch.setattr(napari, "current_viewer", lambda: own)
    monkeypatch.setattr(_jobs, "current_viewer", lambda: own)
    window, gone = own.window._qt_window, watched(own)
    asked: list[str] = []

    def leave() -> None:
        window.close()
        box = question(own)
        asked.append(box.text())
        answer(qtbot, box, "Stop")

    QTimer.singleShot(100, leave)
    real = _jobs.run_alive

    def wait(work: Any, title: str) -> Any:
        def longer(progress: Any, cancel: Any) -> Any:
            while not cancel.cancelled:
                time.sleep(0.02)
            return work(progress, cancel)

        return real(longer, title)

    monkeypatch.setattr(_writer, "run_alive", wait)
    with pytest.raises(Cancelled):
        write_layers(str(tmp_path / "a.ozx"), [layer.as_layer_data_tuple() for layer in own.layers])
    assert asked == ["1 job would be stopped."]
    qtbot.waitUntil(lambda: bool(gone), timeout=10_000)
    assert os.listdir(tmp_path) == []
