"""Crops in a real napari window: layers and files that lie on their sources, whatever these are."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import dask.array
import numpy as np
import pytest
import zarr
from tests.crop.helpers import at_world, blob, center_of_mass, mean_pyramid
from tests.crop.in_viewer import (
    ORIGIN,
    PHYSICAL,
    SCALE,
    SPOT,
    boxes,
    flat_image,
    matrix_of,
    ready,
    run,
    sheet,
    volume,
)
from tests.plugin.helpers import wait_measured, write_folder
from tests.support.ngff import image_keys

from napari_decant.images import open_image
from napari_decant.images.crop import Region, SavedQuery
from napari_decant.plugin._level_array import LevelArray
from napari_decant.plugin._open import read_layers
from napari_decant.plugin._screenshots import settle
from napari_decant.plugin.crop import is_box_layer

pytestmark = [pytest.mark.viewer, pytest.mark.filterwarnings("ignore:Non-orthogonal slicing")]


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


@pytest.mark.parametrize("suffix", [".zarr", ".ozx", ".ome.tif"])
def test_saved_reopened_and_lying_on_the_source(viewer, qtbot, tool, tmp_path, suffix):
    layer = volume(viewer, tmp_path)
    wait_measured(layer)
    layer.colormap, layer.contrast_limits = "#ff00ff", (3, 20000)
    widget = tool()
    widget.set_region(Region(tuple(PHYSICAL), (20.0, 16.0, 18.0), (25.0, 10.0, -15.0)))
    ready(qtbot, widget)
    widget.save_to(tmp_path / f"crop{suffix}")
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    assert "Saved" in widget.footer.notice.text
    from napari.layers import Layer

    read = read_layers(str(tmp_path / f"crop{suffix}"))
    (again,) = [viewer.add_layer(Layer.create(*data)) for data in read]
    data = np.asarray(again.data[0] if again.multiscale else again.data)
    found = at_world(matrix_of(again), center_of_mass(data))
    np.testing.assert_allclose(found[-3:], PHYSICAL, atol=0.2)
    if suffix != ".ome.tif":  # OME-XML has no words for these
        assert tuple(again.contrast_limits) == (3, 20000)
    assert again.axis_labels[-3:] == ("z", "y", "x")
    (result,) = run(qtbot, viewer, widget)
    np.testing.assert_allclose(matrix_of(result), matrix_of(again)[-3:, -4:], atol=1e-9)
    np.testing.assert_array_equal(np.asarray(result.data), data.reshape(result.data.shape))


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
    assert "output_to_reference" in widget.footer.notice.text


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
    assert "2 layers" in widget.footer.add.text()
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


@pytest.mark.parametrize("flat", [True, False], ids=["2-D", "3-D"])
@pytest.mark.parametrize("angle", [0.0, 25.0])
def test_a_bright_spot_is_found_in_its_place_from_every_level(viewer, qtbot, tool, tmp_path, flat, angle):
    layer = sheet(viewer, tmp_path) if flat else volume(viewer, tmp_path, levels=3)
    widget = tool()
    spot = PHYSICAL[1:] if flat else PHYSICAL
    size, angles = ((14.0, 16.0), (angle,)) if flat else ((24.0, 14.0, 16.0), (angle, angle / 2, -angle))
    widget.set_region(Region(tuple(spot), size, angles))
    widget.form.output.open()
    for level in range(3):
        widget.form.output.grid.setCurrentIndex(3 + level)
        ready(qtbot, widget)
        assert not widget.snapshot.problems
        assert f"level {level}" in widget.form.headline.text()
        (result,) = run(qtbot, viewer, widget)
        assert np.asarray(result.data).dtype == layer.dtype
        found = at_world(matrix_of(result), center_of_mass(np.asarray(result.data)))
        np.testing.assert_allclose(found, spot, atol=0.05 * 2**level * max(SCALE[-len(spot) :]) + 0.05)


def test_several_layers_with_their_own_scales_are_cut_from_one_place(viewer, qtbot, tool):
    fine = blob((24, 64, 80), SPOT, (1.2, 4.0, 4.0))
    coarse = mean_pyramid(fine, 2)[1]
    common = {"translate": ORIGIN, "blending": "additive"}
    first = viewer.add_image(fine, scale=SCALE, name="fine", **common)
    shift = np.add(ORIGIN, np.multiply(0.5, SCALE))
    second = viewer.add_image(coarse, scale=np.multiply(2, SCALE), translate=shift, name="coarse")
    labels = viewer.add_labels((fine > 8000).astype("i4") * 9, scale=SCALE, translate=ORIGIN, name="cells")
    widget = tool()
    widget.form.chosen.emit((first.unique_id, second.unique_id, labels.unique_id))
    widget.set_region(Region(tuple(PHYSICAL), (24.0, 14.0, 16.0), (20.0, 0.0, 10.0)))
    ready(qtbot, widget)
    assert "3 layers" in widget.footer.add.text()
    results = {layer.name: layer for layer in run(qtbot, viewer, widget)}
    for name in ("fine crop", "coarse crop"):
        found = at_world(matrix_of(results[name]), center_of_mass(results[name].data))
        np.testing.assert_allclose(found, PHYSICAL, atol=0.25)
    assert results["coarse crop"].data.shape == tuple(n // 2 for n in results["fine crop"].data.shape)
    assert set(np.unique(results["cells crop"].data)) == {0, 9}
    assert results["cells crop"].data.shape == results["fine crop"].data.shape


def test_crops_of_channels_cover_their_sources_and_are_no_brighter(viewer, qtbot, tool):
    planes = [blob((120, 160), at, 8.0) for at in ((60.0, 80.0), (50.0, 70.0))]
    for data, color in zip(planes, ("red", "green"), strict=True):
        viewer.add_image(data, colormap=color, blending="additive", contrast_limits=(0, 60000), name=color)
    viewer.reset_view()
    widget = tool()
    widget.form.chosen.emit(tuple(layer.unique_id for layer in viewer.layers if not is_box_layer(layer)))
    widget.set_region(Region((60.0, 80.0), (40.0, 60.0), (0.0,)))
    ready(qtbot, widget)
    for one in boxes(viewer):
        one.visible = False
    settle(viewer, 0.05)
    before = viewer.screenshot(canvas_only=True, flash=False).astype(int)
    results = run(qtbot, viewer, widget)
    assert [layer.name for layer in results] == ["red crop", "green crop"]
    settle(viewer, 0.05)
    after = viewer.screenshot(canvas_only=True, flash=False).astype(int)
    # where a pixel of the screen lies between two of the image, either may be taken
    assert (np.abs(after - before).max(axis=-1) > 1).mean() < 1e-3


def test_a_file_that_a_layer_is_read_from_is_never_replaced(viewer, qtbot, tool, tmp_path):
    volume(viewer, tmp_path)
    widget = tool()
    before = {path: path.read_bytes() for path in (tmp_path / "cells.zarr").rglob("*") if path.is_file()}
    widget.save_to(tmp_path / "cells.zarr", overwrite=True)
    assert not widget.busy
    assert "read from" in widget.footer.notice.text
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
