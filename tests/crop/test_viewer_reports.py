"""Field reports D-01 to D-07 through the tool: what went wrong elsewhere, and must not here."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Layer
from tests.crop.helpers import at_world, blob, center_of_mass, mean_pyramid, pyramid_transforms
from tests.crop.in_viewer import (
    ORIGIN,
    PHYSICAL,
    SCALE,
    flat_image,
    matrix_of,
    ready,
    run,
    volume,
)
from tests.plugin.helpers import write_folder
from tests.support.ngff import image_keys

from napari_decant.images.crop import Region, gpu_problem
from napari_decant.plugin._open import read_layers
from napari_decant.plugin._screenshots import settle

pytestmark = [pytest.mark.viewer, pytest.mark.filterwarnings("ignore:Non-orthogonal slicing")]


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


def ramp_layer(viewer, shape=(64, 64)):
    data = (1 + np.arange(np.prod(shape))).reshape(shape).astype("u2")
    layer = viewer.add_image(data, scale=(2.0, 0.5), translate=(10.0, -3.0), name="ramp")
    viewer.reset_view()
    return layer


def around(layer, start, stop):
    """The box around voxels from ``start`` to ``stop`` of a straight layer, in the world."""
    scale, origin = np.asarray(layer.scale), np.asarray(layer.translate)
    low, high = (np.asarray(start) - 0.5) * scale + origin, (np.asarray(stop) - 0.5) * scale + origin
    return Region(tuple((low + high) / 2), tuple(high - low), (0.0,) if len(low) == 2 else (0.0, 0.0, 0.0))


def test_d01_scale_and_translate_twice_in_a_row_and_each_crop_is_its_own(viewer, qtbot, tool):
    layer = ramp_layer(viewer)
    widget = tool()
    widget.set_region(around(layer, (8, 16), (40, 48)))
    ready(qtbot, widget)
    (first,) = run(qtbot, viewer, widget)
    np.testing.assert_array_equal(first.data, layer.data[8:40, 16:48])
    np.testing.assert_allclose(first.translate, (26.0, 5.0))
    widget.form.chosen.emit((first.unique_id,))
    widget.set_region(around(first, (2, 4), (12, 14)))
    ready(qtbot, widget)
    (second,) = run(qtbot, viewer, widget)
    np.testing.assert_array_equal(second.data, layer.data[10:20, 20:30])
    np.testing.assert_allclose(second.translate, (30.0, 7.0))
    np.testing.assert_array_equal(first.data, layer.data[8:40, 16:48])


def test_d02_a_pyramid_is_cut_at_each_level_and_axes_that_are_not_named_stay_whole(
    viewer, qtbot, tool, tmp_path
):
    layer = volume(viewer, tmp_path, levels=3)
    widget = tool()
    widget.set_region(Region(tuple(PHYSICAL[1:]), (8.0, 12.0), (0.0,)))  # of y and x alone
    assert widget.snapshot.region.size[0] == 24 * SCALE[0]
    levels = [np.asarray(level) for level in layer.data]
    for number, level in enumerate(levels):
        widget.form.output.grid.setCurrentIndex(3 + number)
        ready(qtbot, widget)
        (result,) = run(qtbot, viewer, widget)
        assert result.data.shape[0] == level.shape[0]
        assert min(result.data.shape) > 0
        step = np.multiply(SCALE, 2**number)
        np.testing.assert_allclose(result.scale, step)
        start = np.rint(
            (np.array(result.translate) - np.array(ORIGIN) - 0.5 * (2**number - 1) * np.array(SCALE)) / step
        ).astype(int)
        part = tuple(slice(a, a + n) for a, n in zip(start, result.data.shape, strict=True))
        np.testing.assert_array_equal(result.data, level[part])


def test_d03_a_turned_box_gives_the_bar_straight_with_its_affine(viewer, qtbot, tool):
    y, x = np.mgrid[0:120, 0:140] + 0.5
    a = np.radians(30)  # a box turned by +30 degrees goes x towards y
    u, v = np.cos(a) * (x - 70) + np.sin(a) * (y - 55), -np.sin(a) * (x - 70) + np.cos(a) * (y - 55)
    data = np.where((np.abs(u) < 10) & (np.abs(v) < 5), 1000, 10).astype("u2")
    layer = viewer.add_image(data, name="bar")
    viewer.reset_view()
    widget = tool()
    widget.set_region(Region((54.5, 69.5), (20.0, 30.0), (30.0,)))
    widget.form.output.filter.setCurrentIndex(1)
    ready(qtbot, widget)
    (result,) = run(qtbot, viewer, widget)
    bright = result.data > 500
    assert result.data.shape == (20, 30)
    assert bright[7:13, 7:23].all()
    assert not bright[:4].any()
    assert not bright[:, :4].any()
    linear = matrix_of(result)[:, :2]
    assert np.abs(linear - np.diag(np.diag(linear))).max() > 0.4  # it lies turned in the world
    found = at_world(matrix_of(result), center_of_mass(bright.astype(float)))
    np.testing.assert_allclose(found, center_of_mass((layer.data > 500).astype(float)), atol=0.3)


def test_d04_no_dark_ring_and_no_shift(viewer, qtbot, tool):
    flat = viewer.add_image(np.full((16, 16), 100, "u2"), name="flat")
    spot = np.full((16, 16), 1, "f4")
    spot[5, 9] = 1000
    point = viewer.add_image(spot, name="point")
    viewer.reset_view()
    widget = tool()
    widget.form.chosen.emit((flat.unique_id, point.unique_id))
    widget.form.modes.button(2).click()
    widget.form.output.grid.setCurrentIndex(2)
    for spacing in (0.5, 2.0, 4.0):
        widget.form.output.pitch.setValue(spacing)
        ready(qtbot, widget)
        results = {layer.name.partition(" ")[0]: layer for layer in run(qtbot, viewer, widget)}
        assert results["flat"].data.shape == (16 / spacing, 16 / spacing)
        assert (results["flat"].data == 100).all()
        if spacing < 1:
            found = at_world(matrix_of(results["point"]), center_of_mass(results["point"].data))
            np.testing.assert_allclose(found, (5.0, 9.0), atol=1e-5)


def test_d05_values_stay_in_their_range_and_labels_keep_their_numbers(viewer, qtbot, tool):
    step = np.full((40, 40), 7, "u2")
    step[:, 20:] = 65535
    labels = np.zeros((40, 40), "u4")
    labels[4:20, 3:11], labels[10:25, 14:22], labels[2:9, 18:29] = 1, 7, 4000000001
    layers = [viewer.add_image(step, name="step"), viewer.add_labels(labels, name="labels")]
    viewer.reset_view()
    widget = tool()
    widget.form.chosen.emit(tuple(layer.unique_id for layer in layers))
    widget.set_region(Region((20.0, 20.0), (20.0, 20.0), (33.0,)))
    widget.form.output.grid.setCurrentIndex(2)
    widget.form.output.pitch.setValue(0.37)
    ready(qtbot, widget)
    results = {layer.name: layer for layer in run(qtbot, viewer, widget)}
    made = results["step crop"].data
    assert made.dtype == np.uint16
    assert (made.min(), made.max()) == (7, 65535)
    numbers = results["labels crop"].data
    assert numbers.dtype == np.uint32
    assert set(np.unique(numbers)) <= {0, 1, 7, 4000000001}
    assert 4000000001 in numbers
    widget.form.chosen.emit((layers[1].unique_id,))
    assert not widget.form.output.filter.isEnabled()  # and it says why
    assert "Labels have no values between them" in widget.form.output.problems["filter"].text()


def test_d06_a_gpu_that_cannot_be_used_is_said_and_auto_cuts_all_the_same(viewer, qtbot, tool):
    ramp = ramp_layer(viewer)
    widget = tool()
    widget.set_region(around(ramp, (8, 16), (40, 48)))
    problem = gpu_problem()
    widget.form.output.open()
    for number, device in enumerate(("auto", "cpu", "cuda")):
        widget.form.output.device.setCurrentIndex(number)
        ready(qtbot, widget)
        if device == "cuda" and problem is not None:
            assert problem in widget.form.output.problems["device"].text()
            assert not widget.footer.add.isEnabled()
            continue
        (result,) = run(qtbot, viewer, widget)
        np.testing.assert_array_equal(result.data, ramp.data[8:40, 16:48])


def test_d07_levels_without_translations_lie_where_their_metadata_say(viewer, qtbot, tool, tmp_path):
    data = mean_pyramid(blob((64, 64), (30.0, 41.0), 6.0), 3)
    scales, _ = pyramid_transforms((0.5, 0.5), (0.0, 0.0), 3)
    keys = image_keys(data, "yx", scales=scales, translations=None, chunks=(16, 16))
    folder = write_folder(tmp_path / "bare.zarr", keys)
    layer = viewer.add_layer(Layer.create(*read_layers(str(folder))[0]))
    viewer.reset_view()
    widget = tool()
    widget.set_region(Region((14.5, 17.5), (29.0, 27.0), (0.0,)))
    for level, shift in ((0, 0.0), (2, -0.75)):
        widget.form.output.grid.setCurrentIndex(3 + level)
        ready(qtbot, widget)
        (result,) = run(qtbot, viewer, widget)
        found = at_world(matrix_of(result), center_of_mass(np.asarray(result.data)))
        np.testing.assert_allclose(found, np.add((0.5 * 29.5, 0.5 * 40.5), shift), atol=0.1)
    assert layer.multiscale


def test_d07_a_layer_whose_axes_the_world_exchanges_is_cut_in_its_place(viewer, qtbot, tool):
    data = blob((20, 30, 40), (8.0, 12.0, 22.0), 2.0)
    affine = np.eye(4)
    affine[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]  # world z is the image's y, and so on
    viewer.dims.ndisplay = 3  # napari cannot show such a layer in 2-D
    layer = viewer.add_image(data, affine=affine, name="cycled")
    viewer.reset_view()
    widget = tool()
    spot = at_world(matrix_of(layer), center_of_mass(data))
    widget.set_region(Region(tuple(spot), (14.0, 14.0, 12.0), (0.0, 0.0, 0.0)))
    ready(qtbot, widget)
    (result,) = run(qtbot, viewer, widget)
    found = at_world(matrix_of(result), center_of_mass(np.asarray(result.data)))
    np.testing.assert_allclose(found, spot, atol=0.1)
