"""Exporting in the window: what it becomes is said before, and that it was read back after."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.support.gui import rows, settled
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui._row import Mark
from napari_decant.images import open_image


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """A folder with a TIFF and an archive of another one."""
    folder = tmp_path / "cells"
    folder.mkdir()
    write_tiff(folder / "a.tif", TiffSpec(pages=3, height=40, width=50))
    archive.pack(write_tiff(tmp_path / "b.tif", TiffSpec(height=30, width=20)).path, folder)
    return folder


def test_images_and_archives_of_a_folder_become_ome_zarr(qtbot, window, drop, click, cells: Path) -> None:
    window.tabs[4].click()
    drop(window.export, cells)
    settled(qtbot, window.export)
    assert {row.name: row.data.target.name for row in rows(window.export)} == {
        "a.tif": "a.tif.zarr",
        "b.tif.zarr.zip": "b.tif.zarr",
    }
    assert "y40 x50" in rows(window.export)[0].what
    assert window.export.footer.main.text() == "Export 2 images"
    click(window.export.footer.main)
    settled(qtbot, window.export, timeout=60_000)
    assert {row.mark for row in rows(window.export)} == {Mark.EXPORTED}
    title = window.export.card.title.text()
    assert title.startswith("2 images, ")
    assert "Every chunk was read back" in title
    before, after = open_image(cells / "a.tif"), open_image(cells / "a.tif.zarr")
    assert np.array_equal(np.squeeze(np.asarray(before.levels[0])), np.squeeze(np.asarray(after.levels[0])))
    before.close()
    after.close()


def test_one_file_each_in_a_folder_of_its_own(
    qtbot, window, drop, click, cells: Path, tmp_path: Path
) -> None:
    window.tabs[4].click()
    window.desk.settings.export_folder = str(tmp_path / "out")
    window.desk.settings.export_kind = ".ozx"
    drop(window.export, cells / "a.tif")
    settled(qtbot, window.export)
    click(window.export.footer.main)
    settled(qtbot, window.export, timeout=60_000)
    assert os.listdir(tmp_path / "out") == ["a.tif.ozx"]
    assert "a.tif.zarr" not in os.listdir(cells)


def test_what_exists_is_left_alone_unless_it_is_to_be_replaced(
    qtbot, window, drop, click, cells: Path
) -> None:
    mine = cells / "a.tif.zarr"
    mine.mkdir()
    (mine / "note.txt").write_text("mine")
    window.tabs[4].click()
    drop(window.export, cells / "a.tif")
    settled(qtbot, window.export)
    assert "exists already" in rows(window.export)[0].detail
    click(window.export.footer.main)
    settled(qtbot, window.export, timeout=60_000)
    assert rows(window.export)[0].mark is Mark.FAILED
    assert (mine / "note.txt").read_text() == "mine"


def test_what_is_no_image_says_why(qtbot, window, drop, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    window.tabs[4].click()
    drop(window.export, tmp_path / "notes.txt")
    settled(qtbot, window.export)
    (row,) = rows(window.export)
    assert row.mark is Mark.FAILED
    assert "notes.txt" in row.detail
    assert not window.export.footer.main.isEnabled()
