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
from napari_decant.ngff._zarr_json import load_json, take
from napari_decant.stores._base import Store

__all__ = ["ArrayMeta", "load_array_meta", "parse_array_meta"]

MAX_RANK: Final = 32
MAX_EXTENT: Final = 2**52 - 1  # so that half-voxel centres stay representable in float64
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


def _extents(value: object, what: str, where: str, least: int, rank: int | None = None) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(n) is not int for n in value):
        raise FormatError(f"{where} gives the {what} {str(value)[:80]}; a list of integers belongs there")
    if len(value) > MAX_RANK:
        raise UnsafeInput(f"{where} has {len(value)} axes; above {MAX_RANK} none is read")
    if rank is not None and len(value) != rank:
        raise FormatError(f"{where} has a {what} of {len(value)} axes for a shape of {rank}")
    if any(n < least for n in value):
        raise FormatError(f"{where} gives the {what} {value}; the least extent is {least}")
    if any(n > MAX_EXTENT for n in value):
        raise UnsafeInput(f"{where} gives the {what} {value}; extents of 2**52 and more are not read")
    return tuple(value)


def _number_type(text: object, where: str) -> np.dtype[Any]:
    if isinstance(text, str):
        try:
            dtype = np.dtype(text)
        except (TypeError, ValueError, SyntaxError):
            raise FormatError(f"{where} has the unknown data type {text[:40]!r}") from None
        if dtype.kind in "biufc" and dtype.itemsize <= 16 and dtype.subdtype is None:
            return dtype
        if dtype.hasobject:
            raise UnsafeInput(
                f"{where} holds Python objects (data type {text!r}), which could run code; it is not read"
            )
    raise UnsupportedOperation(
        f"{where} has the data type {str(text)[:60]!r}; only arrays of numbers are read"
    )


def _parse_v2(obj: dict[str, Any], where: str) -> ArrayMeta:
    shape = _extents(take(obj, "shape", where), "shape", where, 0)
    chunks = _extents(take(obj, "chunks", where), "chunk shape", where, 1, len(shape))
    filters = take(obj, "filters", where, None)
    if isinstance(filters, list) and any(isinstance(f, dict) and f.get("id") in _TEXT for f in filters):
        raise UnsupportedOperation(
            f"{where} holds text or rows of unequal length; only arrays of numbers are read"
        )
    dtype = _number_type(take(obj, "dtype", where), where)
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
        fill_value=_fill(take(obj, "fill_value", where, None), dtype, where),
        codecs=codecs,
        order=order,
        separator=_separator(take(obj, "dimension_separator", where, "."), where),
    )


def _separator(value: object, where: str) -> str:
    if value not in (".", "/"):
        raise FormatError(f"{where} separates chunk indices by {value!r}; '.' or '/' belongs there")
    return str(value)


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
    shape = _extents(take(obj, "shape", where), "shape", where, 0)
    rank = len(shape)
    name = take(obj, "data_type", where)
    if isinstance(name, dict) and not name.get("configuration"):  # the long spelling of a plain name
        name = name.get("name")
    if not (isinstance(name, str) and name in _V3_TYPES):
        raise UnsupportedOperation(
            f"{where} has the data type {str(name)[:60]!r}; only arrays of numbers are read"
        )
    dtype = np.dtype(name)
    outer = _extents(
        _config(obj, "chunk_grid", "regular", "chunk_shape", where), "chunk shape", where, 1, rank
    )
    codecs, sharding = parse_v3_codecs(take(obj, "codecs", where), dtype, rank, where)
    chunk, shard = outer, None
    if sharding is not None:
        chunk, shard = _extents(list(sharding.chunk_shape), "inner chunk shape", where, 1, rank), outer
        codecs = sharding.codecs
        if any(s % c for s, c in zip(shard, chunk, strict=True)):
            raise FormatError(f"{where}: the shard {shard} is no multiple of the chunk {chunk} inside")
    endian = next(codec.config["endian"] for codec in codecs if codec.name == "bytes")
    dtype = dtype.newbyteorder(">" if endian == "big" else "<")
    encoding, separator = _key_encoding(obj, where)
    return ArrayMeta(
        shape=shape,
        chunk_shape=chunk,
        shard_shape=shard,
        dtype=dtype,
        fill_value=_fill(take(obj, "fill_value", where), dtype, where),
        codecs=codecs,
        index_codecs=sharding.index_codecs if sharding else (),
        index_location=sharding.index_location if sharding else "end",
        key_encoding=encoding,
        separator=separator,
        dimension_names=_dimension_names(take(obj, "dimension_names", where, None), rank, where),
        zarr_format=3,
        attributes=_attributes(take(obj, "attributes", where, None), where),
    )


def _config(obj: dict[str, Any], key: str, name: str, entry: str, where: str) -> Any:
    value = take(obj, key, where)
    if not isinstance(value, dict) or not isinstance(take(value, "configuration", where, {}), dict):
        raise FormatError(f"{where} has a {key} that is no object with a name and a configuration")
    if take(value, "name", where) != name:
        raise UnsupportedOperation(f"{where} has the {key} {value['name']!r}; only {name!r} is read")
    return take(value["configuration"], entry, where) if "configuration" in value else None


def _key_encoding(obj: dict[str, Any], where: str) -> tuple[str, str]:
    value = take(obj, "chunk_key_encoding", where)
    value = {"name": value} if isinstance(value, str) else value
    if not isinstance(value, dict) or not isinstance(take(value, "configuration", where, {}), dict):
        raise FormatError(f"{where} has a chunk_key_encoding that is no object with a name")
    name = take(value, "name", where)
    if name not in ("default", "v2"):
        raise UnsupportedOperation(f"{where} has the chunk_key_encoding {name!r}; default and v2 are read")
    config = value.get("configuration", {})
    return name, _separator(take(config, "separator", where, "/" if name == "default" else "."), where)


def _dimension_names(value: object, rank: int, where: str) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != rank
        or not all(name is None or isinstance(name, str) for name in value)
    ):
        raise FormatError(
            f"{where} has dimension_names {str(value)[:80]}; {rank} names or nulls belong there"
        )
    return tuple(value)


def _attributes(value: object, where: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{where} has attributes that are no object")
    return value or {}


def _fill(value: object, dtype: np.dtype[Any], where: str) -> Any:
    native = dtype.newbyteorder("=")
    if value is None:
        return native.type(0)
    try:
        if dtype.kind == "c":
            pair = value if isinstance(value, list) and len(value) == 2 else [value, 0.0]
            half = np.dtype(f"f{dtype.itemsize // 2}")
            return native.type(complex(_fill_float(pair[0], half), _fill_float(pair[1], half)))
        if dtype.kind == "f":
            return native.type(_fill_float(value, native))
        if dtype.kind == "b" and (isinstance(value, bool) or value in (0, 1)):
            return native.type(bool(value))
        if isinstance(value, float) and value.is_integer():  # some writers give 0.0 for integers
            value = int(value)
        if dtype.kind in "iu" and isinstance(value, str) and len(value) <= 24:  # and some "0"
            value = int(value)
        if dtype.kind in "iu" and isinstance(value, int):
            low, high = np.iinfo(native).min, np.iinfo(native).max
            if low <= value <= high:
                return native.type(value)
    except (ValueError, TypeError, OverflowError):
        pass
    raise FormatError(f"{where} has the fill_value {str(value)[:60]!r}, which is no {native.name}")


def _fill_float(value: object, native: np.dtype[Any]) -> float:
    if isinstance(value, str):
        if value in ("NaN", "Infinity", "-Infinity"):
            return float(value)
        if value.startswith("0x") and len(value) == 2 + 2 * native.itemsize:
            return float(np.frombuffer(bytes.fromhex(value[2:]), native.newbyteorder(">"))[0])
        raise ValueError(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    return float(value)
