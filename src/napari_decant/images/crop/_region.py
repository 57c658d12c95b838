"""A box in the world, of any size and direction, and the query that it is for one source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.images.crop._source import CropSource
from napari_decant.spatial import Sampler, SizedQuery, SpatialQuery, rotation_matrix

__all__ = ["Region", "Spacing", "WorldMap", "angles_of", "place", "spacing_for"]

Spacing = Literal["native", "isotropic"] | float | tuple[float, ...]
"""``"native"`` is level 0's along every axis, ``"isotropic"`` the smallest of them; or world units."""

_STRAIGHT = 1e-9
_MAX_EXTENT = 2**52 - 1


@dataclass(frozen=True, slots=True)
class Region:
    """A box turned about its centre.

    Attributes
    ----------
    center, size : tuple of float, length 2 or 3
        In world units, spatial axes in array order.
    angles : tuple of float, length 1 or 3
        Degrees, see `napari_decant.spatial.rotation_matrix`.

    Raises
    ------
    UsageError
        Numbers are missing, not finite, or a size is not positive.
    """

    center: tuple[float, ...]
    size: tuple[float, ...]
    angles: tuple[float, ...]

    def __post_init__(self) -> None:
        rank = len(self.center)
        if rank not in (2, 3) or len(self.size) != rank or len(self.angles) != (1 if rank == 2 else 3):
            raise UsageError(
                "a region needs two numbers for its centre and size and one angle, or three of each"
            )
        if not all(map(math.isfinite, (*self.center, *self.size, *self.angles))):
            raise UsageError("a region has numbers that are not finite")
        if min(self.size) <= 0:
            raise UsageError("a region needs a size above 0 along every axis")

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.center)

    @property
    def rotation(self) -> NDArray[np.float64]:
        """Directions of the box's axes in the world, one a column."""
        return rotation_matrix(self.angles if self.rank == 3 else self.angles[0])

    @property
    def is_turned(self) -> bool:
        """Whether its axes are not those of the world."""
        return any(angle % 360 for angle in self.angles)

    def corners(self) -> NDArray[np.float64]:
        """All corners, shape (2 ** rank, rank); the last axis changes fastest."""
        signs = np.stack(np.meshgrid(*[[-0.5, 0.5]] * self.rank, indexing="ij"), -1).reshape(-1, self.rank)
        turned = (signs * np.asarray(self.size)) @ self.rotation.T
        return np.asarray(turned + np.asarray(self.center))

    def moved(self, **changes: Any) -> Region:
        """The same box with other numbers."""
        return replace(self, **changes)


def angles_of(rotation: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the angles whose `rotation_matrix` is this one; of three, the second is at most 90 degrees."""
    r = np.asarray(rotation, np.float64)
    if r.shape == (2, 2):
        return (_degrees(math.atan2(r[0, 1], r[1, 1])),)
    m = r[::-1, ::-1]  # in x, y, z
    y = math.asin(min(1.0, max(-1.0, -m[2, 0])))
    if abs(m[2, 0]) < 1 - 1e-12:
        return tuple(map(_degrees, (math.atan2(m[1, 0], m[0, 0]), y, math.atan2(m[2, 1], m[2, 2]))))
    # turned by 90 degrees about y, z and x do the same; all of it is given to z
    return tuple(map(_degrees, (math.atan2(-m[0, 1], m[1, 1]), y, 0.0)))


def _degrees(radians: float) -> float:
    """Degrees, without the dust of rounding."""
    value = math.degrees(radians)
    near = round(value, 9)
    return near + 0.0 if abs(near - value) < 1e-9 else value


@dataclass(frozen=True, slots=True)
class WorldMap:
    """Where level 0 lies: ``world = linear @ index + offset`` of voxel centres, spatial axes only.

    Attributes
    ----------
    linear : tuple of tuple of float, shape (n, n)
    offset : tuple of float, shape (n,)
    """

    linear: tuple[tuple[float, ...], ...]
    offset: tuple[float, ...]

    @staticmethod
    def of(linear: Any, offset: Any) -> WorldMap:
        """Make one from arrays.

        Raises
        ------
        UnsupportedOperation
            The map is not finite or squeezes space flat.
        """
        a, b = np.asarray(linear, np.float64), np.asarray(offset, np.float64)
        if not (np.isfinite(a).all() and np.isfinite(b).all()) or abs(np.linalg.det(a)) < 1e-300:
            raise UnsupportedOperation("the transform of the image cannot be inverted")
        return WorldMap(tuple(tuple(map(float, row)) for row in a), tuple(map(float, b)))

    @staticmethod
    def physical(source: CropSource) -> WorldMap:
        """The map to a source's own physical units.

        Raises
        ------
        UnsupportedOperation
            It has no usable scale.
        """
        if source.physical is not None:
            whole = np.asarray(source.physical)
            return WorldMap.of(whole[:, :-1], whole[:, -1])
        level = source.levels[0]
        return WorldMap.of(
            np.diag([level.scale[i] for i in source.spatial]),
            [level.translation[i] for i in source.spatial],
        )

    @property
    def pitch(self) -> tuple[float, ...]:
        """World distance of neighbouring voxels along each axis."""
        return tuple(float(v) for v in np.linalg.norm(np.asarray(self.linear), axis=0))

    @property
    def is_straight(self) -> bool:
        """Whether its axes are those of the world, in the same directions."""
        a = np.asarray(self.linear)
        return bool((a == np.diag(np.diag(a))).all() and (np.diag(a) > 0).all())

    def whole(self, shape: Sequence[int]) -> Region:
        """The box around all voxels: along the image's axes where they are orthogonal, else the world's."""
        a, b = np.asarray(self.linear), np.asarray(self.offset)
        middle = a @ ((np.asarray(shape, np.float64) - 1) / 2) + b
        directions = a / np.linalg.norm(a, axis=0)
        turned = np.abs(directions.T @ directions - np.eye(len(b))).max() > 1e-6
        if turned or np.linalg.det(directions) < 0:
            extent = np.abs(a) @ np.asarray(shape, np.float64)
            angles: tuple[float, ...] = (0.0,) * (1 if len(b) == 2 else 3)
        else:
            extent = np.asarray(self.pitch) * np.asarray(shape, np.float64)
            angles = angles_of(directions)
        return Region(tuple(map(float, middle)), tuple(map(float, extent)), angles)


def spacing_for(world: WorldMap, spacing: Spacing) -> tuple[float, ...]:
    """World distance of output elements along each axis of the box.

    Raises
    ------
    UsageError
        A number is not positive and finite.
    """
    pitch = world.pitch
    if spacing == "native":
        return pitch
    if spacing == "isotropic":
        return (min(pitch),) * len(pitch)
    given = tuple(spacing) if isinstance(spacing, tuple | list) else (spacing,) * len(pitch)
    if len(given) != len(pitch):
        raise UsageError(f"the spacing {spacing!r} needs one number, or one for each of {len(pitch)} axes")
    if not all(math.isfinite(s) and s > 0 for s in given):
        raise UsageError(f"the spacing is {spacing!r}; positive numbers belong there")
    return tuple(map(float, given))


def place(
    region: Region,
    source: CropSource,
    world: WorldMap,
    *,
    spacing: Spacing = "native",
    level: int | Literal["auto"] = "auto",
    sampler: Sampler | None = None,
    snap: bool = True,
    index: Mapping[str, tuple[int, int]] | None = None,
) -> SizedQuery:
    """Turn a region into the query that cuts it out of one source.

    Parameters
    ----------
    region : Region
    source : CropSource
    world : WorldMap
        Where the source lies.
    spacing : Spacing
        Of the output; with a level, ``"native"`` is that level's.
    level : int or "auto"
    sampler : Sampler, optional
    snap : bool
        Move a box that is straight in the source to whole voxels of a level with the output's spacing, so
        that voxels are copied and not resampled.
    index : mapping, optional
        ``(start, stop)`` for axes that are not spatial, by name; others are taken whole.

    Raises
    ------
    UsageError
        Numbers that make no output.
    UnsupportedOperation
        A source with two spatial axes and a box that is tilted out of their plane.
    """
    if level != "auto" and not 0 <= level < len(source.levels):
        raise UsageError(
            f"{source.name} has levels 0 to {len(source.levels) - 1}; level {level} is not there"
        )
    box = _flat(region, source) if region.rank > len(source.spatial) else region
    if box.rank != len(source.spatial):
        raise UnsupportedOperation(f"{source.name} has three spatial axes; the region has two")
    inverse = np.linalg.inv(np.asarray(world.linear))
    pitch = np.asarray(spacing_for(world, spacing))
    if spacing == "native" and level != "auto":
        pitch = pitch * [source.levels[level].scale_to_reference[i] for i in source.spatial]
    counts = np.rint(np.asarray(box.size) / pitch)
    if counts.max() > _MAX_EXTENT:
        raise UsageError("the region has more than 2**52 voxels along an axis; choose a larger spacing")
    shape = np.maximum(1, counts).astype(np.int64)
    axes = box.rotation * pitch
    linear = inverse @ axes
    middle = inverse @ (np.asarray(box.center) - np.asarray(world.offset)) + 0.5
    offset = middle - linear @ (shape / 2)
    if snap:
        snapped = _snapped(source, linear, middle, inverse @ (box.rotation * np.asarray(box.size)), level)
        if snapped is not None:
            linear, offset, shape, level = snapped
    return _query(source, linear, offset, shape, sampler, level, index)


def _flat(region: Region, source: CropSource) -> Region:
    """What a box is in the plane of an image with two spatial axes."""
    if any(angle % 360 for angle in region.angles[1:]):
        raise UnsupportedOperation(
            f"{source.name} is flat; a box tilted out of its plane cuts nothing out of it"
        )
    return Region(region.center[1:], region.size[1:], region.angles[:1])


def _snapped(
    source: CropSource,
    linear: NDArray[np.float64],
    middle: NDArray[np.float64],
    span: NDArray[np.float64],
    level: int | str,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], int] | None:
    """Whole voxels of the level whose grid the output's is, if the box is straight in the source."""
    ratio = np.diag(linear)
    if np.abs(linear - np.diag(ratio)).max() > _STRAIGHT * np.abs(ratio).max() or ratio.min() <= 0:
        return None
    for number, candidate in enumerate(source.levels):
        own = np.array([candidate.scale_to_reference[i] for i in source.spatial])
        if level not in ("auto", number) or np.abs(own - ratio).max() > 1e-6 * ratio.max():
            continue
        origin = np.array([candidate.origin_reference_index[i] for i in source.spatial])
        # the size counts, not where both ends are: five voxels stay five where they begin in mid-voxel
        shape = np.maximum(1, np.rint(np.diag(span) / own)).astype(np.int64)
        start = np.ceil((middle - origin) / own - shape / 2 - 0.5)
        return np.diag(own), origin + own * start, shape, number
    return None


def _query(
    source: CropSource,
    linear: NDArray[np.float64],
    offset: NDArray[np.float64],
    shape: NDArray[np.int64],
    sampler: Sampler | None,
    level: int | Literal["auto"],
    index: Mapping[str, tuple[int, int]] | None,
) -> SizedQuery:
    """Add the axes that are not spatial."""
    rank, spatial = len(source.axes), list(source.spatial)
    matrix = np.column_stack([np.eye(rank), np.zeros(rank)])
    matrix[np.ix_(spatial, spatial)] = linear
    matrix[spatial, rank] = offset
    extents = list(source.shape)
    for i, n in zip(spatial, shape.tolist(), strict=True):
        extents[i] = n
    left = dict(index or {})
    for i, axis in enumerate(source.axes):
        if i not in spatial and axis.name in left:
            start, stop = left.pop(axis.name)
            if not 0 <= start < stop <= source.shape[i]:
                raise UsageError(
                    f"axis {axis.name!r} of {source.name} has indices 0 to {source.shape[i] - 1}; "
                    f"{start} to {stop - 1} are not there"
                )
            matrix[i, rank], extents[i] = start, stop - start
    if left:
        raise UsageError(f"{source.name} has no axis {', '.join(map(repr, left))} beside the spatial ones")
    return SizedQuery(SpatialQuery(matrix, sampler, level), tuple(extents))
