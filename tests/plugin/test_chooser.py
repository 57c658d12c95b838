"""Files that hold several images: what is listed, what is marked, and what opens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer
from qtpy.QtCore import QEvent, Qt, QThreadPool
from qtpy.QtWidgets import QApplication, QWidget
from tests.plugin.helpers import write_folder, write_zip
from tests.support.ngff import group_keys, image_keys, ramp

from napari_decant.images import ImageEntry, list_images
from napari_decant.plugin._open import read_layers

Told = Callable[[], list[str]]


def series(path: Path) -> Path:
    """Two unlike images, as bioformats2raw writes them."""
    keys = image_keys([ramp((2, 9, 8), "uint8")], path="0", name="overview")
    keys |= image_keys([ramp((7, 6))], "yx", path="1", name="detail")
    keys |= group_keys("", {"bioformats2raw.layout": 3}) | group_keys("OME", {"series": ["0", "1"]})
    return write_zip(path, keys)


def plate(path: Path) -> Path:
    """Three wells with two fields each; the second field of B/2 is missing."""
    wells = ["A/1", "A/2", "B/2"]
    keys = {}
    for number, well in enumerate(wells):
        keys |= group_keys(well, {"well": {"images": [{"path": "0"}, {"path": "1"}]}})
        keys |= group_keys(well.partition("/")[0], {})
        for field in range(2):
            if (well, field) != ("B/2", 1):
                keys |= image_keys([ramp((5, 6)) + number * 100 + field], "yx", path=f"{well}/{field}")
    described = {
        "plate": {
            "columns": [{"name": "1"}, {"name": "2"}],
            "rows": [{"name": "A"}, {"name": "B"}],
            "wells": [
                {"path": well, "rowIndex": "AB".index(well[0]), "columnIndex": int(well[2]) - 1}
                for well in wells
            ],
        }
    }
    return write_folder(path, keys | group_keys("", described))


@pytest.fixture
def chooser(qtbot) -> Iterator[Any]:
    """The chooser beside a viewer without a canvas."""
    from napari_decant.plugin import ImageChooser

    widget = ImageChooser(ViewerModel())
    qtbot.addWidget(widget)
    widget.show()
    yield widget
    qtbot.waitUntil(lambda: widget._worker is None, timeout=10_000)


def rows(widget) -> list[str]:
    """What stands in the list, a line an image."""
    proxy = widget.list.model()
    count = proxy.columnCount()
    lines = [[proxy.index(row, c).data() for c in range(count)] for row in range(proxy.rowCount())]
    return [" | ".join(line) for line in lines]


def choose(widget, *names: str) -> None:
    """Select images by their names."""
    widget.list.clearSelection()
    proxy, selection = widget.list.model(), widget.list.selectionModel()
    for row in range(proxy.rowCount()):
        index = proxy.index(row, 1)
        if index.data() in names:
            selection.select(index, selection.SelectionFlag.Select | selection.SelectionFlag.Rows)


def opened(qtbot, widget, count: int) -> list[str]:
    qtbot.waitUntil(lambda: widget._worker is None and len(widget.viewer.layers) >= count, timeout=20_000)
    return [layer.name for layer in widget.viewer.layers]


def test_a_04_several_images_are_offered_and_what_is_open_is_marked(
    qtbot, chooser, told: Told, tmp_path: Path
) -> None:
    viewer = chooser.viewer
    path = series(tmp_path / "series.zarr.zip")
    chooser.offer(str(path), list_images(path))
    assert not chooser.isModal()
    assert rows(chooser) == [" | 0 - overview | z2 y9 x8 | uint8 | 1", " | 1 - detail | y7 x6 | uint16 | 1"]
    assert chooser.words.text() == "2 images. Choose what to open."
    assert chooser.files.currentText() == "series.zarr.zip"
    choose(chooser, "1 - detail")
    qtbot.mouseClick(chooser.open, Qt.MouseButton.LeftButton)
    assert opened(qtbot, chooser, 1) == ["detail"]
    np.testing.assert_array_equal(np.asarray(viewer.layers[0].data), ramp((7, 6)))
    assert [line[:1] for line in rows(chooser)] == [" ", "\N{CHECK MARK}"]
    # what is open is selected instead of opened twice
    viewer.layers.selection.clear()
    assert not chooser.open.isEnabled()
    chooser.open_chosen()
    assert viewer.layers.selection == {viewer.layers[0]}
    chooser.list.selectAll()
    qtbot.keyClick(chooser.list, Qt.Key.Key_Return)
    assert opened(qtbot, chooser, 2) == ["detail", "overview"]
    viewer.layers.remove("detail")
    assert [line[:1] for line in rows(chooser)] == ["\N{CHECK MARK}", " "]
    assert told() == []


def test_a_plate_and_a_second_file(qtbot, chooser, tmp_path: Path) -> None:
    first, second = series(tmp_path / "one.zarr.zip"), plate(tmp_path / "plate.zarr")
    for path in (first, second):
        chooser.offer(str(path), list_images(path))
    files = chooser.files
    assert [files.itemText(i) for i in range(files.count())] == ["one.zarr.zip", "plate.zarr"]
    assert rows(chooser) == [
        *(f" | {well}/{field} | y5 x6 | uint16 | 1" for well in ("A/1", "A/2") for field in (0, 1)),
        " | B/2/0 | y5 x6 | uint16 | 1",
        " | B/2/1 | cannot be opened |  | ",
    ]
    choose(chooser, "A/2/1", "B/2/0", "B/2/1")  # the missing one cannot be selected
    assert chooser.open.text() == "Open 2 images"
    chooser.open.click()
    assert opened(qtbot, chooser, 2) == ["A/2/1", "B/2/0"]
    for layer, shift in zip(chooser.viewer.layers, (101, 200), strict=True):
        np.testing.assert_array_equal(np.asarray(layer.data), ramp((5, 6)) + shift)
    files.setCurrentIndex(0)
    assert len(rows(chooser)) == 2


def test_the_files_of_layers_are_listed_with_their_labels(qtbot, chooser, tmp_path: Path) -> None:
    keys = image_keys([ramp((9, 8))], "yx", name="cell")
    keys |= group_keys("labels", {"labels": ["nuclei", "cells"]})
    for name in ("nuclei", "cells"):
        data = (ramp((9, 8)) % 5).astype("uint8")
        keys |= image_keys([data], "yx", path=f"labels/{name}", name=name, ome={"image-label": {}})
    path, viewer = write_zip(tmp_path / "cell.ozx", keys), chooser.viewer
    for data in read_layers(str(path)):
        viewer.add_layer(Layer.create(*data))
    qtbot.waitUntil(lambda: len(rows(chooser)) == 3, timeout=10_000)
    assert chooser.words.text() == "1 image and 2 label images. Choose what to open."
    assert [line[:1] for line in rows(chooser)] == ["\N{CHECK MARK}"] * 3
    viewer.layers.remove("nuclei")
    row = next(line for line in rows(chooser) if "nuclei" in line)
    assert row == " | nuclei | y9 x8 | uint8 labels | 1"
    choose(chooser, "nuclei")
    chooser.open.click()
    assert opened(qtbot, chooser, 3) == ["cell", "cells", "nuclei"]


def test_an_image_that_does_not_open_says_why_and_the_others_open(
    qtbot, chooser, told: Told, tmp_path: Path
) -> None:
    keys = image_keys([ramp((6, 5))], "yx", path="good", name="good")
    keys |= image_keys([ramp((7,))], "x", path="line", name="line")
    path = write_folder(tmp_path / "a.zarr", keys | group_keys("", {}))
    chooser.offer(str(path), list_images(path))
    chooser.list.selectAll()
    chooser.open.click()
    assert opened(qtbot, chooser, 1) == ["good"]
    assert any("line: line has the shape (7,), of which nothing can be shown" in text for text in told())


def test_many_images_are_listed_and_filtered_at_once(chooser) -> None:
    entries = [
        ImageEntry(f"{row}/{column}/0", f"{row}/{column}/0", "image", (5, 6), "uint16", "yx", 1)
        for row in range(100)
        for column in range(250)
    ]
    begun = time.monotonic()
    chooser.offer("/nowhere/plate.zarr", entries)
    assert time.monotonic() - begun < 5
    assert chooser.list.model().rowCount() == 25_000
    assert chooser.filter.isVisible()
    chooser.filter.setText("99/24")
    assert {line.split(" | ")[1] for line in rows(chooser)} == {f"99/24{c}/0" for c in ["", *range(10)]}


def test_an_empty_chooser_says_what_to_do_and_a_closed_one_listens_no_more(chooser) -> None:
    assert chooser.words.text().startswith("Drop a file that holds several images on the viewer")
    assert not chooser.open.isVisible()
    inserted = chooser.viewer.layers.events.inserted
    before = len(inserted.callbacks)
    other = type(chooser)(chooser.viewer)
    holder = QWidget()
    other.setParent(holder)
    assert len(inserted.callbacks) == before + 1
    other.setParent(None)  # as napari does when a dock is closed
    assert len(inserted.callbacks) == before


def _undocked(widget) -> None:
    """Close the dock of a widget, and wait until the widget is gone."""
    holder = QWidget()
    widget.setParent(holder)
    widget.setParent(None)  # as napari does
    QApplication.sendPostedEvents(widget, QEvent.Type.DeferredDelete)


@pytest.mark.parametrize("opens", [True, False])
def test_a_list_that_is_closed_while_its_file_is_read_stays_closed(
    qtbot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    from napari_decant.plugin import ImageChooser, _chooser

    path = series(tmp_path / "series.zarr.zip")
    entries = list_images(path)
    reads, goes_on = threading.Event(), threading.Event()

    def read(*args: Any) -> list[Any]:
        reads.set()
        goes_on.wait(20)
        return []

    monkeypatch.setattr(_chooser, "read_entry" if opens else "list_images", read)
    widget = ImageChooser(ViewerModel())
    if opens:
        widget.offer(str(path), entries)
        widget.open.click()
    else:
        widget._list(str(path))
    assert reads.wait(20)
    gone: list[bool] = []
    widget.destroyed.connect(lambda: gone.append(True))
    _undocked(widget)
    qtbot.waitUntil(lambda: bool(gone))
    goes_on.set()
    qtbot.waitUntil(lambda: QThreadPool.globalInstance().activeThreadCount() == 0, timeout=20_000)
    QApplication.processEvents()  # what the reading has to tell finds nobody, and is no error
