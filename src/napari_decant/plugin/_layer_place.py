"""Where a layer lies and what its axes are, in the words of OME-Zarr."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UnsupportedOperation
from napari_decant.images import Axis, in_micrometers, in_seconds, unit_name
from napari_decant.images._affine import affine_record, placed
from napari_decant.images._write_zarr_source import map_axes

__all__ = ["LayerPlace", "layer_place"]

_ROLES = "tczyx"
_UNNAMED = re.compile(r"(axis )?-?\d+|")
_TIMES, _CHANNELS = ("t", "time", "frame"), ("c", "ch", "channel")
_ROUNDING = 1e-12  # of the largest number of a matrix: what cosines leave behind


@dataclass(frozen=True)
class LayerPlace:
    """Where a layer lies.

    Attributes
    ----------
    axes : tuple of Axis
        One per axis of the layer, without colours.
    scale, translation : tuple of float
        ``position = scale * index + translation``; of a turned layer those that keep its centre in place.
    affine : dict or None
        What a turned layer gets under ``decant.affine``.
    notes : tuple of str
        What cannot be said.
    """

    axes: tuple[Axis, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    affine: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def channel_axes(self) -> tuple[int, ...]:
        """Axes that are neither time nor space."""
        return tuple(i for i, role in enumerate(map_axes(self.axes)) if role == 1)


def layer_place(state: Mapping[str, Any], shape: Sequence[int]) -> LayerPlace:
    """Read the place of a layer from its state.

    Parameters
    ----------
    state : mapping
        Of a layer data tuple; what is missing has napari's defaults.
    shape : sequence of int
        Without colours.

    Raises
    ------
    UnsupportedOperation
        The axes have no place in t, c, z, y, x, or the layer is turned where only space can be.
    """
    name = state.get("name", "layer")
    axes = _axes(state, len(shape))
    roles = map_axes(axes)
    others = [axes[i].name for i, role in enumerate(roles) if role == 1]
    if len(others) > 1:
        raise UnsupportedOperation(
            f"the layer {name!r} has the axes {', '.join(others)} beside time and space; OME-Zarr is written"
            " with one, the channel: divide the layer along the others before saving"
        )
    matrix = _matrix(state, len(shape))
    linear, offset = matrix[:-1, :-1], matrix[:-1, -1]
    linear[np.abs(linear) <= _ROUNDING * np.abs(linear).max()] = 0.0
    space = sorted((i for i, role in enumerate(roles) if role >= 2), key=lambda i: roles[i])
    mixed = linear - np.diag(np.diag(linear))
    mixed[np.ix_(space, space)] = 0.0
    if mixed.any() or any(linear[i, i] <= 0 for i in range(len(shape)) if i not in space):
        turned = sorted({axes[i].name for pair in np.argwhere(mixed) for i in pair} or {"t"})
        raise UnsupportedOperation(
            f"the layer {name!r} is turned, sheared or mirrored along {' and '.join(turned)}; OME-Zarr says a"
            " direction in space only: reset the layer's rotate, shear and affine, or crop it with Decant"
        )
    notes = []
    if list(roles) != sorted(roles):
        notes.append(f"the axes of {name} are written in the order t, c, z, y, x")
    for i, role in enumerate(roles):
        if axes[i].type == "custom" or (role == 2 and axes[i].name.lower() not in "zyx"):
            notes.append(f"the axis {axes[i].name} of {name} is written as {_ROLES[role]}")
        if role == 1 and (linear[i, i] != 1 or offset[i] != 0):
            notes.append(f"the scale of the axis {axes[i].name} of {name} is not kept: channels have none")
    scale, shift = np.diag(linear).copy(), offset.copy()
    box = np.ix_(space, space)
    place = placed(linear[box], offset[space], [shape[i] for i in space])
    scale[space], shift[space] = place.scale, place.translation
    record = None
    if place.affine is not None:
        record = affine_record(place.matrix, [_ROLES[roles[i]] for i in space])
        notes.append(f"{name} is turned, which only Decant reads back; other programs show it upright")
    return LayerPlace(axes, tuple(map(float, scale)), tuple(map(float, shift)), record, tuple(notes))


def _axes(state: Mapping[str, Any], count: int) -> tuple[Axis, ...]:
    """Axes by their labels; by their units and places where the labels say nothing."""
    labels = [str(label) for label in state.get("axis_labels") or ()]
    units = [str(unit) for unit in state.get("units") or ()]
    labels = [""] * (count - len(labels)) + labels[-count:]
    units = ["pixel"] * (count - len(units)) + units[-count:]
    known = {label.lower() for label in labels}
    axes = []
    for i, (label, unit) in enumerate(zip(labels, units, strict=True)):
        behind, name, unit_or_none = count - i, label.lower(), unit_name(unit)
        # Of four axes the first is time, as napari shows channels as layers.
        usual = ("xyzt" if count == 4 else "xyzct")[behind - 1 : behind]
        if _UNNAMED.fullmatch(name):
            name = label = usual if usual and usual not in known else f"axis{i}"
        if name in _TIMES:
            kind = "time"
        elif name in _CHANNELS:
            kind = "channel"
        elif name in ("z", "y", "x"):
            kind = "space"
        elif unit_or_none is not None and in_seconds(1.0, unit_or_none) is not None:
            kind = "time"
        elif behind <= 3 or in_micrometers(1.0, unit_or_none or "") is not None:
            kind = "space"  # as napari shows it
        else:
            kind = "custom"
        axes.append(Axis(label, kind, unit_or_none))
    return tuple(axes)


def _matrix(state: Mapping[str, Any], count: int) -> NDArray[np.float64]:
    """From an index to a place in the world, shape (n + 1, n + 1), as napari puts it together."""
    from napari.utils.transforms import Affine

    own = Affine(
        scale=_numbers(state, "scale", 1.0, count),
        translate=_numbers(state, "translate", 0.0, count),
        rotate=state.get("rotate"),
        shear=state.get("shear"),
        ndim=count,
    )
    world = Affine(affine_matrix=state.get("affine", np.eye(count + 1)), ndim=count)
    matrix: NDArray[np.float64] = np.array(world.affine_matrix @ own.affine_matrix, np.float64)
    return matrix


def _numbers(state: Mapping[str, Any], key: str, default: float, count: int) -> list[float]:
    given = state.get(key)
    values = [] if given is None else [float(value) for value in given]
    return [default] * (count - len(values)) + values[-count:]
