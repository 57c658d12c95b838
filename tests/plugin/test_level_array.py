"""The array of a multiscale layer: numpy's answers, and nothing read before it must be."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.ngff import ramp

from napari_decant.errors import UnsupportedOperation
from napari_decant.plugin._level_array import LevelArray


class Counting:
    """A numpy array that reads when it is indexed, and remembers with what."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.reads = values, []
        self.shape, self.dtype, self.chunks = values.shape, values.dtype, values.shape

    def __getitem__(self, key: Any) -> Any:
        self.reads.append(key)
        return self.values[key]


@st.composite
def two_cuts(draw: st.DrawFn) -> tuple[np.ndarray, Any, Any]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=7))
    values = ramp(shape)
    first = draw(hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=False))
    return values, first, draw(hnp.basic_indices(values[first].shape)) if np.ndim(values[first]) else ...


@settings(max_examples=300, deadline=None)
@given(case=two_cuts())
def test_cuts_of_cuts_are_numpys(case: tuple[np.ndarray, Any, Any]) -> None:
    values, first, second = case
    cut = LevelArray(lambda: nullcontext(Counting(values)))[first]
    np.testing.assert_array_equal(np.asarray(cut), values[first])
    assert np.shape(cut) == values[first].shape
    if np.ndim(cut):
        np.testing.assert_array_equal(np.asarray(cut[second]), values[first][second])


def test_slices_wait_for_the_plane_and_then_one_read_has_both() -> None:
    counting = Counting(ramp((8, 64, 48)))
    array = LevelArray(lambda: nullcontext(counting))
    tile = array[:, 10:40:1, 5:45]
    assert (tile.shape, tile.dtype, tile.ndim, tile.nbytes) == ((8, 30, 40), np.uint16, 3, 8 * 30 * 40 * 2)
    assert counting.reads == []
    plane = np.asarray(tile[3:4])
    assert counting.reads == [(slice(3, 4, 1), slice(10, 40, 1), slice(5, 45, 1))]
    np.testing.assert_array_equal(plane, counting.values[3:4, 10:40, 5:45])
    np.testing.assert_array_equal(tile[2], counting.values[2, 10:40, 5:45])


def test_it_has_what_napari_and_numpy_ask_for() -> None:
    values = ramp((4, 6, 5))
    array = LevelArray(lambda: nullcontext(Counting(values)))
    assert (array.shape, array.size, len(array), array.chunks) == ((4, 6, 5), 120, 4, (4, 6, 5))
    np.testing.assert_array_equal(np.max(array, axis=0), values.max(axis=0))
    np.testing.assert_array_equal(array[1:3] + 1, values[1:3] + 1)
    np.testing.assert_array_equal(np.transpose(array, (2, 1, 0)), values.T)
    np.testing.assert_array_equal(np.stack(list(array)), values)
    np.testing.assert_array_equal(array[[0, 2], :, 1], values[[0, 2], :, 1])
    np.testing.assert_array_equal(array[values > 50], values[values > 50])
    converted = array.astype("float32")
    assert converted.dtype == np.float32
    np.testing.assert_array_equal(converted[1:, 0], values[1:, 0].astype("float32"))
    assert np.asarray(array, dtype="int64").dtype == np.int64
    with pytest.raises(TypeError, match="cannot cast"):
        array.astype("uint8", casting="safe")
    with pytest.raises(IndexError):
        array[4]
    with pytest.raises(UnsupportedOperation, match="never written"):
        array[0] = 1
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, copy=False)


def test_complex_values_show_their_magnitude() -> None:
    values = np.array([[3 + 4j, 1j], [0, -2]], np.complex64)
    array = LevelArray(lambda: nullcontext(Counting(values)))
    assert array.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(array[0:1]), [[5, 1]])
    np.testing.assert_array_equal(array.astype("float64")[1], [0, 2])
