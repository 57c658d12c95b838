"""`check` finds torn and stale shards by key and chunk, and reads every legal form of a shard."""

from __future__ import annotations

import json
import struct
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
import zarr.storage
from tests.support.conforming import conforming, edit, keys_of
from tests.support.ngff import ramp
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, ZstdCodec

from napari_decant.images import open_image
from napari_decant.standard import CheckReport, Finding, check
from napari_decant.stores import MemoryStore

LAST = "0/c/2/0/0/0/0"
EMPTY = 2**64 - 1


def ragged(data: np.ndarray, **sharding: Any) -> dict[str, bytes]:
    """T=5 in shards of 2 with chunks of 1: the last shard is half outside the array (E-03)."""
    chunk = (1, *data.shape[1:])
    codec = ShardingCodec(chunk_shape=chunk, codecs=[BytesCodec(), ZstdCodec(level=1)], **sharding)
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(
        store=store,
        name="0",
        shape=data.shape,
        dtype=data.dtype,
        chunks=(2, *data.shape[1:]),
        serializer=codec,
        compressors=None,
        filters=None,
        fill_value=0,
        dimension_names=list("tczyx"),
    )
    array[...] = data
    return conforming(data.shape, levels=1) | {k: v for k, v in keys_of(store).items() if k.startswith("0/")}


def broken(keys: dict[str, bytes]) -> list[Finding]:
    return [f for f in check(MemoryStore(keys)).every if f.rule == "B1" and f.status == "fail"]


def entries(shard: bytes, count: int = 2) -> list[tuple[int, int]]:
    index = shard[-16 * count - 4 : -4]
    return [struct.unpack_from("<QQ", index, 16 * i) for i in range(count)]


def with_index(shard: bytes, pairs: list[tuple[int, int]]) -> bytes:
    index = b"".join(struct.pack("<QQ", *pair) for pair in pairs)
    return shard[: -len(index) - 4] + index + struct.pack("<I", google_crc32c.value(index))


FORMS: list[dict[str, Any]] = [
    {},
    {"index_codecs": [BytesCodec()]},
    {"index_location": "start"},
    {"index_location": "start", "index_codecs": [BytesCodec()]},
    {"index_codecs": [BytesCodec(endian="big"), Crc32cCodec()]},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_e03_every_form_of_a_ragged_shard_is_read_right(form: dict[str, Any]) -> None:
    data = ramp((5, 1, 4, 16, 20))
    data[2] = 0  # one chunk of fill, which zarr-python leaves out
    keys = ragged(data, **form)
    assert broken(keys) == []
    image = open_image(MemoryStore(keys))
    np.testing.assert_array_equal(np.asarray(image.levels[0]), data)
    image.close()
    absent = [f for f in check(MemoryStore(keys)).every if f.rule == "B2"]
    assert [f.found for f in absent] == ["1 of 5 chunks absent"]


def test_e03_an_index_of_another_time_is_reported_with_shard_and_chunk() -> None:
    keys = ragged(ramp((5, 1, 4, 16, 20)))
    assert entries(keys[LAST])[1] == (EMPTY, EMPTY)
    # the index of a full shard, left behind in the last one
    stale = keys | {LAST: with_index(keys[LAST], entries(keys["0/c/1/0/0/0/0"]))}
    (error,) = broken(stale)
    assert "c/2/0/0/0/0" in error.found
    assert "chunk 1" in error.found
    assert error.path == "0"


def test_e03_entries_that_share_bytes_or_miss_the_chunk_are_reported() -> None:
    keys = ragged(ramp((5, 1, 4, 16, 20)))
    first = "0/c/0/0/0/0/0"
    (a, n), (b, m) = entries(keys[first])
    overlapping = broken(keys | {first: with_index(keys[first], [(a, n), (a + 1, m)])})
    assert any("the chunks 0 and 1 the same bytes" in f.found for f in overlapping)
    shifted = broken(keys | {first: with_index(keys[first], [(a, n - 3), (b, m)])})
    assert len(shifted) == 1
    assert "chunk 0 of shard c/0/0/0/0/0" in shifted[0].found


def test_e05_torn_shards_are_named() -> None:
    keys = ragged(ramp((5, 1, 4, 16, 20)))
    for key, cut in ((LAST, int(len(keys[LAST]) * 0.6)), ("0/c/1/0/0/0/0", 20)):
        (error,) = broken(keys | {key: keys[key][:cut]})
        assert key.removeprefix("0/") in error.found
        assert error.path == "0"
        assert "resumed export" in error.fix


def test_all_chunks_are_decoded_on_request() -> None:
    data = ramp((5, 1, 4, 16, 20))
    report = check(MemoryStore(ragged(data)), whole=True)
    (fine,) = [f for f in report.every if f.rule == "B1"]
    assert fine.found == "5 of 5 chunks decoded"


def test_a_shard_index_made_to_exhaust_memory_is_refused() -> None:
    def change(document: dict[str, Any]) -> None:
        document["shape"] = [1, 1, 1 << 20, 1 << 20, 1 << 10]
        document["chunk_grid"]["configuration"]["chunk_shape"] = [1, 1, 1 << 20, 1 << 20, 1 << 10]
        document["codecs"][0]["configuration"]["chunk_shape"] = [1, 1, 1, 1, 1]

    report: CheckReport = check(MemoryStore(edit(conforming(levels=1), "0/zarr.json", change)))
    assert "N3" in [f.rule for f in report.failed()]
    json.dumps(report.to_json())


def test_a_shape_without_chunks_does_not_hold_the_check_up() -> None:
    def change(document: dict[str, Any]) -> None:
        document["shape"] = [1 << 20, 1 << 20, 20, 40, 48]

    report = check(MemoryStore(edit(conforming(levels=1), "0/zarr.json", change)), whole=True)
    (absent,) = [f for f in report.every if f.rule == "B2"]
    assert "that were looked at" in absent.found
