"""What napari calls, and what the command line calls to show things in napari."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from napari_decant.plugin._demo import run_demo
from napari_decant.plugin._reader import get_reader, sample_data
from napari_decant.plugin._view import view

if TYPE_CHECKING:
    from napari_decant.plugin._chooser import ImageChooser
    from napari_decant.plugin._settings import forget_reader, prefer_reader
    from napari_decant.plugin._widgets import (
        CheckWidget,
        ExportWidget,
        InspectWidget,
        PackWidget,
        RestoreWidget,
        VerifyWidget,
    )
    from napari_decant.plugin._writer import write_layers
    from napari_decant.plugin.crop import CropWidget

__all__ = [
    "CheckWidget",
    "CropWidget",
    "ExportWidget",
    "ImageChooser",
    "InspectWidget",
    "PackWidget",
    "RestoreWidget",
    "VerifyWidget",
    "forget_reader",
    "get_reader",
    "prefer_reader",
    "run_demo",
    "sample_data",
    "view",
    "write_layers",
]

# Imported when they are wanted: reading an image needs no window of ours.
_HOMES = {
    "CheckWidget": "_widgets",
    "CropWidget": "crop",
    "ExportWidget": "_widgets",
    "ImageChooser": "_chooser",
    "InspectWidget": "_widgets",
    "PackWidget": "_widgets",
    "RestoreWidget": "_widgets",
    "VerifyWidget": "_widgets",
    "forget_reader": "_settings",
    "prefer_reader": "_settings",
    "write_layers": "_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
