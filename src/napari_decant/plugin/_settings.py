"""Settings as napari keeps them: what the user prefers, and which reader opens which file."""

from __future__ import annotations

from napari.settings import get_plugin_settings

__all__ = ["saving_memory"]


_PLUGIN = "napari-decant"


def saving_memory() -> int:
    """Bytes that saving layers may take."""
    return int(get_plugin_settings(_PLUGIN).saving.memory * 2**30)
