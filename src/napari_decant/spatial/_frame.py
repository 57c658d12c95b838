"""The spatial axes of an image in physical units, and queries placed in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_decant.errors import UsageError
from napari_decant.spatial._image import ImageLike
from napari_decant.spatial._query import TOLERANCE, SpatialQuery
from napari_decant.spatial._resolution import SpatialResolution
from napari_decant.spatial._sampler import Sampler

__all__ = ["Frame", "Index", "Level", "SizedQuery", "exact", "positive", "snap"]

Index = Mapping[str, "int | tuple[int, int]"]
Level = int | Literal["auto"]


@dataclass(frozen=True, slots=True)
class SizedQuery:
    """A query with the output shape it is meant for."""

    query: SpatialQuery
    shape: tuple[int, ...]

    def resolve(self, image: ImageLike) -> SpatialResolution:
        """Resolve against an image; see `SpatialQuery.resolve`."""
        return self.query.resolve(image, self.shape)


class Frame:
    """Spatial axes with their physical map, ``scale * (corner - 0.5) + translation``."""

    def __init__(self, image: ImageLike) -> None:
        self.image = image
        self.spatial = [i for i, axis in enumerate(image.axes) if axis.type == "space"]
        finest: Any = image.levels[0]
        self.scale = [float(finest.scale[i]) for i in self.spatial]
        self.translation = [float(finest.translation[i]) for i in self.spatial]
        if not all(s > 0 and math.isfinite(s) for s in self.scale):
            raise UsageError(f"{image.uri} has no usable physical scale; give the query in reference indices")

    def check(self, **named: Sequence[float]) -> None:
        for name, values in named.items():
            if len(values) != len(self.spatial) or not np.isfinite(np.asarray(values, np.float64)).all():
                names = ", ".join(self.image.axes[i].name for i in self.spatial)
                raise UsageError(f"{name} is {values!r}; one finite number for each of {names} belongs there")

    def to_reference(self, physical: Sequence[float]) -> list[float]:
        """Corner coordinates of physical points, exact where the decimals allow."""
        result = []
        for p, s, t in zip(physical, self.scale, self.translation, strict=True):
            corner = (exact(p) - exact(t)) / exact(s) + Fraction(1, 2)
            result.append(snap(corner, (abs(p) + abs(t)) / s + 1.0))
        return result

    def placed(
        self,
        turn: NDArray[np.float64],
        center: Sequence[float],
        shape: Sequence[int],
        spacing: float | Sequence[float] | None,
        units: str,
        index: Index | None,
        sampler: Sampler | None,
        level: Level,
    ) -> SizedQuery:
        """Put a turned box at a centre."""
        if units not in ("physical", "reference"):
            raise UsageError(f"the units {units!r} are unknown; use 'physical' or 'reference'")
        pitch = self.scale if spacing is None else spacing
        pitch = [float(pitch)] * len(self.spatial) if isinstance(pitch, int | float) else list(pitch)
        self.check(center=center, shape=shape, spacing=pitch)
        middle = np.asarray(center if units == "reference" else self.to_reference(center), np.float64)
        linear = turn * positive(pitch, "spacing") / np.asarray(self.scale)[:, None]
        offset = middle - linear @ (np.asarray(shape, np.float64) / 2)
        return self.query(linear, offset, shape, index, sampler, level)

    def query(
        self,
        linear: NDArray[np.float64],
        offset: NDArray[np.float64],
        shape: Sequence[int],
        index: Index | None,
        sampler: Sampler | None,
        level: Level,
    ) -> SizedQuery:
        """Add the axes that are not spatial."""
        rank = len(self.image.axes)
        matrix = np.column_stack([np.eye(rank), np.zeros(rank)])
        matrix[np.ix_(self.spatial, self.spatial)] = linear
        matrix[self.spatial, rank] = offset
        extents = list(self.image.levels[0].shape)
        for i, n in zip(self.spatial, shape, strict=True):
            extents[i] = int(n)
        named = dict(index or {})
        for i, axis in enumerate(self.image.axes):
            if i in self.spatial or axis.name not in named:
                continue
            chosen = named.pop(axis.name)
            start, stop = chosen if isinstance(chosen, tuple) else (chosen, chosen + 1)
            matrix[i, rank], extents[i] = start, stop - start
        if named:
            raise UsageError(
                f"index names {', '.join(named)}, which are no non-spatial axes of {self.image.uri}"
            )
        return SizedQuery(SpatialQuery(matrix, sampler, level), tuple(extents))


def positive(values: ArrayLike, name: str) -> NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise UsageError(f"{name} is {values!r}; positive finite numbers belong there")
    return numbers


def exact(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def snap(value: Fraction, size: float) -> float:
    number = float(value)
    near = round(number * 256) / 256
    return near if abs(number - near) <= TOLERANCE * max(1.0, size) else number
