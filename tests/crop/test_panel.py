"""The column of the crop tool: what is seen of it, the way of Tab and of the wheel, and its end."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QApplication, QWidget
from tests.crop.in_viewer import ready, sheet, volume

from napari_decant.plugin.crop import CropWidget

pytestmark = pytest.mark.viewer


def test_tab_goes_from_top_to_bottom_whatever_the_layers_are(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    viewer.layers.clear()
    sheet(viewer, tmp_path)  # two axes: other fields than before
    ready(qtbot, widget)
    chain, each = [], widget.form.list
    for _ in range(200):
        each = each.nextInFocusChain()
        chain.append(each)
    fields = widget.form.fields
    places = [chain.index(one) for one in (widget.form.reset, *fields.numbers, widget.form.snap)]
    assert len(fields.numbers) == 5
    assert places == sorted(places)


def _wheel(widget: QWidget) -> bool:
    at = QPointF(widget.rect().center())
    none, phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    turn = QWheelEvent(
        at,
        widget.mapToGlobal(at),
        QPoint(),
        QPoint(0, -120),
        none,
        Qt.KeyboardModifier.NoModifier,
        phase,
        False,
    )
    QApplication.sendEvent(widget, turn)
    return turn.isAccepted()


def test_the_wheel_changes_no_field_that_it_passes(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    widget.form.output.open()
    ready(qtbot, widget)
    region, intent = widget.intent.region, widget.intent
    for field in (*widget.form.fields.numbers, widget.form.output.filter, widget.form.output.grid):
        assert not _wheel(field)  # so that the column around it gets it
    assert widget.intent.region == region
    assert widget.intent == intent


def test_the_layers_stand_in_one_line_each_with_boxes_that_are_seen(viewer, qtbot, tool):
    name = "a very long name of a layer, as those that are made of a path and a channel are " * 2
    for n in range(2):
        viewer.add_image(np.ones((40, 50)), name=f"{name}{n}")
    widget = tool()
    ready(qtbot, widget)
    one = widget.form.list
    assert one.item(0).toolTip() == f"{name}1"
    assert not one.horizontalScrollBar().isVisible()
    assert one.viewport().height() >= 2 * one.sizeHintForRow(0)
    picture = one.grab().toImage()
    row = one.visualItemRect(one.item(1))
    at = row.center().y() + one.viewport().y()
    line = [picture.pixelColor(x, at).lightness() for x in range(row.left() + 2, row.left() + row.height())]
    assert max(line) - min(line) > 60  # the edge of a box that is not checked, on the list


def test_words_of_a_choice_are_not_cut(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    widget.form.output.open()
    ready(qtbot, widget)
    output = widget.form.output
    assert not output.pitch.isVisible()
    assert output.grid.width() == output.filter.width()  # the room of the number that is not needed


def test_a_tool_that_goes_with_its_window_stops_and_hears_no_more(viewer, qtbot, tmp_path):
    volume(viewer, tmp_path)
    before = set(threading.enumerate())
    window = QWidget()
    widget = CropWidget(viewer)
    widget.setParent(window)
    window.show()
    ready(qtbot, widget)
    widget.run()
    gone: list[bool] = []
    widget.destroyed.connect(lambda: gone.append(True))
    window.deleteLater()
    qtbot.waitUntil(lambda: bool(gone))
    assert not [thread for thread in threading.enumerate() if thread not in before and thread.is_alive()]
    viewer.theme = "light"
    viewer.theme = "dark"
    viewer.layers.clear()
    QApplication.processEvents()
