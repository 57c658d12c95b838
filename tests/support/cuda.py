"""Queries on small arrays, and what a GPU's results may differ by from the CPU's."""

from __future__ import annotations

from collections import deque

import numcodecs
import numpy as np
import zarr.codecs as zc
from hypothesis import strategies as st
from tests.support import oracle
from tests.support.engine import files_of, image_in, indexed

from napari_decant.engine import ChunkPlanner, CpuExecutor, CpuLimits, PlanLimits
from napari_decant.engine.cuda import CudaLimits
from napari_decant.engine.cuda._types import TOKENS
from napari_decant.errors import UsageError
from napari_decant.spatial import IndexQuery, Sampler, SpatialQuery

CPU = CpuExecutor(limits=CpuLimits(decode_workers=2))
SMALL = CudaLimits(max_memory_bytes=64 << 20, max_device_bytes=16 << 20, decode_workers=2)
CODES = ["u1", "i1", "u2", ">u2", "i2", "u4", ">i4", "u8", "i8", "f2", "f4", ">f4", "f8", "c8", "c16", "?"]
_held: deque = deque(maxlen=16)
MOVED = ["u8", "u16", "u32", "u64", "x128"]


def sums_of(token):
    """Type of linear sums for a source type, by the names that kernels use."""
    return token if token[0] == "c" else "f32" if token in ("u8", "i8", "u16", "i16", "f16", "f32") else "f64"


def plain_kernels():
    """Every kernel that keeps the element type."""
    return (
        [f"gather<{t}, {t}>" for t in MOVED]
        + [f"nearest<{t}, {t}, {t}>" for t in MOVED]
        + [f"linear<{t}, {sums_of(t)}, {t}>" for t in TOKENS.values() if t != "b8"]
    )


def values(shape, dtype):
    """Never zero, different everywhere, over the whole range of the type."""
    dtype = np.dtype(dtype)
    flat = 1 + (np.arange(int(np.prod(shape))) * 2654435761) % 65521
    if dtype.kind == "b":
        return (flat % 3 != 0).reshape(shape)
    if dtype.kind == "c":
        return (flat - 1j * (flat % 97)).reshape(shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        step = (int(limits.max) - int(limits.min)) // 65537 or 1
        wide = [int(limits.min) + int(v) * step % (int(limits.max) - int(limits.min)) for v in flat]
        return (np.array(wide, dtype.newbyteorder("=")) | 1).astype(dtype).reshape(shape)
    return ((flat - 30000) / 3).reshape(shape).astype(dtype)


@st.composite
def scenes(draw, codes=tuple(CODES)):
    """An image in memory with one level, its element type, and the names of its axes."""
    names = draw(st.sampled_from(["yx", "zyx", "tyx", "cyx", "tczyx", "yxc", "czyx"]))
    shape = tuple(draw(st.integers(1, 3) if n in "tc" else st.integers(1, 14)) for n in names)
    dtype = np.dtype(draw(st.sampled_from(codes)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    options = {"chunks": chunks, "fill_value": dtype.type(draw(st.sampled_from([0, 1])))}
    if draw(st.booleans()):
        order = draw(st.sampled_from("CF"))
        options |= {"zarr_format": 2, "order": order, "compressors": numcodecs.Zstd(1)}
        data = values(shape, dtype)
    else:
        shards = tuple(c * draw(st.integers(1, 3)) for c in chunks) if draw(st.booleans()) else None
        options |= {"shards": shards, "compressors": draw(st.sampled_from([None, zc.ZstdCodec(level=1)]))}
        data = values(shape, dtype.newbyteorder("="))
    files = files_of(data, **options)
    keys = sorted(key for key in files if not key.endswith((".zarray", ".zattrs", "zarr.json")))
    if keys and draw(st.booleans()):  # a chunk, or shard, that is not stored reads as fill
        del files[draw(st.sampled_from(keys))]
    return image_in(files, names), names


@st.composite
def queries(draw, image, names, filters=("nearest", "linear")):
    """A resolved query, or None where the query is refused."""
    shape = image.levels[0].array.shape
    if image.levels[0].array.dtype.kind == "b":
        filters = ("nearest",)
    kind = draw(st.sampled_from(["affine", "affine", "affine", "crop", "index"]))
    if kind == "index":
        selection = [
            draw(st.one_of(st.slices(n), st.lists(st.integers(-n, n - 1), min_size=1, max_size=6)))
            for n in shape
        ]
        return IndexQuery(selection).resolve(image)
    rank = len(names)
    matrix = np.column_stack([np.eye(rank), np.zeros(rank)])
    out = [0] * rank
    spatial = [i for i, n in enumerate(names) if n not in "tc"]
    number = st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0]), st.floats(-2, 2).map(lambda x: round(x, 3))
    )
    for i, n in enumerate(shape):
        out[i] = draw(st.integers(1, 9 if i in spatial and kind == "affine" else n))
        if kind == "affine" and i in spatial:
            matrix[i, :rank][spatial] = [draw(number) for _ in spatial]
            matrix[i, rank] = draw(st.one_of(st.integers(-3, 12), st.floats(-6, 14)))
        else:
            matrix[i, rank] = draw(st.integers(0, n - out[i]))
    boundary, constant = draw(
        st.sampled_from([("error", 0), ("clamp", 0), ("constant", 7), ("constant", -3.5)])
    )
    sampler = Sampler(draw(st.sampled_from(filters)), boundary, constant)
    try:
        return SpatialQuery(matrix, sampler, 0).resolve(image, tuple(out))
    except UsageError:
        return None


def same_bytes(found, wanted):
    """Equal bit for bit, NaN payloads too."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).reshape(-1).view(np.uint8),
        np.ascontiguousarray(wanted).reshape(-1).view(np.uint8),
    )


def dense(image):
    """The whole source array, in native byte order."""
    everything = indexed(image, *[slice(None)] * image.levels[0].array.rank)
    return CPU.run(plan_of(everything))[0]


def agree(found, wanted, resolution, image):
    """Bit for bit for copies and nearest; linear within 4 ulp of the largest contributor."""
    sampler = getattr(resolution, "sampler", None)
    if sampler is None or sampler.filter == "nearest" or not resolution.requires_resampling:
        same_bytes(found, wanted)
        return
    assert found.dtype == wanted.dtype
    if found.dtype.kind in "iu":
        difference = np.abs(found.astype(object) - wanted.astype(object))
        # beyond 53 bits a double cannot tell units apart
        slack = 1 if found.dtype.itemsize < 8 else np.maximum(1, 8 * np.spacing(np.abs(wanted.astype(float))))
        assert (difference <= slack).all()
        return
    _, largest = oracle.linear(dense(image), resolution)
    kind = found.real.dtype
    allowed = 4 * np.spacing(largest.astype(kind)).astype(np.float64)
    assert (np.abs(found - wanted) <= allowed).all()


def rewritten(array, **options):
    """Write an array and return its image in memory."""
    names = "tczyx"[-array.ndim :] if array.ndim > 3 else "zyx"[-array.ndim :]
    return held(files_of(array, **options), names)


def held(files, names):
    """An image in memory that lives a while: plans only know where their stores are."""
    _held.append(image_in(files, names))
    return _held[-1]


def plan_of(*resolutions, **limits):
    return ChunkPlanner(limits=PlanLimits(**limits)).plan(list(resolutions))


def turned(image, shape, kind="linear", boundary="clamp", constant=0):
    matrix = [[1, 0.2, 0, -1], [-0.2, 1, 0.1, 4], [0, -0.1, 1, 3]]
    if len(shape) == 2:
        matrix = [[1, 0.2, -1], [-0.2, 1, 4]]
    return SpatialQuery(matrix, Sampler(kind, boundary, constant), 0).resolve(image, shape)
