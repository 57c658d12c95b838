"""Unfinished files of a program that was killed: find them, and remove them when asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from napari_decant.gui.jobs._worker import Context
from napari_decant.stores import _partial
from napari_decant.stores._partial import Leftover

__all__ = ["find_leftovers", "remove_leftovers"]


def find_leftovers(context: Context, folders: Sequence[Path]) -> list[Leftover]:
    """Unfinished files of this program in folders whose writer is gone."""
    found: list[Leftover] = []
    for folder in folders:
        context.cancel.check()
        found += _partial.find_leftovers(folder)
    return found


def remove_leftovers(context: Context, files: Sequence[Leftover]) -> list[tuple[Path, str]]:
    """Remove them; returns those that had to stay, with the reason."""
    return _partial.remove_leftovers(files)
