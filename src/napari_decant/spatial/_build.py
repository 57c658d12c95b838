"""Queries for what people ask for: a crop in indices or micrometres, a turned box, an oblique plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UsageError
from napari_decant.spatial._frame import Frame, Index, Level, SizedQuery, exact, positive, snap
from napari_decant.spatial._image import ImageLike
from napari_decant.spatial._query import SpatialQuery
from napari_decant.spatial._sampler import Sampler

__all__ = [
    "SizedQuery",
    "level_crop",
    "oblique_plane",
    "physical_crop",
    "reference_crop",
    "rotated_crop",
    "rotation_matrix",
]


def level_crop(
    image: ImageLike, level: int, start: Sequence[int], stop: Sequence[int], sampler: Sampler | None = None
) -> SizedQuery:
    """Copy the box ``[start, stop)`` of a level, in that level's own indices, all axes.

    The map is the level's scale on the diagonal and ``origin + R * start``, so it resolves to a copy.
    """
    if not 0 <= level < len(image.levels):
        raise UsageError(f"level {level} does not exist; {image.uri} has levels 0 to {len(image.levels) - 1}")
    _same_rank(image, start=start, stop=stop)
    source = image.levels[level]
    ratio, origin = np.asarray(source.scale_to_reference), np.asarray(source.origin_reference_index)
    matrix = np.column_stack([np.diag(ratio), origin + ratio * np.asarray(start, np.float64)])
    return SizedQuery(SpatialQuery(matrix, sampler, level), _extent(start, stop))


def reference_crop(
    image: ImageLike,
    start: Sequence[float],
    stop: Sequence[float],
    *,
    spacing: float | Sequence[float] = 1.0,
    sampler: Sampler | None = None,
    level: Level = "auto",
) -> SizedQuery:
    """Take a box given by reference corners, all axes, at a spacing in reference indices.

    Parameters
    ----------
    start, stop : sequence of float, length N
        Corners, in index units of level 0.
    spacing : float or sequence of float
        Distance of output elements along each axis; a single number counts for spatial axes.
        The output has ``(stop - start) / spacing`` elements, rounded to whole ones.
    """
    _same_rank(image, start=start, stop=stop)
    spatial = [axis.type == "space" for axis in image.axes]
    if isinstance(spacing, int | float):
        spacing = [spacing if is_space else 1.0 for is_space in spatial]
    _same_rank(image, spacing=spacing)
    step = positive(spacing, "spacing")
    shape = tuple(
        max(1, round(float((exact(b) - exact(a)) / exact(s))))
        for a, b, s in zip(start, stop, spacing, strict=True)
    )
    matrix = np.column_stack([np.diag(step), np.asarray(start, np.float64)])
    return SizedQuery(SpatialQuery(matrix, sampler, level), shape)


def physical_crop(
    image: ImageLike,
    origin: Sequence[float],
    size: Sequence[float],
    *,
    spacing: Sequence[float] | None = None,
    index: Index | None = None,
    sampler: Sampler | None = None,
    level: Level = "auto",
) -> SizedQuery:
    """Take a box in the image's physical units; spatial axes only, in array order.

    Parameters
    ----------
    origin : sequence of float
        Corner of the box with the least coordinates.
    size : sequence of float
        Its extents.
    spacing : sequence of float, optional
        Distance of output elements; level 0's if not given.
    index : mapping, optional
        For other axes by name: an index (extent 1) or ``(start, stop)``. Axes not named are taken whole.

    Notes
    -----
    Numbers are read as the decimals they print as, so that 1.2 in steps of 0.1 is corner 12 exactly;
    what still misses a multiple of 1/256 by a rounding error is moved onto it.
    """
    frame = Frame(image)
    frame.check(origin=origin, size=size)
    pitch = frame.scale if spacing is None else [float(p) for p in positive(spacing, "spacing")]
    frame.check(spacing=pitch)
    positive(size, "size")
    ratio = [snap(exact(p) / exact(s), 1.0) for p, s in zip(pitch, frame.scale, strict=True)]
    start = frame.to_reference(origin)
    shape = [max(1, round(float(exact(n) / exact(p)))) for n, p in zip(size, pitch, strict=True)]
    return frame.query(np.diag(ratio), np.asarray(start), shape, index, sampler, level)


def rotation_matrix(angles: float | Sequence[float]) -> NDArray[np.float64]:
    """Return the rotation of physical axes, in array order: (y, x) for one angle, (z, y, x) for three.

    Parameters
    ----------
    angles : float, or three floats
        Degrees. One angle turns about z, x towards y. Three turn about z, then the turned y, then the
        twice turned x (intrinsic z-y'-x''), each right-handed in (x, y, z).
    """
    given = np.atleast_1d(np.asarray(angles, np.float64))
    if given.shape not in ((1,), (3,)) or not np.isfinite(given).all():
        raise UsageError(f"the angles {angles!r} are neither one nor three finite numbers of degrees")
    z, y, x = (*given, 0.0, 0.0)[:3]
    (cz, sz), (cy, sy), (cx, sx) = _cos_sin(z), _cos_sin(y), _cos_sin(x)
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    turned = (about_z @ about_y @ about_x)[::-1, ::-1]
    return np.ascontiguousarray(turned[1:, 1:] if given.shape == (1,) else turned)


def rotated_crop(
    image: ImageLike,
    center: Sequence[float],
    shape: Sequence[int],
    angles: float | Sequence[float],
    *,
    spacing: float | Sequence[float] | None = None,
    units: Literal["physical", "reference"] = "physical",
    index: Index | None = None,
    sampler: Sampler | None = None,
    level: Level = "auto",
) -> SizedQuery:
    """Take a box turned about its centre: ``A = inverse(S0) . R . diag(spacing)``.

    The turn happens in physical space, so that turning an anisotropic image shears nothing.

    Parameters
    ----------
    center : sequence of float
        The box's fixed centre, spatial axes in array order, in ``units``.
    shape : sequence of int
        Output extents of the spatial axes.
    angles : float or three floats
        See `rotation_matrix`: one for images with two spatial axes, three (or one, about z) for three.
    spacing : float or sequence of float, optional
        Physical distance of output elements; level 0's if not given.
    units : {"physical", "reference"}
        Whether ``center`` is physical or in reference corners.
    index, sampler, level
        As `physical_crop`.
    """
    frame = Frame(image)
    given = [float(angle) for angle in np.atleast_1d(np.asarray(angles, np.float64))]
    if len(frame.spatial) == 3 and len(given) == 1:
        given = [given[0], 0.0, 0.0]
    turn = rotation_matrix(given)
    if len(turn) != len(frame.spatial):
        raise UsageError(f"{len(given)} angles do not turn an image with {len(frame.spatial)} spatial axes")
    return frame.placed(turn, center, shape, spacing, units, index, sampler, level)


def oblique_plane(
    image: ImageLike,
    center: Sequence[float],
    normal: Sequence[float],
    shape: tuple[int, int],
    *,
    up: Sequence[float] | None = None,
    spacing: float | Sequence[float] | None = None,
    units: Literal["physical", "reference"] = "physical",
    index: Index | None = None,
    sampler: Sampler | None = None,
    level: Level = "auto",
) -> SizedQuery:
    """Take a plane of any direction through a volume; the output has extent 1 along its first spatial axis.

    Parameters
    ----------
    center : sequence of float, length 3
        Centre of the plane, in ``units``.
    normal : sequence of float, length 3
        Physical direction of the plane's normal, axes in array order; any length.
    shape : (int, int)
        Rows and columns.
    up : sequence of float, length 3, optional
        Physical direction in which rows grow, made orthogonal to the normal; the second spatial axis
        unless that is parallel to the normal.
    spacing : float or sequence of float, optional
        Physical distance of output elements; a single number, or (thickness, rows, columns); by
        default the smallest of level 0.
    """
    frame = Frame(image)
    if len(frame.spatial) != 3:
        raise UsageError("a plane needs three spatial axes; crop an image with two instead")
    n = _direction(normal, "normal")
    candidates = [up] if up is not None else [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    for candidate in candidates:
        rows = _direction(candidate, "up")
        rows = rows - n * (rows @ n)
        if np.linalg.norm(rows) > 1e-6:
            break
    else:
        raise UsageError("up is parallel to the normal, so the plane's rows have no direction")
    rows /= np.linalg.norm(rows)
    columns = np.cross(n, rows)
    # the sign that mirrors nothing: rows and columns of a plane across z grow as y and x do
    columns *= 1.0 if np.linalg.det(np.column_stack([n, rows, columns])) > 0 else -1.0
    turn = np.column_stack([n, rows, columns])
    if spacing is None:
        spacing = min(frame.scale)
    return frame.placed(turn, center, (1, *shape), spacing, units, index, sampler, level)


def _same_rank(image: ImageLike, **named: Sequence[float]) -> None:
    for name, values in named.items():
        if len(values) != len(image.axes):
            raise UsageError(f"{name} has {len(values)} numbers; {image.uri} has {len(image.axes)} axes")


def _extent(start: Sequence[int], stop: Sequence[int]) -> tuple[int, ...]:
    shape = tuple(int(b) - int(a) for a, b in zip(start, stop, strict=True))
    if min(shape, default=1) < 1:
        raise UsageError(f"the box from {tuple(start)} to {tuple(stop)} is empty")
    return shape


def _direction(values: Sequence[float], name: str) -> NDArray[np.float64]:
    vector = np.asarray(values, np.float64)
    if vector.shape != (3,) or not np.isfinite(vector).all() or not np.linalg.norm(vector) > 0:
        raise UsageError(
            f"{name} is {values!r}; a direction of three finite numbers, not all 0, belongs there"
        )
    return vector / np.linalg.norm(vector)


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Cosine and sine that are exact at multiples of 90 degrees, so that such turns are copies of voxels."""
    quarter, rest = divmod(degrees, 90.0)
    c, s = (math.cos(math.radians(rest)), math.sin(math.radians(rest))) if rest else (1.0, 0.0)
    for _ in range(int(quarter) % 4):
        c, s = -s, c
    return c, s
