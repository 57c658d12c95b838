"""Preferences: which reader opens our files, and the one place where each setting stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from napari.components import ViewerModel
from napari.plugins.utils import get_preferred_reader
from napari.settings import get_plugin_settings, get_settings
from napari.utils.notifications import notification_manager
from npe2 import PluginManager
from tests.plugin.helpers import write_zip
from tests.support.ngff import image_keys, ramp

from napari_decant.gui import Settings
from napari_decant.plugin import forget_reader, prefer_reader
from napari_decant.plugin._settings import saving_memory

Told = Callable[[], list[str]]


@pytest.fixture
def readers() -> Iterator[Callable[[], dict[str, str]]]:
    """What napari prefers; as before afterwards."""
    plugins = get_settings().plugins
    before = dict(plugins.extension2reader)
    yield lambda: dict(plugins.extension2reader)
    plugins.extension2reader = before


def prefer(**preferred: str) -> None:
    get_settings().plugins.extension2reader = {f"*.{key}": reader for key, reader in preferred.items()}


def test_our_files_open_with_us_on_request_and_as_before_on_second_thoughts(
    readers: Callable[[], dict[str, str]], told: Told, tmp_path: Path
) -> None:
    prefer(zip="somebody", ozx="other", tif="napari")
    before = readers()
    path = write_zip(tmp_path / "a.zarr.zip", image_keys([ramp((3, 6, 5))], name="cell"))
    assert get_preferred_reader(path) == "somebody"
    prefer_reader()
    assert readers() == before | {"*.zarr.zip": "napari-decant", "*.ozx": "napari-decant"}
    assert get_preferred_reader(path) == "napari-decant"
    assert get_preferred_reader(tmp_path / "plain.zip") == "somebody"  # other zip files are none of ours
    model = ViewerModel()
    model.open(str(path), plugin=None)
    assert [layer.name for layer in model.layers] == ["cell"]
    prefer_reader()  # once is enough
    assert told()[-1].endswith("are opened with Decant already")
    forget_reader()
    assert readers() == before
    forget_reader()
    assert told()[-1] == "No preference for Decant is set"
    assert readers() == before


def test_the_notice_has_an_undo(readers: Callable[[], dict[str, str]], told: Told) -> None:
    prefer()
    prefer_reader()
    ((words, undo),) = notification_manager.records[-1].actions
    assert words == "Undo"
    undo(None)
    assert readers() == {}


def test_the_commands_stand_in_the_file_menu() -> None:
    manager = PluginManager.instance()
    manager.discover()
    menus = manager.get_manifest("napari-decant").contributions.menus
    commands = {item.command for item in menus["napari/file/io_utilities"]}
    assert {"napari-decant.prefer_reader", "napari-decant.forget_reader"} <= commands
    assert manager.commands.get("napari-decant.prefer_reader") is prefer_reader


def test_the_preferences_are_the_settings_of_the_window() -> None:
    archiving = get_plugin_settings("napari-decant").archiving
    defaults = asdict(Settings())
    shown = {name: field.default for name, field in type(archiving).model_fields.items()}
    assert shown == {name: value for name, value in defaults.items() if name in shown}


def test_saving_takes_the_memory_of_the_preferences() -> None:
    saving = get_plugin_settings("napari-decant").saving
    before = saving.memory
    try:
        assert saving_memory() == 2 << 30
        saving.memory = 0.5
        assert saving_memory() == 512 << 20
    finally:
        saving.memory = before
