"""Every control of every panel: a tooltip, a name, a way to it by the keyboard, and a visible focus."""

from __future__ import annotations

from pathlib import Path

import pytest
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QApplication
from tests.support.conforming import conforming
from tests.support.gui import faults_of, settled

from napari_decant import archive


@pytest.mark.parametrize("number", range(6))
def test_every_control_can_be_found_named_and_reached(qtbot, window, tiffs: Path, number: int) -> None:
    for key, data in conforming().items():
        target = tiffs / "image.zarr" / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    packed = archive.pack(tiffs / "cell_0.tif").archive
    window.tabs[number].click()
    panel = window.panels[number]
    with qtbot.waitActive(window):
        window.raise_()
        window.activateWindow()
    assert faults_of(qtbot, panel) == [], "empty"
    panel.add([packed if panel.KEY != "pack" else tiffs / "cell_1.tif"])
    if panel.KEY == "inspect":
        qtbot.waitUntil(lambda: panel.shown is not None, timeout=20_000)
        panel.add([tiffs / "cell_1.tif"])
    else:
        settled(qtbot, panel)
        panel.form.open()
        window.desk.settings.restore_folder = str(tiffs / "back")
        qtbot.wait(50)
        assert faults_of(qtbot, panel) == [], "with rows and options"
        panel.footer.main.click()
        settled(qtbot, panel, timeout=60_000)
        assert panel.card is not None
    assert faults_of(qtbot, panel) == [], "at the end"


def test_the_wheel_changes_no_option_that_it_passes(qtbot, window) -> None:
    window.desk.settings.workers = 3
    window.pack.form.open()
    for name in ("workers", "codec"):
        field = window.pack.form.widgets[name].native
        at = QPointF(field.rect().center())
        none, phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
        keys, turn = Qt.KeyboardModifier.NoModifier, QPoint(0, -120)
        wheel = QWheelEvent(at, field.mapToGlobal(at), QPoint(), turn, none, keys, phase, False)
        QApplication.sendEvent(field, wheel)
        assert not wheel.isAccepted()  # so that the form around it gets it
    assert (window.desk.settings.workers, window.desk.settings.codec) == (3, "default")
