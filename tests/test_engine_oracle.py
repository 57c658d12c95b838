"""Every crop equals what numpy computes from the whole array: copies and nearest to the bit."""

from __future__ import annotations

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as zc
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support import oracle
from tests.support.images import image_of

from napari_decant.engine import ChunkPlanner, CpuExecutor, CpuLimits, PlanLimits, ZarrArray
from napari_decant.errors import UsageError
from napari_decant.spatial import IndexQuery, Sampler, SpatialQuery, part_of
from napari_decant.stores import MemoryStore

DTYPES = ["u1", "i1", "<u2", ">u2", "<i2", "<u4", ">i4", "<u8", "<i8", "<f2", "<f4", ">f4", "<f8", "<c8", "?"]
V2 = [None, numcodecs.Zstd(1), numcodecs.Blosc("lz4", 5, 1), numcodecs.LZ4()]
V3 = [None, zc.ZstdCodec(level=1), zc.GzipCodec(level=1)]
EXECUTOR = CpuExecutor(limits=CpuLimits(decode_workers=2))


def values(shape, dtype, seed=0):
    """Never zero, different everywhere, over the whole range of the type."""
    dtype = np.dtype(dtype)
    flat = 1 + (np.arange(int(np.prod(shape))) * 2654435761 + seed) % 65521
    if dtype.kind == "b":
        return (flat % 3 != 0).reshape(shape)
    if dtype.kind == "c":
        return (flat - 1j * (flat % 97)).reshape(shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        span = int(limits.max) - int(limits.min)
        wide = [int(limits.min) + int(v) * (span // 65537 or 1) % span for v in flat]
        return (np.array(wide, dtype) | dtype.type(1)).reshape(shape)
    return ((flat - 30000) / 3).reshape(shape).astype(dtype)


def stored(data, draw):
    raw: dict = {}
    chunks = tuple(draw(st.integers(1, max(1, n))) for n in data.shape)
    options = {"shape": data.shape, "dtype": data.dtype, "chunks": chunks}
    if draw(st.booleans()):
        options |= {
            "zarr_format": 2,
            "compressors": draw(st.sampled_from(V2)),
            "order": draw(st.sampled_from("CF")),
        }
    else:
        sharded = draw(st.booleans())
        shards = tuple(c * draw(st.integers(1, 3)) for c in chunks) if sharded else None
        options |= {"zarr_format": 3, "compressors": draw(st.sampled_from(V3)), "shards": shards}
        if data.dtype.itemsize > 1:
            order = ">" if data.dtype.str[0] == ">" else "<"
            options["serializer"] = zc.BytesCodec(endian="big" if order == ">" else "little")
            options["dtype"] = data.dtype.newbyteorder("=")
    options["fill_value"] = data.dtype.type(draw(st.sampled_from([0, 1])))
    zarr.create_array(zarr.storage.MemoryStore(raw), **options)[...] = data
    files = {key: value.to_bytes() for key, value in raw.items()}
    gone = draw(st.booleans())
    keys = sorted(key for key in files if not key.endswith((".zarray", ".zattrs", "zarr.json")))
    if gone and keys:
        del files[draw(st.sampled_from(keys))]
    store = MemoryStore(files)
    array = ZarrArray(store)
    dense = zarr.open_array(
        zarr.storage.MemoryStore({k: zarr.core.buffer.cpu.Buffer.from_bytes(v) for k, v in files.items()}),
        mode="r",
    )[...]
    return store, array.meta, dense.astype(data.dtype.newbyteorder("="))


@st.composite
def scene(draw, dtypes=DTYPES):
    names = draw(st.sampled_from(["yx", "zyx", "tyx", "cyx", "tczyx", "yxc", "czyx"]))
    shape = tuple(draw(st.integers(1, 3) if n in "tc" else st.integers(1, 12)) for n in names)
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    data = values(shape, dtype)
    store, meta, dense = stored(data, draw)
    image = image_of(names, [{"shape": shape}], uri=store.uri, arrays=[meta])
    image.levels[0].path = ""
    image.store = store  # a store in memory lives as long as somebody holds it
    return image, dense, names


def draw_query(data, names, shape, filters=("nearest", "linear")):
    rank = len(names)
    matrix = np.column_stack([np.eye(rank), np.zeros(rank)])
    out = [0] * rank
    spatial = [i for i, n in enumerate(names) if n not in "tc"]
    number = st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0]), st.floats(-2, 2).map(lambda x: round(x, 3))
    )
    for i, n in enumerate(shape):
        if i in spatial:
            out[i] = data.draw(st.integers(1, 9))
            for j in spatial:
                matrix[i, j] = data.draw(number)
            matrix[i, rank] = data.draw(st.one_of(st.integers(-3, 12), st.floats(-6, 14)))
        else:
            out[i] = data.draw(st.integers(1, n))
            matrix[i, rank] = data.draw(st.integers(0, n - out[i]))
    sampler = data.draw(st.sampled_from([
        Sampler(f, b, c)
        for f in filters
        for b, c in (("error", 0), ("clamp", 0), ("constant", 7), ("constant", -3.5))
    ]))  # fmt: skip
    return SpatialQuery(matrix, sampler, 0), tuple(out)


def check(found, source, resolution):
    if resolution.sampler.filter == "nearest" or not resolution.requires_resampling:
        np.testing.assert_array_equal(found, oracle.nearest(source, resolution))
        return
    total, largest = oracle.linear(source, resolution)
    if source.dtype.kind in "iu":
        wanted = oracle.converted(total, source.dtype)
        difference = np.abs(found.astype(object) - wanted.astype(object))
        # beyond 53 bits a double cannot tell units apart
        slack = np.maximum(1, 8 * np.spacing(largest)) if source.dtype.itemsize == 8 else 1
        assert (difference <= slack).all(), difference.max()
        return
    kind = source.dtype if source.dtype.kind == "f" else source.real.dtype
    allowed = 4 * np.spacing(largest.astype(kind)).astype(np.float64)
    assert (np.abs(found - total) <= allowed).all()


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_query_on_any_array_equals_the_oracle(data):
    image, dense, names = data.draw(scene())
    query, shape = draw_query(
        data, names, dense.shape, ("nearest",) if dense.dtype.kind == "b" else ("nearest", "linear")
    )
    try:
        resolution = query.resolve(image, shape)
    except UsageError:
        assume(False)
    plan = ChunkPlanner().plan([resolution])
    (found,) = EXECUTOR.run(plan)
    assert found.dtype == dense.dtype
    check(found, dense, resolution)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_crops_that_copy_equal_slicing(data):
    image, dense, names = data.draw(scene())
    start = [data.draw(st.integers(0, n - 1)) for n in dense.shape]
    stop = [data.draw(st.integers(a + 1, n)) for a, n in zip(start, dense.shape, strict=True)]
    matrix = np.column_stack([np.eye(len(names)), np.array(start, float)])
    shape = tuple(b - a for a, b in zip(start, stop, strict=True))
    resolution = SpatialQuery(matrix, Sampler("linear" if dense.dtype.kind != "b" else "nearest"), 0).resolve(
        image, shape
    )
    assert not resolution.requires_resampling
    expected = dense[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))]
    (found,) = EXECUTOR.run(ChunkPlanner().plan([resolution]))
    np.testing.assert_array_equal(found, expected)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_index_queries_equal_indexing_axis_by_axis(data):
    image, dense, _ = data.draw(scene())
    selection = [
        data.draw(
            st.one_of(st.slices(n), st.lists(st.integers(-n, n - 1), max_size=6), st.integers(-n, n - 1))
        )
        for n in dense.shape
    ]
    resolution = IndexQuery(selection).resolve(image)
    expected = dense
    for axis, item in enumerate(selection):
        item = item if isinstance(item, slice) else np.atleast_1d(np.array(item, int))
        expected = expected[(slice(None),) * axis + (item,)]
    (found,) = EXECUTOR.run(ChunkPlanner().plan([resolution]))
    np.testing.assert_array_equal(found, expected)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_part_of_an_output_is_bit_for_bit_that_part(data):
    image, dense, names = data.draw(scene(["<u2", "<f4", "<f8"]))
    query, shape = draw_query(data, names, dense.shape)
    try:
        resolution = query.resolve(image, shape)
    except UsageError:
        assume(False)
    (whole,) = EXECUTOR.run(ChunkPlanner().plan([resolution]))
    start = [data.draw(st.integers(0, n - 1)) for n in shape]
    stop = [data.draw(st.integers(a + 1, n)) for a, n in zip(start, shape, strict=True)]
    part = part_of(resolution, start, stop)
    (found,) = EXECUTOR.run(ChunkPlanner().plan([part]))
    np.testing.assert_array_equal(found, whole[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))])


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_several_outputs_in_one_plan_equal_each_alone(data):
    image, dense, names = data.draw(scene(["<u2", "<f4", "u1"]))
    resolutions = []
    for _ in range(data.draw(st.integers(2, 4))):
        query, shape = draw_query(data, names, dense.shape)
        try:
            resolutions.append(query.resolve(image, shape))
        except UsageError:
            resolutions.append(
                IndexQuery([slice(0, data.draw(st.integers(1, n))) for n in dense.shape]).resolve(image)
            )
    planner = ChunkPlanner()
    together = EXECUTOR.run(planner.plan(resolutions))
    for resolution, found in zip(resolutions, together, strict=True):
        np.testing.assert_array_equal(found, EXECUTOR.run(planner.plan([resolution]))[0])


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_planned_chunks_are_exactly_those_that_samples_touch(data):
    image, dense, names = data.draw(scene(["u1"]))
    query, shape = draw_query(data, names, dense.shape)
    try:
        resolution = query.resolve(image, shape)
    except UsageError:
        assume(False)
    assume(resolution.requires_resampling)
    plan = ChunkPlanner().plan([resolution])
    s = oracle.coordinates(resolution)
    touched = set()
    sizes = image.levels[0].array.chunk_shape
    spatial = resolution.spatial_axes
    if resolution.sampler.filter == "linear":
        low = np.where(np.isin(np.arange(len(names)), spatial).reshape((-1,) + (1,) * len(names)), s - 0.5, s)
        ends = [
            (np.floor(low[i]), np.ceil(low[i]) if i in spatial else np.floor(low[i]))
            for i in range(len(names))
        ]
    else:
        ends = [(np.floor(x), np.floor(x)) for x in s]
    for corner in range(2 ** len(names)):
        index = (
            np.stack([ends[i][corner >> i & 1] for i in range(len(names))])
            .astype(int)
            .reshape(len(names), -1)
        )
        limit = np.array(dense.shape)[:, None]
        if resolution.sampler.boundary == "clamp":
            index = np.clip(index, 0, limit - 1)
        index = index[:, ((index >= 0) & (index < limit)).all(axis=0)]
        touched |= set(map(tuple, (index // np.array(sizes)[:, None]).T.tolist()))
    assert set(map(tuple, plan.chunk_index.tolist())) == touched


@pytest.mark.parametrize("source", ["u1", "<u2", "<i2", "<i4", "<u8", "<f4", "<f8"])
@pytest.mark.parametrize("target", ["u1", "u2", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "?"])
@pytest.mark.parametrize("name", ["copy", "nearest", "linear"])
def test_conversion_rounds_half_to_even_and_clamps(source, target, name):
    data = values((6, 12), source)
    if data.dtype.kind == "f":
        data = (data + np.array([0.5])).astype(data.dtype)
    raw: dict = {}
    zarr.create_array(zarr.storage.MemoryStore(raw), data=data, chunks=(4, 5), zarr_format=2)
    store = MemoryStore({key: value.to_bytes() for key, value in raw.items()})
    image = image_of("yx", [{"shape": data.shape}], uri=store.uri, arrays=[ZarrArray(store).meta])
    image.levels[0].path = ""
    offset = 0 if name == "copy" else 0.5
    query = SpatialQuery([[1, 0, 1], [0, 1, 2 + offset]], Sampler("nearest" if name == "copy" else name), 0)
    resolution = query.resolve(image, (4, 8))
    assert resolution.requires_resampling == (name != "copy")
    (found,) = EXECUTOR.run(ChunkPlanner().plan([resolution]), dtype=np.dtype(target))
    exact = oracle.linear(data, resolution)[0] if name == "linear" else oracle.nearest(data, resolution)
    assert found.dtype == np.dtype(target)
    if found.dtype.kind == "b":
        np.testing.assert_array_equal(found, exact != 0)
    elif found.dtype.kind == "f":
        top = np.finfo(found.dtype).max
        limited = np.clip(exact.astype(np.float64), -float(top), float(top)).astype(found.dtype)
        np.testing.assert_allclose(
            found, limited, rtol=4 * np.finfo(found.dtype).eps + 1e-6 * (name == "linear")
        )
    else:
        wanted = oracle.converted(exact, target)
        slack = 0 if name != "linear" else np.maximum(1, 8 * np.spacing(np.abs(exact)))
        assert (np.abs(found.astype(object) - wanted.astype(object)) <= slack).all()


@pytest.mark.parametrize("boundary", ["error", "clamp", "constant"])
def test_neighbours_without_weight_do_not_spread_infinity(boundary):
    data = np.ones((6, 6), "f4")
    data[2, 3] = np.inf
    data[4, 1] = np.nan
    raw: dict = {}
    zarr.create_array(zarr.storage.MemoryStore(raw), data=data, chunks=(2, 4), zarr_format=2)
    store = MemoryStore({key: value.to_bytes() for key, value in raw.items()})
    image = image_of("yx", [{"shape": data.shape}], uri=store.uri, arrays=[ZarrArray(store).meta])
    image.levels[0].path = ""
    # rows at whole steps, columns between: only columns may mix
    resolution = SpatialQuery([[1, 0, 0], [0, 1, 0.5]], Sampler("linear", boundary), 0).resolve(image, (6, 5))
    (found,) = EXECUTOR.run(ChunkPlanner().plan([resolution]))
    assert np.isinf(found[2, 2:4]).all()
    assert np.isnan(found[4, 0:2]).all()
    rest = np.ones(found.shape, bool)
    rest[2, 2:4] = rest[4, 0:2] = False
    assert (found[rest] == 1).all()


def test_small_memory_gives_the_same_in_several_waves():
    data = values((24, 40, 40), "<u2")
    raw: dict = {}
    zarr.create_array(zarr.storage.MemoryStore(raw), data=data, chunks=(8, 8, 8), zarr_format=2)
    store = MemoryStore({key: value.to_bytes() for key, value in raw.items()})
    image = image_of("zyx", [{"shape": data.shape}], uri=store.uri, arrays=[ZarrArray(store).meta])
    image.levels[0].path = ""
    query = SpatialQuery([[1, 0.2, 0, 0], [-0.2, 1, 0.1, 4], [0, -0.1, 1, 3]], Sampler("linear", "clamp"), 0)
    resolution = query.resolve(image, (20, 30, 30))
    planner = ChunkPlanner(limits=PlanLimits(max_tile_bytes=24 << 10))
    plan = planner.plan([resolution])
    with CpuExecutor(limits=CpuLimits(max_memory_bytes=100 << 10, decode_workers=2)) as small:
        (found,) = small.run(plan)
        assert small.stats().chunks > plan.summary.chunks  # several waves decode some chunks again
    (expected,) = EXECUTOR.run(ChunkPlanner().plan([resolution]))
    np.testing.assert_array_equal(found, expected)
