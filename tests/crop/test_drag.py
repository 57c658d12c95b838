"""Handles of a box: where they are, and that dragging one does what it looks like."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_decant.gui.crop import Drag, View, edges, handles, nearest_handle, outline
from napari_decant.images.crop import Region, angles_of
from napari_decant.spatial import rotation_matrix

FLAT = View((0, 1), (0.0, 0.0))
PLANE = View((1, 2), (5.0, 0.0, 0.0))
SPACE = View((0, 1, 2), (0.0, 0.0, 0.0))
angle = st.floats(-180, 180)


def take(region, view, kind, **wanted):
    found = [
        h for h in handles(region, view, 4.0)
        if h.kind == kind and all(getattr(h, name) == value for name, value in wanted.items())
    ]  # fmt: skip
    assert found
    return found[0]


def drag(region, view, handle, target, direction=None, start=None, **keys):
    begin = handle.position if start is None else start
    return Drag(region, handle, view, begin, direction, 0.5).to(target, direction, **keys)


@settings(deadline=None, max_examples=200)
@given(angle, st.floats(-90, 90), angle)
def test_angles_come_back_from_their_rotation(z, y, x):
    wanted = rotation_matrix((z, y, x))
    np.testing.assert_allclose(rotation_matrix(angles_of(wanted)), wanted, atol=1e-7)
    flat = rotation_matrix(z)
    np.testing.assert_allclose(rotation_matrix(angles_of(flat)[0]), flat, atol=1e-9)


@pytest.mark.parametrize("y", [90.0, -90.0])
def test_angles_at_the_poles(y):
    wanted = rotation_matrix((30.0, y, 50.0))
    np.testing.assert_allclose(rotation_matrix(angles_of(wanted)), wanted, atol=1e-7)


def test_moving():
    region = Region((10.0, 20.0), (4.0, 6.0), (30.0,))
    moved = drag(region, FLAT, take(region, FLAT, "move"), (13.0, 18.0))
    assert moved.center == (13.0, 18.0)
    assert moved.size == region.size
    deep = Region((5.0, 10.0, 20.0), (4.0, 4.0, 6.0), (30.0, 0.0, 0.0))
    moved = drag(deep, PLANE, take(deep, PLANE, "move"), (5.0, 13.0, 18.0))
    assert moved.center == (5.0, 13.0, 18.0)


def test_gripped_beside_the_middle_of_a_handle_the_box_does_not_jump():
    region = Region((10.0, 20.0), (4.0, 6.0), (0.0,))
    handle = take(region, FLAT, "move")
    assert drag(region, FLAT, handle, (10.4, 20.3), start=(10.4, 20.3)).center == (10.0, 20.0)
    turn = take(region, FLAT, "turn")
    near = (turn.position[0], turn.position[1] + 0.5)
    assert drag(region, FLAT, turn, near, start=near).angles[0] == pytest.approx(0)


@pytest.mark.parametrize("turned", [0.0, 40.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_side_follows_the_pointer_and_the_opposite_one_stays(turned, side):
    region = Region((10.0, 20.0), (4.0, 6.0), (turned,))
    handle = take(region, FLAT, "face", axis=1, sides=(0, side))
    along = region.rotation[:, 1] * side
    made = drag(region, FLAT, handle, np.array(handle.position) + 3 * along)
    np.testing.assert_allclose(made.size, (4.0, 9.0))
    opposite = take(region, FLAT, "face", axis=1, sides=(0, -side))
    still = take(made, FLAT, "face", axis=1, sides=(0, -side))
    np.testing.assert_allclose(still.position, opposite.position, atol=1e-9)
    both = drag(region, FLAT, handle, np.array(handle.position) + 3 * along, center=True)
    np.testing.assert_allclose(both.size, (4.0, 12.0))
    np.testing.assert_allclose(both.center, region.center)
    least = drag(region, FLAT, handle, np.array(handle.position) - 30 * along)
    assert least.size[1] == 0.5


def test_a_corner_sizes_both_ways():
    region = Region((10.0, 20.0), (4.0, 6.0), (25.0,))
    handle = take(region, FLAT, "corner", sides=(1, 1))
    target = np.array(handle.position) + region.rotation @ [1.0, 2.0]
    made = drag(region, FLAT, handle, target)
    np.testing.assert_allclose(made.size, (5.0, 8.0))
    np.testing.assert_allclose(take(made, FLAT, "corner", sides=(1, 1)).position, target)


@pytest.mark.parametrize("degrees", [10.0, 95.0, -140.0])
def test_the_rotation_handle_follows_the_pointer(degrees):
    for region, view in (
        (Region((10.0, 20.0), (4.0, 6.0), (15.0,)), FLAT),
        (Region((5.0, 10.0, 20.0), (4.0, 4.0, 6.0), (15.0, 0.0, 0.0)), PLANE),
    ):
        handle = take(region, view, "turn")
        arm = np.array(handle.position) - region.center
        where = list(view.displayed)
        turned = arm.copy()
        turned[where] = rotation_matrix(degrees) @ arm[where]
        made = drag(region, view, handle, np.array(region.center) + turned)
        assert made.angles[0] == pytest.approx((15 + degrees + 180) % 360 - 180)
        again = take(made, view, "turn")
        np.testing.assert_allclose(np.array(again.position) - region.center, turned, atol=1e-9)


def test_turning_in_steps():
    region = Region((10.0, 20.0), (4.0, 6.0), (0.0,))
    handle = take(region, FLAT, "turn")
    arm = np.array(handle.position) - region.center
    made = drag(region, FLAT, handle, np.array(region.center) + rotation_matrix(50.0) @ arm, snap=True)
    assert made.angles == (45.0,)


@settings(deadline=None, max_examples=60)
@given(
    angle, st.floats(-60, 60), angle, st.integers(0, 2), st.integers(-1, 1).filter(bool), st.floats(-1.5, 3)
)
def test_in_space_a_face_follows_the_ray(z, y, x, axis, side, far):
    region = Region((5.0, 10.0, 20.0), (4.0, 5.0, 6.0), (z, y, x))
    sides = [0, 0, 0]
    sides[axis] = side
    handle = take(region, SPACE, "face", axis=axis, sides=tuple(sides))
    along = region.rotation[:, axis] * side
    ray = np.cross(along, [0.3, 0.5, -0.7]) + 0.2 * along
    ray /= np.linalg.norm(ray)
    target = np.array(handle.position) + far * along
    made = drag(region, SPACE, handle, target - 40 * ray, ray, start=np.array(handle.position) + 7 * ray)
    assert made.size[axis] == pytest.approx(region.size[axis] + far)
    back = take(made, SPACE, "face", axis=axis, sides=tuple(-s for s in sides))
    before = take(region, SPACE, "face", axis=axis, sides=tuple(-s for s in sides))
    np.testing.assert_allclose(back.position, before.position, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("degrees", [20.0, -35.0])
def test_in_space_the_box_turns_about_its_own_axis(axis, degrees):
    region = Region((5.0, 10.0, 20.0), (4.0, 5.0, 6.0), (25.0, 15.0, -40.0))
    handle = take(region, SPACE, "turn", axis=axis)
    about = region.rotation[:, axis]
    middle = np.array(region.center)
    arm = np.array(handle.position) - middle
    other = np.cross(about[::-1], arm[::-1])[::-1]
    target = middle + math.cos(math.radians(degrees)) * arm + math.sin(math.radians(degrees)) * other
    ray = about + 0.3 * arm / np.linalg.norm(arm)
    made = drag(region, SPACE, handle, target + 9 * ray, ray)
    np.testing.assert_allclose(made.rotation[:, axis], about, atol=1e-9)
    np.testing.assert_allclose(take(made, SPACE, "turn", axis=axis).position, target, atol=1e-9)
    assert made.size == region.size
    # seen from its side, the handle still goes the way the pointer goes
    side_ray = arm / np.linalg.norm(arm)
    small = drag(region, SPACE, handle, np.array(handle.position) + 0.05 * other, side_ray)
    went = np.array(take(small, SPACE, "turn", axis=axis).position) - handle.position
    np.testing.assert_allclose(went, 0.05 * other, atol=0.01)


def test_seen_from_its_end_a_side_does_not_run_away():
    region = Region((5.0, 10.0, 20.0), (4.0, 5.0, 6.0), (0.0, 0.0, 0.0))
    handle = take(region, SPACE, "face", axis=0, sides=(1, 0, 0))
    made = drag(region, SPACE, handle, (99.0, 10.5, 20.5), (1.0, 0.0, 0.0))
    assert made.size == region.size


def test_which_handle_is_under_the_pointer():
    region = Region((10.0, 20.0), (4.0, 6.0), (0.0,))
    found = handles(region, FLAT, 4.0)
    assert {h.kind for h in found} == {"move", "face", "corner", "turn"}
    assert len(found) == 1 + 4 + 4 + 1
    assert nearest_handle(found, FLAT, (10.1, 20.1), None, 0.5).kind == "move"
    assert nearest_handle(found, FLAT, (10.1, 23.1), None, 0.5).axis == 1
    assert nearest_handle(found, FLAT, (50.0, 50.0), None, 0.5) is None
    deep = Region((0.0, 0.0, 0.0), (4.0, 5.0, 6.0), (0.0, 0.0, 0.0))
    spots = handles(deep, SPACE)
    assert len(spots) == 1 + 6 + 3
    # of two handles behind each other, the one in front
    ray = np.array([1.0, 0.0, 0.0])
    hit = nearest_handle(spots, SPACE, (-30.0, 0.0, 0.0), ray, 0.5)
    assert hit.sides == (-1, 0, 0)


def test_a_box_tilted_out_of_the_plane_shows_where_the_plane_cuts_it():
    region = Region((5.0, 10.0, 20.0), (8.0, 8.0, 8.0), (0.0, 30.0, 40.0))
    assert [h.kind for h in handles(region, PLANE)] == ["move"]
    lines = outline(region, PLANE)
    assert 3 <= len(lines) <= 6
    np.testing.assert_allclose(lines[..., 0], 5.0)
    inside = (lines.reshape(-1, 3) - region.center) @ region.rotation
    assert (np.abs(inside) <= 4 + 1e-9).all()
    assert (np.isclose(np.abs(inside), 4).any(axis=1)).all()
    assert len(outline(region, View((1, 2), (50.0, 0.0, 0.0)))) == 0
    assert edges(region).shape == (12, 2, 3)
    assert outline(Region((1.0, 1.0), (2.0, 2.0), (0.0,)), FLAT).shape == (4, 2, 2)


def test_other_planes_show_their_own_sides():
    region = Region((5.0, 10.0, 20.0), (4.0, 6.0, 8.0), (0.0, 0.0, 0.0))
    view = View((0, 2), (0.0, 10.0, 0.0))
    assert len(handles(region, view)) == 10
    face = take(region, view, "face", axis=0, sides=(1, 0, 0))
    made = drag(region, view, face, (9.0, 10.0, 20.0))
    np.testing.assert_allclose(made.size, (6.0, 6.0, 8.0))
