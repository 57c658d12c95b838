"""What the layers of an image are called, how they are shown, where they lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer
from tests.plugin.helpers import write_folder, write_zip
from tests.support.ngff import AXES, group_keys, image_keys, ramp

from napari_decant.archive import pack
from napari_decant.plugin._open import read_layers

Told = Callable[[], list[str]]
ORANGE = [1, 128 / 255, 0, 1]  # FF8000


def open_layers(location: Path, **options: Any) -> list[Layer]:
    """Make real layers, as napari's viewer would."""
    return [Layer.create(*data) for data in read_layers(str(location), **options)]


def channels(*colors: str, window: tuple[float, float] | None = None, **more: Any) -> dict[str, Any]:
    made: list[dict[str, Any]] = [
        {"label": name, "color": color} for name, color in zip("RGB", colors, strict=False)
    ]
    for channel in made:
        channel |= more
        if window is not None:
            channel["window"] = {"min": window[0], "max": window[1], "start": window[0], "end": window[1]}
    return {"omero": {"channels": made}}


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_channels_become_layers_with_names_colours_and_windows(tmp_path: Path, version: str) -> None:
    data = ramp((2, 3, 4, 8, 6))
    windows = [{"start": 10, "end": 200, "min": 0, "max": 4095}, {"start": 5.5, "end": 6, "min": 0, "max": 9}]
    omero = {
        "channels": [
            {"label": "DNA", "color": "0000FF", "window": windows[0], "active": True},
            {"label": "actin", "color": "FFFFFF", "window": windows[1], "active": False},
            {"color": "FF8000"},
        ]
    }
    keys = image_keys(
        [data, data[..., ::2, ::2]],
        "tczyx",
        version=version,
        name="cell",
        scales=[(0.5, 1, 2, 0.25, 0.25), (0.5, 1, 2, 0.5, 0.5)],
        translations=[(0, 0, 7, 0, -1), (0, 0, 7, 0.125, -0.875)],
        ome={"omero": omero},
    )
    dna, actin, third = open_layers(write_folder(tmp_path / "a.zarr", keys))
    assert [layer.name for layer in (dna, actin, third)] == ["cell - DNA", "cell - actin", "cell - 2"]
    assert [layer.visible for layer in (dna, actin, third)] == [True, False, True]
    assert [layer.blending for layer in (dna, actin, third)] == ["additive"] * 3
    assert (dna.contrast_limits, actin.contrast_limits) == ([10, 200], [5.5, 6])
    assert actin.colormap.name == "gray"
    np.testing.assert_allclose(dna.colormap.map(1.0), [[0, 0, 1, 1]])
    np.testing.assert_allclose(
        third.colormap.map([0.0, 1.0]), [[0, 0, 0, 1], [1, 128 / 255, 0, 1]], atol=1e-6
    )
    for number, layer in enumerate((dna, actin, third)):
        assert isinstance(layer, Image)
        assert layer.multiscale
        assert layer.axis_labels == ("t", "z", "y", "x")
        assert [str(unit) for unit in layer.units] == ["second", "micrometer", "micrometer", "micrometer"]
        np.testing.assert_array_equal(layer.scale, (0.5, 2, 0.25, 0.25))
        np.testing.assert_array_equal(layer.translate, (0, 7, 0, -1))
        np.testing.assert_array_equal(np.asarray(layer.data[0]), data[:, number])
        np.testing.assert_array_equal(np.asarray(layer.data[1]), data[:, number, :, ::2, ::2])


def test_one_channel_has_the_image_s_name_and_napari_s_grey(tmp_path: Path) -> None:
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", image_keys([ramp((4, 8, 6))], name="cell")))
    assert (layer.name, layer.colormap.name, layer.multiscale) == ("cell", "gray", False)
    assert layer.rgb is False


def test_many_channels_become_a_slider(tmp_path: Path) -> None:
    data = ramp((40, 8, 6))
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", image_keys([data], "cyx", name="spectrum")))
    assert layer.axis_labels == ("c", "y", "x")
    np.testing.assert_array_equal(np.asarray(layer.data), data)


# --- scale and units ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_07_both_transformations_apply_in_order(tmp_path: Path, version: str) -> None:
    data = ramp((2, 3, 8, 8))
    keys = image_keys(
        [data, data[..., ::2, ::2]],
        "czyx",
        version=version,
        scales=[(1, 1, 1, 1), (1, 1, 2, 2)],
        multiscale={"coordinateTransformations": [{"type": "scale", "scale": [1, 1, 0.1625, 0.1625]}]},
    )
    for layer in open_layers(write_folder(tmp_path / "a.zarr", keys)):
        np.testing.assert_array_equal(layer.scale, (1, 0.1625, 0.1625))
        assert [str(unit) for unit in layer.units] == ["micrometer"] * 3
        assert layer.axis_labels == ("z", "y", "x")


@pytest.mark.parametrize("wrong", [0.0, -2.0, math.nan, math.inf])
def test_a_07_a_scale_that_is_none_becomes_1_and_the_user_is_told(
    tmp_path: Path, told: Told, wrong: float
) -> None:
    keys = image_keys([ramp((3, 8, 8))], "tyx", name="film", scales=[(wrong, 0.5, 0.5)])
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", keys))
    np.testing.assert_array_equal(layer.scale, (1, 0.5, 0.5))
    assert [str(unit) for unit in layer.units] == ["second", "micrometer", "micrometer"]
    (message,) = told()
    assert message.startswith("film: ")
    assert "1 is taken instead" in message
    viewer = ViewerModel()
    viewer.add_layer(layer)
    assert viewer.dims.nsteps == (3, 8, 8)


def test_units_that_napari_does_not_know_open_as_pixels(tmp_path: Path) -> None:
    units = ["parrots", "2**9**9 m", "µm"]
    axes = [dict(AXES[name], unit=unit) for name, unit in zip("zyx", units, strict=True)]
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", image_keys([ramp((3, 8, 8))], axes)))
    assert [str(unit) for unit in layer.units] == ["pixel", "pixel", "micrometer"]


# --- colour ------------------------------------------------------------------------------------------


def test_a_08_red_green_and_blue_are_one_picture(tmp_path: Path) -> None:
    data = ramp((3, 20, 16), "uint8")
    ome = channels("FF0000", "00FF00", "0000FF", window=(0, 255))
    keys = image_keys([data, data[:, ::2, ::2]], "cyx", ome=ome, chunks=(1, 8, 8))
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", keys))
    assert layer.rgb
    assert (layer.ndim, len(layer.scale), layer.axis_labels) == (2, 2, ("y", "x"))
    np.testing.assert_array_equal(np.asarray(layer.data[0]), np.moveaxis(data, 0, -1))
    np.testing.assert_array_equal(np.asarray(layer.data[1]), np.moveaxis(data[:, ::2, ::2], 0, -1))


def test_a_08_three_stains_stay_three_layers(tmp_path: Path) -> None:
    names = ["DAPI", "GFP", "mCherry"]
    ome = {"omero": {"channels": [{"label": name} for name in names]}}
    layers = open_layers(write_folder(tmp_path / "a.zarr", image_keys([ramp((3, 9, 8))], "cyx", ome=ome)))
    assert [layer.name for layer in layers] == [f"a - {name}" for name in names]
    assert not any(layer.rgb for layer in layers)


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("compression", [None, "deflate"], ids=["exact", "verbatim"])
def test_a_08_a_packed_colour_tiff_is_shown_in_colour(
    tmp_path: Path, planar: bool, compression: str | None
) -> None:
    picture = ramp((40, 30, 3), "uint8")
    stored, config = (np.moveaxis(picture, -1, 0), "separate") if planar else (picture, "contig")
    path = tmp_path / "slide.tif"
    tifffile.imwrite(path, stored, photometric="rgb", planarconfig=config, compression=compression)
    report = pack(path)
    assert report.mode == ("verbatim" if compression else "byte-exact")
    (layer,) = open_layers(report.archive)
    assert layer.rgb
    assert layer.ndim == len(layer.scale) == len(layer.units) == len(layer.axis_labels)
    np.testing.assert_array_equal(np.squeeze(np.asarray(layer.data)), picture)


def test_deep_colour_is_shown_over_its_own_range(tmp_path: Path) -> None:
    path = tmp_path / "camera.tif"
    tifffile.imwrite(path, (ramp((9, 8, 3)) % 4095).astype("u2"), photometric="rgb")
    (layer,) = open_layers(pack(path).archive)
    viewer = ViewerModel()
    viewer.add_layer(layer)
    assert layer.rgb
    assert 200 < layer.contrast_limits[1] < 4096


# --- B-09: min-is-white ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "deflate"], ids=["exact", "verbatim"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_b_09_min_is_white_inverts_the_colours_and_no_value(
    tmp_path: Path, dtype: str, compression: str | None
) -> None:
    data = ramp((30, 20), dtype)
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="miniswhite", compression=compression)
    (layer,) = open_layers(pack(tmp_path / "a.tif").archive)
    np.testing.assert_array_equal(np.squeeze(np.asarray(layer.data)), data)
    np.testing.assert_allclose(layer.colormap.map([0.0, 1.0]), [[1, 1, 1, 1], [0, 0, 0, 1]])


def test_an_inverted_colour_runs_from_the_colour_to_black(tmp_path: Path) -> None:
    keys = image_keys([ramp((2, 9, 8))], "cyx", ome=channels("FF8000", "00FF00", inverted=True))
    first, _ = open_layers(write_folder(tmp_path / "a.zarr", keys))
    np.testing.assert_allclose(
        first.colormap.map([0.0, 1.0]), [[1, 128 / 255, 0, 1], [0, 0, 0, 1]], atol=1e-6
    )


# --- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_lie_over_their_image_in_their_colours(tmp_path: Path, version: str) -> None:
    image = ramp((2, 3, 8, 6))
    values = (ramp((1, 3, 8, 6)) % 4).astype("int32")
    colors = [{"label-value": 1, "rgba": [255, 0, 0, 255]}, {"label-value": 3, "rgba": [0, 0, 255, 128]}]
    scale = [(1, 2, 0.5, 0.5)]
    keys = image_keys([image], "czyx", version=version, name="cell", scales=scale)
    keys |= group_keys("labels", {"labels": ["nuclei", "gone"]}, version)
    keys |= image_keys(
        [values], "czyx", version=version, path="labels/nuclei", name="nuclei", scales=scale,
        ome={"image-label": {"colors": colors}},
    )  # fmt: skip
    said: list[str] = []
    first, _, labels = open_layers(write_zip(tmp_path / "a.ozx", keys), tell=said.append)
    assert isinstance(labels, Labels)
    assert (labels.name, labels.ndim) == ("nuclei", 3)
    np.testing.assert_array_equal(labels.scale, first.scale)
    np.testing.assert_array_equal(np.asarray(labels.data), values[0])
    np.testing.assert_allclose(labels.get_color(1), [1, 0, 0, 1])
    np.testing.assert_allclose(labels.get_color(3), [0, 0, 1, 128 / 255], atol=1e-6)
    assert labels.get_color(2)[3] > 0  # not listed, and yet to be seen
    (message,) = said
    assert "the labels 'gone' do not open" in message


# --- whatever the type ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "float64", "complex64"])
def test_every_type_of_pixel_reaches_the_screen(tmp_path: Path, dtype: str) -> None:
    data = (ramp((3, 8, 6)) % 100 % (2 if dtype == "bool" else 100)).astype(dtype)
    keys = image_keys([data])
    if dtype == "complex64":
        data *= 0.6 + 0.8j
        keys = image_keys([data])
    fill = {"bool": b"false", "complex64": b"[0.0, 0.0]"}.get(dtype, b"0")
    keys["0/zarr.json"] = keys["0/zarr.json"].replace(b'"fill_value": 0', b'"fill_value": ' + fill)
    viewer = ViewerModel()
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", keys))
    viewer.add_layer(layer)
    shown = np.abs(data) if dtype == "complex64" else data
    np.testing.assert_array_equal(np.squeeze(layer._slice.image.raw), shown[viewer.dims.current_step[0]])


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize(("dtype", "base", "step"), [("uint32", 2**31, 1), ("float32", 1000, 0.001)])
def test_large_numbers_that_differ_little_are_shown(
    tmp_path: Path, dtype: str, base: float, step: float, levels: int
) -> None:
    data = (base + step * (ramp((3, 8, 6)).astype("int64") % 100)).astype(dtype)
    pyramid = [data, data[:, ::2, ::2]][:levels]
    (layer,) = open_layers(write_folder(tmp_path / "a.zarr", image_keys(pyramid)))
    viewer = ViewerModel()
    viewer.add_layer(layer)
    low, high = layer.contrast_limits
    assert low >= base
    assert 0 < high - low <= 100 * step


def test_yes_and_no_are_labels_too(tmp_path: Path) -> None:
    values = ramp((8, 6)) % 3 == 0
    keys = image_keys([values], "yx", ome={"image-label": {}})
    keys["0/zarr.json"] = keys["0/zarr.json"].replace(b'"fill_value": 0', b'"fill_value": false')
    (layer,) = open_layers(write_folder(tmp_path / "mask.zarr", keys))
    assert isinstance(layer, Labels)
    np.testing.assert_array_equal(np.asarray(layer.data), values)


def test_napari_s_own_tools_work_on_our_layers(tmp_path: Path) -> None:
    from napari.layers._layer_actions import _convert_dtype, _convert_to_labels, _duplicate_layer, _project
    from napari.plugins import _initialize_plugins

    _initialize_plugins()
    data = ramp((5, 8, 6), "uint8")
    single = image_keys([data])
    pyramid = image_keys([data, data[:, ::2, ::2]])
    viewer = ViewerModel()
    for name, keys in (("single", single), ("pyramid", pyramid)):
        (layer,) = open_layers(write_folder(tmp_path / name, keys))
        viewer.add_layer(layer)
        _project(viewer.layers, axis=0, mode="max")
        made = viewer.layers[-1].data
        np.testing.assert_array_equal(np.asarray(made[0] if layer.multiscale else made), data.max(axis=0))
        viewer.layers.selection = {layer}
        _duplicate_layer(viewer.layers)
        copy = viewer.layers[viewer.layers.index(layer) + 1]
        assert copy.name == f"{name} copy"
        copy.projection_mode = "none"  # the only one that labels have
        viewer.layers.selection = {copy}
        _convert_to_labels(viewer.layers)
        made = viewer.layers[f"{name} copy"]
        assert isinstance(made, Labels)
        np.testing.assert_array_equal(np.asarray(made.data[0] if made.multiscale else made.data), data)
    saved = viewer.layers[0].save(str(tmp_path / "saved.tif"), plugin="napari")
    np.testing.assert_array_equal(tifffile.imread(saved[0]), data)
    keys = image_keys([data], ome={"image-label": {}})
    (labels,) = open_layers(write_folder(tmp_path / "labels", keys))
    viewer.add_layer(labels)
    _convert_dtype(viewer.layers, mode="int32")
    assert labels.data.dtype == np.int32
    np.testing.assert_array_equal(np.asarray(labels.data), data)
