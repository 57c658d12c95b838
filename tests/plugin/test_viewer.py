"""What a person sees: a real napari window on a display."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import imageio.v3 as iio
import napari
import numpy as np
import pytest
import tifffile
from qtpy.QtCore import QMimeData, QPointF, Qt, QTimer, QUrl
from qtpy.QtGui import QDropEvent
from qtpy.QtWidgets import QApplication
from tests.plugin.helpers import handles_of, reads_of, wait_measured, write_folder, write_zip
from tests.plugin.test_chooser import choose, opened, rows, series
from tests.support.ngff import image_keys, ramp
from tests.support.tiffspec import TiffSpec
from tests.support.tiffwriter import write_tiff

from napari_decant._resources import sample_path
from napari_decant.archive import pack
from napari_decant.errors import FormatError
from napari_decant.plugin import run_demo, view
from napari_decant.plugin._screenshots import settle

pytestmark = pytest.mark.viewer
Told = Callable[[], list[str]]


def drop(viewer: napari.Viewer, path: Path) -> None:
    """Drop a file on the window, as a person does with the mouse."""
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path))])
    button, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    event = QDropEvent(QPointF(50, 50), Qt.DropAction.CopyAction, mime, button, keys)
    viewer.window._qt_viewer.dropEvent(event)
    settle(viewer, 0.1)


def canvas(viewer: napari.Viewer) -> np.ndarray:
    """Return the canvas as it is on the screen, (height, width, 3)."""
    viewer.reset_view()
    settle(viewer, 0.2)
    return viewer.screenshot(canvas_only=True, flash=False)[..., :3]


def at(
    viewer: napari.Viewer, shot: np.ndarray, layer: napari.layers.Layer, rows: Sequence, columns: Sequence
):
    """Colours on the screen where pixels of a layer are, for all rows and columns given."""
    scale, shift = layer.scale[-2:], layer.translate[-2:]
    centre = np.asarray(viewer.scene.camera.center[-2:])
    where = []
    for axis, indices in enumerate((rows, columns)):
        world = np.asarray(indices) * scale[axis] + shift[axis]
        pixel = (world - centre[axis]) * viewer.scene.camera.zoom + shot.shape[axis] / 2
        where.append(np.floor(pixel).astype(int))
        assert where[-1].min() >= 0
        assert where[-1].max() < shot.shape[axis]
    return shot[np.ix_(*where)]


def expected(pixels: Sequence[np.ndarray], layers: Sequence[napari.layers.Image]) -> np.ndarray:
    """Colours of additive channels: each value between its limits times its colour, summed and clipped."""
    total = np.zeros((*pixels[0].shape, 3))
    for values, layer in zip(pixels, layers, strict=True):
        low, high = layer.contrast_limits
        part = np.clip((values.astype(float) - low) / (high - low), 0, 1)
        total += part[..., None] * layer.colormap.map(1.0)[0, :3]
    return np.round(255 * np.clip(total, 0, 1))


def test_the_demo_archive_looks_like_the_image(viewer: napari.Viewer, tmp_path: Path) -> None:
    archive = pack(sample_path(), tmp_path).archive
    before = archive.read_bytes()
    drop(viewer, archive)
    layers = list(viewer.layers)
    original = tifffile.imread(sample_path())
    assert len(layers) == 3
    shot = canvas(viewer)
    rows, columns = np.arange(2, 348, 5), np.arange(3, 347, 7)
    seen = at(viewer, shot, layers[0], rows, columns).astype(float)
    wanted = expected([channel[np.ix_(rows, columns)] for channel in original], layers)
    assert np.abs(seen - wanted).max() <= 3
    assert wanted.std(axis=(0, 1)).min() > 20  # a picture with red, green and blue in it, no plain area
    # the image fills the canvas, and what is around it is black
    height, width = shot.shape[:2]
    assert viewer.scene.camera.zoom * 350 * layers[0].scale[-1] > 0.9 * min(height, width)
    assert shot[:, 3].max() == 0
    assert archive.read_bytes() == before


def test_the_sample_is_in_the_menu(viewer: napari.Viewer) -> None:
    viewer.open_sample("napari-decant", "cell")
    assert [layer.name for layer in viewer.layers] == [
        f"{sample_path().name} - {number}" for number in range(3)
    ]
    assert [layer.data.shape for layer in viewer.layers] == [(350, 350)] * 3


def test_pixels_of_unlike_sizes_are_in_their_places(viewer: napari.Viewer, tmp_path: Path) -> None:
    data = ramp((2, 3, 12, 16), "uint8")
    keys = image_keys(
        [data], "czyx", scales=[(1, 1, 3, 0.5)], translations=[(0, 0, 100, -7)], chunks=(1, 1, 5, 7)
    )
    drop(viewer, write_zip(tmp_path / "a.ozx", keys))
    first, second = viewer.layers
    for layer in (first, second):
        wait_measured(layer)
        layer.contrast_limits = (0, 255)
    viewer.dims.set_current_step(0, 2)
    shot = canvas(viewer)
    rows, columns = np.arange(12), np.arange(16)
    seen = at(viewer, shot, first, rows, columns).astype(float)
    assert np.abs(seen - expected([data[0, 2], data[1, 2]], [first, second])).max() <= 2
    # a row is six times as high as a column is wide
    high, wide = (np.ptp(np.flatnonzero(shot.any(axis=(1 - axis, 2)))) for axis in (0, 1))
    assert abs(high / 36 - wide / 8) < 1.5


def test_colour_pictures_and_pyramids_keep_their_colours(viewer: napari.Viewer, tmp_path: Path) -> None:
    picture = ramp((3, 40, 60), "uint8")
    channels = [
        {"color": color, "window": {"start": 0, "end": 255}} for color in ("FF0000", "00FF00", "0000FF")
    ]
    keys = image_keys([picture, picture[:, ::2, ::2]], "cyx", ome={"omero": {"channels": channels}})
    drop(viewer, write_zip(tmp_path / "slide.zarr.zip", keys))
    (layer,) = viewer.layers
    assert layer.rgb
    shot = canvas(viewer)
    rows, columns = np.arange(40), np.arange(60)
    assert layer.data_level == 0
    seen = at(viewer, shot, layer, rows, columns).astype(int)
    assert np.abs(seen - np.moveaxis(picture, 0, -1).astype(int)).max() <= 1


def test_a_file_kept_verbatim_and_min_is_white_is_drawn(viewer: napari.Viewer, tmp_path: Path) -> None:
    data = ramp((20, 30), "uint8")
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="miniswhite", compression="deflate")
    report = pack(tmp_path / "a.tif")
    assert report.mode == "verbatim"
    drop(viewer, report.archive)
    (layer,) = viewer.layers
    wait_measured(layer)
    layer.contrast_limits = (0, 255)
    seen = at(viewer, canvas(viewer), layer, np.arange(20), np.arange(30)).astype(int)
    assert np.abs(seen - (255 - data.astype(int))[..., None]).max() <= 1


def test_limits_are_measured_where_the_file_has_none(viewer: napari.Viewer, tmp_path: Path) -> None:
    data = 1000 + ramp((4, 64, 64)) % 200
    data[0, 0, 0] = 60000  # one hot pixel must not make the picture dark
    keys = image_keys([data, data[:, ::2, ::2]], name="dim")
    drop(viewer, write_zip(tmp_path / "a.ozx", keys))
    settle(viewer, 0.5)
    low, high = viewer.layers[0].contrast_limits
    assert 1000 <= low < 1010
    assert 1190 < high < 1210
    assert viewer.layers[0].contrast_limits_range[1] >= high


def test_large_numbers_that_differ_little_are_drawn(viewer: napari.Viewer, tmp_path: Path) -> None:
    data = (2**31 + ramp((20, 30)).astype("int64")).astype("uint32")
    drop(viewer, write_zip(tmp_path / "a.ozx", image_keys([data], "yx")))
    settle(viewer, 0.3)
    (layer,) = viewer.layers
    assert not layer.auto_contrast
    low, high = layer.contrast_limits
    assert (low - 2**31, high - 2**31) == pytest.approx((1.6, 599.4), abs=0.1)
    seen = at(viewer, canvas(viewer), layer, np.arange(20), np.arange(30)).astype(float)
    wanted = 255 * np.clip((data - low) / (high - low), 0, 1)
    assert np.abs(seen - wanted[..., None]).max() <= 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts handles in /proc")
@pytest.mark.parametrize("verbatim", [False, True])
def test_a_03_the_file_is_free_once_its_last_layer_is_removed(
    viewer: napari.Viewer, tmp_path: Path, verbatim: bool
) -> None:
    description = "ImageJ=1.54f\nimages=6\nchannels=2\nslices=3\nhyperstack=true\nmode=composite\n"
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(pages=6, description=description, deflate=verbatim))
    archive = pack(tiff.path).archive
    drop(viewer, archive)
    first, second = list(viewer.layers)
    viewer.dims.set_current_step(0, 2)
    settle(viewer, 0.1)
    assert handles_of(archive) == 1
    viewer.layers.remove(first)
    assert handles_of(archive) == 1
    viewer.layers.remove(second)
    assert handles_of(archive) == 0
    viewer.add_layer(second)  # taken back by the user
    viewer.dims.set_current_step(0, 0)
    settle(viewer, 0.1)
    np.testing.assert_array_equal(np.squeeze(second._slice.image.raw), tiff.array[1])
    viewer.layers.clear()
    assert handles_of(archive) == 0
    archive.rename(tmp_path / "b.zarr.zip").unlink()


# --- one step, one plane --------------------------------------------------------------------------


@contextmanager
def slicing(asynchronous: bool) -> Iterator[None]:
    """Let napari read in a thread, as `napari-decant view` does, or not."""
    from napari.settings import get_settings

    get_settings().experimental.async_ = asynchronous
    try:
        yield
    finally:
        get_settings().experimental.async_ = False


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two channels of 64 planes of 256 x 256, a chunk a plane, two levels."""
    data = ramp((2, 64, 256, 256), "uint8")
    window = {"start": 0, "end": 255, "min": 0, "max": 255}
    keys = image_keys(
        [data, data[..., ::2, ::2]],
        "czyx",
        chunks=(1, 1, 256, 256),
        ome={"omero": {"channels": [{"window": window}, {"window": window}]}},
    )
    return write_folder(tmp_path_factory.mktemp("stack") / "stack.zarr", keys)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "async"])
def test_a_09_a_step_reads_the_chunks_of_its_plane_and_no_others(
    viewer: napari.Viewer, stack: Path, monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    with slicing(asynchronous):
        viewer.open(str(stack), plugin="napari-decant")
        settle(viewer, 0.2)
        reads = reads_of(monkeypatch)
        for z in (5, 6, 41):
            reads.clear()
            viewer.dims.set_current_step(0, z)
            settle(viewer, 0.1)
            plane = {f"{level}/c/{channel}/{z}/0/0" for level in (0, 1) for channel in (0, 1)}
            found = [file for _, file in reads]
            assert {f"1/c/{channel}/{z}/0/0" for channel in (0, 1)} <= set(found) <= plane
            assert len(found) == len(set(found))
        viewer.layers[1].visible = False
        reads.clear()
        viewer.dims.set_current_step(0, 20)
        settle(viewer, 0.1)
        assert {file for _, file in reads} <= {"0/c/0/20/0/0", "1/c/0/20/0/0"}
        reads.clear()
        viewer.dims.set_current_step(0, 41)  # seen before
        settle(viewer, 0.1)
        assert reads == []


@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "async"])
def test_scrolling_through_local_files_is_smooth(
    viewer: napari.Viewer, stack: Path, asynchronous: bool
) -> None:
    with slicing(asynchronous):
        viewer.open(str(stack), plugin="napari-decant")
        settle(viewer, 0.2)
        took = []
        for z in range(8, 40):
            begun = time.monotonic()
            viewer.dims.set_current_step(0, z)
            QApplication.processEvents()
            took.append(time.monotonic() - begun)
        assert np.median(took) < 0.1
        settle(viewer, 0.1)
        for channel, layer in enumerate(viewer.layers):
            seen = layer._slice.image.raw.ravel()[0]
            assert seen == ramp((2, 64, 256, 256), "uint8")[channel, 39, 0, 0]


def test_a_09_slow_storage_does_not_stop_the_window(
    viewer: napari.Viewer, stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slicing(True):
        viewer.open(str(stack), plugin="napari-decant")
        settle(viewer, 0.2)
        reads = reads_of(monkeypatch, delay=0.2)
        beats: list[float] = []
        timer = QTimer()
        timer.timeout.connect(lambda: beats.append(time.monotonic()))
        timer.start(50)
        for z in range(8, 28):
            viewer.dims.set_current_step(0, z)
            wait = time.monotonic() + 0.04
            while time.monotonic() < wait:
                QApplication.processEvents()
                time.sleep(0.005)
        settle(viewer, 0.2)
        timer.stop()
        assert max(np.diff(beats)) < 0.3
        assert "MainThread" not in {thread for thread, _ in reads}
        # 20 planes of two channels are 40 chunks or more: those passed over were never asked for
        assert len({file for _, file in reads}) < 24
        assert {file.split("/")[3] for _, file in reads} >= {"27"}
        np.testing.assert_array_equal(
            viewer.layers[0]._slice.image.raw.ravel()[0], ramp((2, 64, 256, 256), "uint8")[0, 27, 0, 0]
        )


# --- what cannot be opened, and what else opens -------------------------------------------------------------


def test_a_damaged_archive_says_so_in_one_sentence(viewer: napari.Viewer, told: Told, tmp_path: Path) -> None:
    archive = pack(write_tiff(tmp_path / "a.tif", TiffSpec(pages=4)).path).archive
    archive.write_bytes(archive.read_bytes()[:-30])
    drop(viewer, archive)
    assert len(viewer.layers) == 0
    (message,) = told()
    assert "no end record" in message
    assert "Traceback" not in message


def test_view_shows_files_of_every_kind(
    viewer: napari.Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAPARI_ASYNC", "0")
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(pages=3))
    folder = write_folder(tmp_path / "b.zarr", image_keys([ramp((3, 9, 8))], name="zarr"))
    shown: list[list[str]] = []
    fits: list[float] = []

    def run() -> None:
        other = napari.current_viewer()
        settle(other, 0.1)
        shown.append([layer.name for layer in other.layers])
        shot = other.screenshot(canvas_only=True, flash=False)
        wide = other.layers[0].data.shape[-1] * other.scene.camera.zoom
        fits.append(wide / shot.shape[1])
        other.close()

    monkeypatch.setattr(napari, "run", run)
    view([tiff.path, pack(tiff.path).archive, folder])
    assert shown == [["a.tif", "a.tif [1]", "zarr"]]
    assert 0.85 < fits[0] <= 1
    (tmp_path / "cut.ozx").write_bytes(b"PK\3\4 and no more")
    windows = len(napari.Viewer._instances)
    with pytest.raises(FormatError):
        view([folder, tmp_path / "cut.ozx"])
    assert len(napari.Viewer._instances) == windows


# --- the demo -------------------------------------------------------------------------------------------


def check_demo(folder: Path, said: str) -> None:
    restored = folder / "restored" / sample_path().name
    assert restored.read_bytes() == sample_path().read_bytes()
    assert (folder / f"{sample_path().name}.zarr.zip").is_file()
    assert "738,115 bytes" in said
    assert "They are equal: the file came back byte for byte." in said
    for name in ("canvas", "window"):
        path = folder / f"cell_dna_mts_actin-{name}.png"
        assert str(path) in said
        picture = iio.imread(path)[..., :3]
        assert min(picture.shape[:2]) > 600
        # cyan, magenta and yellow, each somewhere at nearly full strength
        for dark in range(3):
            others = [channel for channel in range(3) if channel != dark]
            assert (picture[..., others].min(axis=-1).astype(int) - picture[..., dark] > 120).any()


def test_the_demo_tells_the_truth_and_leaves_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo(tmp_path / "out", show=False) == 0
    check_demo(tmp_path / "out", capsys.readouterr().out)


@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="xvfb-run is not installed")
def test_without_a_display_the_demo_brings_its_own(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    restored = tmp_path / "out" / "restored" / sample_path().name
    restored.parent.mkdir(parents=True)
    restored.write_text("of an earlier demo")
    code = "import sys; from napari_decant.plugin import run_demo; sys.exit(run_demo(sys.argv[1]))"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    check_demo(tmp_path / "out", ran.stdout)


def test_dropping_and_the_file_menu_offer_images_in_a_dock(
    viewer: napari.Viewer, qtbot, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant.plugin._chooser import TITLE

    name = f"{TITLE} (Decant)"  # what napari calls it where its menu opens it
    drop(viewer, series(tmp_path / "dropped.zarr.zip"))
    qt_viewer = viewer.window._qt_viewer
    widget = viewer.window.dock_widgets[name]
    assert widget.isVisible()
    assert (len(rows(widget)), len(viewer.layers)) == (2, 0)
    opened_file = series(tmp_path / "opened.zarr.zip")
    monkeypatch.setattr(type(qt_viewer), "_open_file_dialog_uni", lambda self, caption: [str(opened_file)])
    qt_viewer._open_files_dialog()
    assert viewer.window.dock_widgets[name] is widget
    assert widget.files.currentText() == "opened.zarr.zip"
    choose(widget, "1 - detail")
    widget.open.click()
    assert opened(qtbot, widget, 1) == ["detail"]
    settle(viewer, 0.2)
    np.testing.assert_array_equal(viewer.layers[0]._slice.image.raw, ramp((7, 6)))
    assert told() == []
    viewer.layers.clear()
    settle(viewer, 0.2)
    viewer.window.remove_dock_widget(viewer.window._wrapped_dock_widgets[name])
    settle(viewer, 0.2)
