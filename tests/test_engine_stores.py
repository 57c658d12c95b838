"""Stores of every kind that writers make read as zarr-python reads them, or are refused with the reason."""

from __future__ import annotations

import base64
import json

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as zc
from tests.support.engine import files_of, image_in, indexed

from napari_decant.engine import ChunkPlanner, CpuExecutor, ZarrArray
from napari_decant.errors import FormatError, UnsafeInput, UnsupportedOperation

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def executor():
    with CpuExecutor() as made:
        yield made


def pixels(shape, dtype="u2"):
    values = 1 + (np.arange(int(np.prod(shape))) * 7919 % 113).reshape(shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return values % 3 != 0
    return (values + 1j * (values % 7 + 1) if dtype.kind == "c" else values).astype(dtype)


def changed(files, **entries):
    """The same store with other metadata; a value of ... takes an entry away."""
    key = "zarr.json" if "zarr.json" in files else ".zarray"
    meta = {k: v for k, v in (json.loads(files[key]) | entries).items() if v is not ...}
    return files | {key: json.dumps(meta).encode()}


def without_chunks(files):
    return {key: value for key, value in files.items() if key in ("zarr.json", ".zarray")}


def theirs(files):
    buffer = zarr.core.buffer.default_buffer_prototype().buffer
    store = zarr.storage.MemoryStore({key: buffer.from_bytes(value) for key, value in files.items()})
    return zarr.open_array(store, mode="r")[...]


def ours(files, executor):
    """Pixels by plan and executor, checked against the array that viewing uses."""
    image = image_in(files, "?" * len(shape_in(files)))
    plan = ChunkPlanner().plan([indexed(image, *[slice(None)] * len(image.levels[0].shape))])
    (whole,) = executor.run(plan)
    np.testing.assert_array_equal(whole, ZarrArray(image.store).read())
    return whole


def shape_in(files):
    return json.loads(files.get("zarr.json") or files[".zarray"])["shape"]


V2 = {
    "slash": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "fortran": {"order": "F", "compressors": numcodecs.Blosc("zstd", 1, 2)},
    "delta in F": {"order": "F", "filters": [numcodecs.Delta("<u2")], "compressors": numcodecs.LZ4()},
    "delta of other elements": {"filters": [numcodecs.Delta(">i2")], "compressors": None},
    "gzip 9": {"compressors": numcodecs.GZip(9)},
    "blosc without shuffle": {"compressors": numcodecs.Blosc("blosclz", 9, 0)},
    "zstd 22": {"compressors": numcodecs.Zstd(22)},
    "one chunk": {"chunks": (7, 10, 12)},
    "chunks beyond the edge": {"chunks": (16, 16, 16), "compressors": numcodecs.Zstd(1)},
}
V3 = {
    "dots": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "keys of v2": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "zlib of numcodecs": {"compressors": {"name": "numcodecs.zlib", "configuration": {"level": 1}}},
    "lz4 of numcodecs": {"compressors": {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}},
    "bz2 of numcodecs": {"compressors": {"name": "numcodecs.bz2", "configuration": {"level": 1}}},
    "shuffle of numcodecs": {
        "compressors": [
            {"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}},
            {"name": "zstd", "configuration": {"level": 1, "checksum": True}},
        ]
    },
    "delta of numcodecs": {
        "filters": [{"name": "numcodecs.delta", "configuration": {"dtype": "<u2"}}],
        "compressors": zc.ZstdCodec(level=1),
    },
    "delta stored in big": {
        "filters": [{"name": "numcodecs.delta", "configuration": {"dtype": "<u2"}}],
        "serializer": zc.BytesCodec(endian="big"),
    },
    "delta of more bytes stored in big": {
        "filters": [{"name": "numcodecs.delta", "configuration": {"dtype": "<u2", "astype": "<i4"}}],
        "serializer": zc.BytesCodec(endian="big"),
    },
    "offset stored in big in shards": {
        "shards": (6, 8, 10),
        "filters": [
            {"name": "numcodecs.fixedscaleoffset", "configuration": {"offset": 1, "scale": 1, "dtype": "<u2"}}
        ],
        "serializer": zc.BytesCodec(endian="big"),
    },
    "blosc bitshuffle": {"compressors": zc.BloscCodec(cname="lz4", shuffle="bitshuffle", typesize=2)},
    "big in shards": {"shards": (6, 8, 10), "serializer": zc.BytesCodec(endian="big")},
    "transposed in shards": {
        "shards": (6, 8, 10),
        "filters": [zc.TransposeCodec(order=(1, 2, 0))],
        "compressors": [zc.GzipCodec(level=9), zc.Crc32cCodec()],
    },
}


@pytest.mark.parametrize(("zarr_format", "name"), [*((2, n) for n in V2), *((3, n) for n in V3)])
def test_what_writers_choose(executor, zarr_format, name):
    data = pixels((7, 10, 12))
    options = {"chunks": (3, 4, 5)} | (V2 if zarr_format == 2 else V3)[name]
    files = files_of(data, zarr_format=zarr_format, **options)
    np.testing.assert_array_equal(ours(files, executor), data)
    np.testing.assert_array_equal(theirs(files), data)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_element_types_and_shapes_without_elements(executor, zarr_format, dtype):
    for shape, chunks in (((), ()), ((0,), (1,)), ((3, 0), (2, 4)), ((1,) * 6, (1,) * 6), ((5, 4), (2, 3))):
        data = pixels(shape, dtype)
        files = files_of(data, zarr_format=zarr_format, chunks=chunks)
        found = ours(files, executor)
        assert found.dtype == data.dtype
        np.testing.assert_array_equal(found, theirs(files))
        if data.size:
            np.testing.assert_array_equal(found, data)


FILLS = [
    (2, "u2", 7), (2, "u2", None), (2, "u2", 0.0), (2, "?", True), (2, "i1", -3), (2, "u8", 2**64 - 1),
    (2, "f4", "NaN"), (2, "f4", "-Infinity"), (2, "f8", 1), (2, "c8", [1.5, "NaN"]),
    (3, "f4", "Infinity"), (3, "f4", "0x7fc00001"), (3, "f2", "0x3c00"), (3, "f8", "0x3ff0000000000000"),
    (3, "c8", ["NaN", "-Infinity"]), (3, "?", True), (3, "i8", -(2**63)), (3, "f4", 0),
]  # fmt: skip


@pytest.mark.parametrize(("zarr_format", "dtype", "fill"), FILLS)
def test_absent_chunks_read_as_the_fill_value(executor, zarr_format, dtype, fill):
    files = without_chunks(files_of(pixels((4, 6), dtype), zarr_format=zarr_format, chunks=(2, 3)))
    files = changed(files, fill_value=fill)
    found = ours(files, executor)
    if fill is None:
        assert (found == 0).all()
    else:
        np.testing.assert_array_equal(found, theirs(files))


def test_a_fill_value_that_the_type_cannot_hold_is_refused():
    files = files_of(pixels((4, 6)), zarr_format=2, chunks=(2, 3))
    for value in (-1, 65536, 1.5, "x", [1], base64.b64encode(b"ab").decode()):
        with pytest.raises(FormatError, match="which is no uint16"):
            ZarrArray(image_in(changed(files, fill_value=value), "yx").store)


SMALL_V3 = {"chunks": (2, 3), "zarr_format": 3}


@pytest.mark.parametrize(
    "entries",
    [
        {"dimension_names": None},
        {"dimension_names": ["y", None]},
        {"dimension_names": ...},
        {"attributes": ...},
        {"storage_transformers": []},
        {"storage_transformers": ...},
        {"a_hint": {"name": "x", "must_understand": False}},
        {"data_type": {"name": "uint16"}},
        {"data_type": {"name": "uint16", "configuration": {}}},
        {"codecs": ["bytes"]},
        {"codecs": [{"name": "bytes"}]},
        {"chunk_key_encoding": "default"},
        {"chunk_key_encoding": {"name": "default"}},
    ],
    ids=str,
)
def test_spellings_that_version_3_allows(executor, entries):
    data = pixels((4, 6), "u1" if "codecs" in entries else "u2")
    files = changed(files_of(data, **SMALL_V3), **entries)
    np.testing.assert_array_equal(ours(files, executor), data)


@pytest.mark.parametrize(
    ("entries", "error", "reason"),
    [
        ({"a_need": {"name": "x"}}, UnsupportedOperation, "a reader must understand"),
        ({"storage_transformers": [{"name": "x"}]}, UnsupportedOperation, "storage transformers"),
        ({"data_type": "string"}, UnsupportedOperation, "only arrays of numbers"),
        ({"data_type": {"name": "struct", "configuration": {}}}, UnsupportedOperation, "arrays of numbers"),
        ({"chunk_grid": {"name": "rectilinear", "configuration": {}}}, UnsupportedOperation, "'regular'"),
        ({"codecs": [{"name": "zfpy"}]}, UnsupportedOperation, "zfpy"),
        ({"codecs": [{"name": "numcodecs.pickle"}]}, UnsafeInput, "run code"),
        ({"codecs": []}, FormatError, "no list of codecs"),
        ({"codecs": [{"name": "zstd"}]}, FormatError, "does not allow"),
        ({"dimension_names": ["y"]}, FormatError, "dimension_names"),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "-"}}}, FormatError, "-"),
        ({"zarr_format": 4}, FormatError, "zarr_format"),
        ({"shape": [4, -6]}, FormatError, "least extent"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_read_says_why(entries, error, reason):
    files = files_of(pixels((4, 6)), **SMALL_V3)
    with pytest.raises(error, match=reason):
        image_in(changed(files, **entries), "yx")


def test_sharding_inside_sharding_is_refused_with_that_reason():
    inner = zc.ShardingCodec(chunk_shape=(2, 3))
    raw: dict = {}
    zarr.create_array(
        zarr.storage.MemoryStore(raw), shape=(8, 12), dtype="u2", chunks=(4, 6), shards=(8, 12),
        serializer=inner, compressors=None, zarr_format=3,
    )[...] = pixels((8, 12))  # fmt: skip
    with pytest.raises(UnsupportedOperation, match="nests sharding"):
        image_in({key: value.to_bytes() for key, value in raw.items()}, "yx")


@pytest.mark.parametrize("dtype", ["<U4", "<M8[s]", [["a", "<u2"], ["b", "<f4"]], "|V4", "|S3"])
def test_arrays_of_other_things_are_refused(dtype):
    files = files_of(pixels((4, 6)), zarr_format=2, chunks=(2, 3))
    with pytest.raises(UnsupportedOperation, match="only arrays of numbers"):
        image_in(changed(files, dtype=dtype), "yx")
    with pytest.raises(UnsafeInput, match="Python objects"):
        image_in(changed(files, dtype="|O"), "yx")


@pytest.mark.parametrize("value", [1e308, "<q2", "u2,,", "(", [1], "<u4"])
def test_a_filter_of_an_unknown_data_type_is_refused(value):
    files = files_of(pixels((4, 6)), zarr_format=2, chunks=(2, 3), filters=[numcodecs.Delta("<u2")])
    with pytest.raises(FormatError, match=r"data type|arrive"):
        image_in(changed(files, filters=[{"id": "delta", "dtype": value}]), "yx")
