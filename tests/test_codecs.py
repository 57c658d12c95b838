"""Stored chunks decode to the elements another writer put in, and never to more than they should."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import subprocess
import sys
import zlib

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as zc
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_decant.engine import ChunkDecoder, ZarrArray
from napari_decant.engine._blosc import block_starts, blosc_blocks, parse_blosc_header
from napari_decant.errors import FormatError, IntegrityError, UnsafeInput, UnsupportedOperation
from napari_decant.ngff._zarr import load_array_meta, parse_array_meta
from napari_decant.stores import MemoryStore


def ramp(shape, dtype="u2"):
    values = 1 + np.arange(int(np.prod(shape))).reshape(shape) % 65535
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return values % 3 != 0
    if dtype.kind == "c":
        return (values + 1j * (values % 7 + 1)).astype(dtype)
    return (values % 127 + 1 if dtype.itemsize == 1 else values).astype(dtype)


def written(data, **options):
    """A store that zarr-python wrote, as our store."""
    raw: dict = {}
    array = zarr.create_array(zarr.storage.MemoryStore(raw), shape=data.shape, dtype=data.dtype, **options)
    array[...] = data
    return MemoryStore({key: value.to_bytes() for key, value in raw.items()})


V2_CHAINS = {
    "none": {"compressors": None},
    "blosc-bitshuffle": {"compressors": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE)},
    "blosc-zstd": {"compressors": numcodecs.Blosc("zstd", 5, numcodecs.Blosc.SHUFFLE)},
    "zstd": {"compressors": numcodecs.Zstd(3)},
    "zstd-checksum": {"compressors": numcodecs.Zstd(3, checksum=True)},
    "gzip": {"compressors": numcodecs.GZip(1)},
    "zlib": {"compressors": numcodecs.Zlib(1)},
    "lz4": {"compressors": numcodecs.LZ4()},
    "bz2": {"compressors": numcodecs.BZ2(1)},
    "lzma": {"compressors": numcodecs.LZMA(preset=1)},
    "shuffle": {"compressors": numcodecs.Zlib(1), "filters": [numcodecs.Shuffle(2)]},
    "delta-shuffle": {
        "compressors": numcodecs.LZ4(),
        "filters": [numcodecs.Delta("<u2"), numcodecs.Shuffle(2)],
    },
    "delta-narrow": {"compressors": None, "filters": [numcodecs.Delta("<u2", "<i4")]},
    "scaled": {"compressors": None, "filters": [numcodecs.FixedScaleOffset(1, 2, "<u2", "<i4")]},
    "crc32": {"compressors": numcodecs.CRC32()},
    "adler32": {"compressors": numcodecs.Adler32(), "filters": [numcodecs.Shuffle(2)]},
    "fletcher32": {"compressors": numcodecs.Fletcher32()},
    "bitround-like": {
        "compressors": numcodecs.Zstd(1),
        "filters": [numcodecs.Quantize(3, "<f4")],
        "dtype": "f4",
    },
}


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore:Numcodecs codecs")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", V2_CHAINS)
def test_v2_chain_decodes_to_what_zarr_python_wrote(name, order):
    options = dict(V2_CHAINS[name])
    data = ramp((7, 10, 12), options.pop("dtype", "u2"))
    store = written(data, chunks=(3, 4, 5), zarr_format=2, order=order, **options)
    np.testing.assert_array_equal(ZarrArray(store).read(), data)


V3_CHAINS = {
    "plain": {"compressors": None},
    "zstd": {"compressors": zc.ZstdCodec(level=3)},
    "gzip": {"compressors": zc.GzipCodec(level=1)},
    "blosc": {"compressors": zc.BloscCodec(cname="zstd", clevel=5, typesize=2)},
    "crc32c": {"compressors": [zc.ZstdCodec(level=1), zc.Crc32cCodec()]},
    "twice": {"compressors": [zc.GzipCodec(level=1), zc.ZstdCodec(level=1)]},
    "transpose": {"filters": [zc.TransposeCodec(order=(2, 0, 1))], "compressors": zc.ZstdCodec(level=1)},
    "transposed twice": {
        "filters": [zc.TransposeCodec(order=(2, 0, 1)), zc.TransposeCodec(order=(1, 0, 2))],
        "compressors": None,
    },
    "big": {"serializer": zc.BytesCodec(endian="big"), "compressors": None},
}


@pytest.mark.parametrize("shards", [None, (6, 8, 10)])
@pytest.mark.parametrize("name", V3_CHAINS)
def test_v3_chain_decodes_to_what_zarr_python_wrote(name, shards):
    data = ramp((7, 10, 12))
    store = written(data, chunks=(3, 4, 5), shards=shards, zarr_format=3, **V3_CHAINS[name])
    np.testing.assert_array_equal(ZarrArray(store).read(), data)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "<i2", ">i2", ">u2", "<u4", ">u8", "<f2", ">f4", "<f8", "<c8", ">c16"]
)
def test_every_element_type_reads_in_native_order(dtype):
    data = ramp((9, 11), dtype)
    store = written(data, chunks=(4, 5), zarr_format=2, compressors=numcodecs.Zstd(1))
    result = ZarrArray(store).read()
    assert result.dtype == data.dtype.newbyteorder("=")
    np.testing.assert_array_equal(result, data)


def test_absent_chunks_are_fill_and_known_to_be_absent():
    store = written(ramp((4, 6)), chunks=(2, 3), zarr_format=2, compressors=None, fill_value=9)
    kept = {key: store.read(key) for key in store.keys() if key != "1.0"}  # noqa: SIM118
    array = ZarrArray(MemoryStore(kept))
    assert array.chunk_extent((1, 0)) is None
    assert array.chunk_extent((1, 1)) is not None
    assert (array.read_chunk((1, 0)) == 9).all()
    np.testing.assert_array_equal(array.read((slice(0, 2),)), ramp((4, 6))[:2])


def test_null_fill_value_reads_as_zero():
    meta = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [2],
        "dtype": "<u2",
        "compressor": None,
        "fill_value": None,
    }
    meta |= {"order": "C", "filters": None}
    store = MemoryStore({".zarray": json.dumps(meta).encode(), "0": np.array([5, 6], "<u2").tobytes()})
    assert ZarrArray(store).read().tolist() == [5, 6, 0, 0]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_reading_a_selection_equals_indexing(data):
    shape = data.draw(st.tuples(*[st.integers(1, 9)] * 3))
    chunks = data.draw(st.tuples(*[st.integers(1, 5)] * 3))
    shards = data.draw(st.sampled_from([None, tuple(2 * c for c in chunks)]))
    pixels = ramp(shape)
    store = written(pixels, chunks=chunks, shards=shards, zarr_format=3, compressors=zc.ZstdCodec(level=0))
    part = st.one_of(
        st.slices(6),
        *[st.integers(-n, n - 1) for n in (min(shape),)],
        st.just(slice(None)),
        st.just(slice(None, None, -2)),
    )
    selection = data.draw(
        st.one_of(st.tuples(part), st.tuples(part, part, part), st.just(...), st.tuples(st.just(...), part))
    )
    expected = pixels[selection]
    array = ZarrArray(store)
    np.testing.assert_array_equal(array.read(selection), expected)
    out = np.zeros((*expected.shape, 2), "u2")[..., 0]
    np.testing.assert_array_equal(array.read(selection, out=out), expected)


@pytest.mark.parametrize("cname", ["zstd", "lz4", "lz4hc", "blosclz", "zlib"])
@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_any_run_of_blosc_blocks_decodes_alone(cname, shuffle):
    pixels = (ramp((300, 512), "u2").astype("u4") ** 2 % 1009).astype("u2")
    raw = pixels.tobytes()
    stored = numcodecs.Blosc(cname, 5, shuffle, blocksize=32768).encode(raw)
    header = parse_blosc_header(stored, len(stored), len(raw))
    starts = block_starts(header, stored)
    assert header.nblocks >= 5
    for first, stop in itertools.combinations(range(header.nblocks + 1), 2):
        first, stop = header.blocks_of(first * header.blocksize + 1, min(stop * header.blocksize, len(raw)))
        part = blosc_blocks(header, starts, first, stop, lambda offset, n: stored[offset : offset + n])
        end = min(stop * header.blocksize, len(raw))
        assert numcodecs.blosc.decompress(part) == raw[first * header.blocksize : end]


def test_rows_of_a_plane_read_only_their_blocks():
    rng = np.random.default_rng(3)
    pixels = (1 + rng.integers(0, 200, (1024, 1024))).astype("u2")
    store = written(pixels, chunks=(1024, 1024), zarr_format=2, compressors=numcodecs.Blosc("zstd", 1, 1))
    counted = []
    plain = store.read_file
    store.read_file = lambda file, offset, n: counted.append(n) or plain(file, offset, n)
    array = ZarrArray(store)
    np.testing.assert_array_equal(array.read((slice(100, 164), slice(5, 900, 3))), pixels[100:164, 5:900:3])
    assert sum(counted) < store.extent("0.0").length / 8
    np.testing.assert_array_equal(array.read((1023, slice(None))), pixels[1023])


def bomb_store(codec, stored, zarr_format=2):
    meta = {"zarr_format": 2, "shape": [1024, 1024], "chunks": [1024, 1024], "dtype": "|u1", "fill_value": 0}
    meta |= {"compressor": codec, "order": "C", "filters": None}
    return MemoryStore({".zarray": json.dumps(meta).encode(), "0.0": stored})


def zstd_without_size(data):
    from imagecodecs import zstd_encode

    frame = bytearray(zstd_encode(data, 1))
    assert frame[4] & 0xC0  # a frame content size is there
    # the same blocks after a header without the size: descriptor 0, window 2 MiB
    size_bytes = {0: 1, 1: 2, 2: 4, 3: 8}[frame[4] >> 6]
    single = frame[4] & 0x20
    return bytes(frame[:4]) + bytes([0x00, 0x58]) + bytes(frame[5 + (0 if single else 1) + size_bytes :])


BOMBS = {
    "gzip": ({"id": "gzip"}, lambda data: gzip.compress(data, 9)),
    "zlib": ({"id": "zlib"}, lambda data: zlib.compress(data, 9)),
    "zstd": ({"id": "zstd"}, lambda data: bytes(numcodecs.Zstd(1).encode(data))),
    "zstd without size": ({"id": "zstd"}, zstd_without_size),
    "lz4": ({"id": "lz4"}, lambda data: bytes(numcodecs.LZ4().encode(data))),
    "lz4 false size": (
        {"id": "lz4"},
        lambda data: (1 << 20).to_bytes(4, "little") + numcodecs.LZ4().encode(data)[4:],
    ),
    "bz2": ({"id": "bz2"}, lambda data: numcodecs.BZ2(9).encode(data)),
    "lzma": ({"id": "lzma"}, lambda data: numcodecs.LZMA(preset=0).encode(data)),
    "blosc": ({"id": "blosc"}, lambda data: numcodecs.Blosc("zstd", 5, blocksize=1 << 16).encode(data)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_chunk_that_inflates_beyond_its_size_is_refused(name):
    codec, encode = BOMBS[name]
    for extra in (1, 20 << 20):
        store = bomb_store(codec, encode(b"\x07" * ((1 << 20) + extra)))
        with pytest.raises(FormatError, match=r"chunk 0/0 .*(decode|declares|more than)"):
            ZarrArray(store).read()
    good = bomb_store(codec, encode(b"\x07" * (1 << 20)))
    assert (ZarrArray(good).read() == 7).all()
    with pytest.raises(FormatError):
        ZarrArray(bomb_store(codec, encode(b"\x07" * ((1 << 20) - 1)))).read()


def test_a_gigabyte_in_a_chunk_meant_for_a_megabyte_costs_no_gigabyte():
    """Decoding stops at the expected size, so little memory is enough."""
    code = """
import io, json, resource, zlib
from napari_decant.engine import ZarrArray
from napari_decant.errors import FormatError
from napari_decant.stores import MemoryStore
import numcodecs
packer = zlib.compressobj(9, wbits=31)
stored = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
meta = {"zarr_format": 2, "shape": [1024, 1024], "chunks": [1024, 1024], "dtype": "|u1", "fill_value": 0,
        "compressor": {"id": "gzip"}, "order": "C", "filters": None}
try:
    ZarrArray(MemoryStore({".zarray": json.dumps(meta).encode(), "0.0": stored})).read()
except FormatError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50


def test_false_sizes_in_a_blosc_header_are_refused():
    stored = bytearray(numcodecs.Blosc("zstd", 5, 1).encode(ramp((1024, 512), "u2").tobytes()))
    for offset, value in (
        (4, 1 << 30),
        (4, 100),
        (4, 2**32 - 1),
        (12, 2**31 - 1),
        (12, 3),
        (8, 0),
        (8, 2**31 - 1),
    ):
        bad = bytearray(stored)
        bad[offset : offset + 4] = value.to_bytes(4, "little")
        with pytest.raises(FormatError):
            ZarrArray(bomb_store({"id": "blosc"}, bytes(bad))).read()
    for cut in (0, 7, 15, 20, len(stored) - 1):
        for selection in (..., (slice(0, 9),)):
            with pytest.raises(FormatError):
                ZarrArray(bomb_store({"id": "blosc"}, bytes(stored[:cut]))).read(selection)


@functools.cache
def honest(name):
    return BOMBS[name][1](ramp((1024, 1024), "u1").tobytes())


@pytest.mark.parametrize("name", [name for name in BOMBS if "false" not in name])
@settings(deadline=None, max_examples=25)
@given(st.data())
def test_damaged_chunks_never_crash(name, data):
    codec, stored = BOMBS[name][0], bytearray(honest(name))
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(0, min(len(stored) - 1, 4000)))] ^= data.draw(st.integers(1, 255))
    try:
        result = ZarrArray(bomb_store(codec, bytes(stored))).read()
    except FormatError:
        return
    assert result.shape == (1024, 1024)


def test_a_flipped_bit_under_a_checksum_is_an_integrity_error():
    for chain in ("crc32", "adler32", "fletcher32"):
        options = V2_CHAINS[chain]
        store = written(ramp((4, 6)), chunks=(4, 6), zarr_format=2, **options)
        raw = {key: bytearray(store.read(key)) for key in store.keys()}  # noqa: SIM118
        raw["0.0"][9] ^= 1
        with pytest.raises(IntegrityError, match="chunk 0/0"):
            ZarrArray(MemoryStore(raw)).read()


@pytest.mark.parametrize("location", ["start", "end"])
def test_torn_and_damaged_shards_are_told_apart(location):
    codec = zc.ShardingCodec(chunk_shape=(2, 3), codecs=[zc.BytesCodec()], index_location=location)
    data = ramp((4, 6))
    raw: dict = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(raw),
        shape=data.shape,
        dtype="u2",
        chunks=(4, 6),
        serializer=codec,
        compressors=None,
    )
    array[...] = data
    files = {key: bytearray(value.to_bytes()) for key, value in raw.items()}
    shard = files["c/0/0"]
    np.testing.assert_array_equal(ZarrArray(MemoryStore(files)).read(), data)

    with pytest.raises(FormatError, match="cut short"):
        ZarrArray(MemoryStore(files | {"c/0/0": shard[:40]})).read()
    cut = shard[: len(shard) * 6 // 10]
    with pytest.raises((IntegrityError, FormatError), match="c/0/0"):
        ZarrArray(MemoryStore(files | {"c/0/0": cut})).read()
    at = 3 if location == "start" else len(shard) - 30
    bad = bytearray(shard)
    bad[at] ^= 1
    with pytest.raises(IntegrityError, match="checksum"):
        ZarrArray(MemoryStore(files | {"c/0/0": bad})).read()
    import google_crc32c

    index = bytearray(shard[:68] if location == "start" else shard[-68:])
    index[0:8] = (2**63).to_bytes(8, "little")
    index[-4:] = google_crc32c.value(bytes(index[:-4])).to_bytes(4, "little")
    bad = index + shard[68:] if location == "start" else shard[:-68] + index
    with pytest.raises(FormatError, match="past the end"):
        ZarrArray(MemoryStore(files | {"c/0/0": bad})).read()


def v2(**changes):
    meta = {"zarr_format": 2, "shape": [64, 64], "chunks": [32, 32], "dtype": "<u2", "fill_value": 0}
    return meta | {"compressor": None, "order": "C", "filters": None} | changes


def v3(**changes):
    meta = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [64, 64],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [32, 32]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    return meta | changes


@pytest.mark.parametrize(
    ("meta", "error", "match"),
    [
        (v2(shape=[2**60, 4]), UnsafeInput, "2\\*\\*52"),
        (v2(chunks=[2**40, 2**40]), UnsafeInput, "chunks of"),
        (v2(shape=[1] * 33, chunks=[1] * 33), UnsafeInput, "33 axes"),
        (v2(dtype="|O", filters=[{"id": "pickle"}]), UnsafeInput, "objects"),
        (v2(filters=[{"id": "pickle"}]), UnsafeInput, "run code"),
        (v2(filters=[{"id": "json2"}]), UnsafeInput, "run code"),
        (v2(compressor={"id": "zfpy"}), UnsupportedOperation, "zfpy"),
        (v2(dtype="<U7"), UnsupportedOperation, "numbers"),
        (v2(dtype=[["a", "<u2"]]), UnsupportedOperation, "numbers"),
        (v2(dtype="<M8[ns]"), UnsupportedOperation, "numbers"),
        (v2(dtype="nonsense"), FormatError, "unknown data type"),
        (v2(chunks=[32]), FormatError, "chunk shape"),
        (v2(chunks=[0, 3]), FormatError, "least extent"),
        (v2(shape=[-1, 3]), FormatError, "least extent"),
        (v2(shape=[3.5, 3]), FormatError, "integers"),
        (v2(fill_value="x"), FormatError, "fill_value"),
        (v2(fill_value=70000), FormatError, "fill_value"),
        (v2(order="A"), FormatError, "order"),
        (v2(dimension_separator="-"), FormatError, "separates"),
        (v2(compressor=[1]), FormatError, "codec"),
        (v2(filters=[{"id": "zlib"}] * 20), UnsafeInput, "20 codecs"),
        (v2(zarr_format=3), FormatError, "zarr_format"),
        (v3(codecs=[{"name": "numcodecs.pickle"}]), UnsafeInput, "run code"),
        (v3(codecs=[{"name": "bytes", "configuration": {}}]), FormatError, "byte order"),
        (v3(codecs=[{"name": "zstd", "configuration": {}}]), FormatError, "order"),
        (v3(codecs=[]), FormatError, "codecs"),
        (v3(data_type="string"), UnsupportedOperation, "numbers"),
        (v3(data_type={"name": "numpy.datetime64", "configuration": {}}), UnsupportedOperation, "numbers"),
        (v3(chunk_grid={"name": "rectangular", "configuration": {}}), UnsupportedOperation, "rectangular"),
        (v3(storage_transformers=[{"name": "x"}]), UnsupportedOperation, "transformers"),
        (v3(extra={"name": "x"}), UnsupportedOperation, "extension"),
        (v3(dimension_names=["y"]), FormatError, "dimension_names"),
        (v3(node_type="group"), FormatError, "not an array"),
    ],
)
def test_metadata_is_refused_with_the_right_error(meta, error, match):
    with pytest.raises(error, match=match) as caught:
        parse_array_meta(json.dumps(meta).encode(), 3 if "node_type" in meta else 2)
    assert type(caught.value) is error


def test_json_beyond_the_caps_is_refused():
    with pytest.raises(UnsafeInput, match="nests deeper"):
        parse_array_meta(b"[" * 100_000 + b"]" * 100_000, 3)
    with pytest.raises(UnsafeInput, match="nests deeper"):
        parse_array_meta(b'{"a":' * 70 + b"1" + b"}" * 70, 3)
    with pytest.raises(UnsafeInput, match="bytes"):
        load_array_meta(MemoryStore({"zarr.json": b" " * 3000}), max_bytes=2000)
    with pytest.raises(FormatError, match="more than once"):
        parse_array_meta(json.dumps(v2()).replace('"order"', '"shape": [1], "order"').encode(), 2)
    with pytest.raises(FormatError, match="not valid JSON"):
        parse_array_meta(b'{"zarr_format": 2', 2)


def test_fields_that_are_not_used_may_repeat_and_extensions_may_be_optional():
    raw = json.dumps(v3(extra={"must_understand": False})).replace(
        '"fill_value"', '"attributes": {"a": 1, "a": 2}, "fill_value"'
    )
    assert parse_array_meta(raw.encode(), 3).shape == (64, 64)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "c/1/0"),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}, "c.1.0"),
        ({"chunk_key_encoding": {"name": "v2"}}, "1.0"),
        ({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}}, "1/0"),
    ],
)
def test_chunk_keys_follow_the_arrays_own_metadata(changes, key):
    meta = parse_array_meta(v3(**changes), 3)
    array = ZarrArray(MemoryStore({f"a/{key}": ramp((32, 32)).tobytes()}), meta, "a")
    assert array.chunk_key((1, 0)) == f"a/{key}"
    np.testing.assert_array_equal(array.read((slice(32, 64), slice(0, 32))), ramp((32, 32)))


def test_special_fill_values():
    assert np.isnan(parse_array_meta(v2(dtype="<f4", fill_value="NaN"), 2).fill_value)
    assert parse_array_meta(v3(data_type="float32", fill_value="-Infinity"), 3).fill_value == -np.inf
    assert parse_array_meta(v3(data_type="float32", fill_value="0x3f800000"), 3).fill_value == 1
    assert parse_array_meta(v3(data_type="complex64", fill_value=[1, "Infinity"]), 3).fill_value == complex(
        1, np.inf
    )
    assert parse_array_meta(v3(data_type="uint64", fill_value=2**64 - 1), 3).fill_value == 2**64 - 1


def test_a_decoder_and_metadata_travel_between_processes():
    import pickle

    meta = parse_array_meta(v3(), 3)
    assert pickle.loads(pickle.dumps(meta)) == meta
    assert ChunkDecoder(meta).in_place


def small_blocks(raw):
    """A zstd frame whose blocks hold far less than 128 KiB, without its size."""
    writer = zstandard.ZstdCompressor(level=1, write_content_size=False).compressobj()
    pieces = [raw[at : at + 9000] for at in range(0, len(raw), 9000)]
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return b"".join(writer.compress(p) + writer.flush(flush) for p in pieces) + writer.flush()


FRAMES = {
    "plain": lambda raw: numcodecs.Zstd(1).encode(raw),
    "checksum": lambda raw: numcodecs.Zstd(1, checksum=True).encode(raw),
    "no size": zstd_without_size,
    "small blocks": small_blocks,
    "two frames": lambda raw: small_blocks(raw[:300_000]) + bytes(numcodecs.Zstd(1).encode(raw[300_000:])),
    "skippable first": lambda raw: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + bytes(numcodecs.Zstd(1).encode(raw)),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("writable", [True, False])
def test_the_beginning_of_any_zstd_frame_decodes(name, writable):
    raw = (1 + np.random.default_rng(1).integers(0, 900, 400_000)).astype("u2").tobytes()
    stored = bytes(FRAMES[name](raw))
    data = bytearray(stored) if writable else stored
    meta = parse_array_meta(
        {
            "zarr_format": 2, "shape": [400_000], "chunks": [400_000], "dtype": "<u2", "fill_value": 0,
            "compressor": {"id": "zstd"}, "order": "C", "filters": None,
        },
        2,
    )  # fmt: skip
    decoder = ChunkDecoder(meta)
    for stop in (2, 128 << 10, (128 << 10) + 2, 500_000):
        out = np.zeros(400_000, "u2")
        for found in (decoder.elements(data, stop), decoder.decode(data, out, stop)):
            assert found.tobytes()[:stop] == raw[:stop]
        assert bytes(data) == stored  # what was cut in place is whole again
    assert ChunkDecoder(meta).decode(data).tobytes() == raw


def test_a_zstd_frame_of_another_size_is_refused_from_its_beginning():
    frame = bytes(numcodecs.Zstd(1).encode(bytes(range(1, 200)) * 5000))
    decoder = ChunkDecoder(load_array_meta(bomb_store({"id": "zstd"}, b"")))
    with pytest.raises(FormatError, match="declares 995,000 bytes"):
        decoder.elements(frame, 200_000)
