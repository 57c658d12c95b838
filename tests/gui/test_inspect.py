"""Looking inside: facts, the picture, the map, and copying them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qtpy.QtCore import Qt
from tests.support.gui import button
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant._resources import sample_path
from napari_decant.gui import InspectPanel


def shown(qtbot, panel: InspectPanel, path: Path) -> None:
    qtbot.waitUntil(lambda: panel.shown is not None and panel.shown.path == path, timeout=20_000)


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    """The archive of the sample image."""
    return archive.pack(sample_path(), tmp_path).archive


def test_an_archive_shows_its_facts_picture_and_map(
    qtbot, window, opened, drop, click, cell: Path, qapp
) -> None:
    panel = window.inspect
    window.tabs[3].click()
    assert not panel.page.isVisible()
    drop(panel, cell)
    shown(qtbot, panel, cell)
    found = panel.shown
    facts = dict(fact for section in found.sections for fact in section.facts)
    assert facts["What it is"] == "an image, byte-exact"
    assert facts["Axes"] == "c3 y350 x350"
    assert facts["Pixel type"] == "uint16"
    assert panel.members.rows.root.children[0].what == found.members[0].sha256

    picture = np.frombuffer(found.picture.pixels, np.uint8).reshape(
        found.picture.height, found.picture.width, 3
    )
    assert picture.max() > 200
    assert len(np.unique(picture)) > 50
    assert not panel.picture.pixmap().isNull()

    size, husk = sample_path().stat().st_size, archive.info(cell).husk_size
    assert sum(found.original_map) / len(found.original_map) == pytest.approx(1 - husk / size, abs=1e-3)
    assert sum(stored for _, stored in found.archive_map) == pytest.approx(cell.stat().st_size, rel=1e-6)
    assert panel.map.isVisible()
    assert "pixels" in panel.map.toolTip()

    click(button(panel, "Copy as text"))
    text = qapp.clipboard().text()
    assert found.members[0].sha256 in text
    assert str(cell) in text
    click(button(panel, "Open in napari"))
    assert opened == [cell]
    click(button(panel, "Verify"))
    assert window.stack.currentWidget() is window.verify


def test_a_tiff_shows_what_it_would_become(qtbot, window, drop, tmp_path: Path) -> None:
    window.tabs[3].click()
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(pages=2, height=64, width=64, trailing=8192)).path
    drop(window.inspect, tiff)
    shown(qtbot, window.inspect, tiff)
    found = window.inspect.shown
    facts = dict(found.sections[0].facts)
    assert facts["Packed, it becomes"] == "an image, byte-exact"
    assert found.original_map[-1] == 0, "what trails the pixels is none"
    assert max(found.original_map) == pytest.approx(1)
    assert not window.inspect.verify_button.isVisible()


def test_several_files_are_chosen_from_a_list(qtbot, window, drop, cell: Path, tmp_path: Path) -> None:
    window.tabs[3].click()
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec()).path
    drop(window.inspect, cell, tiff)
    shown(qtbot, window.inspect, cell)
    assert window.inspect.chooser.isVisible()
    window.inspect.chooser.setCurrentIndex(1)
    shown(qtbot, window.inspect, tiff)


def test_what_cannot_be_read_says_why(qtbot, window, drop, tmp_path: Path) -> None:
    window.tabs[3].click()
    bad = tmp_path / "bad.zarr.zip"
    bad.write_bytes(b"PK nothing")
    drop(window.inspect, bad)
    qtbot.waitUntil(lambda: window.inspect._notice is not None, timeout=10_000)
    assert "bad.zarr.zip" in window.inspect._notice.text
    assert window.inspect.shown is None


def test_in_a_narrow_dock_each_fact_begins_beside_its_name(qtbot, desk, cell: Path) -> None:
    panel = InspectPanel(desk)
    qtbot.addWidget(panel)
    panel.resize(300, 700)
    panel.show()
    panel.add([cell])
    shown(qtbot, panel, cell)
    qtbot.waitUntil(lambda: panel._narrow is True)
    grid, several = panel._grid, 0
    for line in range(1, grid.rowCount() - 1):
        name, value = (grid.itemAtPosition(line, column).widget() for column in (0, 1))
        assert value.y() == name.y()
        assert value.alignment() & Qt.AlignmentFlag.AlignTop
        several += value.height() > 2 * value.fontMetrics().height()
    assert several > 0
