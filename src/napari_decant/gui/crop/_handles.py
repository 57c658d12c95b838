"""Handles and edges of a box as it is seen: geometry alone, no Qt and no viewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_decant.images.crop import Region

__all__ = ["Handle", "Point", "Vector", "View", "edges", "handles", "nearest_handle", "outline", "plane_axes"]

Vector = NDArray[np.float64]
Point = Sequence[float] | Vector


@dataclass(frozen=True, slots=True)
class View:
    """How the world is seen.

    Attributes
    ----------
    displayed : tuple of int
        Axes of the region that are seen, two or three.
    point : tuple of float
        Where the axes that are not seen are cut; others are ignored.
    """

    displayed: tuple[int, ...]
    point: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Handle:
    """A spot of a box that can be dragged.

    Attributes
    ----------
    kind : {"move", "face", "corner", "turn"}
    axis : int
        Of the box: along which a face moves, about which it turns; -1 otherwise.
    sides : tuple of int
        -1, 0 or 1 along each axis of the box: where on it the handle is.
    position : tuple of float
        In the world.
    """

    kind: str
    axis: int
    sides: tuple[int, ...]
    position: tuple[float, ...]


def plane_axes(region: Region, displayed: Sequence[int]) -> tuple[int, int] | None:
    """Which axes of a box lie in the plane that is seen, rows first; None if it is tilted out of it."""
    if region.rank == 2:
        return (0, 1)
    hidden = next(axis for axis in range(3) if axis not in displayed)
    along = np.abs(region.rotation[hidden])
    through = int(along.argmax())
    if along[through] < 1 - 1e-6:
        return None
    rest = [axis for axis in range(3) if axis != through]
    return rest[0], rest[1]


def _at(region: Region, sides: Sequence[float]) -> Vector:
    half = np.asarray(region.size) / 2
    return np.asarray(np.asarray(region.center) + region.rotation @ (half * np.asarray(sides, np.float64)))


def handles(region: Region, view: View, reach: float = 0.0) -> tuple[Handle, ...]:
    """All handles of a box as it is seen.

    Parameters
    ----------
    region : Region
    view : View
    reach : float
        World distance of the rotation handle from the box, where it is flat.
    """
    if len(view.displayed) == 3 and region.rank == 3:
        return _handles_in_space(region)
    return _handles_in_plane(region, view, reach)


def _handles_in_space(region: Region) -> tuple[Handle, ...]:
    found = [Handle("move", -1, (0, 0, 0), region.center)]
    for axis in range(3):
        for side in (-1, 1):
            sides = [0, 0, 0]
            sides[axis] = side
            found.append(Handle("face", axis, tuple(sides), tuple(_at(region, sides).tolist())))
    for axis in range(3):
        sides = [1, 1, 1]
        sides[axis] = 0
        found.append(Handle("turn", axis, tuple(sides), tuple(_at(region, sides).tolist())))
    return tuple(found)


def _handles_in_plane(region: Region, view: View, reach: float) -> tuple[Handle, ...]:
    axes = plane_axes(region, view.displayed)
    flat = _onto(region.center, view)
    found = [Handle("move", -1, (0,) * region.rank, tuple(flat.tolist()))]
    if axes is None:
        return tuple(found)
    spots: list[tuple[str, int, dict[int, float]]] = []
    for axis in axes:
        spots += [("face", axis, {axis: side}) for side in (-1, 1)]
    spots += [("corner", -1, {axes[0]: a, axes[1]: b}) for a in (-1, 1) for b in (-1, 1)]
    for kind, axis, sides in spots:
        place = [sides.get(i, 0) for i in range(region.rank)]
        found.append(
            Handle(kind, axis, tuple(map(int, place)), tuple(_onto(_at(region, place), view).tolist()))
        )
    above = [0.0] * region.rank
    above[axes[0]] = -1 - 2 * reach / region.size[axes[0]]
    through = next((i for i in range(region.rank) if i not in axes), -1)
    top = _onto(_at(region, above), view)
    found.append(Handle("turn", through, tuple(round(a) for a in above), tuple(top.tolist())))
    return tuple(found)


def _onto(point: Point, view: View) -> Vector:
    """Move a point into the plane that is seen."""
    moved = np.array(point, np.float64)
    for axis in range(len(moved)):
        if axis not in view.displayed:
            moved[axis] = view.point[axis]
    return moved


def edges(region: Region) -> NDArray[np.float64]:
    """Edges of a box, shape (edges, 2, rank)."""
    corners = region.corners()
    count = len(corners)
    pairs = [(i, i | 1 << bit) for i in range(count) for bit in range(region.rank) if not i >> bit & 1]
    return corners[np.asarray(pairs)]


def outline(region: Region, view: View) -> NDArray[np.float64]:
    """What is seen of a box: its edges in space, or where a plane cuts it, shape (lines, 2, rank)."""
    if region.rank == 2 or len(view.displayed) == 3:
        return edges(region)
    hidden = next(axis for axis in range(3) if axis not in view.displayed)
    level = view.point[hidden]
    points: list[Vector] = []
    for a, b in edges(region):
        low, high = a[hidden] - level, b[hidden] - level
        if low * high < 0:
            points.append(a + (b - a) * (low / (low - high)))
        elif low == 0:
            points.append(a)
        elif high == 0:
            points.append(b)
    if len(points) < 3:
        return np.empty((0, 2, 3))
    found = np.asarray(points)
    seen = found[:, list(view.displayed)]
    middle = seen.mean(axis=0)
    order = np.argsort(np.arctan2(*(seen - middle).T))
    ring = found[order]
    ring[:, hidden] = level
    return np.stack([ring, np.roll(ring, -1, axis=0)], axis=1)


def nearest_handle(
    found: Sequence[Handle],
    view: View,
    point: Point,
    direction: Point | None,
    reach: float,
) -> Handle | None:
    """The handle under the pointer.

    Parameters
    ----------
    found : sequence of Handle
    view : View
    point : sequence of float
        Of the world, under the pointer.
    direction : sequence of float or None
        Of the view, in space.
    reach : float
        World distance within which a handle is hit.
    """
    best: tuple[float, float, Handle] | None = None
    for handle in found:
        away = np.asarray(handle.position) - np.asarray(point)
        depth = 0.0
        if direction is not None:
            unit = np.asarray(direction) / np.linalg.norm(direction)
            depth = float(away @ unit)
            away = away - depth * unit
        else:
            away = away[list(view.displayed)]
        distance = float(np.linalg.norm(away))
        # a handle to turn or size with lies over the one that moves
        rank = distance + (0.5 * reach if handle.kind == "move" else 0.0)
        if distance <= reach and (best is None or (rank, depth) < best[:2]):
            best = rank, depth, handle
    return best[2] if best is not None else None
