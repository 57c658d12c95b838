"""The crop tool's widget, its state, and its geometry. Nothing here imports napari."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_decant.gui.crop._drag import Drag
    from napari_decant.gui.crop._handles import Handle, View, edges, handles, nearest_handle, outline
    from napari_decant.gui.crop._host import Host, Made
    from napari_decant.gui.crop._panel import CropPanel
    from napari_decant.gui.crop._preview import PREVIEW_PIXELS, preview_of
    from napari_decant.gui.crop._resolve import resolve
    from napari_decant.gui.crop._state import Cut, Intent, LayerFacts, Problem, Snapshot, changed

# Imported on first use: the state is tested, and may be used, where there is no Qt.
_HOMES = {
    "CropPanel": "_panel",
    "Host": "_host",
    "Made": "_host",
    "Cut": "_state",
    "Drag": "_drag",
    "Handle": "_handles",
    "Intent": "_state",
    "LayerFacts": "_state",
    "PREVIEW_PIXELS": "_preview",
    "Problem": "_state",
    "Snapshot": "_state",
    "View": "_handles",
    "changed": "_state",
    "edges": "_handles",
    "handles": "_handles",
    "nearest_handle": "_handles",
    "outline": "_handles",
    "preview_of": "_preview",
    "resolve": "_resolve",
}

__all__ = [
    "PREVIEW_PIXELS",
    "CropPanel",
    "Cut",
    "Drag",
    "Handle",
    "Host",
    "Intent",
    "LayerFacts",
    "Made",
    "Problem",
    "Snapshot",
    "View",
    "changed",
    "edges",
    "handles",
    "nearest_handle",
    "outline",
    "preview_of",
    "resolve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
