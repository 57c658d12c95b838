"""The index of a shard: where each inner chunk lies in the stored object (Zarr v3 ``sharding_indexed``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._bytes_codecs import crc32c
from napari_decant.errors import FormatError, IntegrityError
from napari_decant.ngff._zarr import ArrayMeta

__all__ = ["ShardIndex", "index_range", "parse_shard_index"]

_ABSENT: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """Byte ranges of the inner chunks of one shard, by flat (C order) position in the shard.

    Attributes
    ----------
    offsets, lengths : int64 arrays, shape (chunks in the shard,)
        Byte range within the stored object; the offset is -1 for an absent chunk.
    """

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]


def index_range(meta: ArrayMeta, length: int, key: str) -> tuple[int, int]:
    """Offset and length of the index within an object of ``length`` bytes.

    Raises
    ------
    FormatError
        The object is shorter than its index.
    """
    size = meta.index_nbytes
    if length < size:
        raise FormatError(
            f"shard {key} has {length:,} bytes, fewer than its index of {size:,}; it is cut short"
        )
    return (0 if meta.index_location == "start" else length - size), size


def parse_shard_index(meta: ArrayMeta, raw: bytes, length: int, key: str) -> ShardIndex:
    """Check the checksum, if there is one, and every entry.

    Parameters
    ----------
    meta : ArrayMeta
    raw : bytes, length ``meta.index_nbytes``
    length : int
        Bytes of the whole stored object.
    key : str
        Names the shard in messages.

    Raises
    ------
    IntegrityError
        The checksum of the index differs.
    FormatError
        An entry points outside the object.
    """
    big = False
    body = memoryview(raw)
    for codec in reversed(meta.index_codecs):
        if codec.name == "bytes":
            big = codec.config["endian"] == "big"
            continue
        stored = int.from_bytes(body[-4:], "little")
        body = body[:-4]
        if crc32c(body) != stored:
            raise IntegrityError(f"the index of shard {key} differs from its checksum; the shard is damaged")
    pairs: NDArray[Any] = np.frombuffer(body, ">u8" if big else "<u8").reshape(-1, 2)
    absent = (pairs[:, 0] == _ABSENT) & (pairs[:, 1] == _ABSENT)
    # compared without adding, which could wrap around
    outside = ~absent & ((pairs[:, 0] > length) | (pairs[:, 1] > length - np.minimum(pairs[:, 0], length)))
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise FormatError(
            f"the index of shard {key} puts chunk {at} at {pairs[at, 0]:,}+{pairs[at, 1]:,}, "
            f"past the end of its {length:,} bytes; the shard is cut short or damaged"
        )
    offsets = np.where(absent, np.uint64(0), pairs[:, 0]).astype(np.int64)
    lengths = np.where(absent, np.uint64(0), pairs[:, 1]).astype(np.int64)
    offsets[absent] = -1
    return ShardIndex(offsets, lengths)
