"""Where a crop or a query goes to, and where a query comes from: the questions about files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from qtpy.QtWidgets import QFileDialog, QMessageBox, QWidget

from napari_decant.gui.crop._make import target_suffix

__all__ = ["ask_query", "ask_query_target", "ask_target"]

_KINDS: Final = {
    "OME-Zarr folder (*.zarr)": ".zarr",
    "OME-Zarr file (*.ozx)": ".ozx",
    "OME-TIFF (*.ome.tif)": ".ome.tif",
}
_QUERIES: Final = "Query (*.json)"


def ask_target(parent: QWidget, name: str) -> tuple[Path, bool] | None:
    """Ask for the file to write, and whether to replace what is there; None if there is to be none."""
    path, kind = QFileDialog.getSaveFileName(parent, "Save the crop", f"{name} crop.zarr", ";;".join(_KINDS))
    if not path:
        return None
    target = Path(path)
    if not target_suffix(target):
        target = target.with_name(target.name + _KINDS.get(kind, ".zarr"))
    exists = target.exists()
    if exists:
        asked = QMessageBox.question(parent, "Replace?", f"{target.name} exists. Replace it?")
        if asked != QMessageBox.StandardButton.Yes:
            return None
    return target, exists


def ask_query_target(parent: QWidget) -> Path | None:
    """Ask where to save a query; the dialog asks about replacing."""
    path, _ = QFileDialog.getSaveFileName(parent, "Save the query", "crop.json", _QUERIES)
    if not path:
        return None
    return Path(path if path.lower().endswith(".json") else f"{path}.json")


def ask_query(parent: QWidget) -> Path | None:
    """Ask for a query to load."""
    path, _ = QFileDialog.getOpenFileName(parent, "Load a query", "", _QUERIES)
    return Path(path) if path else None
