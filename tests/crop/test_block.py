"""Sampling from a block in memory gives what the executors give: compared with the dense oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support import oracle
from tests.support.images import image_of

from napari_decant.engine import sample_block
from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.spatial import Sampler, SpatialQuery, part_of


def values(shape, dtype):
    flat = 1 + (np.arange(int(np.prod(shape))) * 7919) % 251
    return flat.astype(dtype).reshape(shape)


@st.composite
def scenes(draw):
    names = draw(st.sampled_from(["yx", "zyx", "cyx", "tczyx", "yxc"]))
    shape = tuple(draw(st.integers(1, 3) if n in "tc" else st.integers(1, 9)) for n in names)
    dtype = np.dtype(draw(st.sampled_from(["u1", "u2", "i4", "f4", "f8"])))
    image = image_of(names, [{"shape": shape}])
    spatial = [i for i, n in enumerate(names) if n in "zyx"]
    matrix = np.column_stack([np.eye(len(names)), np.zeros(len(names))])
    numbers = st.integers(-8, 8).map(lambda k: k / 4)
    turn = np.array([[draw(numbers) for _ in spatial] for _ in spatial]) + 2.5 * np.eye(len(spatial))
    assume(abs(np.linalg.det(turn)) > 0.1)
    matrix[np.ix_(spatial, spatial)] = turn
    for i in spatial:
        matrix[i, -1] = draw(st.integers(-24, 24)) / 8
    kind = draw(st.sampled_from(["nearest", "linear"]))
    boundary = draw(st.sampled_from(["constant", "clamp"]))
    sampler = Sampler(kind, boundary, 7.0 if boundary == "constant" else 0.0)
    out = tuple(draw(st.integers(1, 5)) if i in spatial else shape[i] for i in range(len(names)))
    return values(shape, dtype), SpatialQuery(matrix, sampler).resolve(image, out)


def cut(source, resolution, dtype=None):
    block = source[tuple(slice(a, b) for a, b in resolution.read_bounds_index)]
    out = np.zeros(resolution.shape, dtype or source.dtype)
    sample_block(block, resolution, source.shape, out)
    return out


@settings(deadline=None, max_examples=80)
@given(scenes(), st.data())
def test_the_block_that_a_query_reads_gives_its_output_and_every_part_of_it(scene, data):
    source, resolution = scene
    made = cut(source, resolution)
    if resolution.sampler.filter == "nearest":
        np.testing.assert_array_equal(made, oracle.nearest(source, resolution))
    else:
        wanted, largest = oracle.linear(source, resolution)
        room = 1 if source.dtype.kind in "iu" else 4 * np.finfo(source.dtype).eps * largest.max()
        assert np.abs(made.astype(np.float64) - wanted).max() <= room
    start = [data.draw(st.integers(0, n - 1)) for n in resolution.shape]
    stop = [data.draw(st.integers(a + 1, n)) for a, n in zip(start, resolution.shape, strict=True)]
    part = cut(source, part_of(resolution, start, stop))
    np.testing.assert_array_equal(part, made[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))])


def test_a_straight_copy_converts_and_keeps_every_value():
    source = values((4, 5), "u2")
    matrix = [[1, 0, 1], [0, 1, 2]]
    resolution = SpatialQuery(matrix).resolve(image_of("yx", [{"shape": (4, 5)}]), (2, 3))
    np.testing.assert_array_equal(cut(source, resolution, "f4"), source[1:3, 2:5].astype("f4"))


def test_what_has_no_values_between_and_wrong_shapes_are_refused():
    image = image_of("yx", [{"shape": (4, 5)}])
    resolution = SpatialQuery([[1, 0, 0.5], [0, 1, 0.5]], Sampler("linear", "clamp")).resolve(image, (2, 2))
    with pytest.raises(UnsupportedOperation, match="nearest"):
        cut(np.ones((4, 5), bool), resolution)
    with pytest.raises(UsageError, match="shape"):
        sample_block(np.ones((1, 1)), resolution, (4, 5), np.zeros((2, 2)))
