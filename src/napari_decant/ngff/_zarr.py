"""Array metadata of Zarr v2 (``.zarray``) and v3 (``zarr.json``), read with every count capped.

Nothing is allocated from a declared size. Data types that hold objects or text and codecs off the
allow-list are refused here, before any chunk is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from napari_decant.errors import FormatError, MissingKey, UnsafeInput, UnsupportedOperation
from napari_decant.ngff._zarr_codecs import Codec, parse_v2_codecs, parse_v3_codecs
from napari_decant.ngff._zarr_fields import (
    attributes_of,
    dimension_names_of,
    extents,
    fill_value_of,
    key_encoding,
    named_config,
    number_type,
    separator_of,
)
from napari_decant.ngff._zarr_json import load_json, take
from napari_decant.stores._base import Store

__all__ = ["ArrayMeta", "load_array_meta", "parse_array_meta"]

MAX_CHUNK_BYTES: Final = 2**32
MAX_SHARD_CHUNKS: Final = 2**22
MAX_ARRAY_JSON: Final = 16 << 20

_TEXT: Final = ("vlen-utf8", "vlen-bytes", "vlen-array")
_V3_TYPES: Final = {
    **{
        name: name
        for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    **{name: name for name in ("float16", "float32", "float64", "complex64", "complex128")},
}


@dataclass(frozen=True, slots=True)
class ArrayMeta:
    """What is needed to find and decode the chunks of one Zarr array.

    Attributes
    ----------
    shape : tuple of int
        Elements along each axis.
    chunk_shape : tuple of int
        What decodes as one piece: the inner chunk of a sharded array, else the chunk.
    shard_shape : tuple of int or None
        What one stored object holds, a multiple of ``chunk_shape``; None if each chunk is an object.
    dtype : numpy.dtype
        Stored element type, with its stored byte order.
    fill_value : numpy scalar
        Value of absent chunks, in native byte order; ``null`` reads as 0.
    order : str
        ``"C"`` or ``"F"`` as declared by v2; the chain in ``codecs`` already accounts for it.
    codecs : tuple of Codec
        Chain of one (inner) chunk in encoding order.
    index_codecs, index_location
        The chain of a shard's index, and ``"start"`` or ``"end"``.
    key_encoding, separator : str
        ``"default"`` (``c/0/1``) or ``"v2"`` (``0.1``), and the character between indices.
    dimension_names : tuple of (str or None), or None
    zarr_format : int
        2 or 3.
    attributes : dict
        Attributes stored with a v3 array, uninterpreted.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    shard_shape: tuple[int, ...] | None
    dtype: np.dtype[Any]
    fill_value: Any
    codecs: tuple[Codec, ...]
    order: str = "C"
    index_codecs: tuple[Codec, ...] = ()
    index_location: str = "end"
    key_encoding: str = "v2"
    separator: str = "."
    dimension_names: tuple[str | None, ...] | None = None
    zarr_format: int = 2
    attributes: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def native_dtype(self) -> np.dtype[Any]:
        """The element type in this machine's byte order: what decoding returns."""
        return self.dtype.newbyteorder("=")

    @property
    def object_shape(self) -> tuple[int, ...]:
        """What one stored object covers: the shard, or the chunk."""
        return self.shard_shape or self.chunk_shape

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Chunks (inner ones, if sharded) along each axis that hold elements of the array."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def chunks_per_shard(self) -> tuple[int, ...]:
        """Inner chunks of one stored object along each axis; all 1 without sharding."""
        return tuple(s // c for s, c in zip(self.object_shape, self.chunk_shape, strict=True))

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of one decoded chunk."""
        return math.prod(self.chunk_shape) * self.dtype.itemsize

    @property
    def index_nbytes(self) -> int:
        """Bytes of a shard's stored index."""
        size = 16 * math.prod(self.chunks_per_shard)
        return size + 4 * sum(codec.name == "crc32c" for codec in self.index_codecs)

    def object_key(self, index: Sequence[int]) -> str:
        """Key, relative to the array, of the stored object at a position in the grid of objects."""
        parts = [str(int(i)) for i in index]
        if self.key_encoding == "default":
            return self.separator.join(["c", *parts])
        return self.separator.join(parts) or "0"


def load_array_meta(store: Store, path: str = "", *, max_bytes: int = MAX_ARRAY_JSON) -> ArrayMeta:
    """Read the metadata of the array at ``path`` of a store.

    Parameters
    ----------
    store : Store
    path : str
        Path of the array within the store; empty for the root.
    max_bytes : int
        Larger metadata files are refused.

    Raises
    ------
    MissingKey
        Neither ``zarr.json`` nor ``.zarray`` is there.
    FormatError, UnsafeInput, UnsupportedOperation
        As `parse_array_meta`.
    """
    prefix = f"{path.strip('/')}/" if path.strip("/") else ""
    for key, version in ((f"{prefix}zarr.json", 3), (f"{prefix}.zarray", 2)):
        if store.exists(key):
            raw = store.read(key, limit=max_bytes)
            return parse_array_meta(raw, version, where=f"{key} in {store.uri}", max_bytes=max_bytes)
    raise MissingKey(f"{store.uri} has no array at {path or '/'!r}: neither zarr.json nor .zarray is there")


def parse_array_meta(
    raw: bytes | dict[str, Any],
    zarr_format: int,
    *,
    where: str = "array metadata",
    max_bytes: int = MAX_ARRAY_JSON,
    max_chunk_bytes: int = MAX_CHUNK_BYTES,
) -> ArrayMeta:
    """Check and keep what reading an array needs (Zarr v2 ``.zarray``, v3 ``zarr.json``).

    Parameters
    ----------
    raw : bytes or dict
        The JSON text, or an object already parsed (from ``.zmetadata``).
    zarr_format : int
        2 or 3.
    where : str
        Names the file in messages.
    max_bytes, max_chunk_bytes : int
        Caps on the JSON text and on one decoded chunk.

    Raises
    ------
    FormatError
        The metadata breaks its own format.
    UnsafeInput
        A count is beyond what is ever read, or a codec or data type could run code.
    UnsupportedOperation
        Valid, but not read by this program: text, structures, other codecs or grids.
    """
    obj = load_json(raw, where, max_bytes=max_bytes) if isinstance(raw, bytes) else raw
    if not isinstance(obj, dict):
        raise FormatError(f"{where} is not a JSON object")
    if take(obj, "zarr_format", where) != zarr_format or zarr_format not in (2, 3):
        raise FormatError(f"{where} declares zarr_format {obj['zarr_format']!r} where {zarr_format} belongs")
    meta = (_parse_v2 if zarr_format == 2 else _parse_v3)(obj, where)
    if meta.chunk_nbytes > max_chunk_bytes:
        raise UnsafeInput(
            f"{where} declares chunks of {meta.chunk_nbytes:,} bytes; above {max_chunk_bytes:,} none is read"
        )
    if math.prod(meta.chunks_per_shard) > MAX_SHARD_CHUNKS:
        raise UnsafeInput(
            f"{where} declares shards of more than {MAX_SHARD_CHUNKS:,} chunks; they are not read"
        )
    return meta


def _parse_v2(obj: dict[str, Any], where: str) -> ArrayMeta:
    shape = extents(take(obj, "shape", where), "shape", where, 0)
    chunks = extents(take(obj, "chunks", where), "chunk shape", where, 1, len(shape))
    filters = take(obj, "filters", where, None)
    if isinstance(filters, list) and any(isinstance(f, dict) and f.get("id") in _TEXT for f in filters):
        raise UnsupportedOperation(
            f"{where} holds text or rows of unequal length; only arrays of numbers are read"
        )
    dtype = number_type(take(obj, "dtype", where), where)
    order = take(obj, "order", where, "C")
    if order not in ("C", "F"):
        raise FormatError(f"{where} has the order {order!r}; C or F belongs there")
    codecs = parse_v2_codecs(
        filters,
        take(obj, "compressor", where, None),
        order,
        dtype,
        len(shape),
        where,
    )
    return ArrayMeta(
        shape=shape,
        chunk_shape=chunks,
        shard_shape=None,
        dtype=dtype,
        fill_value=fill_value_of(take(obj, "fill_value", where, None), dtype, where),
        codecs=codecs,
        order=order,
        separator=separator_of(take(obj, "dimension_separator", where, "."), where),
    )


def _parse_v3(obj: dict[str, Any], where: str) -> ArrayMeta:
    if take(obj, "node_type", where, None) != "array":
        raise FormatError(f"{where} describes a {obj.get('node_type')!r}, not an array")
    known = {
        "zarr_format",
        "node_type",
        "shape",
        "data_type",
        "chunk_grid",
        "chunk_key_encoding",
        "fill_value",
    }
    known |= {"codecs", "attributes", "storage_transformers", "dimension_names", "consolidated_metadata"}
    for key in obj.keys() - known:
        if not (isinstance(obj[key], dict) and obj[key].get("must_understand") is False):
            raise UnsupportedOperation(f"{where} has the extension {key!r}, which a reader must understand")
    if take(obj, "storage_transformers", where, None):
        raise UnsupportedOperation(f"{where} uses storage transformers, which are not read")
    shape = extents(take(obj, "shape", where), "shape", where, 0)
    rank = len(shape)
    name = take(obj, "data_type", where)
    if isinstance(name, dict) and not name.get("configuration"):  # the long spelling of a plain name
        name = name.get("name")
    if not (isinstance(name, str) and name in _V3_TYPES):
        raise UnsupportedOperation(
            f"{where} has the data type {str(name)[:60]!r}; only arrays of numbers are read"
        )
    dtype = np.dtype(name)
    outer = extents(
        named_config(obj, "chunk_grid", "regular", "chunk_shape", where), "chunk shape", where, 1, rank
    )
    codecs, sharding = parse_v3_codecs(take(obj, "codecs", where), dtype, rank, where)
    chunk, shard = outer, None
    if sharding is not None:
        chunk, shard = extents(list(sharding.chunk_shape), "inner chunk shape", where, 1, rank), outer
        codecs = sharding.codecs
        if any(s % c for s, c in zip(shard, chunk, strict=True)):
            raise FormatError(f"{where}: the shard {shard} is no multiple of the chunk {chunk} inside")
    endian = next(codec.config["endian"] for codec in codecs if codec.name == "bytes")
    dtype = dtype.newbyteorder(">" if endian == "big" else "<")
    encoding, separator = key_encoding(obj, where)
    return ArrayMeta(
        shape=shape,
        chunk_shape=chunk,
        shard_shape=shard,
        dtype=dtype,
        fill_value=fill_value_of(take(obj, "fill_value", where), dtype, where),
        codecs=codecs,
        index_codecs=sharding.index_codecs if sharding else (),
        index_location=sharding.index_location if sharding else "end",
        key_encoding=encoding,
        separator=separator,
        dimension_names=dimension_names_of(take(obj, "dimension_names", where, None), rank, where),
        zarr_format=3,
        attributes=attributes_of(take(obj, "attributes", where, None), where),
    )
