"""What napari calls to save layers: OME-Zarr 0.5, as a folder or as one file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari_decant.errors import StorageError, TargetExists, UsageError
from napari_decant.images import WriteReport, plan_ome_zarr, write_ome_zarr
from napari_decant.images._write_zarr_stage import Stage
from napari_decant.plugin._jobs import run_alive
from napari_decant.plugin._layer_images import ImagesOfLayers, images_of_layers
from napari_decant.plugin._layers import LayerData
from napari_decant.plugin._opened import opened_behind
from napari_decant.plugin._settings import saving_memory
from napari_decant.progress import CancelToken, ProgressCallback

__all__ = ["write_layers"]

_SUFFIXES = (".zarr", ".ozx")
_SIGNS = ("zarr.json", ".zgroup", ".zattrs", ".zarray")
_SHOWN_NOTES = 3


def write_layers(path: str, layers: Sequence[LayerData]) -> list[str]:
    """Save image and labels layers as OME-Zarr 0.5 with levels; napari calls it to save.

    Image layers of one shape, type and place become the channels of one image, with their names, colours and
    contrast limits; others become images of their own. Labels become labels of the image that they lie on.
    Layers that are not in memory are read chunk by chunk. In a window, the window goes on while this waits.

    Parameters
    ----------
    path : str
        ``.zarr`` for a folder, ``.ozx`` for one file (RFC-9); anything else gets ``.zarr`` behind it.
    layers : sequence of LayerData
        Data, state and type of each layer.

    Returns
    -------
    list of str
        The path that was written.

    Raises
    ------
    UnsupportedOperation
        Something about a layer cannot be said in OME-Zarr.
    UsageError
        A layer is read from the file that would be replaced.
    TargetExists
        The folder exists and is not to be replaced.
    BudgetExceeded
        The memory allowed in the preferences does not suffice.
    StorageError
        Reading or writing failed; nothing is left of what was written.
    Cancelled
        The user clicked Cancel; nothing is left.
    """
    from napari import current_viewer

    viewer = current_viewer()
    target = _target(path)
    _refuse_source(target, layers, viewer)
    _ask_before_replacing(target, viewer)
    with images_of_layers(layers, _stem(target)) as found:
        plan = plan_ome_zarr(target, found.images, groups=found.groups, memory=saving_memory())

        def write(progress: ProgressCallback, cancel: CancelToken) -> WriteReport:
            # The user was asked, and what an interrupted run left is of layers that are gone.
            return write_ome_zarr(plan, overwrite=True, progress=progress, cancel=cancel)

        try:
            report = run_alive(write, f"Saving {target.name}")
        except StorageError as error:
            Stage(target).discard()
            raise type(error)(f"{error.__cause__ or error}; nothing was left behind") from error
    _tell(target, report, found, viewer)
    return [str(report.target)]


def _target(path: str) -> Path:
    """The file to write; napari's dialog gives names without an ending, too."""
    if "://" in path:
        raise UsageError(f"{path} is an address; layers are saved on a disk: choose a folder there")
    whole = Path(os.path.abspath(path))
    return whole if whole.suffix.lower() in _SUFFIXES else whole.with_name(f"{whole.name}.zarr")


def _stem(target: Path) -> str:
    return target.stem.removesuffix(".ome") or target.stem


def _refuse_source(target: Path, layers: Sequence[LayerData], viewer: Any) -> None:
    """Layers go on reading from their file, so it must stay what it is."""
    shown = [(layer.data, layer.name) for layer in viewer.layers] if viewer is not None else []
    for data, name in [*((data, state.get("name")) for data, state, *_ in layers), *shown]:
        found = opened_behind(data)
        if found is not None and "://" not in found[0].location and _same(Path(found[0].location), target):
            raise UsageError(
                f"the layer {name!r} is read from {target}; save under another name, or remove the layer"
                " first"
            )


def _same(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _ask_before_replacing(target: Path, viewer: Any) -> None:
    """Files are replaced as every program does whose dialog has asked; a whole folder only after a question.

    Raises
    ------
    TargetExists
        The folder is to stay, or is none that may be replaced.
    """
    if not os.path.lexists(target) or (target.is_file() and target.suffix.lower() == ".ozx"):
        return
    stays = TargetExists(f"{target} exists already; remove it or choose another name")
    if viewer is None or not target.is_dir() or not any((target / sign).is_file() for sign in _SIGNS):
        raise stays
    from qtpy.QtWidgets import QApplication, QMessageBox

    button = QMessageBox.StandardButton
    answer = QMessageBox.question(
        QApplication.activeWindow(),
        "Replace the folder?",
        f"{target.name} exists already. It is replaced once the new one is whole.",
        button.Yes | button.Cancel,
        button.Cancel,
    )
    if answer != button.Yes:
        raise stays


def _tell(target: Path, report: WriteReport, found: ImagesOfLayers, viewer: Any) -> None:
    from napari.utils.notifications import show_info, show_warning

    from napari_decant.gui._words import count, size_text

    if found.notes:
        more = len(found.notes) - _SHOWN_NOTES
        rest = f"; and {more} more" if more > 0 else ""
        show_warning(f"{target.name}: {'; '.join(found.notes[:_SHOWN_NOTES])}{rest}")
    if viewer is not None:
        parts = [count(found.channels, "channel")] if found.channels else []
        parts += [count(found.labels, "labels layer")] if found.labels else []
        what = " and ".join(parts)
        show_info(f"{target.name} is saved: {what}, {size_text(report.size)}. Every chunk was read back.")
