"""An image in any array as it is given to be written, and where its axes place it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from napari_decant.errors import UsageError
from napari_decant.images._write_zarr_source import map_axes
from napari_decant.ngff import Axis, Channel, LabelInfo

__all__ = ["AXIS_TYPES", "ImageToWrite", "parse_axes", "place_axes"]

AXIS_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


@dataclass(frozen=True, eq=False)
class ImageToWrite:
    """An image in any array, and what is known of it.

    Parameters
    ----------
    array : array-like
        numpy, `LazyArray`, zarr, dask: anything with ``shape``, ``dtype`` and basic indexing, read from
        several threads.
    axes : str or sequence of Axis
        One per dimension; ``"zyx"`` for the usual names and types.
    scale, translation : sequence of float, optional
        One per dimension, in the units of the axes.
    name : str
    channels : sequence of Channel
        As far as they are known.
    rgb : bool
        The channels are the samples of a colour picture.
    label : LabelInfo, optional
        Set for labels: levels are made by the maximum.
    labels : mapping of str to ImageToWrite
        Label images that belong to it, written as ``labels/NAME``.
    dtype : dtype, optional
        Stored type; that of the array if not given.
    convert : callable, optional
        Applied to each block that is read, before it is stored as ``dtype``; from several threads.
    attributes : mapping
        More attributes of the group, beside ``ome``.
    default_t, default_z : int, optional
        Where a viewer starts.
    identity : str, optional
        Names the source and its state, so that an interrupted run can be taken up. Without it, it cannot.
    levels : int, optional
        How many; by default three, or more until no spatial axis is longer than 256.
    """

    array: Any
    axes: str | Sequence[Axis]
    scale: Sequence[float] | None = None
    translation: Sequence[float] | None = None
    name: str = "image"
    channels: Sequence[Channel] = ()
    rgb: bool = False
    label: LabelInfo | None = None
    labels: Mapping[str, ImageToWrite] = field(default_factory=dict)
    dtype: Any = None
    convert: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    default_t: int | None = None
    default_z: int | None = None
    identity: str | None = None
    levels: int | None = None


def parse_axes(axes: str | Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes by name, with the types that their names have."""
    if not isinstance(axes, str):
        return tuple(axes)
    return tuple(Axis(name, AXIS_TYPES.get(name.lower(), "custom")) for name in axes)


def place_axes(
    image: ImageToWrite, axes: Sequence[Axis]
) -> tuple[list[float], list[float], list[str | None]]:
    """Scale, translation and unit along t, c, z, y, x."""
    scale, translation = [1.0] * 5, [0.0] * 5
    units: list[str | None] = [None] * 5
    given = image.scale or [1.0] * len(axes)
    moved = image.translation or [0.0] * len(axes)
    if len(given) != len(axes) or len(moved) != len(axes):
        raise UsageError(
            f"scale and translation of {image.name!r} need {len(axes)} numbers, one for each axis"
        )
    if not all(math.isfinite(v) for v in (*given, *moved)) or any(v <= 0 for v in given):
        raise UsageError(f"scale and translation of {image.name!r} must be finite, and scales more than 0")
    for axis, role, s, t in zip(axes, map_axes(axes), given, moved, strict=True):
        if role == 1:
            continue
        scale[role], translation[role], units[role] = float(s), float(t), axis.unit
    return scale, translation, units
