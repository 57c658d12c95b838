"""Settings as napari keeps them: what the user prefers, and which reader opens which file."""

from __future__ import annotations

from napari.settings import get_plugin_settings, get_settings
from napari.utils.notifications import Notification, notification_manager

__all__ = ["PATTERNS", "forget_reader", "prefer_reader", "saving_memory"]

_PLUGIN = "napari-decant"
PATTERNS = ("*.zarr.zip", "*.ozx")
"""Files that nobody else reads in full: folders and plain ``.zip`` files are left to the user's choice."""

_before: dict[str, str] = {}  # what our preference replaced, for undoing it


def saving_memory() -> int:
    """Bytes that saving layers may take."""
    return int(get_plugin_settings(_PLUGIN).saving.memory * 2**30)


def prefer_reader() -> None:
    """Let napari open ``.zarr.zip`` and ``.ozx`` with Decant without asking; a notice offers to undo it.

    What napari's own dialog remembers for such a file would hold for every ``.zip``.
    """
    plugins = get_settings().plugins
    readers = dict(plugins.extension2reader)
    if all(readers.get(pattern) == _PLUGIN for pattern in PATTERNS):
        _say("Files ending with .zarr.zip and .ozx are opened with Decant already")
        return
    _before.clear()
    _before.update({p: readers[p] for p in PATTERNS if readers.get(p, _PLUGIN) != _PLUGIN})
    others = {pattern: reader for pattern, reader in readers.items() if pattern not in PATTERNS}
    # Napari takes the first of patterns with as many wildcards, and "*.zip" may be there.
    plugins.extension2reader = dict.fromkeys(PATTERNS, _PLUGIN) | others
    _say("Files ending with .zarr.zip and .ozx are opened with Decant from now on", undo=True)


def forget_reader() -> None:
    """Undo `prefer_reader`: what was preferred before is again, and otherwise napari asks."""
    plugins = get_settings().plugins
    readers = dict(plugins.extension2reader)
    ours = [pattern for pattern in PATTERNS if readers.get(pattern) == _PLUGIN]
    if not ours:
        _say("No preference for Decant is set")
        return
    for pattern in ours:
        del readers[pattern]
        if pattern in _before:
            readers[pattern] = _before.pop(pattern)
    plugins.extension2reader = readers
    _say("Which reader opens .zarr.zip and .ozx is as it was before")


def _say(text: str, *, undo: bool = False) -> None:
    def act(notice: object = None) -> None:  # napari passes its notice
        forget_reader()

    actions = [("Undo", act)] if undo else []
    notification_manager.dispatch(Notification(text, "info", actions=actions))
