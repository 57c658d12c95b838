"""The window: Qt widgets for archiving that napari can dock too. Nothing here imports napari."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_decant.gui._app import make_window, run
    from napari_decant.gui._check import CheckPanel
    from napari_decant.gui._desk import Desk
    from napari_decant.gui._export import ExportPanel
    from napari_decant.gui._inspect import InspectPanel
    from napari_decant.gui._pack import PackPanel
    from napari_decant.gui._restore import RestorePanel
    from napari_decant.gui._settings import MemoryStore, Settings, SettingsStore, open_settings
    from napari_decant.gui._theme import DARK, LIGHT, Look, Theme
    from napari_decant.gui._verify import VerifyPanel
    from napari_decant.gui._window import Window

# Imported on first use: worker processes need the jobs below this package, and no Qt.
_HOMES = {
    "CheckPanel": "_check",
    "DARK": "_theme",
    "Desk": "_desk",
    "ExportPanel": "_export",
    "InspectPanel": "_inspect",
    "LIGHT": "_theme",
    "Look": "_theme",
    "MemoryStore": "_settings",
    "PackPanel": "_pack",
    "RestorePanel": "_restore",
    "Settings": "_settings",
    "SettingsStore": "_settings",
    "Theme": "_theme",
    "VerifyPanel": "_verify",
    "Window": "_window",
    "make_window": "_app",
    "open_settings": "_settings",
    "run": "_app",
}

__all__ = [
    "DARK",
    "LIGHT",
    "CheckPanel",
    "Desk",
    "ExportPanel",
    "InspectPanel",
    "Look",
    "MemoryStore",
    "PackPanel",
    "RestorePanel",
    "Settings",
    "SettingsStore",
    "Theme",
    "VerifyPanel",
    "Window",
    "make_window",
    "open_settings",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
