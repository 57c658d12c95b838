"""A lazy array answers exactly as the numpy array of the same pixels would."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

from napari_decant.images import ArrayLimits, ChunkCache, LazyArray

DATA = (1 + np.arange(7 * 9 * 11) % 65535).astype("uint16").reshape(7, 9, 11)


class Source:
    """Chunks of a numpy array, padded at the edges as stored chunks are."""

    def __init__(self, data: np.ndarray, chunk_shape: tuple[int, ...]) -> None:
        self.data, self.chunk_shape = data, chunk_shape
        self.shape, self.dtype = data.shape, data.dtype
        self.loads = 0

    def read_chunk(self, index: Any, out: Any = None) -> np.ndarray:
        self.loads += 1
        out = np.full(self.chunk_shape, 60_000, self.dtype) if out is None else out
        part = self.data[
            tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunk_shape, strict=True))
        ]
        out[tuple(slice(0, n) for n in part.shape)] = part
        return out

    def read(self, selection: tuple[slice, ...]) -> np.ndarray:
        return self.data[selection]


def lazy(chunks: tuple[int, ...] = (2, 4, 5), cache: int = 1 << 20, **kwargs: Any) -> LazyArray:
    return LazyArray(Source(DATA, chunks), ChunkCache(cache), **kwargs)


@settings(deadline=None, max_examples=300)
@given(
    index=basic_indices(DATA.shape, allow_newaxis=True, allow_ellipsis=True),
    chunks=st.tuples(st.integers(1, 8), st.integers(1, 10), st.integers(1, 12)),
    cache=st.sampled_from([0, 100, 1 << 20]),
)
def test_basic_indexing_is_numpys(index: Any, chunks: tuple[int, ...], cache: int) -> None:
    array = lazy(chunks, cache)
    for _ in range(2):
        result, expected = array[index], DATA[index]
        assert np.array_equal(result, expected)
        assert np.shape(result) == np.shape(expected)
        assert np.asarray(result).dtype == DATA.dtype


@settings(deadline=None, max_examples=100)
@given(
    order=st.permutations(range(3)),
    index=st.integers(-7, 6),
    crop=st.tuples(st.integers(0, 8), st.integers(0, 11)),
)
def test_views_are_numpys(order: list[int], index: int, crop: tuple[int, int]) -> None:
    array = lazy()
    turned, expected = array.transpose(order), DATA.transpose(order)
    assert (turned.shape, turned.chunks) == (expected.shape, tuple((2, 4, 5)[i] for i in order))
    assert np.array_equal(turned, expected)
    axis = order.index(0)
    plane = turned.take(index, axis)
    assert isinstance(plane, LazyArray)
    assert np.array_equal(plane, expected.take(index, axis))
    y, x = crop
    assert np.array_equal(plane.transpose()[y:, :x], expected.take(index, axis).T[y:, :x])
    again = plane.take(0, 1)
    assert np.array_equal(again, expected.take(index, axis).take(0, 1))


@pytest.mark.parametrize(
    "key",
    [
        [2, 0, 2],
        np.array([-1, 3]),
        (slice(None), [1, 5]),
        (..., [0, 8], slice(2, 4)),
        (1, [8, 0]),
        (None, [1], slice(None, None, -1), [2]),
        (np.array([], int), 0),
        (0, []),
        (range(1, 3), slice(None), 2),
        (slice(None), (1, 2)),
        (0, slice(None), ..., [1, 2]),
        (0, [3, 1], ..., 2),
    ],
)
def test_lists_pick_as_numpy_does(key: Any) -> None:
    assert np.array_equal(lazy()[key], DATA[key])


def test_masks_and_take() -> None:
    array = lazy()
    assert np.array_equal(array[DATA > 300], DATA[DATA > 300])
    assert np.array_equal(array[np.array([True] * 3 + [False] * 4)], DATA[:3])
    assert np.array_equal(np.take(array, [1, 2], axis=1), np.take(DATA, [1, 2], axis=1))
    with pytest.raises(IndexError):
        array[[7]]


def test_it_has_what_numpy_and_viewers_ask_for() -> None:
    array = lazy()
    assert (array.shape, array.ndim, array.size, array.nbytes, array.dtype) == (
        DATA.shape, 3, DATA.size, DATA.nbytes, DATA.dtype,
    )  # fmt: skip
    assert (len(array), array.chunks) == (7, (2, 4, 5))
    assert np.array_equal(np.stack(list(array)), DATA)
    assert np.max(array) == DATA.max()
    assert np.array_equal(np.mean(array, axis=0), DATA.mean(0))
    assert np.array_equal(np.asarray(array, dtype="float32"), DATA.astype("float32"))
    assert np.array_equal(np.array(array), DATA)
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(array, copy=False)
    floats = array.astype("float64")
    assert isinstance(floats, LazyArray)
    assert (floats.dtype, floats[1, 2, 3].dtype) == (np.float64, np.float64)
    assert np.array_equal(floats[::2], DATA[::2])
    with pytest.raises(TypeError, match="cast"):
        array.astype("uint8", casting="safe")
    with pytest.raises(ValueError, match="order"):
        array.transpose(0, 0, 1)
    for wrong in (7, (0, 0, 0, 0), (0, -10)):
        with pytest.raises(IndexError):
            array[wrong]
    assert "uint16" in repr(array)


def test_results_are_the_callers_own() -> None:
    array = lazy()
    array[0][:] = 0
    assert np.array_equal(array[0], DATA[0])


def test_the_cache_stays_within_its_bound_and_forgets_dead_arrays() -> None:
    cache = ChunkCache(1000)
    first, second = (LazyArray(Source(DATA, (1, 9, 11)), cache) for _ in range(2))
    for z in range(7):
        assert np.array_equal(first[z], DATA[z])
        assert np.array_equal(second[z], DATA[z])
        assert cache.nbytes <= 1000
    assert cache.nbytes > 0
    del first, second
    gc.collect()
    assert cache.nbytes == 0


def test_another_cache_for_the_same_array() -> None:
    cache, own = ChunkCache(1 << 20), ChunkCache(1 << 20)
    array = LazyArray(Source(DATA, DATA.shape), cache)
    other = array.take(2, 0)
    assert isinstance(other, LazyArray)
    other = other.with_cache(own)
    assert np.array_equal(other, DATA[2])
    assert (cache.nbytes, own.nbytes, other.source) == (0, DATA.nbytes, array.source)


def test_what_is_larger_than_the_cache_reads_and_does_not_flush_it() -> None:
    cache = ChunkCache(600)
    source = Source(DATA, (1, 9, 11))
    array = LazyArray(source, cache)
    small = LazyArray(Source(DATA[:, :2, :5], (1, 2, 5)), cache)
    assert np.array_equal(small[0], DATA[0, :2, :5])
    kept = cache.nbytes
    assert np.array_equal(array, DATA)
    assert cache.nbytes == kept


def test_a_failing_chunk_fails_every_reader_and_is_tried_again() -> None:
    class Failing(Source):
        broken = True

        def read_chunk(self, index: Any, out: Any = None) -> np.ndarray:
            time.sleep(0.05)
            if self.broken:
                raise OSError("torn")
            return super().read_chunk(index, out)

    source = Failing(DATA, DATA.shape)
    array = LazyArray(source, ChunkCache(1 << 20))
    errors: list[str] = []

    def work() -> None:
        try:
            array[0]
        except OSError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == ["torn"] * 4
    source.broken = False
    assert np.array_equal(array[0], DATA[0])


def test_an_array_that_dies_while_the_cache_is_locked_does_not_wait_for_itself() -> None:
    """Garbage collection may run a finalizer inside any call, also one that holds the lock."""
    cache = ChunkCache(1 << 20)
    doomed = LazyArray(Source(DATA, DATA.shape), cache)
    other = LazyArray(Source(DATA, DATA.shape), cache)
    assert doomed[0].any()
    assert other[0].any()

    def work() -> None:
        nonlocal doomed
        with cache._lock:
            del doomed
            gc.collect()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert other[1].any()
    assert cache.nbytes == DATA.nbytes


def test_limits_name_the_knob() -> None:
    from napari_decant.errors import BudgetExceeded

    array = lazy(limits=ArrayLimits(max_array_bytes=100))
    with pytest.raises(BudgetExceeded, match="max_array_bytes"):
        np.asarray(array)
    assert array[0, 0, :5].tolist() == DATA[0, 0, :5].tolist()
