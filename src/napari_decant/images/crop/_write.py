"""Crops as files: OME-Zarr 0.5 or OME-TIFF, with a pyramid, written piece by piece."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from napari_decant import __version__
from napari_decant.errors import UsageError
from napari_decant.images._affine import Placement, affine_record
from napari_decant.images._write_image import ImageToWrite
from napari_decant.images._write_ometiff import write_ome_tiff
from napari_decant.images._write_zarr import write_ome_zarr
from napari_decant.images._write_zarr_source import map_axes
from napari_decant.images.crop._array import CropArray
from napari_decant.images.crop._saved import SavedQuery
from napari_decant.images.crop._slabs import Slabs
from napari_decant.ngff import Axis, Channel, LabelInfo
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores import local_path

__all__ = ["TARGET_SUFFIXES", "Written", "check_target", "refuse_source", "write_crop"]

TARGET_SUFFIXES: Final = (".zarr", ".ozx", ".tif", ".tiff")
_TIFF_MEMORY: Final = 1 << 30
_NAMES: Final = "tczyx"


@dataclass(frozen=True, slots=True)
class Written:
    """How a crop is described in a file.

    Attributes
    ----------
    name : str
    axes : tuple of Axis
        One per axis of the crop.
    placement : Placement
    channels : sequence of Channel
    rgb : bool
    label : LabelInfo or None
    query : SavedQuery or None
        What was cut, kept in the attributes.
    source : str
        Name of the image that it was cut from.
    attributes : dict
        More of what is recorded under ``decant``.
    identity : str or None
        Names the crop and the state of its source; an interrupted run can be taken up then, see
        `ImageToWrite`.
    """

    name: str
    axes: tuple[Axis, ...]
    placement: Placement
    channels: Sequence[Channel] = ()
    rgb: bool = False
    label: LabelInfo | None = None
    query: SavedQuery | None = None
    source: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    identity: str | None = None


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file to write, or say which names are understood.

    Raises
    ------
    UsageError
        The name ends with something else.
    """
    target = Path(os.path.abspath(path))
    if target.suffix.lower() not in TARGET_SUFFIXES:
        raise UsageError(
            f"the name {target.name!r} does not say what to write; end it with .zarr (a folder), .ozx"
            " (one file) or .ome.tif"
        )
    return target


def refuse_source(target: Path, location: str) -> None:
    """Refuse to write a crop over, into or around the image that it is cut from.

    Parameters
    ----------
    target : Path
    location : str
        Of the image.

    Raises
    ------
    UsageError
    """
    path = local_path(location)
    if path is None:
        return
    real, mine = Path(os.path.realpath(path)), Path(os.path.realpath(target))
    if mine == real or mine in real.parents or (real in mine.parents and real.is_dir()):
        raise UsageError(f"{target} is the image that is cut, or within it; choose another name")


def write_crop(
    target: str | os.PathLike[str],
    array: CropArray,
    written: Written,
    *,
    memory: int | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    verify: bool = True,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> int:
    """Write a crop of any size; the target appears as a whole or not at all.

    Parameters
    ----------
    target : str or path
        ``.zarr``, ``.ozx``, or ``.tif`` and ``.tiff`` for OME-TIFF.
    array : CropArray
    written : Written
    memory, workers, overwrite, verify, cancel
        See `napari_decant.images.write_ome_zarr` and `write_ome_tiff`.
    progress : callable, optional

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    UsageError, UnsupportedOperation, TargetExists, BudgetExceeded, StorageError, Cancelled
        See `napari_decant.images.write_ome_zarr` and `write_ome_tiff`.
    """
    path = check_target(target)
    refuse_source(path, array.source.uri)

    def tell(event: Progress) -> None:
        progress(Progress("crop", event.done, event.total, event.item, event.unit))

    image = ImageToWrite(
        array,
        written.axes,
        scale=written.placement.scale,
        translation=written.placement.translation,
        name=written.name,
        channels=written.channels,
        rgb=written.rgb,
        label=written.label,
        attributes={"decant": _attributes(written)},
        identity=written.identity,
    )
    if path.suffix.lower() in (".tif", ".tiff"):
        total = memory or _TIFF_MEMORY
        depth = next((i for i, role in enumerate(map_axes(written.axes)) if role == 2), None)
        image = replace(image, array=Slabs(array, depth, min(total // 3, 256 << 20)))
        return write_ome_tiff(
            path,
            image,
            memory=total - total // 3,
            workers=workers,
            overwrite=overwrite,
            verify=verify,
            progress=tell,
            cancel=cancel,
        ).size
    return write_ome_zarr(
        path,
        image,
        memory=memory,
        workers=workers,
        overwrite=overwrite,
        verify=verify,
        progress=tell,
        cancel=cancel,
    ).size


def _attributes(written: Written) -> dict[str, Any]:
    """What is recorded under ``decant``."""
    roles = map_axes(written.axes)
    spatial = sorted((role, i) for i, role in enumerate(roles) if role >= 2)
    rows = [i for _, i in spatial]
    matrix = written.placement.matrix[np.ix_(rows, [*rows, len(written.axes)])]
    cut: dict[str, Any] = {"source": written.source}
    if written.query is not None:
        cut["query"] = written.query.to_json()
    return {
        "software": f"napari-decant {__version__}",
        "affine": affine_record(matrix, [_NAMES[role] for role, _ in spatial]),
        "crop": cut,
    } | written.attributes
