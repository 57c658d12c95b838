"""Where the crop tool's questions about files start, and what its answers mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qtpy.QtWidgets import QFileDialog
from tests.crop.in_viewer import ready, volume

pytestmark = pytest.mark.viewer
OME_TIFF = "OME-TIFF (*.ome.tif)"


@pytest.fixture
def answers(monkeypatch):
    """Answer each dialog with the next of these, and note what it began with."""
    begun: list[str] = []
    given: list[tuple[str, str]] = []

    def ask(parent, title, begin, kinds):
        begun.append(begin)
        return given.pop(0)

    for name in ("getSaveFileName", "getOpenFileName"):
        monkeypatch.setattr(QFileDialog, name, staticmethod(ask))
    return given, begun


def test_dialogs_start_where_the_image_lies_and_then_where_the_last_file_does(
    viewer, qtbot, tool, tmp_path: Path, answers
):
    given, begun = answers
    layer = volume(viewer, tmp_path)
    layer.name = "DNA: 488/561"
    widget = tool()
    (tmp_path / "queries").mkdir()
    ready(qtbot, widget)
    given += [("", ""), (os.fspath(tmp_path / "queries" / "q"), ""), ("", ""), ("", "")]
    for button in (widget.form.load, widget.form.keep, widget.form.load, widget.footer.save):
        button.click()
    assert (tmp_path / "queries" / "q.json").exists()
    assert begun == [
        str(tmp_path),
        str(tmp_path / "crop.json"),
        str(tmp_path / "queries"),
        str(tmp_path / "queries" / "DNA_ 488_561 crop.zarr"),  # one name, however the layer is called
    ]


def test_dialogs_start_where_they_may_if_the_image_lies_nowhere(viewer, qtbot, tool, answers):
    import numpy as np

    given, begun = answers
    viewer.add_image(np.ones((40, 50)), name="made")
    widget = tool()
    given += [("", ""), ("", "")]
    widget.form.load.click()
    widget.footer.save.click()
    assert begun == ["", "made crop.zarr"]


@pytest.mark.parametrize(
    ("name", "kind", "written"),
    [
        ("cells crop.zarr", OME_TIFF, "cells crop.ome.tif"),  # as dialogs of the system answer
        ("cells crop.tif", OME_TIFF, "cells crop.tif"),
        ("1.5 um", OME_TIFF, "1.5 um.ome.tif"),
        ("1.5 um", "", "1.5 um.zarr"),
        ("mine.ozx", "OME-Zarr folder (*.zarr)", "mine.ozx"),
    ],
)
def test_the_kind_that_is_chosen_is_the_kind_that_is_written(
    viewer, qtbot, tool, tmp_path: Path, answers, name, kind, written
):
    given, _ = answers
    volume(viewer, tmp_path)
    widget = tool()
    (tmp_path / "out").mkdir()
    given.append((os.fspath(tmp_path / "out" / name), kind))
    widget.footer.save.click()
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    assert os.listdir(tmp_path / "out") == [written]
