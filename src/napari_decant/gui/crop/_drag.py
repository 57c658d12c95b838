"""What dragging a handle of a box does: geometry alone, no Qt and no viewer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from napari_decant.gui.crop._handles import Handle, Point, Vector, View
from napari_decant.images.crop import Region, angles_of

__all__ = ["Drag"]

_SNAP_DEGREES: Final = 15.0
_EDGE_ON: Final = 0.25  # cosine below which a circle is seen from its side


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
