# ruff: noqa: F811
"""The crop tool in a real napari window. Not collected: rename to test_viewer.py once it runs to its end.

With llvmpipe, napari 0.9.2 may crash when layers were removed and the canvas is resized afterwards.
"""

from __future__ import annotations

import time
import warnings
from contextlib import nullcontext

import dask.array
import numpy as np
import pytest
import zarr
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtWidgets import QApplication
from tests.crop.helpers import at_world, blob, center_of_mass, mean_pyramid, pyramid_transforms
from tests.plugin.conftest import _viewer, viewer  # noqa: F401 - fixtures
from tests.plugin.helpers import write_folder
from tests.support.ngff import image_keys

from napari_decant.images import open_image
from napari_decant.images.crop import Region, SavedQuery
from napari_decant.plugin._level_array import LevelArray
from napari_decant.plugin._open import read_layers
from napari_decant.plugin._opened import opened_behind
from napari_decant.plugin._screenshots import settle
from napari_decant.plugin.crop import CropWidget, is_box_layer

# Of a layer that is tilted out of its planes, napari says this at every step of a slider.
pytestmark = [pytest.mark.viewer, pytest.mark.filterwarnings("ignore:Non-orthogonal slicing")]
SCALE, ORIGIN, SPOT = (2.0, 0.5, 0.5), (-3.0, 10.0, 4.0), (12.0, 30.0, 40.0)
PHYSICAL = np.array([s * (a - 0.5) + o for s, a, o in zip(SCALE, SPOT, ORIGIN, strict=True)])


@pytest.fixture
def tool(viewer, qtbot):
    """Dock the tool; it goes before the viewer's layers do."""
    made = []
    viewer.window.resize(1400, 900)
    settle(viewer, 0.2)

    def dock():
        widget = CropWidget(viewer)
        viewer.window.add_dock_widget(widget, name="Crop a region", area="right")
        made.append(widget)
        ready(qtbot, widget)
        return widget

    yield dock
    for widget in made:
        if widget._open:
            viewer.window.remove_dock_widget(widget)
    viewer.window.resize(900, 700)
    settle(viewer, 0.05)


def ready(qtbot, widget):
    """Everything that follows from the last change is done."""
    QApplication.processEvents()
    qtbot.waitUntil(lambda: widget.settled and not widget._soon and not widget.busy, timeout=20_000)


def run(qtbot, viewer, widget):
    before = set(viewer.layers)
    widget.form.add.click()
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    ready(qtbot, widget)
    return [layer for layer in viewer.layers if layer not in before and not is_box_layer(layer)]


def boxes(viewer):
    return [layer for layer in viewer.layers if is_box_layer(layer)]


def matrix_of(layer):
    zero = np.array(layer.data_to_world((0.0,) * layer.ndim))
    columns = [np.array(layer.data_to_world(tuple(row))) - zero for row in np.eye(layer.ndim)]
    return np.column_stack([np.stack(columns, 1), zero])


def canvas_of(viewer):
    return viewer.window._qt_viewer.canvas


def to_canvas(viewer, world):
    """Where a point of the world is on the canvas, in pixels."""
    view = canvas_of(viewer).view
    shown = np.array(world, float)[list(viewer.dims.displayed)][::-1]
    at = (view.transform * view.scene.transform).map(list(shown))
    return QPoint(*(round(float(v)) for v in np.asarray(at[:2]) / np.asarray(at)[3]))


def drag(viewer, begin, end, steps=6, keys=Qt.KeyboardModifier.NoModifier):
    """Press, move and release the mouse on the canvas, as a hand does."""
    native = canvas_of(viewer).native
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton

    def send(kind, at, button, buttons):
        QApplication.sendEvent(
            native, QMouseEvent(kind, QPointF(at), native.mapToGlobal(QPointF(at)), button, buttons, keys)
        )
        QApplication.processEvents()

    send(QEvent.Type.MouseMove, begin, none, none)
    send(QEvent.Type.MouseButtonPress, begin, left, left)
    for step in range(1, steps + 1):
        part = step / steps
        at = QPoint(*(round(a + (b - a) * part) for a, b in ((begin.x(), end.x()), (begin.y(), end.y()))))
        send(QEvent.Type.MouseMove, at, none, left)
    send(QEvent.Type.MouseButtonRelease, end, left, none)


def handle(widget, kind, **wanted):
    return next(
        h for h in widget._host.box.handles
        if h.kind == kind and all(getattr(h, name) == value for name, value in wanted.items())
    )  # fmt: skip


def flat_image(viewer):
    data = blob((120, 160), (60.0, 80.0), 8.0)
    layer = viewer.add_image(data, scale=(0.5, 0.5), translate=(10.0, -3.0), name="spot", colormap="magma")
    viewer.reset_view()
    settle(viewer, 0.05)
    return layer


def volume(viewer, tmp_path, name="cells"):
    """A volume of ours with two levels and anisotropic voxels."""
    data = mean_pyramid(blob((24, 64, 80), SPOT, (1.2, 4.0, 4.0)), 2)
    scales, shifts = pyramid_transforms(SCALE, ORIGIN, 2)
    keys = image_keys(data, "zyx", scales=scales, translations=shifts, chunks=(8, 32, 32))
    folder = write_folder(tmp_path / f"{name}.zarr", keys)
    from napari.layers import Layer

    layer = viewer.add_layer(Layer.create(*read_layers(str(folder))[0]))
    viewer.reset_view()
    settle(viewer, 0.05)
    return layer


def test_draw_turn_cut_and_the_result_lies_on_the_source(viewer, qtbot, tool):
    layer = flat_image(viewer)
    widget = tool()
    assert widget.snapshot.ready
    widget.form.draw.click()
    drag(viewer, to_canvas(viewer, (25.0, 15.0)), to_canvas(viewer, (55.0, 65.0)))
    assert not widget.form.draw.isChecked()
    ready(qtbot, widget)
    region = widget.intent.region
    np.testing.assert_allclose(region.center, (40.0, 40.0), atol=0.5)
    np.testing.assert_allclose(region.size, (30.0, 50.0), atol=0.8)
    assert "copied unchanged" in widget.form.headline.text()
    (straight,) = run(qtbot, viewer, widget)
    rows, columns = np.rint((np.array(straight.translate) - layer.translate) / 0.5).astype(int)
    part = layer.data[rows : rows + straight.data.shape[0], columns : columns + straight.data.shape[1]]
    np.testing.assert_array_equal(straight.data, part)
    assert straight.data.shape in {(60, 100), (59, 100), (60, 99), (61, 100), (60, 101), (61, 101)}
    # the rotation handle goes round, and the box with it
    viewer.layers.selection.active = boxes(viewer)[1]
    grip = handle(widget, "turn").position
    center = np.array(widget.intent.region.center)
    arm = np.array(grip) - center
    angle = np.radians(30)
    turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) @ arm
    camera = tuple(viewer.scene.camera.center)
    drag(viewer, to_canvas(viewer, grip), to_canvas(viewer, center + turned), steps=8)
    ready(qtbot, widget)
    assert tuple(viewer.scene.camera.center) == camera
    assert widget.intent.region.angles[0] == pytest.approx(30, abs=2.5)
    assert widget.form.fields.angles[0].value() == pytest.approx(widget.intent.region.angles[0])
    assert "turned 3" in widget.form.headline.text() or "turned 2" in widget.form.headline.text()
    (result,) = run(qtbot, viewer, widget)
    assert result.colormap.name == layer.colormap.name
    assert result.contrast_limits == layer.contrast_limits
    assert result.units == layer.units
    assert result.axis_labels == layer.axis_labels
    wanted = at_world(matrix_of(layer), center_of_mass(layer.data))
    found = at_world(matrix_of(result), center_of_mass(result.data))
    np.testing.assert_allclose(found, wanted, atol=0.1)


def test_a_crop_toggled_over_its_source_changes_no_pixel_of_the_screen(viewer, qtbot, tool):
    layer = flat_image(viewer)
    widget = tool()
    widget.set_region(Region((40.0, 37.0), (8.0, 10.0), (0.0,)))
    ready(qtbot, widget)
    (result,) = run(qtbot, viewer, widget)
    for one in boxes(viewer):
        one.visible = False
    result.blending = "opaque"
    shots = []
    for visible in (True, False):
        result.visible = visible
        settle(viewer, 0.05)
        shots.append(viewer.screenshot(canvas_only=True, flash=False).astype(int))
    assert np.abs(shots[0] - shots[1]).max() <= 1
    result.visible, layer.visible = True, False
    settle(viewer, 0.05)
    alone = viewer.screenshot(canvas_only=True, flash=False).astype(int)
    assert np.abs(alone - shots[1]).max() > 20  # the crop is drawn, and smaller than its source
    layer.visible = True


def test_handles_size_and_move_the_box_and_numbers_follow(viewer, qtbot, tool):
    flat_image(viewer)
    widget = tool()
    widget.set_region(Region((40.0, 37.0), (24.0, 30.0), (0.0,)))
    ready(qtbot, widget)
    side = handle(widget, "face", axis=1, sides=(0, 1)).position
    drag(viewer, to_canvas(viewer, side), to_canvas(viewer, (40.0, 58.0)))
    np.testing.assert_allclose(widget.intent.region.size, (24.0, 36.0), atol=0.5)
    corner = handle(widget, "corner", sides=(1, 1)).position
    drag(viewer, to_canvas(viewer, corner), to_canvas(viewer, np.add(corner, (5.0, -4.0))))
    np.testing.assert_allclose(widget.intent.region.size, (29.0, 32.0), atol=0.7)
    center = widget.intent.region.center
    drag(viewer, to_canvas(viewer, center), to_canvas(viewer, np.add(center, (-6.0, 8.0))))
    np.testing.assert_allclose(widget.intent.region.center, np.add(center, (-6.0, 8.0)), atol=0.5)
    for fields, values in (
        (widget.form.fields.center, widget.intent.region.center),
        (widget.form.fields.size_, widget.intent.region.size),
    ):
        np.testing.assert_allclose([f.value() for f in fields], values, atol=1e-5)
    # and the other way round: numbers move the box
    widget.form.fields.center[0].setValue(33.0)
    widget.form.fields.angles[0].setValue(12.0)
    assert widget.intent.region.center[0] == 33.0
    assert handle(widget, "move").position[0] == 33.0
    assert widget._host.box.region == widget.intent.region
    widget.form.voxels.setChecked(True)
    assert widget.form.fields.center[0].value() == pytest.approx((33.0 - 10.0) / 0.5 + 0.5)
    widget.form.fields.size_[1].setValue(40.0)
    assert widget.intent.region.size[1] == pytest.approx(20.0)


def test_a_drag_beside_the_handles_moves_the_picture_and_not_the_box(viewer, qtbot, tool):
    flat_image(viewer)
    widget = tool()
    widget.set_region(Region((40.0, 37.0), (24.0, 30.0), (0.0,)))
    ready(qtbot, widget)
    before, camera = widget.intent.region, tuple(viewer.scene.camera.center)
    drag(viewer, to_canvas(viewer, (46.0, 44.0)), to_canvas(viewer, (50.0, 50.0)))
    assert widget.intent.region == before
    assert tuple(viewer.scene.camera.center) != camera


def test_keys_nudge_and_turn(viewer, qtbot, tool):
    flat_image(viewer)
    widget = tool()
    widget.set_region(Region((40.0, 37.0), (24.0, 30.0), (0.0,)))
    points = boxes(viewer)[1]
    viewer.layers.selection.active = points
    native = canvas_of(viewer).native
    for key, modifier in (
        (Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier),
        (Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier),
        (Qt.Key.Key_BracketRight, Qt.KeyboardModifier.NoModifier),
    ):
        qtbot.keyClick(native, key, modifier)
    region = widget.intent.region
    np.testing.assert_allclose(region.center, (45.0, 37.5))
    assert region.angles == (1.0,)


def test_a_volume_in_space_is_moved_sized_and_turned(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    viewer.dims.ndisplay = 3
    viewer.scene.camera.angles = (20.0, 35.0, 110.0)
    viewer.reset_view(reset_camera_angle=False)
    region = Region(tuple(PHYSICAL), (16.0, 12.0, 14.0), (0.0, 0.0, 0.0))
    widget.set_region(region)
    settle(viewer, 0.05)
    ready(qtbot, widget)
    assert {h.kind for h in widget._host.box.handles} == {"move", "face", "turn"}
    camera = tuple(viewer.scene.camera.angles)
    side = handle(widget, "face", axis=2, sides=(0, 0, 1)).position
    drag(viewer, to_canvas(viewer, side), to_canvas(viewer, np.add(side, (0.0, 0.0, 5.0))))
    assert tuple(viewer.scene.camera.angles) == camera
    np.testing.assert_allclose(widget.intent.region.size, (16.0, 12.0, 19.0), atol=0.7)
    np.testing.assert_allclose(widget.intent.region.center, np.add(PHYSICAL, (0.0, 0.0, 2.5)), atol=0.4)
    middle = widget.intent.region.center
    drag(viewer, to_canvas(viewer, middle), to_canvas(viewer, middle) + QPoint(25, -10))
    moved = np.array(widget.intent.region.center) - middle
    ray = np.array(viewer.scene.camera.view_direction)
    assert np.linalg.norm(moved) > 1
    assert abs(moved @ ray) < 1e-6  # in the plane that faces the viewer
    turn = handle(widget, "turn", axis=0).position
    drag(viewer, to_canvas(viewer, turn), to_canvas(viewer, turn) + QPoint(-30, 25), steps=8)
    turned = widget.intent.region
    assert turned.is_turned
    np.testing.assert_allclose(np.abs(turned.rotation[0, 0]), 1, atol=1e-6)  # about its own depth axis
    ready(qtbot, widget)
    (result,) = run(qtbot, viewer, widget)
    found = at_world(matrix_of(result), center_of_mass(np.asarray(result.data)))
    np.testing.assert_allclose(found, PHYSICAL, atol=0.6)


def test_a_plane_follows_the_camera(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    viewer.dims.ndisplay = 3
    widget.form.modes.button(1).click()
    ready(qtbot, widget)
    assert widget.intent.grid == "isotropic"
    assert widget.snapshot.cuts[0].shape[0] == 1
    widget.form.follow.setChecked(True)
    viewer.scene.camera.angles = (15.0, 40.0, 100.0)
    ready(qtbot, widget)
    rotation = widget.intent.region.rotation
    np.testing.assert_allclose(rotation[:, 0], viewer.scene.camera.view_direction, atol=1e-6)
    np.testing.assert_allclose(rotation[:, 1], -np.array(viewer.scene.camera.up_direction), atol=1e-6)
    widget.set_region(widget.intent.region.moved(center=tuple(PHYSICAL)))
    ready(qtbot, widget)
    (result,) = run(qtbot, viewer, widget)
    assert result.data.shape[0] == 1
    found = at_world(matrix_of(result), center_of_mass(np.asarray(result.data)))
    off = found - PHYSICAL
    assert abs(off @ np.array(viewer.scene.camera.view_direction)) < 1e-6
    assert np.linalg.norm(off) < 1.5


def test_pictures_and_facts_come_at_once(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    shown = []
    widget._preview.ended.connect(lambda outcome: shown.append(outcome))
    for turn in range(12):  # what is superseded is not drawn
        widget.set_region(Region(tuple(PHYSICAL), (16.0, 12.0, 14.0), (float(turn), 0.0, 0.0)))
    ready(qtbot, widget)
    assert 1 <= len(shown) < 12
    assert all(outcome.error is None for outcome in shown)
    assert widget.form.picture.image is not None
    text = widget.form.numbers.text()
    assert "chunk" in text
    assert "to read" in text
    assert "memory" in text


def test_saved_reopened_and_lying_on_the_source(viewer, qtbot, tool, tmp_path):
    layer = volume(viewer, tmp_path)
    layer.colormap, layer.contrast_limits = "#ff00ff", (3, 20000)
    widget = tool()
    widget.set_region(Region(tuple(PHYSICAL), (20.0, 16.0, 18.0), (25.0, 10.0, -15.0)))
    ready(qtbot, widget)
    widget.save_to(tmp_path / "crop.ozx")
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    assert "Saved" in widget.form.notice.text
    from napari.layers import Layer

    (again,) = [viewer.add_layer(Layer.create(*data)) for data in read_layers(str(tmp_path / "crop.ozx"))]
    data = np.asarray(again.data[0] if again.multiscale else again.data)
    found = at_world(matrix_of(again), center_of_mass(data))
    np.testing.assert_allclose(found[-3:], PHYSICAL, atol=0.2)
    assert tuple(again.contrast_limits) == (3, 20000)
    assert again.axis_labels[-3:] == ("z", "y", "x")
    (result,) = run(qtbot, viewer, widget)
    np.testing.assert_allclose(matrix_of(result), matrix_of(again)[-3:, -4:], atol=1e-9)
    np.testing.assert_array_equal(np.asarray(result.data), data.reshape(result.data.shape))


def test_cancelling_leaves_nothing(viewer, qtbot, tool, tmp_path, monkeypatch):
    from napari_decant.images.crop import Cutter

    volume(viewer, tmp_path)
    widget = tool()
    widget.form.modes.button(2).click()
    ready(qtbot, widget)
    cut = Cutter.cut

    def slow(self, *args, cancel=None, **more):
        if cancel is not None and more.get("out") is not None:
            for _ in range(100):
                cancel.check()
                time.sleep(0.02)
        return cut(self, *args, cancel=cancel, **more)

    monkeypatch.setattr(Cutter, "cut", slow)
    layers = list(viewer.layers)
    for begin in (lambda: widget.form.add.click(), lambda: widget.save_to(tmp_path / "crop.zarr")):
        begin()
        qtbot.waitUntil(lambda: widget.form.cancel.isVisible(), timeout=5_000)
        assert not widget.form.add.isEnabled()
        qtbot.wait(60)
        widget.form.cancel.click()
        qtbot.waitUntil(lambda: not widget.busy, timeout=10_000)
        assert "nothing was left behind" in widget.form.notice.text
        assert widget.form.add.isEnabled()
    assert list(viewer.layers) == layers
    assert [path.name for path in tmp_path.iterdir()] == ["cells.zarr"]


def test_queries_are_saved_loaded_and_used_on_another_layer(viewer, qtbot, tool, tmp_path):
    layer = volume(viewer, tmp_path)
    widget = tool()
    wanted = Region(tuple(PHYSICAL), (20.0, 16.0, 18.0), (25.0, 10.0, -15.0))
    widget.set_region(wanted)
    widget.keep_query(tmp_path / "q.json")
    saved = SavedQuery.load(tmp_path / "q.json")
    assert saved.axes == ("z", "y", "x")
    widget.set_region(Region(tuple(PHYSICAL), (5.0, 5.0, 5.0), (0.0, 0.0, 0.0)))
    widget.load_query(tmp_path / "q.json")
    region = widget.intent.region
    np.testing.assert_allclose(region.center, wanted.center, atol=1e-6)
    np.testing.assert_allclose(region.size, np.array(widget.snapshot.cuts[0].shape) * SCALE)
    np.testing.assert_allclose(region.rotation, wanted.rotation, atol=1e-9)
    other = viewer.add_image(
        np.asarray(layer.data[0]), scale=SCALE, translate=(50.0, 60.0, 70.0), name="other"
    )
    ready(qtbot, widget)
    widget.form.chosen.emit((other.unique_id,))
    widget.load_query(tmp_path / "q.json")
    shift = np.array((50.0, 60.0, 70.0)) - ORIGIN
    np.testing.assert_allclose(widget.intent.region.center, np.array(wanted.center) + shift, atol=1e-6)
    (tmp_path / "bad.json").write_text("{}")
    widget.load_query(tmp_path / "bad.json")
    assert "output_to_reference" in widget.form.notice.text


def test_layers_of_every_kind_are_cut_together(viewer, qtbot, tool, tmp_path):
    data = blob((24, 64, 80), SPOT, (1.2, 4.0, 4.0))
    labels = (data > 8000).astype("u2") * 7
    path = tmp_path / "plain.zarr"
    zarr.create_array(str(path), shape=data.shape, chunks=(8, 32, 32), dtype=data.dtype)[...] = data
    common = {"scale": SCALE, "translate": ORIGIN}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = [
            viewer.add_image(data, name="numpy", **common),
            viewer.add_image(dask.array.from_array(data, chunks=(6, 20, 20)), name="dask", **common),
            viewer.add_image(zarr.open_array(str(path), mode="r"), name="zarr", **common),
            viewer.add_image(mean_pyramid(data, 2), multiscale=True, name="pyramid", **common),
            viewer.add_labels(labels, name="labels", **common),
        ]
    widget = tool()
    widget.form.chosen.emit(tuple(layer.unique_id for layer in layers))
    widget.set_region(Region(tuple(PHYSICAL), (20.0, 16.0, 18.0), (25.0, 10.0, -15.0)))
    ready(qtbot, widget)
    assert not widget.snapshot.problems
    planned = {cut.layer.name: cut.source.planned for cut in widget.snapshot.cuts}
    assert planned == {"numpy": False, "dask": False, "zarr": True, "pyramid": False, "labels": False}
    results = {layer.name: layer for layer in run(qtbot, viewer, widget)}
    assert len(results) == 5
    for name in ("dask", "zarr", "pyramid"):
        np.testing.assert_array_equal(results[f"{name} crop"].data, results["numpy crop"].data)
    assert type(results["labels crop"]).__name__ == "Labels"
    assert set(np.unique(results["labels crop"].data)) == {0, 7}
    for result in results.values():
        np.testing.assert_allclose(matrix_of(result), matrix_of(results["numpy crop"]))
    found = at_world(matrix_of(results["numpy crop"]), center_of_mass(results["numpy crop"].data))
    np.testing.assert_allclose(found, PHYSICAL, atol=0.2)


def test_d01_a_crop_of_a_crop_of_a_turned_layer_lies_right(viewer, qtbot, tool):
    layer = flat_image(viewer)
    layer.rotate = 20
    settle(viewer, 0.05)
    widget = tool()
    spot = at_world(matrix_of(layer), center_of_mass(layer.data))
    widget.set_region(Region(tuple(spot), (24.0, 30.0), (0.0,)))
    ready(qtbot, widget)
    (first,) = run(qtbot, viewer, widget)
    widget.form.chosen.emit((first.unique_id,))
    widget.set_region(Region(tuple(spot), (16.0, 18.0), (33.0,)))
    ready(qtbot, widget)
    (second,) = run(qtbot, viewer, widget)
    for result in (first, second):
        np.testing.assert_allclose(at_world(matrix_of(result), center_of_mass(result.data)), spot, atol=0.15)
    assert first.name != second.name


def test_channels_of_one_image_become_one_file_with_their_colours(viewer, qtbot, tool, tmp_path):
    planes = np.stack([blob((64, 80), (30.0, 40.0), 4.0), blob((64, 80), (20.0, 50.0), 4.0)])
    channels = [{"color": "FF0000", "label": "red"}, {"color": "00FF00", "label": "green"}]
    keys = image_keys(
        [planes], "cyx", scales=[[1.0, 0.5, 0.5]], chunks=(1, 32, 32), ome={"omero": {"channels": channels}}
    )
    folder = write_folder(tmp_path / "two.zarr", keys)
    from napari.layers import Layer

    layers = [viewer.add_layer(Layer.create(*data)) for data in read_layers(str(folder))]
    viewer.reset_view()
    widget = tool()
    assert set(widget.intent.layers) == {layer.unique_id for layer in layers}  # the channels come together
    widget.set_region(Region((14.75, 19.75), (20.0, 24.0), (15.0,)))
    ready(qtbot, widget)
    assert "2 layers" in widget.form.add.text()
    widget.save_to(tmp_path / "crop.zarr")
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    again = open_image(tmp_path / "crop.zarr")
    assert [layer.color for layer in again.layers()] == ["FF0000", "00FF00"]
    results = run(qtbot, viewer, widget)
    made = {layer.name: layer for layer in results}
    for one in again.layers():
        number = one.name.rpartition(" - ")[2]
        match = next(layer for name, layer in made.items() if number in name)
        np.testing.assert_array_equal(np.asarray(one.levels[0])[0, 0], match.data)
    again.close()


def test_colour_pictures_stay_colour_pictures(viewer, qtbot, tool, tmp_path):
    picture = np.zeros((60, 80, 3), "u1")
    picture[20:40, 30:50] = (200, 100, 50)
    picture[..., 2] += 9
    layer = viewer.add_image(picture, rgb=True, scale=(0.5, 0.5))
    widget = tool()
    widget.set_region(Region((14.75, 19.75), (20.0, 24.0), (15.0,)))
    ready(qtbot, widget)
    assert widget.form.picture.image is not None
    (result,) = run(qtbot, viewer, widget)
    assert result.rgb
    assert result.data.shape == (40, 48, 3)
    wanted = at_world(matrix_of(layer), center_of_mass(picture[..., 0]))
    np.testing.assert_allclose(
        at_world(matrix_of(result), center_of_mass(result.data[..., 0])), wanted, atol=0.2
    )
    widget.save_to(tmp_path / "crop.zarr")
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    again = open_image(tmp_path / "crop.zarr")
    assert again.is_rgb
    np.testing.assert_array_equal(np.squeeze(np.asarray(again.levels[0])), result.data)


def test_a_layer_in_other_units_is_cut_in_its_place(viewer, qtbot, tool):
    data = blob((120, 160), (60.0, 80.0), 8.0)
    micro = viewer.add_image(data, scale=(0.5, 0.5), units=("um", "um"), name="micro")
    nano = viewer.add_image(data, scale=(500.0, 500.0), units=("nm", "nm"), name="nano")
    widget = tool()
    widget.form.chosen.emit((micro.unique_id, nano.unique_id))
    assert widget._host.unit == "nm"
    widget.set_region(Region((29750.0, 39750.0), (20000.0, 24000.0), (20.0,)))
    ready(qtbot, widget)
    assert not widget.snapshot.problems
    results = {layer.name: layer for layer in run(qtbot, viewer, widget)}
    np.testing.assert_array_equal(results["micro crop"].data, results["nano crop"].data)
    for name, layer in (("micro", micro), ("nano", nano)):
        result = results[f"{name} crop"]
        assert result.units == layer.units
        found = at_world(matrix_of(result), center_of_mass(result.data))
        np.testing.assert_allclose(found, at_world(matrix_of(layer), center_of_mass(data)), rtol=2e-3)


def test_what_is_larger_than_memory_is_cut_where_one_looks(viewer, qtbot, tool):
    class Endless:
        shape, dtype, ndim, size, nbytes = (1 << 15, 1 << 16, 1 << 16), np.dtype("u1"), 3, 1 << 47, 1 << 47

        def __getitem__(self, key):
            grids = np.ogrid[tuple(k if isinstance(k, slice) else slice(k, k + 1) for k in key)]
            made = (sum(grids) % 251 + 1).astype("u1")
            return made[tuple(0 if not isinstance(k, slice) else slice(None) for k in key)]

    array = Endless()
    array.chunks = (1, 512, 512)
    lazy = LevelArray(lambda: nullcontext(array))
    look = {"contrast_limits": (0, 255), "name": "tera", "visible": False}
    layer = viewer.add_image(lazy, multiscale=False, **look)
    widget = tool()
    widget.form.chosen.emit((layer.unique_id,))
    widget.set_region(Region((9000.0, 30000.0, 30000.0), (4000.0, 4000.0, 4000.0), (10.0, 20.0, 30.0)))
    ready(qtbot, widget)
    assert "Too large for memory" in widget.form.numbers.text()
    (result,) = run(qtbot, viewer, widget)
    assert result.multiscale
    assert [level.shape for level in result.data][:2] == [(4000,) * 3, (2000,) * 3]
    part = np.asarray(result.data[0][2000, 1000:1040, 1000:1030])
    at = np.array([matrix_of(result) @ [2000, 1000 + j, 1000 + k, 1] for j in range(40) for k in range(30)])
    fitting = (np.floor(at + 0.5).sum(1) % 251 + 1).reshape(40, 30)
    smooth = np.abs(part.astype(float) - fitting)
    assert np.median(smooth) <= 2


def test_closing_the_dock_ends_the_work_and_takes_the_box_away(viewer, qtbot, tool, tmp_path):
    layer = volume(viewer, tmp_path)
    callbacks = len(viewer.mouse_drag_callbacks)
    widget = tool()
    assert len(boxes(viewer)) == 2
    assert len(viewer.mouse_drag_callbacks) == callbacks + 1
    viewer.window.remove_dock_widget(widget)
    QApplication.processEvents()
    assert boxes(viewer) == []
    assert len(viewer.mouse_drag_callbacks) == callbacks
    viewer.layers.remove(layer)
    opened, _ = opened_behind(layer.data)
    assert not opened.is_open or opened is not None
    viewer.add_image(np.ones((4, 4)))  # nobody listens any more
    QApplication.processEvents()


def test_removing_the_box_or_the_layer_is_noticed(viewer, qtbot, tool):
    layer = flat_image(viewer)
    widget = tool()
    viewer.layers.remove(boxes(viewer)[0])
    ready(qtbot, widget)
    assert boxes(viewer) == []
    assert widget.intent.region is None
    assert "Draw a box" in widget.form.problems["region"].text()
    assert not widget.form.add.isEnabled()
    widget.form.reset.click()
    ready(qtbot, widget)
    assert len(boxes(viewer)) == 2
    assert widget.form.add.isEnabled()
    viewer.layers.remove(layer)
    ready(qtbot, widget)
    assert "Open an image" in widget.form.problems["layers"].text()


def test_the_menu_has_the_tool(viewer, qtbot):
    from npe2 import PluginManager

    manager = PluginManager.instance()
    menus = [item.command for item in manager.menus().get("napari/layers/transform", [])]
    assert "napari-decant.crop_widget" in menus
    _, widget = viewer.window.add_plugin_dock_widget("napari-decant", "Crop a region")
    assert isinstance(widget, CropWidget)
    viewer.window.remove_dock_widget(widget)
    QApplication.processEvents()
