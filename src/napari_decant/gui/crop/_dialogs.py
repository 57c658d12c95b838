"""Where a crop or a query goes to, and where a query comes from: the questions about files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from qtpy.QtWidgets import QFileDialog, QMessageBox, QWidget

from napari_decant.gui.crop._make import plain_name, target_suffix

__all__ = ["ask_query", "ask_query_target", "ask_target"]

_KINDS: Final = {
    "OME-Zarr folder (*.zarr)": ".zarr",
    "OME-Zarr file (*.ozx)": ".ozx",
    "OME-TIFF (*.ome.tif)": ".ome.tif",
}
_OFFERED: Final = ".zarr"
_QUERIES: Final = "Query (*.json)"


def ask_target(parent: QWidget, place: str, name: str) -> tuple[Path, bool] | None:
    """Ask for the file to write, and whether to replace what is there; None if there is to be none.

    Parameters
    ----------
    parent : QWidget
    place : str
        The folder to start in; empty for the current one.
    name : str
        Of what is cut.
    """
    offered = os.path.join(place, f"{plain_name(name)} crop{_OFFERED}")
    path, kind = QFileDialog.getSaveFileName(parent, "Save the crop", offered, ";;".join(_KINDS))
    if not path:
        return None
    target, suffix = Path(path), _KINDS.get(kind, _OFFERED)
    if target_suffix(target).lower() == _OFFERED != suffix:  # another kind was chosen for the offered name
        target = target.with_suffix("")
    if not target_suffix(target):
        target = target.with_name(target.name + suffix)
    exists = target.exists()
    if exists:
        asked = QMessageBox.question(parent, "Replace?", f"{target.name} exists. Replace it?")
        if asked != QMessageBox.StandardButton.Yes:
            return None
    return target, exists


def ask_query_target(parent: QWidget, place: str) -> Path | None:
    """Ask where to save a query; the dialog asks about replacing."""
    offered = os.path.join(place, "crop.json")
    path, _ = QFileDialog.getSaveFileName(parent, "Save the query", offered, _QUERIES)
    if not path:
        return None
    return Path(path if path.lower().endswith(".json") else f"{path}.json")


def ask_query(parent: QWidget, place: str) -> Path | None:
    """Ask for a query to load."""
    path, _ = QFileDialog.getOpenFileName(parent, "Load a query", place, _QUERIES)
    return Path(path) if path else None
