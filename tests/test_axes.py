"""Planes land at their true place, whatever order they have in the file."""

from __future__ import annotations

from itertools import permutations, product
from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_decant.tiff._axes import arrange, canonical_permutation
from napari_decant.tiff._places import Places

RANK = {"t": 0, "z": 2}


def section_5(planes: list[int], order: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Lay planes out as section 5 of the archive format reads them."""
    perm = sorted(range(len(order)), key=lambda i: RANK.get(order[i], 1))
    leading = [shape[i] for i in perm]
    array = np.zeros(leading, np.int64)
    storage_shape = [leading[perm.index(i)] for i in range(len(perm))]
    for i, plane in enumerate(planes):
        s = np.unravel_index(i, storage_shape)
        array[tuple(s[p] for p in perm)] = plane
    return array


@settings(deadline=None, max_examples=120)
@given(
    st.permutations(["t", "c", "z"]),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_any_order_of_planes_in_the_file(
    names: list[str], extents: list[int], random: Random, shuffled: bool
) -> None:
    grid = list(product(*(range(n) for n in extents)))
    if shuffled:
        random.shuffle(grid)
    found = arrange(Places(tuple(names), tuple(extents), np.array(grid)), len(grid), samples=False)
    array = section_5(list(found.order), found.axes.plane_order, found.axes.storage_shape)
    kept = [axis for axis, extent in zip(names, extents, strict=True) if extent > 1]
    assert list(found.axes.canonical_order) == (sorted(kept, key=lambda a: RANK.get(a, 1)) or ["z"])
    assert array.size == len(grid)
    for plane, place in enumerate(grid):
        at = dict(zip(names, place, strict=True))
        where = tuple(at[axis] for axis in found.axes.canonical_order) if kept else (0,)
        assert array[where] == plane
    assert found.notes == ()


@pytest.mark.parametrize("order", list(permutations("tcz")))
def test_file_order_is_kept_where_it_is_a_grid(order: tuple[str, ...]) -> None:
    found = arrange(Places.grid(order, (2, 3, 4), 24), 24, samples=False)
    assert found.axes.plane_order == order
    assert list(found.order) == list(range(24))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.data())
def test_a_missing_plane_never_gets_a_place(extents: list[int], data: st.DataObject) -> None:
    names = ("t", "c", "z")[: len(extents)]
    grid = list(product(*(range(n) for n in extents)))
    hole = data.draw(st.integers(0, len(grid) - 2), "hole")  # the last plane keeps the extents
    place = dict(zip(names, grid.pop(hole), strict=True))
    found = arrange(Places(names, tuple(extents), np.array(grid)), len(grid), samples=False)
    box = np.ptp(np.array(grid), axis=0) + 1
    if prod(int(n) for n in box) == len(grid):  # what is left is a smaller grid
        assert found.axes.planes == len(grid)
    else:
        assert found.axes.plane_order == ("z",)
        assert list(found.order) == list(range(len(grid)))
    assert list(found.absent) == [place]
    named = " ".join(f"{axis}={i}" for axis, i in place.items())
    assert found.notes == (f"1 of {len(grid) + 1} declared frames absent from this file: {named}",)


def test_a_series_cut_short_keeps_its_axis() -> None:
    found = arrange(Places.grid("t", (50,), 7), 7, samples=False)
    assert (found.axes.plane_order, found.axes.storage_shape) == (("t",), (7,))
    assert found.notes[0].startswith("43 of 50 declared frames absent")
    assert [place["t"] for place in found.absent] == list(range(7, 50))


def test_a_part_of_a_set_says_where_it_begins() -> None:
    places = Places(("t", "z"), (10, 2), np.array([[t, z] for t in (3, 4) for z in (0, 1)]), declared=4)
    found = arrange(places, 4, samples=False)
    assert (found.axes.plane_order, found.axes.storage_shape) == (("t", "z"), (2, 2))
    assert found.origin == {"t": 3}
    assert found.notes == ()


def test_planes_that_skip_places_are_not_pulled_together() -> None:
    found = arrange(Places(("t",), (5,), np.array([[0], [2], [4]])), 3, samples=False)
    assert found.axes.plane_order == ("z",)
    assert found.axes.true_axes == (("t", 5),)
    assert found.notes == ("2 of 5 declared frames absent from this file: t=1, t=3",)


def test_two_planes_at_one_place_are_both_kept() -> None:
    found = arrange(Places(("t",), (2,), np.array([[0], [1], [1]])), 3, samples=False)
    assert found.axes.storage_shape == (3,)
    assert list(found.order) == [0, 1, 2]
    assert "same place" in found.notes[0]


def test_planes_without_a_place_flatten_the_axes() -> None:
    places = Places(("t",), (2,), np.array([[0], [1]]), known=np.array([True, False]))
    found = arrange(places, 2, samples=False)
    assert found.axes.plane_order == ("z",)
    assert found.notes == ("1 of 2 planes have no place in the metadata of this file",)


@pytest.mark.parametrize(
    ("names", "samples", "order", "true_axes"),
    [
        (("p",), False, ("p",), ()),
        (("t", "p", "z"), False, ("t", "p", "z"), ()),
        # NGFF has room for one axis that is neither time nor space.
        (("row", "c"), False, ("z",), (("row", 2), ("c", 2))),
        (("row", "column"), False, ("z",), (("row", 2), ("column", 2))),
        (("t", "p", "c", "z"), False, ("z",), (("t", 2), ("p", 2), ("c", 2), ("z", 2))),
        (("t", "c"), True, ("t", "ch"), ()),  # c is the trailing axis of the samples
        (("t", "z", "c"), True, ("z",), (("t", 2), ("z", 2), ("c", 2))),  # six axes with y, x and c
        (("x",), False, ("z",), (("x", 2),)),
        (("q",), False, ("z",), ()),
    ],
)
def test_axes_that_ngff_cannot_hold_are_recorded(
    names: tuple[str, ...], samples: bool, order: tuple[str, ...], true_axes: tuple[tuple[str, int], ...]
) -> None:
    planes = 2 ** len(names)
    found = arrange(Places.grid(names, [2] * len(names), planes), planes, samples=samples)
    assert found.axes.plane_order == order
    assert found.axes.true_axes == true_axes
    assert list(found.order) == list(range(planes))


def test_a_declared_grid_of_any_size_costs_nothing() -> None:
    found = arrange(Places.grid(("t", "c", "z"), (1 << 31, 1 << 31, 1 << 31), 5), 5, samples=False)
    assert found.axes.planes == 5
    assert "declared frames absent" in found.notes[0]


def test_canonical_order_is_stable() -> None:
    assert canonical_permutation(("z", "c", "t")) == [2, 1, 0]
    assert canonical_permutation(("c", "z")) == [0, 1]
    assert canonical_permutation(("p", "z", "t")) == [2, 0, 1]
