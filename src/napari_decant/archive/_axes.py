"""Give every plane its place: axes in the file's storage order and in canonical NGFF order.

Section 5 of the archive format: planes are numbered in storage order, the array is stored
in canonical order (time, channel or custom, space), and ``plane_order`` says how the one
becomes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

__all__ = ["Axes", "axes_of_letters", "axis_type", "canonical_permutation", "flat_axes"]

_RANK = {"time": 0, "space": 2}
_LETTERS = {"T": "t", "C": "c", "Z": "z"}
_MAX_LEADING = 3  # with y and x, an image of OME-Zarr 0.4 has at most 5 axes
_SPATIAL = frozenset("zyx")


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


def axes_of_letters(letters: str, shape: Sequence[int], *, samples: bool) -> Axes:
    """Axes from tifffile's letters of the leading axes, in storage order.

    Parameters
    ----------
    letters : str
        ``T``, ``C``, ``Z``, or others (``I`` image, ``P`` position, ``Q`` unknown, ...).
    shape : sequence of int
        Their extents.
    samples : bool
        Whether the pages have a trailing sample axis, which is the channel axis ``c`` then.
    """
    planes = prod(shape)
    kept = [(letter, extent) for letter, extent in zip(letters, shape, strict=True) if extent > 1]
    if not kept:
        return flat_axes(1) if planes == 1 else flat_axes(planes)
    if len(kept) == 1 and kept[0][0] not in _LETTERS:
        return flat_axes(planes)
    names = [_LETTERS.get(letter, letter.lower()) for letter, _ in kept]
    if samples:
        names = ["ch" if name == "c" else name for name in names]
    custom = sum(axis_type(name) not in ("time", "space") for name in names)
    ambiguous = len(set(names)) < len(names) or bool({"x", "y", "s"} & set(names))
    if len(names) + samples > _MAX_LEADING or custom > 1 or ambiguous:
        return flat_axes(planes, [(name, extent) for name, (_, extent) in zip(names, kept, strict=True)])
    return Axes(tuple(names), tuple(extent for _, extent in kept))
