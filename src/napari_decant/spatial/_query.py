"""Queries and how they are resolved: checks, the level rule, bounds. No input or output."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.spatial._image import ImageLike
from napari_decant.spatial._resolution import Affine, Bounds, SpatialResolution
from napari_decant.spatial._sampler import Sampler

__all__ = ["MAX_COORDINATE", "SpatialQuery", "check_shape", "pick_level", "smallest_singular_value"]

MAX_COORDINATE: Final = 2**52 - 1
Rows = Sequence[Sequence[float]]
TOLERANCE: Final = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class SpatialQuery:
    """A fixed output grid mapped into the reference level, ``levels[0]`` (spatial queries document).

    Parameters
    ----------
    output_to_reference : array-like of float, shape (N, N + 1)
        Map from output corners to reference corners, in index units, axes in array order; the last
        column is the offset. Only spatial axes may mix, turn, mirror or scale; the others need
        identity rows and columns and an integral offset.
    sampler : Sampler
    level : int or "auto"
        ``"auto"`` takes the coarsest level no coarser than the output spacing in any direction.

    Raises
    ------
    UsageError
        The matrix has another shape or is not finite, or the level is neither.
    """

    output_to_reference: tuple[tuple[float, ...], ...]
    sampler: Sampler = field(default_factory=Sampler)
    level: int | Literal["auto"] = "auto"

    def __init__(
        self,
        output_to_reference: ArrayLike,
        sampler: Sampler | None = None,
        level: int | Literal["auto"] = "auto",
    ) -> None:
        try:
            matrix = np.asarray(output_to_reference, np.float64)
        except (TypeError, ValueError):
            raise UsageError("output_to_reference is no matrix of numbers") from None
        if matrix.ndim != 2 or matrix.shape[1] != matrix.shape[0] + 1:
            raise UsageError(
                f"output_to_reference has the shape {matrix.shape}; N rows of N + 1 numbers belong there"
            )
        if not np.isfinite(matrix).all():
            raise UsageError("output_to_reference has entries that are not finite")
        if level != "auto":
            try:
                level = operator.index(level)
            except TypeError:
                raise UsageError(f"the level {level!r} is neither 'auto' nor an index") from None
        sampler = Sampler() if sampler is None else sampler
        if not isinstance(sampler, Sampler):
            raise UsageError(f"the sampler {sampler!r} is no Sampler")
        object.__setattr__(self, "output_to_reference", tuple(tuple(map(float, row)) for row in matrix))
        object.__setattr__(self, "sampler", sampler)
        object.__setattr__(self, "level", level)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.output_to_reference)

    def resolve(self, image: ImageLike, shape: Sequence[int]) -> SpatialResolution:
        """Choose the source level and work out what the output grid needs of it.

        Parameters
        ----------
        image : NgffImage
            Or anything with its attributes.
        shape : sequence of int
            Output extents, one per axis.

        Returns
        -------
        SpatialResolution

        Raises
        ------
        UsageError
            Wrong rank, a singular map, a level that does not exist, coordinates beyond 2**52, or
            elements outside the source with the boundary ``"error"``.
        UnsupportedOperation
            The image breaks the strict rules, or a time, channel or custom axis would be resampled.
        """
        if image.strict_error is not None:
            reason = str(image.strict_error)
            raise UnsupportedOperation(
                f"spatial queries do not work on {image.uri}: {reason}; use an IndexQuery"
            )
        extents = check_shape(shape)
        rank = len(image.axes)
        if self.rank != rank or len(extents) != rank:
            raise UsageError(
                f"the query has rank {self.rank} and the output {len(extents)}; {image.uri} has {rank} axes"
            )
        spatial = tuple(i for i, axis in enumerate(image.axes) if axis.type == "space")
        if len(spatial) not in (2, 3):
            raise UnsupportedOperation(
                f"{image.uri} has {len(spatial)} spatial axes; queries need two or three"
            )
        linear = [row[:-1] for row in self.output_to_reference]
        offset = [row[-1] for row in self.output_to_reference]
        _check_other_axes(image, linear, offset, spatial)
        _check_regular([[linear[i][j] for j in spatial] for i in spatial])
        if image.is_label and self.sampler.filter == "linear":
            raise UnsupportedOperation(
                f"{image.uri} holds labels, which have no values between them; use the filter nearest"
            )
        level = self._level(image, linear, spatial)
        source = image.levels[level]
        # by row division: dividing by R keeps R / R exactly one, multiplying by 1 / R would not
        ratios, origins = source.scale_to_reference, source.origin_reference_index
        to_source = Affine(
            tuple(tuple(a / r for a in row) for row, r in zip(linear, ratios, strict=True)),
            tuple((b - o) / r for b, o, r in zip(offset, origins, ratios, strict=True)),
        )
        start = (0,) * rank
        for affine in (Affine(tuple(linear), tuple(offset)), to_source):
            low, high = sample_range(affine, start, extents)
            if max(map(abs, (*low, *high))) > MAX_COORDINATE:
                raise UsageError("the query reaches beyond 2**52 index units; coordinates must stay below")
        names = [axis.name for axis in image.axes]
        bounds = contributing_bounds(low, high, self.sampler, spatial)
        return SpatialResolution(
            uri=image.uri,
            path=source.path,
            level=level,
            shape=extents,
            output_to_source=to_source,
            sampler=self.sampler,
            source_bounds_index=bounds,
            read_bounds_index=read_bounds(bounds, source.shape, self.sampler, spatial, names),
            requires_resampling=not _is_copy(to_source, bounds, source.shape),
            spatial_axes=spatial,
            grid_start=start,
            array=source.array,
        )

    def _level(self, image: ImageLike, linear: Rows, spatial: tuple[int, ...]) -> int:
        if self.level == "auto":
            return pick_level(image, linear, spatial)
        if not 0 <= self.level < len(image.levels):
            raise UsageError(
                f"level {self.level} does not exist; {image.uri} has levels 0 to {len(image.levels) - 1}"
            )
        return self.level


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return output extents as integers, or raise `UsageError`."""
    try:
        extents = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise UsageError(f"the output shape {shape!r} is no sequence of integers") from None
    if not all(1 <= n <= MAX_COORDINATE for n in extents):
        raise UsageError(f"the output shape {extents} has extents that are not between 1 and 2**52 - 1")
    return extents


def _check_other_axes(
    image: ImageLike, linear: Rows, offset: Sequence[float], spatial: tuple[int, ...]
) -> None:
    rank = len(linear)
    for i, axis in enumerate(image.axes):
        if i in spatial:
            continue
        if any(linear[i][j] != (i == j) or linear[j][i] != (i == j) for j in range(rank)):
            raise UnsupportedOperation(
                f"axis {axis.name!r} is not spatial, so it cannot be "
                "resampled or mixed; give it an identity row "
                "and column, or use an IndexQuery"
            )
        if offset[i] != math.floor(offset[i]):
            raise UnsupportedOperation(
                f"axis {axis.name!r} is not spatial and needs a whole offset, not {offset[i]}"
            )


def _check_regular(matrix: list[list[float]]) -> None:
    """Refuse a map that is singular to working precision: rows scaled, largest remaining pivot."""
    size = len(matrix)
    largest = [max(map(abs, row)) for row in matrix]
    if min(largest) == 0:
        raise UsageError("the map is singular: a spatial axis does not depend on the output at all")
    work = [[a / most for a in row] for row, most in zip(matrix, largest, strict=True)]
    for k in range(size):
        pivot, row, column = max((abs(work[i][j]), i, j) for i in range(k, size) for j in range(k, size))
        if pivot <= TOLERANCE:
            raise UsageError("the map is singular: it squeezes the output grid flat")
        work[k], work[row] = work[row], work[k]
        for line in work:
            line[k], line[column] = line[column], line[k]
        for i in range(k + 1, size):
            factor = work[i][k] / work[k][k]
            work[i] = [a - factor * b for a, b in zip(work[i], work[k], strict=True)]


def smallest_singular_value(linear: Rows, ratio: Sequence[float], spatial: Sequence[int]) -> float:
    """Return how far, at least, one step of the output moves in elements of a level with this ratio."""
    part = [[linear[i][j] / ratio[i] for j in spatial] for i in spatial]
    if all(sum(a != 0 for a in line) == 1 for line in (*part, *zip(*part, strict=True))):
        return min(max(map(abs, row)) for row in part)  # a scaled permutation has its entries as values
    return float(np.linalg.svd(part, compute_uv=False)[-1])


def pick_level(image: ImageLike, linear: Rows, spatial: Sequence[int]) -> int:
    """Return the coarsest level no coarser than the output spacing in any direction, else 0.

    One output step must move at least one element (within 64 eps) in every direction of the source:
    the smallest singular value of ``inverse(R) * A`` over spatial axes tells.
    """
    for level in range(len(image.levels) - 1, 0, -1):
        ratio = image.levels[level].scale_to_reference
        if smallest_singular_value(linear, ratio, spatial) >= 1 - TOLERANCE:
            return level
    return 0


def sample_range(
    affine: Affine, start: Sequence[int], shape: Sequence[int]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the least and greatest sample coordinate along each axis, rounded as sampling rounds.

    Multiplying and adding in float64 never reverses an order, so the extremes lie at corners of the
    output grid and every sample that is computed in the same order lies between them, exactly.
    """
    low, high = [], []
    for row, b in zip(affine.linear, affine.offset, strict=True):
        ends = []
        for pick in (min, max):
            total: float | None = None
            for a, first, n in zip(row, start, shape, strict=True):
                if a == 0.0:
                    continue
                term = pick(a * (first + 0.5), a * (first + n - 0.5))
                total = term if total is None else total + term
            ends.append((0.0 if total is None else total) + b)
        low.append(ends[0])
        high.append(ends[1])
    return tuple(low), tuple(high)


def contributing_bounds(
    low: Sequence[float], high: Sequence[float], sampler: Sampler, spatial: Sequence[int]
) -> Bounds:
    """Return the half-open box of indices that contribute to samples between ``low`` and ``high``."""
    result = []
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        if sampler.filter == "nearest" or i not in spatial:
            result.append((math.floor(a), math.floor(b) + 1))
        else:
            result.append((math.floor(a - 0.5), math.ceil(b - 0.5) + 1))
    return tuple(result)


def read_bounds(
    bounds: Bounds,
    source_shape: Sequence[int],
    sampler: Sampler,
    spatial: Sequence[int],
    names: Sequence[str],
) -> Bounds:
    """Apply the boundary rule to contributing indices.

    Raises
    ------
    UsageError
        Elements lie outside the source where none may.
    """
    result = []
    for i, ((start, stop), n) in enumerate(zip(bounds, source_shape, strict=True)):
        inside = start >= 0 and stop <= n
        if not inside and i not in spatial:
            raise UsageError(
                f"axis {names[i]!r} needs indices {start} to {stop - 1}, but the source has 0 to {n - 1}"
            )
        if not inside and sampler.boundary == "error":
            raise UsageError(
                f"the output needs indices {start} to {stop - 1} of axis {names[i]!r}, but the source has 0 "
                f"to {n - 1}; move it inside or use the boundary 'constant' or 'clamp'"
            )
        if sampler.boundary == "clamp":
            result.append((min(max(start, 0), n - 1), min(max(stop - 1, 0), n - 1) + 1))
        else:
            result.append((min(max(start, 0), n), min(max(stop, 0), n)))
    return tuple(result)


def _is_copy(affine: Affine, bounds: Bounds, source_shape: Sequence[int]) -> bool:
    rank = len(affine.offset)
    return (
        all(affine.linear[i][j] == float(i == j) for i in range(rank) for j in range(rank))
        and all(b == math.floor(b) for b in affine.offset)
        and all(a >= 0 and b <= n for (a, b), n in zip(bounds, source_shape, strict=True))
    )
