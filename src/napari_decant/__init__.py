"""Archive TIFFs as OME-Zarr and get every byte back; view, crop and export OME-Zarr."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from napari_decant.archive import info, pack, restore, verify

# Public names and where they live: imported on first use, so that `import napari_decant` stays quick.
_HOMES = {
    "info": "archive",
    "pack": "archive",
    "restore": "archive",
    "verify": "archive",
}

__all__ = [
    "__version__",
    "info",
    "pack",
    "restore",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
