"""Saving layers: what comes back has the same pixels, in the same place, looking the same."""

from __future__ import annotations

import contextlib
import json
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer
from napari.utils.colormaps import DirectLabelColormap
from npe2 import PluginManager
from npe2 import write as npe2_write
from tests.plugin.helpers import write_folder
from tests.support.ngff import image_keys, ramp
from tests.support.tiffspec import TiffSpec
from tests.support.tiffwriter import write_tiff

from napari_decant.archive import pack
from napari_decant.errors import (
    BudgetExceeded,
    Cancelled,
    DiskFull,
    TargetExists,
    UnsupportedOperation,
    UsageError,
)
from napari_decant.images import _write_zarr
from napari_decant.plugin import _writer, write_layers
from napari_decant.plugin._layer_images import images_of_layers
from napari_decant.plugin._open import read_layers
from napari_decant.standard import check

Told = Callable[[], list[str]]
PLACE: dict[str, Any] = {
    "scale": (2, 0.5, 0.25),
    "translate": (1, -2, 3),
    "units": ("micrometer",) * 3,
    "axis_labels": ("z", "y", "x"),
}


@pytest.fixture(autouse=True)
def _no_other_viewer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window that other tests share is no part of saving without one."""
    if "viewer" not in request.fixturenames:
        monkeypatch.setattr("napari.current_viewer", lambda: None)


def save(path: Path, *layers: Layer) -> list[Layer]:
    """Save layers as napari does, and open what was written."""
    (written,) = write_layers(str(path), [layer.as_layer_data_tuple() for layer in layers])
    return reopen(Path(written))


def reopen(path: Path) -> list[Layer]:
    return [Layer.create(*data) for data in read_layers(str(path))]


def pixels(layer: Layer) -> np.ndarray:
    return np.asarray(layer.data[0] if layer.multiscale else layer.data)


def assert_over(found: Layer, wanted: Layer) -> None:
    """The same pixels in the same place of the world; what is saved has five axes at least."""
    whole = pixels(found)
    np.testing.assert_array_equal(whole.reshape(pixels(wanted).shape), pixels(wanted))
    more = found.ndim - wanted.ndim
    assert whole.shape[:more] == (1,) * more
    corners = np.array(
        [[0] * wanted.ndim, [1] * wanted.ndim, [n - 1 for n in pixels(wanted).shape[: wanted.ndim]]]
    )
    for corner in corners:
        mine = found.data_to_world((*[0] * more, *corner))
        np.testing.assert_allclose(mine[more:], wanted.data_to_world(corner), atol=1e-9)
    assert list(found.units)[more:] == list(wanted.units)


@pytest.mark.parametrize("name", ["cell.zarr", "cell.ozx"])
def test_channels_and_labels_come_back_as_they_were(tmp_path: Path, name: str, told: Told) -> None:
    data = ramp((5, 40, 30))
    dna = Image(data, name="cell - DNA", colormap="blue", contrast_limits=(3, 99), **PLACE)
    actin = Image(data[::-1], name="cell - actin", colormap="#ff8000", visible=False, **PLACE)
    ink = Image(data * 3, name="cell - ink", colormap="gray_r", contrast_limits=(0.5, 7), **PLACE)
    colors = DirectLabelColormap(color_dict={1: "red", 3: [0, 0, 1, 0.5], 0: [0, 0, 0, 0], None: "white"})
    labels = Labels((data % 5).astype("int32"), name="nuclei / all", colormap=colors, **PLACE)
    found = save(tmp_path / name, dna, actin, ink, labels)
    assert [layer.name for layer in found] == ["cell - DNA", "cell - actin", "cell - ink", "nuclei / all"]
    for mine, wanted in zip(found, (dna, actin, ink, labels), strict=True):
        assert_over(mine, wanted)
        assert type(mine) is type(wanted)
        assert mine.multiscale
        assert mine.visible == wanted.visible
    for mine, wanted in zip(found[:3], (dna, actin, ink), strict=True):
        np.testing.assert_allclose(
            mine.colormap.map([0.0, 1.0]), wanted.colormap.map([0.0, 1.0]), atol=0.5 / 255
        )
    assert [found[0].contrast_limits, found[2].contrast_limits] == [[3, 99], [0.5, 7]]
    np.testing.assert_allclose(found[3].get_color(1), [1, 0, 0, 1])
    np.testing.assert_allclose(found[3].get_color(3), [0, 0, 1, 128 / 255], atol=1e-6)
    assert told() == []
    report = check(tmp_path / name, "dca-0.1")
    assert report.ok, report.failed()


def test_every_level_is_made_by_the_rule_of_its_kind(tmp_path: Path) -> None:
    data = ramp((4, 6, 8), "uint8")
    image, labels = save(tmp_path / "a.ozx", Image(data, **PLACE), Labels(data, **PLACE))
    blocks = data.reshape(2, 2, 3, 2, 4, 2).astype(int)
    mean = blocks.sum((1, 3, 5))
    np.testing.assert_array_equal(np.squeeze(image.data[1]), np.round(mean / 8).astype("uint8"))
    np.testing.assert_array_equal(np.squeeze(labels.data[1]), blocks.max((1, 3, 5)))


@pytest.mark.parametrize(
    ("shape", "labels", "found"),
    [
        ((6, 5), (), (1, 1, 6, 5)),
        ((3, 6, 5), ("t", "y", "x"), (3, 1, 6, 5)),
        ((2, 3, 6, 5), (), (2, 3, 6, 5)),
        ((3, 6, 5), ("z", "y", "x"), (1, 3, 6, 5)),
        ((3, 6, 5), ("plane", "row", "column"), (1, 3, 6, 5)),
    ],
)
def test_axes_find_their_places(tmp_path: Path, shape: tuple, labels: tuple, found: tuple) -> None:
    data = ramp(shape)
    (layer,) = save(tmp_path / "a.zarr", Image(data, name="one", axis_labels=labels or None))
    assert (layer.name, pixels(layer).shape) == ("one", found)
    np.testing.assert_array_equal(pixels(layer).ravel(), data.ravel())


def test_an_axis_of_channels_becomes_channels(tmp_path: Path) -> None:
    data = ramp((3, 4, 6, 5))
    layers = save(tmp_path / "a.zarr", Image(data, axis_labels=("c", "z", "y", "x"), contrast_limits=(1, 7)))
    assert [layer.contrast_limits for layer in layers] == [[1, 7]] * 3
    for number, layer in enumerate(layers):
        np.testing.assert_array_equal(pixels(layer)[0], data[number])


@pytest.mark.parametrize(("dtype", "samples"), [("uint8", 3), ("uint8", 4), ("uint16", 3), ("float32", 3)])
def test_colour_pictures_stay_colour_pictures(tmp_path: Path, dtype: str, samples: int) -> None:
    picture = ramp((20, 16, samples), "uint16").astype(dtype)
    if dtype == "float32":
        picture /= picture.max()
    (layer,) = save(tmp_path / "a.ozx", Image(picture, rgb=True, name="slide"))
    assert (layer.rgb, layer.name) == (True, "slide")
    np.testing.assert_array_equal(np.squeeze(pixels(layer)), picture)


@pytest.mark.filterwarnings("ignore:Non-orthogonal slicing")
@pytest.mark.parametrize(
    "turn",
    [
        {"rotate": (20, 0, 30)},
        {"shear": (0.1, 0, 0.3)},
        {"affine": np.array([[0, 1, 0, 3], [-1, 0, 0, 4], [0, 0, 2.0, 5], [0, 0, 0, 1]])},
        {"scale": (2, -0.5, 0.25)},
        {"affine": np.diag([3.0, 2, 1, 1]), "rotate": (0, 0, 45)},
    ],
    ids=["rotate", "shear", "affine", "mirror", "both"],
)
def test_turned_layers_come_back_turned(tmp_path: Path, turn: dict, told: Told) -> None:
    image = Image(ramp((5, 12, 9)), name="tilted", **PLACE | turn)
    labels = Labels((ramp((5, 12, 9)) % 7).astype("uint8"), name="cells", **PLACE | turn)
    found = save(tmp_path / "a.ozx", image, labels)
    for mine, wanted in zip(found, (image, labels), strict=True):
        assert_over(mine, wanted)
    assert "tilted is turned, which only Decant reads back" in told()[0]
    again = save(tmp_path / "b.zarr", *found)  # through our own layers, and their affine
    for mine, wanted in zip(again, (image, labels), strict=True):
        assert_over(mine, wanted)


def test_a_layer_moved_by_its_affine_is_simply_moved(tmp_path: Path, told: Told) -> None:
    affine = np.array([[1, 0, 0, 7.0], [0, 2, 0, 0], [0, 0, 1, -1], [0, 0, 0, 1]])
    image = Image(ramp((3, 6, 5)), affine=affine, **PLACE)
    (layer,) = save(tmp_path / "a.zarr", image)
    assert_over(layer, image)
    np.testing.assert_array_equal(layer.affine.affine_matrix, np.eye(5))
    assert told() == []


def test_what_cannot_be_said_is_refused_in_a_sentence(tmp_path: Path) -> None:
    data = ramp((2, 3, 6, 5))
    turned = np.eye(5)
    turned[0, 2] = 0.5
    picture = {"name": "slide", "rgb": True, "axis_labels": ("c", "y", "x")}
    cases: list[tuple[Any, dict, str, str]] = [
        (data, {"name": "a", "affine": turned}, "image", "'a' is turned, sheared or mirrored along t and y"),
        (data, {"axis_labels": ("a", "c", "y", "x")}, "image", "has the axes a, c beside time and space"),
        (ramp((2, 6, 5, 3), "uint8"), picture, "image", "'slide' has colours and the axis c"),
        (data.astype("complex64"), {}, "image", "only real numbers"),
        (data.astype("float32"), {"name": "b"}, "labels", "'b' are of type float32"),
        (np.zeros((1, 2)), {}, "points", "a layer of points is no image"),
    ]
    for array, state, kind, words in cases:
        with pytest.raises(UnsupportedOperation, match=words):
            write_layers(str(tmp_path / "a.zarr"), [(array, state, kind)])
    assert list(tmp_path.iterdir()) == []


def test_what_is_lost_is_said(tmp_path: Path, told: Told) -> None:
    layers = [
        Image(ramp((6, 5)), name="heat", colormap="viridis"),
        Image(ramp((3, 6, 5)), name="tiff", axis_labels=("x", "y", "z")),
        Image(ramp((2, 6, 5)), name="lines", axis_labels=("c", "y", "x"), scale=(3, 1, 1)),
    ]
    save(tmp_path / "a.zarr", *layers)
    message = next(text for text in told() if "grey" in text)
    assert message.startswith("a.zarr: ")
    assert "the colours of heat are written as grey" in message
    assert "the axes of tiff are written in the order t, c, z, y, x" in message
    assert "the scale of the axis c of lines is not kept" in message


def test_unlike_images_share_a_file_and_labels_go_with_theirs(tmp_path: Path) -> None:
    small, large = ramp((6, 5)), ramp((9, 8), "uint8")
    layers = [
        Image(small, name="small"),
        Image(large, name="large"),
        Labels(large.astype("uint16"), name="cells"),
        Labels(large.astype("uint16"), name="Cells"),
    ]
    found = save(tmp_path / "a.ozx", *layers)
    assert sorted(layer.name for layer in found) == ["Cells", "cells", "large", "small"]
    for layer in found:
        assert_over(layer, next(one for one in layers if one.name == layer.name))
    with zipfile.ZipFile(tmp_path / "a.ozx") as archive:
        groups = {name.rpartition("/")[0] for name in archive.namelist() if name.endswith("zarr.json")}
        assert {"0", "1", "1/labels/cells", "1/labels/Cells 2", "OME"} <= groups
        root = json.loads(archive.read("zarr.json"))["attributes"]["ome"]
    assert root == {"version": "0.5", "bioformats2raw.layout": 3}


def test_labels_alone_are_labels(tmp_path: Path) -> None:
    labels = Labels((ramp((3, 6, 5)) % 4).astype("uint8"), name="cells", **PLACE)
    (found,) = save(tmp_path / "a.zarr", labels)
    assert isinstance(found, Labels)
    assert_over(found, labels)


@pytest.mark.parametrize("dtype", ["bool", "int8", ">i2", "uint32", "int64", "float16", ">f8"])
def test_every_type_of_pixel_keeps_its_values(tmp_path: Path, dtype: str) -> None:
    data = (ramp((6, 5), "uint8") % 100).astype(dtype)
    (found,) = save(tmp_path / "a.zarr", Image(data))
    np.testing.assert_array_equal(np.squeeze(pixels(found)), data)


# --- layers that are not in memory ----------------------------------------------------------------------


class Huge:
    """A terabyte that is computed where it is looked at, and counts how much that is."""

    dtype = np.dtype("uint16")
    chunks = (1, 1024, 1024)

    def __init__(self, shape: tuple[int, ...], broken: bool = False) -> None:
        self.shape, self.ndim, self.broken = shape, len(shape), broken
        self.most = self.total = 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise AssertionError("nobody asks for all of it")

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        if self.broken:
            raise OSError(28, "No space left on device")
        ranges = [np.arange(*part.indices(n)) for part, n in zip(key, self.shape, strict=True)]
        block = ranges[0][:, None, None] * 7 + ranges[1][:, None] * 3 + ranges[2] + 1
        self.most, self.total = max(self.most, block.size), self.total + block.size
        return (block % 65521 + 1).astype("uint16")


def test_a_lazy_terabyte_is_planned_within_the_memory_that_is_allowed(tmp_path: Path) -> None:
    huge = Huge((1_000_000, 1024, 1024))
    state = {"name": "huge", "axis_labels": ("z", "y", "x")}
    with images_of_layers([(huge, state, "image")], "huge") as found:
        plan = _writer.plan_ome_zarr(tmp_path / "a.zarr", found.images, memory=1 << 30)
    assert plan.raw_bytes > 2 * 10**12
    assert plan.memory <= 1 << 30
    assert huge.total == 0


def test_lazy_layers_are_read_once_and_in_parts(tmp_path: Path) -> None:
    one, two = Huge((6, 1030, 700)), Huge((6, 1030, 700))
    names = ("cell - a", "cell - b")
    layers = [(array, {"name": name}, "image") for array, name in zip((one, two), names, strict=True)]
    write_layers(str(tmp_path / "a.ozx"), layers)
    for array in (one, two):
        assert array.total == np.prod(array.shape)
        assert array.most <= 1024 * 1024
    for layer in reopen(tmp_path / "a.ozx"):
        np.testing.assert_array_equal(pixels(layer)[0], one[:, :, :])


def test_layers_of_ours_are_read_past_the_viewer_s_cache(tmp_path: Path, monkeypatch) -> None:
    data = ramp((2, 4, 30, 20))
    keys = image_keys([data], "czyx", chunks=(2, 1, 30, 20), name="cell")
    layers = reopen(write_folder(tmp_path / "in.zarr", keys))
    arrays = []
    real = _writer.plan_ome_zarr

    def planned(target: Path, images: Any, **options: Any) -> Any:
        arrays.append(images[""].array)
        return real(target, images, **options)

    monkeypatch.setattr(_writer, "plan_ome_zarr", planned)
    found = save(tmp_path / "out.zarr", *layers)
    for mine, wanted in zip(found, layers, strict=True):
        assert mine.name == wanted.name
        assert_over(mine, wanted)
    assert arrays[0].shape == data.shape  # the image itself: chunks that hold both channels are decoded once
    (second,) = save(tmp_path / "second.zarr", layers[1])
    assert_over(second, layers[1])
    assert arrays[1].shape == data.shape[1:]


def test_dask_zarr_and_multiscale_layers_are_saved(tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    data = ramp((4, 30, 20))
    lazy = da.from_array(data, chunks=(1, 16, 20))
    first = Image(lazy, name="a - x", **PLACE)
    second = Image([lazy, lazy[:, ::2, ::2]], name="a - y", multiscale=True, **PLACE)
    for found, wanted in zip(save(tmp_path / "a.zarr", first, second), (first, second), strict=True):
        assert_over(found, wanted)


def test_an_archive_s_layers_are_saved(tmp_path: Path, told: Told) -> None:
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(pages=4, deflate=True, height=40))
    layers = reopen(pack(tiff.path).archive)
    for found, wanted in zip(save(tmp_path / "a.ozx", *layers), layers, strict=True):
        assert found.name == wanted.name
        assert_over(found, wanted)
    assert "the axis i of a.tif is written as z" in told()[-1]


# --- files -----------------------------------------------------------------------------------------------


def test_names_without_an_ending_get_one(tmp_path: Path) -> None:
    layer = Image(ramp((6, 5))).as_layer_data_tuple()
    assert write_layers(str(tmp_path / "cell 1.5 um"), [layer]) == [str(tmp_path / "cell 1.5 um.zarr")]
    with pytest.raises(UsageError, match="is an address"):
        write_layers("https://example.org/a.zarr", [layer])


def test_folders_are_not_replaced_without_a_question_and_files_are(tmp_path: Path) -> None:
    old, new = Image(ramp((6, 5))), Image(ramp((7, 4)))
    for name in ("a.zarr", "a.ozx"):
        save(tmp_path / name, old)
    with pytest.raises(TargetExists, match="exists already"):
        save(tmp_path / "a.zarr", new)
    assert_over(reopen(tmp_path / "a.zarr")[0], old)
    (layer,) = save(tmp_path / "a.ozx", new)
    assert_over(layer, new)


@pytest.mark.parametrize("name", ["a.zarr", "a.ozx"])
def test_a_layer_s_own_file_is_never_replaced(tmp_path: Path, name: str) -> None:
    layers = save(tmp_path / name, Image(ramp((6, 5)), name="cell"))
    with pytest.raises(UsageError, match=r"'cell' is read from .*; save under another name"):
        save(tmp_path / name, *layers)
    assert_over(reopen(tmp_path / name)[0], layers[0])


def test_a_full_disk_leaves_nothing_and_the_next_try_works(tmp_path: Path, monkeypatch) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise DiskFull("there is no room left on the disk of a.zarr; make room and save again")

    image = Image(ramp((6, 5)))
    with monkeypatch.context() as patch:
        patch.setattr(_write_zarr, "_write_voxels", full)
        with pytest.raises(DiskFull, match=r"save again; nothing was left behind$"):
            save(tmp_path / "a.zarr", image)
    assert list(tmp_path.iterdir()) == []
    assert_over(save(tmp_path / "a.zarr", image)[0], image)


def test_too_little_memory_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(_writer, "saving_memory", lambda: 1 << 20)
    with pytest.raises(BudgetExceeded, match="memory allows 1,048,576"):
        save(tmp_path / "a.zarr", Image(ramp((6, 5))))
    assert list(tmp_path.iterdir()) == []


# --- through napari and npe2 -----------------------------------------------------------------------------


def test_npe2_offers_us_for_images_and_labels(tmp_path: Path) -> None:
    manager = PluginManager.instance()
    manager.discover()
    for path in ("a.zarr", "a.ozx", "A.OZX", "a.ome.zarr"):
        for kinds in (["image"], ["labels"], ["image", "image", "labels"]):
            writer, _ = manager.get_writer(path, kinds, "napari-decant")
            assert writer is not None
            assert writer.command == "napari-decant.write"
    assert manager.get_writer("a.zarr", ["image", "points"], "napari-decant")[0] is None
    image = Image(ramp((6, 5)), name="cell")
    path = tmp_path / "a.ozx"
    assert npe2_write(str(path), [image], plugin_name="napari-decant") == [str(path)]
    assert_over(reopen(path)[0], image)


def test_saving_selected_layers_without_a_window(tmp_path: Path) -> None:
    model = ViewerModel()
    one, _, three = (model.add_image(ramp((6, 5)) + i, name=f"cell - {i}") for i in range(3))
    model.layers.selection = {one, three}
    path = tmp_path / "a.zarr"
    assert model.layers.save(str(path), selected=True, plugin="napari-decant") == [str(path)]
    found = reopen(path)
    assert [layer.name for layer in found] == ["cell - 0", "cell - 2"]
    for mine, wanted in zip(found, (one, three), strict=True):
        assert_over(mine, wanted)


@contextlib.contextmanager
def dialogs(monkeypatch, chosen: Path, choice: str) -> Any:
    """Choose a name and a kind of file in napari's dialog."""
    from qtpy.QtWidgets import QFileDialog

    offered: list[str] = []

    def choose(parent: Any, caption: str, folder: str, filter: str, options: Any) -> tuple[str, str]:  # noqa: A002
        offered.extend(filter.split(";;"))
        return str(chosen), next(one for one in offered if one.startswith(choice))

    with monkeypatch.context() as patch:
        patch.setattr(QFileDialog, "getSaveFileName", staticmethod(choose))
        yield offered


@pytest.mark.viewer
def test_save_selected_layers_in_the_window(viewer, tmp_path: Path, told: Told, monkeypatch) -> None:
    data = ramp((3, 40, 30))
    image = viewer.add_image(data, name="cell", **PLACE)
    labels = viewer.add_labels((data % 4).astype("uint8"), name="nuclei", **PLACE)
    viewer.layers.selection = {image, labels}
    with dialogs(monkeypatch, tmp_path / "saved", "Decant") as offered:
        viewer.window._qt_viewer._save_layers_dialog(selected=True)
    assert "Decant OME-Zarr (*.zarr *.ozx)" in offered
    path = tmp_path / "saved.zarr"
    assert any(message.startswith("saved.zarr is saved: 1 channel and 1 labels layer") for message in told())
    viewer.open(str(path), plugin="napari-decant")
    assert_over(viewer.layers[2], image)
    assert_over(viewer.layers[3], labels)
    # what is seen does not change when the copy covers the original
    viewer.layers.selection.clear()
    assert viewer.layers[2].extent.world[:, -3:].tolist() == image.extent.world.tolist()


@pytest.mark.viewer
def test_the_window_lives_while_layers_are_saved_and_cancel_leaves_nothing(
    viewer, tmp_path: Path, monkeypatch
) -> None:
    from napari.utils.progress import progress
    from qtpy.QtCore import QTimer

    go = threading.Event()
    beats, bars = [], []
    real = Huge.__getitem__

    def slow(self: Huge, key: Any) -> np.ndarray:
        go.wait(0.2)
        return real(self, key)

    monkeypatch.setattr(Huge, "__getitem__", slow)
    layer = (Huge((40, 1024, 512)), {"name": "slow"}, "image")
    timer = QTimer()

    def beat() -> None:
        beats.append(1)
        bars.extend(bar for bar in progress._all_instances if bar.desc.startswith("Saving a.zarr"))
        if bars and len(beats) > 20:
            bars[-1].cancel()

    timer.timeout.connect(beat)
    timer.start(50)
    try:
        with pytest.raises(Cancelled):
            write_layers(str(tmp_path / "a.zarr"), [layer])
    finally:
        timer.stop()
        go.set()
    assert len(beats) > 20
    assert bars
    assert not [bar for bar in progress._all_instances if bar.desc.startswith("Saving")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.viewer
def test_the_window_asks_before_it_replaces_a_folder(viewer, tmp_path: Path, monkeypatch) -> None:
    from qtpy.QtWidgets import QMessageBox

    old, new = Image(ramp((6, 5))), Image(ramp((7, 4)))
    save(tmp_path / "a.zarr", old)
    asked: list[str] = []

    def answer(button: Any) -> Callable[..., Any]:
        def question(parent: Any, title: str, text: str, buttons: Any, default: Any) -> Any:
            asked.append(text)
            return button

        return question

    buttons = QMessageBox.StandardButton
    monkeypatch.setattr(QMessageBox, "question", answer(buttons.Cancel))
    with pytest.raises(TargetExists):
        save(tmp_path / "a.zarr", new)
    assert_over(reopen(tmp_path / "a.zarr")[0], old)
    monkeypatch.setattr(QMessageBox, "question", answer(buttons.Yes))
    assert_over(save(tmp_path / "a.zarr", new)[0], new)
    assert asked == ["a.zarr exists already. It is replaced once the new one is whole."] * 2
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "diary.txt").write_text("not an image")
    with pytest.raises(TargetExists):  # no image: not even asked about
        save(tmp_path / "mine.zarr", new)
    assert len(asked) == 2
