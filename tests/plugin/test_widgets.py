"""The panels docked in a real napari: its menus, colours, settings, notices, and results as layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.settings import get_plugin_settings
from tests.plugin.helpers import write_folder
from tests.support.conforming import conforming
from tests.support.gui import button, faults_of, rows, settled
from tests.support.tiffwriter import TiffSpec, write_sparse_imagej, write_tiff

from napari_decant import archive

pytestmark = pytest.mark.viewer

TITLES = {
    "pack": "Pack TIFFs",
    "verify": "Verify archives",
    "restore": "Restore originals",
    "inspect": "Inspect a file",
    "export": "Export to OME-Zarr",
    "check": "Check against the array standard",
}


@pytest.fixture
def dock(viewer, qtbot) -> Iterator[Callable[[str], Any]]:
    """Dock a panel as its menu entry does."""

    def do(key: str) -> Any:
        _, widget = viewer.window.add_plugin_dock_widget("napari-decant", TITLES[key])
        qtbot.waitUntil(widget.isVisible, timeout=20_000)
        return widget

    yield do
    from napari_decant.plugin import _widgets

    for key in TITLES:
        undock(viewer, key)
    qtbot.waitUntil(lambda: not _widgets._seats, timeout=20_000)


def undock(viewer, key: str) -> None:
    """Close a dock as its cross does."""
    docks = viewer.window._wrapped_dock_widgets
    for name in [name for name in docks if name.startswith(TITLES[key])]:
        viewer.window.remove_dock_widget(docks[name])


def test_the_panels_stand_in_the_menus(viewer) -> None:
    import npe2

    manifest = npe2.PluginManager.instance().get_manifest("napari-decant")
    widgets = {widget.display_name for widget in manifest.contributions.widgets}
    assert widgets >= set(TITLES.values())
    menu = {item.command for item in manifest.contributions.menus["napari/file/io_utilities"]}
    assert menu >= {f"napari-decant.{key}_widget" for key in TITLES}


def test_packing_says_so_and_the_result_opens_as_a_layer(qtbot, viewer, dock, told, tmp_path: Path) -> None:
    written = write_tiff(tmp_path / "cells.tif", TiffSpec(pages=3, height=40, width=50))
    panel = dock("pack")
    panel.add([written.path])
    settled(qtbot, panel, timeout=60_000)
    panel.footer.main.click()
    settled(qtbot, panel, timeout=60_000)
    assert any("Every byte was checked." in message for message in told())
    panel.table.setCurrentIndex(panel.rows.index_of(rows(panel)[0]))
    button(panel, "Open in napari").click()
    (layer,) = viewer.layers
    assert np.array_equal(np.asarray(layer.data[1]), written.array[1])
    viewer.layers.clear()


def test_a_check_says_what_it_found_and_its_image_opens(qtbot, viewer, dock, told, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a.zarr", conforming())
    panel = dock("check")
    panel.add([path])
    settled(qtbot, panel, timeout=60_000)
    panel.footer.main.click()
    settled(qtbot, panel, timeout=60_000)
    assert any(message.startswith("a.zarr follows dca-0.1") for message in told())
    button(panel, "Open in napari").click()
    assert [layer.multiscale for layer in viewer.layers] == [True]
    viewer.layers.clear()


def test_panels_share_their_jobs_and_hand_archives_on(qtbot, viewer, dock, tmp_path: Path) -> None:
    packed = archive.pack(write_tiff(tmp_path / "a.tif", TiffSpec()).path).archive
    pack, verify = dock("pack"), dock("verify")
    assert pack.desk is verify.desk
    pack.handed.emit("verify", [packed])
    settled(qtbot, verify, timeout=60_000)
    assert [row.path for row in rows(verify)] == [packed]
    pack.handed.emit("restore", [packed])
    restore = viewer.window.dock_widgets
    assert any("Restore originals" in name for name in restore)


def test_a_run_is_cancelled_in_the_activity_dock(qtbot, viewer, dock, tmp_path: Path) -> None:
    from napari.utils.progress import progress

    write_sparse_imagej(tmp_path / "big.tif", 600, 1024, 1024)
    panel = dock("pack")
    panel.add([tmp_path / "big.tif"])
    settled(qtbot, panel, timeout=60_000)
    panel.footer.main.click()
    qtbot.waitUntil(lambda: panel.batch is not None and panel.batch.fraction > 0.01, timeout=60_000)
    (bar,) = [one for one in progress._all_instances if one.desc.startswith("Packing 1 of 1")]
    bar.cancel()  # what the button beside the bar does
    settled(qtbot, panel, timeout=60_000)
    assert not progress._all_instances
    assert sorted(os.listdir(tmp_path)) == ["big.tif"]


def test_every_control_of_the_docks_can_be_found_named_and_reached(qtbot, viewer, dock) -> None:
    window = viewer.window._qt_window
    with qtbot.waitActive(window):
        window.raise_()
        window.activateWindow()
    for key in TITLES:
        panel = dock(key)
        assert faults_of(qtbot, panel) == [], key
        undock(viewer, key)


def test_settings_are_those_of_naparis_preferences(qtbot, viewer, dock, tmp_path: Path) -> None:
    panel = dock("pack")
    group = get_plugin_settings("napari-decant").archiving
    before = group.workers
    try:
        panel.form.open()
        panel.form.widgets["workers"].value = 3
        assert group.workers == 3
        group.workers = 5
        assert panel.desk.settings.workers == 5
        assert panel.form.widgets["workers"].value == 5
    finally:
        group.workers = before


def test_colours_are_naparis(qtbot, viewer, dock) -> None:
    from napari_decant.plugin._widgets import napari_theme

    panel = dock("inspect")
    before = viewer.theme
    try:
        for name in ("light", "dark"):
            viewer.theme = name
            assert panel.look.theme == napari_theme(name)
            assert panel.look.theme.window in panel.styleSheet()
            assert panel.look.theme.dark is (name == "dark")
    finally:
        viewer.theme = before


def test_a_dock_that_is_closed_in_mid_job_leaves_nothing(qtbot, viewer, dock, tmp_path: Path) -> None:
    write_sparse_imagej(tmp_path / "big.tif", 600, 1024, 1024)
    panel = dock("pack")
    panel.add([tmp_path / "big.tif"])
    settled(qtbot, panel, timeout=60_000)
    panel.footer.main.click()
    qtbot.waitUntil(lambda: panel.batch is not None and panel.batch.fraction > 0.01, timeout=60_000)
    runner = panel.desk.runner
    undock(viewer, "pack")
    qtbot.waitUntil(lambda: not runner.busy, timeout=10_000)
    qtbot.waitUntil(lambda: sorted(os.listdir(tmp_path)) == ["big.tif"], timeout=10_000)


def test_handing_on_shows_the_dock_that_is_there(qtbot, viewer, dock, tmp_path: Path) -> None:
    packed = archive.pack(write_tiff(tmp_path / "a.tif", TiffSpec()).path).archive
    pack = dock("pack")
    for key in ("restore", "restore", "inspect"):
        pack.handed.emit(key, [packed])
    docks = [name for name in viewer.window.dock_widgets if name.startswith(("Restore", "Inspect"))]
    assert docks == ["Restore originals (Decant)", "Inspect a file (Decant)"]  # as the menu names them
    settled(qtbot, viewer.window.dock_widgets[docks[0]], timeout=60_000)


def _choose_in_menu(command: str) -> None:
    from napari._app_model import get_app_model

    get_app_model().commands.execute_command(command).result()


@pytest.mark.parametrize(
    ("title", "command"),
    [
        *((title, f"napari-decant.{key}_widget") for key, title in TITLES.items()),
        ("Images in a file", "napari-decant.images_widget"),
        ("Crop a region", "napari-decant.crop_widget"),
    ],
)
def test_a_script_and_the_menu_show_one_dock(qtbot, viewer, title: str, command: str) -> None:
    def docks() -> dict[str, Any]:
        return {n: widget for n, widget in viewer.window.dock_widgets.items() if n.startswith(title)}

    dock, widget = viewer.window.add_plugin_dock_widget("napari-decant", title)
    _choose_in_menu(command)
    assert docks() == {f"{title} (Decant)": widget}
    qtbot.waitUntil(widget.isVisible)
    _choose_in_menu(command)  # hides it, as napari's menu does
    assert not widget.isVisible()
    dock, again = viewer.window.add_plugin_dock_widget("napari-decant", title)
    assert again is widget
    assert docks() == {f"{title} (napari-decant)": widget}
    qtbot.waitUntil(widget.isVisible)
    gone: list[bool] = []
    widget.destroyed.connect(lambda: gone.append(True))
    viewer.window.remove_dock_widget(dock)
    qtbot.waitUntil(lambda: bool(gone))
    assert docks() == {}


def test_a_run_goes_on_when_its_panel_is_asked_for_again(qtbot, viewer, dock, tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", TiffSpec())
    panel = dock("pack")
    panel.add([tmp_path / "a.tif"])
    settled(qtbot, panel, timeout=60_000)
    panel.footer.main.click()
    _choose_in_menu("napari-decant.pack_widget")
    assert panel.batch is not None
    qtbot.waitUntil(lambda: panel.card is not None, timeout=60_000)
    assert (tmp_path / "a.tif.zarr.zip").exists()
