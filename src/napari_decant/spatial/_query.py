"""Queries and how they are resolved: checks, the level rule, bounds. No input or output."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.spatial._image import ImageLike, LevelLike
from napari_decant.spatial._resolution import Affine, Bounds, SpatialResolution
from napari_decant.spatial._sampler import Sampler

__all__ = ["MAX_COORDINATE", "SpatialQuery", "check_shape", "pick_level", "smallest_singular_value"]

MAX_COORDINATE: Final = 2**52 - 1
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
        matrix = np.asarray(self.output_to_reference)
        linear, offset = matrix[:, :-1], matrix[:, -1]
        _check_other_axes(image, linear, offset, spatial)
        _check_regular(linear[np.ix_(spatial, spatial)])
        level = self._level(image, linear, spatial)
        source = image.levels[level]
        ratio, origin = np.asarray(source.scale_to_reference), np.asarray(source.origin_reference_index)
        # by row division: dividing by R keeps R / R exactly one, multiplying by 1 / R would not
        to_source = Affine.of(linear / ratio[:, None], (offset - origin) / ratio)
        low, high = sample_range(to_source, extents)
        for ends in (sample_range(Affine.of(linear, offset), extents), (low, high)):
            if max(abs(end) for axis in ends for end in axis) > MAX_COORDINATE:
                raise UsageError("the query reaches beyond 2**52 index units; coordinates must stay below")
        bounds = contributing_bounds(low, high, self.sampler, spatial)
        return SpatialResolution(
            uri=image.uri,
            path=source.path,
            level=level,
            shape=extents,
            output_to_source=to_source,
            sampler=self.sampler,
            source_bounds_index=bounds,
            read_bounds_index=self._read_bounds(image, source, bounds, spatial),
            requires_resampling=not _is_copy(to_source, bounds, source.shape),
            spatial_axes=spatial,
            array=source.array,
        )

    def _level(self, image: ImageLike, linear: NDArray[np.float64], spatial: tuple[int, ...]) -> int:
        if self.level == "auto":
            return pick_level(image, linear, spatial)
        if not 0 <= self.level < len(image.levels):
            raise UsageError(
                f"level {self.level} does not exist; {image.uri} has levels 0 to {len(image.levels) - 1}"
            )
        return self.level

    def _read_bounds(
        self, image: ImageLike, source: LevelLike, bounds: Bounds, spatial: tuple[int, ...]
    ) -> Bounds:
        result = []
        for i, ((start, stop), n) in enumerate(zip(bounds, source.shape, strict=True)):
            inside = start >= 0 and stop <= n
            name = image.axes[i].name
            if not inside and i not in spatial:
                raise UsageError(
                    f"axis {name!r} needs indices {start} to {stop - 1}, but the source has 0 to {n - 1}"
                )
            if not inside and self.sampler.boundary == "error":
                raise UsageError(
                    f"the output needs indices {start} to {stop - 1} of axis "
                    f"{name!r}, but the source has 0 to "
                    f"{n - 1}; move it inside or use the boundary 'constant' or 'clamp'"
                )
            if self.sampler.boundary == "clamp":
                result.append((min(max(start, 0), n - 1), min(max(stop - 1, 0), n - 1) + 1))
            else:
                result.append((min(max(start, 0), n), min(max(stop, 0), n)))
        return tuple(result)


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
    image: ImageLike, linear: NDArray[np.float64], offset: NDArray[np.float64], spatial: tuple[int, ...]
) -> None:
    identity = np.eye(len(linear))
    for i, axis in enumerate(image.axes):
        if i in spatial:
            continue
        if (linear[i] != identity[i]).any() or (linear[:, i] != identity[:, i]).any():
            raise UnsupportedOperation(
                f"axis {axis.name!r} is not spatial, so it cannot be "
                "resampled or mixed; give it an identity row "
                "and column, or use an IndexQuery"
            )
        if offset[i] != math.floor(offset[i]):
            raise UnsupportedOperation(
                f"axis {axis.name!r} is not spatial and needs a whole offset, not {offset[i]}"
            )


def _check_regular(matrix: NDArray[np.float64]) -> None:
    """Refuse a map that is singular to working precision: rows scaled, largest remaining pivot."""
    largest = np.abs(matrix).max(axis=1)
    if (largest == 0).any():
        raise UsageError("the map is singular: a spatial axis does not depend on the output at all")
    work = matrix / largest[:, None]
    for k in range(len(work)):
        rest = np.abs(work[k:, k:])
        row, column = np.unravel_index(int(rest.argmax()), rest.shape)
        if rest[row, column] <= TOLERANCE:
            raise UsageError("the map is singular: it squeezes the output grid flat")
        work[[k, k + row]] = work[[k + row, k]]
        work[:, [k, k + column]] = work[:, [k + column, k]]
        work[k + 1 :] -= np.outer(work[k + 1 :, k] / work[k, k], work[k])


def smallest_singular_value(
    linear: NDArray[np.float64], ratio: Sequence[float], spatial: Sequence[int]
) -> float:
    """Return how far, at least, one step of the output moves in elements of a level with this ratio."""
    part = linear[np.ix_(spatial, spatial)] / np.asarray(ratio)[list(spatial), None]
    return float(np.linalg.svd(part, compute_uv=False)[-1])


def pick_level(image: ImageLike, linear: NDArray[np.float64], spatial: Sequence[int]) -> int:
    """Return the coarsest level no coarser than the output spacing in any direction, else 0.

    One output step must move at least one element (within 64 eps) in every direction of the source:
    the smallest singular value of ``inverse(R) * A`` over spatial axes tells.
    """
    for level in range(len(image.levels) - 1, 0, -1):
        ratio = image.levels[level].scale_to_reference
        if smallest_singular_value(linear, ratio, spatial) >= 1 - TOLERANCE:
            return level
    return 0


def sample_range(affine: Affine, shape: Sequence[int]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the least and greatest sample coordinate along each axis, rounded as sampling rounds.

    Multiplying and adding in float64 never reverses an order, so the extremes lie at corners of the
    output grid and every sample that is computed in the same order lies between them, exactly.
    """
    low, high = [], []
    for row, b in zip(affine.linear, affine.offset, strict=True):
        ends = []
        for pick in (min, max):
            total: float | None = None
            for a, n in zip(row, shape, strict=True):
                if a == 0.0:
                    continue
                term = pick(a * 0.5, a * (n - 0.5))
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


def _is_copy(affine: Affine, bounds: Bounds, source_shape: Sequence[int]) -> bool:
    rank = len(affine.offset)
    return (
        all(affine.linear[i][j] == float(i == j) for i in range(rank) for j in range(rank))
        and all(b == math.floor(b) for b in affine.offset)
        and all(a >= 0 and b <= n for (a, b), n in zip(bounds, source_shape, strict=True))
    )
