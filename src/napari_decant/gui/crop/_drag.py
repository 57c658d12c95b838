"""Handles of a box and what dragging them does: geometry alone, no Qt and no viewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.images.crop import Region, angles_of

__all__ = ["Drag", "Handle", "View", "edges", "handles", "nearest_handle", "outline", "plane_axes"]

_SNAP_DEGREES: Final = 15.0
_EDGE_ON: Final = 0.25  # cosine below which a circle is seen from its side
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


class Drag:
    """One drag of a handle.

    Parameters
    ----------
    region : Region
        As it was when the drag began.
    handle : Handle
    view : View
    point, direction
        Of the pointer, see `nearest_handle`.
    least : float
        Size below which no side goes.
    """

    def __init__(
        self,
        region: Region,
        handle: Handle,
        view: View,
        point: Point,
        direction: Point | None,
        least: float,
    ) -> None:
        self.region, self.handle, self.view, self.least = region, handle, view, least
        self._grip = np.asarray(handle.position, np.float64)
        self._begin = self._facing(point, direction, self._grip)

    def to(
        self,
        point: Point,
        direction: Point | None,
        *,
        snap: bool = False,
        center: bool = False,
    ) -> Region:
        """The box with the pointer somewhere else.

        Parameters
        ----------
        point, direction
            Of the pointer.
        snap : bool
            Turn in steps of 15 degrees.
        center : bool
            Size both sides, about the centre.
        """
        kind = self.handle.kind
        if kind == "turn":
            return self._turned(point, direction, snap)
        if kind == "face" and direction is not None:
            along = self.region.rotation[:, self.handle.axis]
            shift = self._along(point, direction, along) * along
        else:
            shift = self._facing(point, direction, self._grip) - self._begin
        if kind == "move":
            return replace(self.region, center=_plain(np.asarray(self.region.center) + shift))
        return self._sized(shift, center)

    def _sized(self, shift: Vector, about_center: bool) -> Region:
        """Move the sides that the handle is on; the opposite ones stay."""
        turn = self.region.rotation
        local = turn.T @ shift
        size = np.array(self.region.size)
        middle = np.asarray(self.region.center, np.float64)
        for axis, side in enumerate(self.handle.sides):
            if side == 0:
                continue
            grown = side * local[axis] * (2 if about_center else 1)
            new = max(self.least, size[axis] + grown)
            if not about_center:
                middle = middle + turn[:, axis] * (side * (new - size[axis]) / 2)
            size[axis] = new
        return replace(self.region, center=_plain(middle), size=_plain(size))

    def _turned(self, point: Point, direction: Point | None, snap: bool) -> Region:
        if self.region.rank == 2 or direction is None:
            return self._turned_in_plane(point, snap)
        axis = self.region.rotation[:, self.handle.axis]
        ray = np.asarray(direction) / np.linalg.norm(direction)
        middle = np.asarray(self.region.center)
        arm = self._grip - middle
        arm = arm - (arm @ axis) * axis
        side = np.cross(_xyz(axis), _xyz(arm))[::-1]  # the way that the grip goes round
        if abs(ray @ axis) >= _EDGE_ON:
            here = np.asarray(point) + ray * (((self._grip - np.asarray(point)) @ axis) / (ray @ axis))
            away = here - middle
            angle = math.atan2(float(away @ side), float(away @ arm))
        else:  # seen from its side, the circle is a line: along it, a radius is a radian
            moved = self._facing(point, direction, self._grip) - self._begin
            angle = float(moved @ side) / max(float(arm @ arm), 1e-300)
        degrees = math.degrees(angle)
        if snap:
            degrees = round(degrees / _SNAP_DEGREES) * _SNAP_DEGREES
        about = _about(axis, degrees)
        return replace(self.region, angles=angles_of(about @ self.region.rotation))

    def _turned_in_plane(self, point: Point, snap: bool) -> Region:
        rows, columns = self.view.displayed[:2]
        middle = np.asarray(self.region.center)

        def angle_at(position: Vector) -> float:
            away = position - middle
            return math.atan2(away[rows], away[columns])

        delta = math.degrees(angle_at(np.asarray(point, np.float64)) - angle_at(self._begin))
        if self.region.rank == 2:
            angle = self.region.angles[0] + delta
            if snap:
                angle = round(angle / _SNAP_DEGREES) * _SNAP_DEGREES
            return replace(self.region, angles=(_wrapped(angle),))
        # from the columns' axis towards the rows' axis
        turn = np.eye(3)
        delta = round(delta / _SNAP_DEGREES) * _SNAP_DEGREES if snap else delta
        c, s = math.cos(math.radians(delta)), math.sin(math.radians(delta))
        turn[rows, rows], turn[rows, columns], turn[columns, rows], turn[columns, columns] = c, s, -s, c
        return replace(self.region, angles=angles_of(turn @ self.region.rotation))

    def _along(self, point: Point, direction: Point, along: Vector) -> float:
        """How far along a line the pointer's ray passes closest."""
        ray = np.asarray(direction, np.float64) / np.linalg.norm(direction)
        flat = along - (along @ ray) * ray
        if flat @ flat < 1e-6:  # seen from its end, the line is a point
            return 0.0
        away = np.asarray(point) - self._begin
        return float((away - (away @ ray) * ray) @ flat) / float(flat @ flat)

    def _facing(self, point: Point, direction: Point | None, through: Vector) -> Vector:
        """Where the pointer meets the plane through a point that faces the viewer."""
        here = np.array(point, np.float64)
        if direction is None:
            for axis in range(len(here)):
                if axis not in self.view.displayed:
                    here[axis] = through[axis]
            return here
        ray = np.asarray(direction) / np.linalg.norm(direction)
        return np.asarray(here + ray * ((through - here) @ ray))


def _plain(values: Vector) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _xyz(vector: Vector) -> Vector:
    return vector[::-1]


def _wrapped(degrees: float) -> float:
    """Between -180 and 180."""
    return (degrees + 180.0) % 360.0 - 180.0


def _about(axis: Vector, degrees: float) -> Vector:
    """Rotation about an axis, right-handed in x, y, z; both in z, y, x."""
    x, y, z = _xyz(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = math.radians(degrees)
    turn = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
    return np.ascontiguousarray(turn[::-1, ::-1])
