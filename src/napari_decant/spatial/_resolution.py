"""What a query becomes for one image: a source array, a map, and bounds. Owned and picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.spatial._sampler import Sampler

__all__ = ["Affine", "AxisIndices", "IndexResolution", "SpatialResolution"]

Bounds = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Affine:
    """A map between corner coordinates: ``target = linear @ output + offset``.

    Attributes
    ----------
    linear : tuple of tuple of float, shape (N, N)
    offset : tuple of float, shape (N,)
    """

    linear: tuple[tuple[float, ...], ...]
    offset: tuple[float, ...]

    @staticmethod
    def of(linear: NDArray[np.float64], offset: NDArray[np.float64]) -> Affine:
        """Build one from arrays."""
        return Affine(tuple(tuple(map(float, row)) for row in linear), tuple(map(float, offset)))

    def __call__(self, corner: Any) -> NDArray[np.float64]:
        """Map corner coordinates of shape (..., N)."""
        points = np.asarray(corner, np.float64)
        return np.asarray(points @ np.asarray(self.linear).T + np.asarray(self.offset))


@dataclass(frozen=True, slots=True)
class SpatialResolution:
    """A spatial query resolved against an image; ordinary immutable values.

    Attributes
    ----------
    uri : str
        Location of the store.
    path : str
        Path of the source array within it.
    level : int
        Chosen level.
    shape : tuple of int
        Output grid.
    output_to_source : Affine
        From output corners to corners of the source level.
    sampler : Sampler
    source_bounds_index : tuple of (int, int)
        Half-open box of the source indices that contribute, before boundary handling.
    read_bounds_index : tuple of (int, int)
        The same after it: clipped for ``constant`` (possibly empty), the touched edges for ``clamp``.
    requires_resampling : bool
        False if copying elements gives the output exactly.
    spatial_axes : tuple of int
        Positions of the axes that may mix.
    grid_start : tuple of int
        Grid point of output element 0; not 0 only for a `part` of a larger output.
    array : object
        Metadata of the source array.
    """

    uri: str
    path: str
    level: int
    shape: tuple[int, ...]
    output_to_source: Affine
    sampler: Sampler
    source_bounds_index: Bounds
    read_bounds_index: Bounds
    requires_resampling: bool
    spatial_axes: tuple[int, ...]
    grid_start: tuple[int, ...]
    array: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AxisIndices:
    """Indices selected along one axis: a progression, or a list in any order with repeats.

    Attributes
    ----------
    start, step, count : int
        The progression ``start, start + step, ...``; the step may be negative.
    indices : tuple of int or None
        The list, if it is none.
    """

    start: int
    step: int
    count: int
    indices: tuple[int, ...] | None = None

    def to_array(self) -> NDArray[np.int64]:
        """All indices in output order."""
        if self.indices is not None:
            return np.asarray(self.indices, np.int64)
        return self.start + self.step * np.arange(self.count, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class IndexResolution:
    """An index query resolved against an image; always a copy.

    Attributes
    ----------
    uri, path, level, shape, array
        As `SpatialResolution`.
    selection : tuple of AxisIndices
        One per axis.
    """

    uri: str
    path: str
    level: int
    shape: tuple[int, ...]
    selection: tuple[AxisIndices, ...]
    array: Any = field(default=None, compare=False, repr=False)

    @property
    def requires_resampling(self) -> bool:
        """Always False."""
        return False

    @property
    def source_bounds_index(self) -> Bounds:
        """Half-open box of the selected indices."""
        boxes = []
        for axis in self.selection:
            if axis.indices is not None:
                ends = [min(axis.indices), max(axis.indices)] if axis.indices else [0, -1]
            else:
                ends = (
                    sorted((axis.start, axis.start + axis.step * (axis.count - 1))) if axis.count else [0, -1]
                )
            boxes.append((ends[0], ends[1] + 1))
        return tuple(boxes)

    @property
    def read_bounds_index(self) -> Bounds:
        """The same box: nothing lies outside."""
        return self.source_bounds_index
