"""The pyramid rule against exact arithmetic, for every type, odd sizes and any way of streaming."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.images import PyramidBuilder, downsample, level_factors, level_scales

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


def half_even(value: Fraction) -> int:
    return round(value)  # Python rounds half to even, exactly


def exact(block: np.ndarray, factors: tuple[int, ...], how: str) -> list[Any]:
    """What the rule says, one voxel at a time."""
    shape = [-(-n // f) for n, f in zip(block.shape, factors, strict=True)]
    values: list[Any] = []
    for index in np.ndindex(*shape):
        box = tuple(slice(i * f, i * f + f) for i, f in zip(index, factors, strict=True))
        under = [int(v) for v in block[box].ravel()]
        values.append(max(under) if how == "max" else half_even(Fraction(sum(under), len(under))))
    return values


@settings(max_examples=120, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(INTEGERS), how=st.sampled_from(["mean", "max"]))
def test_integers_are_exact(data: st.DataObject, dtype: str, how: Any) -> None:
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    factors = data.draw(st.tuples(*[st.sampled_from([1, 2])] * len(shape)))
    edges = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1]
    elements = st.one_of(st.sampled_from(edges), npst.from_dtype(np.dtype(dtype)).map(int))
    block = data.draw(npst.arrays(dtype, shape, elements=elements))
    result = downsample(block, factors, how)
    assert result.dtype == block.dtype
    assert [int(v) for v in result.ravel()] == exact(block, factors, how)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_the_mean_and_keep_their_type(dtype: str) -> None:
    block = np.random.default_rng(0).normal(100, 30, (5, 6, 7)).astype(dtype)
    result = downsample(block, (2, 2, 2))
    assert result.dtype == np.dtype(dtype)
    assert result[2, 2, 3] == pytest.approx(float(block[4:, 4:, 6:].astype(np.float64).mean()), rel=1e-3)
    whole = block[:4, :, :6].reshape(2, 2, 3, 2, 3, 2).astype(np.float64).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(result[:2, :, :3], whole, rtol=2 * np.finfo(dtype).eps)


def test_the_largest_floats_do_not_overflow_and_nan_stays_where_it_is() -> None:
    top = np.finfo(np.float64).max
    assert downsample(np.full((2, 2), top), (2, 2))[0, 0] == top
    block = np.ones((4, 4), np.float32)
    block[0, 0] = np.nan
    result = downsample(block, (2, 2))
    assert np.isnan(result[0, 0])
    assert np.isfinite(result.ravel()[1:]).all()


def test_bools_and_strided_targets() -> None:
    block = np.array([[True, True], [True, False], [False, False]])
    assert downsample(block, (2, 2)).tolist() == [[True], [False]]
    out = np.zeros((4, 6), np.uint8)
    downsample(np.full((4, 6), 9, np.uint8), (2, 2), out=out[::2, ::2])
    assert out.sum() == 9 * 6


def test_what_has_no_mean_is_refused() -> None:
    with pytest.raises(UnsupportedOperation):
        downsample(np.array(["a", "b"]), (2,))
    with pytest.raises(UsageError):
        downsample(np.zeros((4, 4)), (2, 3))
    with pytest.raises(UsageError):
        downsample(np.zeros((4, 4)), (2, 2), out=np.zeros((2, 2), np.uint8))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 23), st.integers(1, 9), st.integers(1, 9)),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=30),
    levels=st.integers(1, 5),
    along=st.booleans(),
    how=st.sampled_from(["mean", "max"]),
)
def test_streaming_gives_what_the_whole_gives(
    shape: tuple[int, int, int], cuts: list[int], levels: int, along: bool, how: Any
) -> None:
    stack = np.random.default_rng(1).integers(0, 65536, shape).astype(np.uint16)
    builder = PyramidBuilder(shape, np.uint16, (along, True, True), levels=levels, method=how)
    made = [np.zeros(s, np.uint16) for s in builder.shapes]
    covered = [0] * len(made)
    start = 0
    for size in itertools.cycle(cuts):
        if start >= shape[0]:
            break
        for level, first, block in builder.push(stack[start : start + size]):
            assert first == covered[level]
            made[level][first : first + len(block)] = block
            covered[level] += len(block)
        start += size
    expected = stack
    for level, factors in enumerate(builder.factors):
        expected = downsample(expected, factors, how)
        assert covered[level + 1] == len(expected)
        np.testing.assert_array_equal(made[level + 1], expected)


def test_streaming_refuses_what_does_not_fit() -> None:
    builder = PyramidBuilder((3, 4, 4), np.uint8, (True, True, True), levels=2)
    with pytest.raises(UsageError, match="does not fit"):
        list(builder.push(np.zeros((1, 4, 5), np.uint8)))
    with pytest.raises(UsageError, match="more than 3"):
        list(builder.push(np.zeros((4, 4, 4), np.uint8)))


@given(shape=st.tuples(*[st.integers(1, 5000)] * 3))
def test_levels_go_on_until_they_are_small(shape: tuple[int, int, int]) -> None:
    factors = level_factors(shape, (True, True, True))
    assert len(factors) >= 2
    size = list(shape)
    for step in factors:
        assert all(f == (2 if n > 1 else 1) for f, n in zip(step, size, strict=True))
        size = [-(-n // f) for n, f in zip(size, step, strict=True)]
    assert max(size) <= 256
    assert len(factors) == 2 or max(math.ceil(n / 2 ** (len(factors) - 1)) for n in shape) > 256


def test_centres_move_by_half_a_voxel_a_step() -> None:
    levels = level_scales((1.0, 0.5, 0.25), (10.0, 0.0, -1.0), [(1, 2, 2), (1, 2, 2)])
    assert levels == [
        ((1.0, 0.5, 0.25), (10.0, 0.0, -1.0)),
        ((1.0, 1.0, 0.5), (10.0, 0.25, -0.875)),
        ((1.0, 2.0, 1.0), (10.0, 0.75, -0.625)),
    ]
