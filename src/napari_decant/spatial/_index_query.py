"""Queries by index: slices and lists along every axis of one level, copied as they are."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from napari_decant.errors import UsageError
from napari_decant.spatial._image import ImageLike
from napari_decant.spatial._resolution import AxisIndices, IndexResolution

__all__ = ["IndexQuery"]


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """Elements of one level by their indices; works on every array that opens.

    Parameters
    ----------
    selection : sequence
        One selector per axis: a slice (negative bounds and steps count as in numpy), a list of integers
        in any order with repeats, or an integer, which keeps its axis with extent 1. Axes left
        out at the end are taken whole.
    level : int
        Index of the level; 0 is the finest.

    Raises
    ------
    UsageError
        A selector is none of these.
    """

    selection: tuple[slice | tuple[int, ...], ...]
    level: int = 0

    def __init__(self, selection: Sequence[Any], level: int = 0) -> None:
        if isinstance(selection, slice | int | str):
            raise UsageError("an IndexQuery needs a sequence with one selector per axis")
        object.__setattr__(self, "selection", tuple(_selector(item) for item in selection))
        try:
            object.__setattr__(self, "level", operator.index(level))
        except TypeError:
            raise UsageError(f"the level {level!r} is no index") from None

    def resolve(self, image: ImageLike, shape: Sequence[int] | None = None) -> IndexResolution:
        """Check the indices against a level.

        Parameters
        ----------
        image : NgffImage
            Or anything with its attributes.
        shape : sequence of int, optional
            Must equal the selected extents if given.

        Raises
        ------
        UsageError
            Too many selectors, an index out of range, a level that does not exist, or another shape.
        """
        if not 0 <= self.level < len(image.levels):
            last = len(image.levels) - 1
            raise UsageError(f"level {self.level} does not exist; {image.uri} has levels 0 to {last}")
        level = image.levels[self.level]
        rank = len(level.shape)
        if len(self.selection) > rank:
            raise UsageError(f"{len(self.selection)} selectors were given; {image.uri} has {rank} axes")
        padded = (*self.selection, *[slice(None)] * (rank - len(self.selection)))
        axes = tuple(
            _indices(item, n, axis) for axis, (item, n) in enumerate(zip(padded, level.shape, strict=True))
        )
        found = tuple(axis.count for axis in axes)
        if shape is not None and tuple(shape) != found:
            raise UsageError(f"the output shape {tuple(shape)} differs from the {found} elements selected")
        return IndexResolution(image.uri, level.path, self.level, found, axes, level.array)


def _selector(item: Any) -> slice | tuple[int, ...]:
    if isinstance(item, slice):
        for bound in (item.start, item.stop, item.step):
            if bound is not None and (isinstance(bound, bool) or not hasattr(bound, "__index__")):
                raise UsageError(f"the slice {item} has bounds that are not integers")
        if item.step == 0:
            raise UsageError("a slice cannot have the step 0")
        return item
    listed = np.asarray(item)
    if listed.size == 0 and listed.ndim == 1:
        return ()
    if listed.ndim > 1 or listed.dtype.kind not in "iu":
        raise UsageError(f"the selector {item!r} is neither a slice nor a list of integers")
    return tuple(int(i) for i in np.atleast_1d(listed))


def _indices(item: slice | tuple[int, ...], n: int, axis: int) -> AxisIndices:
    if isinstance(item, slice):
        numbers = range(*item.indices(n))
        return AxisIndices(numbers.start, numbers.step, len(numbers))
    wrong = [i for i in item if not -n <= i < n]
    if wrong:
        raise UsageError(f"index {wrong[0]} is out of range for axis {axis} with {n} elements")
    wrapped = tuple(i % n for i in item)
    steps = {b - a for a, b in pairwise(wrapped)}
    if wrapped and len(steps) <= 1 and steps != {0}:
        return AxisIndices(wrapped[0], steps.pop() if steps else 1, len(wrapped))
    return AxisIndices(0, 1, len(wrapped), wrapped)
