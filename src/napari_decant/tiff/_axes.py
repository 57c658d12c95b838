"""Give every plane its place: axes in the file's storage order and in canonical NGFF order.

Section 5 of the archive format: planes are numbered in storage order, the array is stored
in canonical order (time, channel or custom, space), and ``plane_order`` says how the one
becomes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from napari_decant.tiff._places import UNKNOWN, Places

__all__ = ["Arrangement", "Axes", "arrange", "axis_type", "canonical_permutation", "flat_axes"]

_RANK = {"time": 0, "space": 2}
_MAX_LEADING = 3  # with y and x, an image of OME-Zarr 0.4 has at most 5 axes
_SPATIAL = frozenset("zyx")
_TAKEN = frozenset("xy")
_MAX_GRID = 1 << 22  # larger grids are not searched for the places that are empty
_MAX_ABSENT = 1000
_NAMED_ABSENT = 6


def axis_type(name: str) -> str | None:
    """NGFF axis type of one of our axis names; None for a custom one."""
    if name == "t":
        return "time"
    if name in _SPATIAL:
        return "space"
    return "channel" if name in ("c", "ch") else None


def canonical_permutation(plane_order: Sequence[str]) -> list[int]:
    """``perm`` of section 5: canonical axis ``j`` is storage axis ``perm[j]``."""
    return sorted(range(len(plane_order)), key=lambda i: _RANK.get(axis_type(plane_order[i]) or "", 1))


@dataclass(frozen=True, slots=True)
class Axes:
    """Leading axes of the pixel array.

    Attributes
    ----------
    plane_order : tuple of str
        Names in storage order, at least one.
    storage_shape : tuple of int
        Extents in that order.
    true_axes : tuple of (str, int), optional
        What the axes really are, where they had to be flattened into one.
    """

    plane_order: tuple[str, ...]
    storage_shape: tuple[int, ...]
    true_axes: tuple[tuple[str, int], ...] = ()

    @property
    def canonical_order(self) -> tuple[str, ...]:
        """Names in the order of the array."""
        return tuple(self.plane_order[i] for i in canonical_permutation(self.plane_order))

    @property
    def canonical_shape(self) -> tuple[int, ...]:
        """Extents in the order of the array."""
        return tuple(self.storage_shape[i] for i in canonical_permutation(self.plane_order))

    @property
    def planes(self) -> int:
        """Number of planes."""
        return prod(self.storage_shape)


def flat_axes(planes: int, true_axes: Sequence[tuple[str, int]] = ()) -> Axes:
    """One z axis: what remains when nothing more is known."""
    return Axes(("z",), (planes,), tuple(true_axes))


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """What became of the places.

    Attributes
    ----------
    axes : Axes
    order : sequence of int
        For each storage position, which plane lies there.
    origin : dict of str to int
        True index of the first plane along an axis that does not start at 0.
    absent : list of dict
        Places that are declared and empty (the first thousand).
    notes : tuple of str
        What the user should know.
    """

    axes: Axes
    order: Sequence[int]
    origin: dict[str, int] = field(default_factory=dict)
    absent: Sequence[dict[str, int]] = ()
    notes: tuple[str, ...] = ()


def arrange(places: Places | None, planes: int, *, samples: bool) -> Arrangement:
    """Make axes of places.

    Planes that fill a grid without gaps get its axes, whatever order they have in the file.
    Anything else keeps file order along one z axis: a missing plane never gets a place that a
    viewer would show as data.

    Parameters
    ----------
    places : Places or None
        None if nothing is known.
    planes : int
        Number of planes.
    samples : bool
        Whether pixels have a trailing sample axis, which is the channel axis ``c`` then.
    """
    plain = Arrangement(flat_axes(planes), range(planes))
    if places is None:
        return plain
    if places.known is not None and not places.known.all():
        lost = planes - int(places.known.sum())
        note = f"{lost} of {planes} planes have no place in the metadata of {places.holder}"
        return Arrangement(plain.axes, plain.order, notes=(note,))
    lows = [int(low) for low in places.index.min(axis=0)]
    spans = [int(high) - low + 1 for high, low in zip(places.index.max(axis=0), lows, strict=True)]
    declared = prod(places.extents) if places.declared is None else places.declared
    linear = _linear(places.index - lows, spans)
    distinct = 0 if linear is None else len(np.unique(linear))
    full = distinct == planes == prod(spans)
    absent = _absent(places, lows, spans, declared, full) if distinct == planes else []
    notes = _absence_notes(absent, planes, declared, places.holder)
    if full:
        return _arrange_grid(places, lows, spans, samples, absent, notes)
    if distinct < planes:
        notes = (*notes, f"several planes have the same place in the metadata of {places.holder}")
    elif not notes:
        notes = (f"its planes fill {planes} of {prod(spans)} places, so they are kept in file order",)
    true_axes = zip(places.names, _at_least(places, lows, spans), strict=True)
    axes = flat_axes(planes, [(name, extent) for name, extent in true_axes if extent > 1])
    return Arrangement(axes, plain.order, absent=absent, notes=notes)


def _arrange_grid(
    places: Places,
    lows: Sequence[int],
    spans: Sequence[int],
    samples: bool,
    absent: Sequence[dict[str, int]],
    notes: tuple[str, ...],
) -> Arrangement:
    kept = [axis for axis, span in enumerate(spans) if span > 1]
    # The slower an axis is in the file, the rarer it changes from plane to plane.
    changes = np.count_nonzero(np.diff(places.index, axis=0), axis=0)
    kept.sort(key=lambda axis: int(changes[axis]))
    names = [places.names[axis] for axis in kept]
    shape = tuple(spans[axis] for axis in kept)
    planes = len(places.index)
    linear = _linear((places.index - lows)[:, kept], shape)
    order: Sequence[int] = range(planes)
    if linear is not None and not np.array_equal(linear, np.arange(planes)):
        order = [int(i) for i in np.argsort(linear, kind="stable")]
    origin = {places.names[axis]: low for axis, low in enumerate(lows) if low}
    true_axes = list(zip(names, shape, strict=True))
    if samples:
        names = ["ch" if name == "c" else name for name in names]
    if len(names) == 1 and names[0] == UNKNOWN:
        names = ["z"]
    custom = sum(axis_type(name) not in ("time", "space") for name in names)
    ambiguous = len(set(names)) < len(names) or bool(_TAKEN & set(names))
    if not names:
        axes = flat_axes(planes)
    elif len(names) + samples > _MAX_LEADING or custom > 1 or ambiguous:
        axes = flat_axes(planes, true_axes)
    else:
        axes = Axes(tuple(names), shape)
    return Arrangement(axes, order, origin, absent, notes)


def _at_least(places: Places, lows: Sequence[int], spans: Sequence[int]) -> list[int]:
    """Declared extents, or more where planes lie beyond them."""
    if places.declared == 0:
        return list(spans)
    return [
        max(extent, low + span, span) for extent, low, span in zip(places.extents, lows, spans, strict=True)
    ]


def _linear(index: np.ndarray, shape: Sequence[int]) -> np.ndarray | None:
    """Number of each place in C order; None for a grid too large to number."""
    if prod(shape) >= 1 << 62:
        return None
    linear = np.zeros(len(index), np.int64)
    for axis, extent in enumerate(shape):
        linear = linear * extent + index[:, axis]
    return linear


def _absent(
    places: Places, lows: Sequence[int], spans: Sequence[int], declared: int, full: bool
) -> list[dict[str, int]]:
    """Empty places of the declared grid, or of the box around the planes where only that is known."""
    extents = _at_least(places, lows, spans)
    whole = places.declared is None or declared == prod(places.extents)
    if whole and min(lows, default=0) >= 0:
        start, shape = [0] * len(extents), extents
    elif full:
        return []
    else:
        start, shape = list(lows), list(spans)
    if prod(shape) > _MAX_GRID:
        return []
    linear = _linear(places.index - start, shape)
    empty = np.ones(prod(shape), bool)
    empty[linear] = False
    named = [axis for axis, extent in enumerate(shape) if extent > 1]
    found = np.stack(np.unravel_index(np.flatnonzero(empty)[:_MAX_ABSENT], shape), axis=1)
    return [{places.names[axis]: int(row[axis]) + start[axis] for axis in named} for row in found]


def _absence_notes(
    absent: Sequence[dict[str, int]], planes: int, declared: int, holder: str
) -> tuple[str, ...]:
    missing = declared - planes
    if missing <= 0:
        return ()
    named = [" ".join(f"{axis}={i}" for axis, i in place.items()) for place in absent[:_NAMED_ABSENT]]
    tail = ", ..." if missing > len(named) else ""
    where = f": {', '.join(named)}{tail}" if named else ""
    return (f"{missing} of {declared} declared frames absent from {holder}{where}",)
