"""Codecs of Zarr v2 and v3 metadata as plain data, through an allow-list.

Names off the list are refused while metadata is read, so no code is looked up by name and no
chunk is touched. The decoders stand in `napari_decant.engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from napari_decant.errors import FormatError, UnsafeInput, UnsupportedOperation
from napari_decant.ngff._zarr_json import take

__all__ = ["Codec", "Sharding", "parse_v2_codecs", "parse_v3_codecs"]

COMPRESSORS: Final = frozenset({"blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma"})
CHECKSUMS: Final = frozenset({"crc32c", "crc32", "adler32", "fletcher32"})
BYTES_CODECS: Final = COMPRESSORS | CHECKSUMS | {"shuffle"}
ARRAY_FILTERS: Final = frozenset({"delta", "fixedscaleoffset", "bitround", "quantize"})
RUNS_CODE: Final = frozenset({"pickle", "msgpack", "msgpack2", "json", "json2"})
MAX_CODECS: Final = 16


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec: its name (without the ``numcodecs.`` prefix) and its configuration.

    Attributes
    ----------
    name : str
        ``bytes``, ``transpose``, a compressor, a checksum, ``shuffle`` or an array filter.
    config : dict
        Checked configuration; treat as read-only.
    """

    name: str
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sharding:
    """The ``sharding_indexed`` codec: inner chunk shape, inner codecs and where its index lies."""

    chunk_shape: tuple[int, ...]
    codecs: tuple[Codec, ...]
    index_codecs: tuple[Codec, ...]
    index_location: str


def _refuse(name: object, where: str) -> Exception:
    base = str(name).removeprefix("numcodecs.")
    if base in RUNS_CODE:
        return UnsafeInput(
            f"{where} names the codec {name!r}, which can run code; its chunks are never decoded"
        )
    return UnsupportedOperation(f"{where} names the codec {name!r}, which is not among the supported codecs")


def _dtype_config(config: dict[str, Any], key: str, default: np.dtype[Any], where: str) -> str:
    text = take(config, key, where, None)
    if text is None:
        return default.str
    try:
        dtype = np.dtype(str(text))
    except (TypeError, ValueError, SyntaxError):  # numpy parses strings in several ways
        raise FormatError(f"{where} gives a codec the unknown data type {str(text)[:60]!r}") from None
    if dtype.kind not in "biufc":
        raise UnsupportedOperation(
            f"{where} gives a codec the data type {text!r}; only numbers are supported"
        )
    return dtype.str


def _number(config: dict[str, Any], key: str, where: str) -> float:
    value = take(config, key, where)
    if not isinstance(value, int | float) or isinstance(value, bool) or not np.isfinite(value):
        raise FormatError(f"{where} gives a codec {key}={value!r}; a finite number belongs there")
    return value


def _array_filter(
    name: str, config: dict[str, Any], dtype: np.dtype[Any], where: str, *, zarr_format: int
) -> tuple[Codec, np.dtype[Any]]:
    """Check an array filter applied to elements of ``dtype``; also returns what it stores them as.

    In v3 the data type of the array stands for its ``astype`` where none is given, whatever its ``dtype``.
    """
    if name == "bitround":  # rounds while writing; reading changes nothing
        return Codec(name), dtype
    given = _dtype_config(config, "dtype", dtype, where)
    stored = _dtype_config(config, "astype", np.dtype(given) if zarr_format == 2 else dtype, where)
    checked: dict[str, Any] = {"dtype": given}
    if zarr_format == 2 or take(config, "astype", where, None) is not None:
        checked["astype"] = stored
    if name == "fixedscaleoffset":
        checked["scale"], checked["offset"] = (_number(config, k, where) for k in ("scale", "offset"))
        if checked["scale"] == 0:
            raise FormatError(f"{where} gives fixedscaleoffset the scale 0")
    if np.dtype(given).itemsize != dtype.itemsize:
        raise FormatError(f"{where}: codec {name!r} expects {given} elements where {dtype.str} arrive")
    return Codec(name, checked), np.dtype(stored)


def _bytes_codec(name: str, config: dict[str, Any], shuffled: int, where: str) -> Codec:
    """Check a bytes codec; ``shuffled`` is the element size of a shuffle that has none."""
    if name == "shuffle":
        size = take(config, "elementsize", where, None)
        size = shuffled if size is None else size
        if type(size) is not int or not 1 <= size <= 256:
            raise FormatError(f"{where} gives shuffle the element size {size!r}")
        return Codec(name, {"elementsize": size})
    if name in ("crc32", "adler32", "crc32c"):
        location = take(config, "location", where, "start" if name != "crc32c" else "end")
        if location not in ("start", "end"):
            raise FormatError(f"{where} puts the {name} checksum at {location!r}; start or end belongs there")
        return Codec(name, {"location": location})
    if name == "lzma":
        filters = take(config, "filters", where, None)
        if filters is not None or take(config, "format", where, 1) not in (1, 2):
            raise UnsupportedOperation(
                f"{where} uses lzma with raw filters; only .xz and .lzma streams are supported"
            )
    return Codec(name)


def parse_v2_codecs(
    filters: object, compressor: object, order: str, dtype: np.dtype[Any], rank: int, where: str
) -> tuple[Codec, ...]:
    """Turn filters and compressor of a ``.zarray`` into one v3-like chain in encoding order.

    A chunk of order F is a transposed one, and ``bytes`` marks where elements become bytes.
    """
    listed: list[Any] = [] if filters is None else filters if isinstance(filters, list) else [filters]
    if compressor is not None:
        listed = [*listed, compressor]
    if len(listed) > MAX_CODECS:
        raise UnsafeInput(f"{where} lists {len(listed)} codecs; more than {MAX_CODECS} are not read")
    chain: list[Codec] = []
    if order == "F" and rank > 1:
        chain.append(Codec("transpose", {"order": tuple(range(rank))[::-1]}))
    marked = False
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(take(entry, "id", where, None), str):
            raise FormatError(f"{where} has a codec that is not an object with an id: {str(entry)[:80]}")
        name = entry["id"].removeprefix("numcodecs.")
        if name in ARRAY_FILTERS and not marked:
            codec, dtype = _array_filter(name, entry, dtype, where, zarr_format=2)
            chain.append(codec)
            continue
        if name not in BYTES_CODECS:
            raise _refuse(entry["id"], where)
        if not marked:
            chain.append(Codec("bytes", {"endian": _endian(dtype)}))
            marked = True
        chain.append(_bytes_codec(name, entry, 4, where))
    if not marked:
        chain.append(Codec("bytes", {"endian": _endian(dtype)}))
    return tuple(chain)


def _endian(dtype: np.dtype[Any]) -> str:
    return "big" if dtype.str[0] == ">" else "little"


def _named(entry: object, where: str) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):  # the v3 core allows a bare name where nothing is configured
        return entry, {}
    if not isinstance(entry, dict) or not isinstance(take(entry, "name", where, None), str):
        raise FormatError(f"{where} has a codec without a name: {str(entry)[:80]}")
    config = take(entry, "configuration", where, None)
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise FormatError(f"{where} configures the codec {entry['name']!r} with something that is no object")
    return entry["name"], config


def _int_tuple(value: object, rank: int, what: str, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != rank or any(type(n) is not int for n in value):
        raise FormatError(f"{where} gives {what} {str(value)[:80]}; {rank} integers belong there")
    return tuple(value)


def parse_v3_codecs(
    entries: object, dtype: np.dtype[Any], rank: int, where: str, *, sharding: bool = True
) -> tuple[tuple[Codec, ...], Sharding | None]:
    """Codecs of a v3 array in encoding order, or its sharding with the codecs inside.

    Raises
    ------
    UnsupportedOperation
        A codec off the list, or sharding combined with other codecs or nested.
    FormatError
        The chain breaks the v3 rules: array codecs, then one array-to-bytes codec, then bytes codecs.
    """
    if not isinstance(entries, list) or not entries:
        raise FormatError(f"{where} has no list of codecs")
    if len(entries) > MAX_CODECS:
        raise UnsafeInput(f"{where} lists {len(entries)} codecs; more than {MAX_CODECS} are not read")
    chain: list[Codec] = []
    marked = False
    for entry in entries:
        full, config = _named(entry, where)
        name = full.removeprefix("numcodecs.")
        if name == "sharding_indexed":
            if not sharding or len(entries) != 1:
                raise UnsupportedOperation(
                    f"{where} combines or nests sharding with other codecs, which is not read"
                )
            return (), _sharding(config, dtype, rank, where)
        if name == "transpose" and not marked:
            chain.append(_transpose(config, rank, where))
        elif name in ARRAY_FILTERS and not marked:
            codec, dtype = _array_filter(name, config, dtype, where, zarr_format=3)
            chain.append(codec)
        elif name == "bytes" and not marked:
            endian = take(config, "endian", where, None)
            if endian not in ("little", "big") and not (endian is None and dtype.itemsize == 1):
                raise FormatError(
                    f"{where} gives the bytes codec the byte order {endian!r}; little or big belongs there"
                )
            chain.append(Codec("bytes", {"endian": endian or "little"}))
            marked = True
        elif name in BYTES_CODECS and marked:
            chain.append(_bytes_codec(name, config, dtype.itemsize, where))
        elif name in BYTES_CODECS or name in ARRAY_FILTERS or name in ("bytes", "transpose"):
            raise FormatError(
                f"{where} has the codec {full!r} in a place where the Zarr v3 order does not allow it"
            )
        else:
            raise _refuse(full, where)
    if not marked:
        raise FormatError(f"{where} has no codec that turns elements into bytes")
    return tuple(chain), None


def _transpose(config: dict[str, Any], rank: int, where: str) -> Codec:
    order = take(config, "order", where)
    if order in ("C", "F"):  # drafts of v3 spelled these out
        axes: Sequence[int] = range(rank) if order == "C" else range(rank)[::-1]
    else:
        axes = _int_tuple(order, rank, "transpose the order", where)
    if sorted(axes) != list(range(rank)):
        raise FormatError(f"{where} transposes by {list(axes)}, which is no permutation of {rank} axes")
    return Codec("transpose", {"order": tuple(axes)})


def _sharding(config: dict[str, Any], dtype: np.dtype[Any], rank: int, where: str) -> Sharding:
    inner = _int_tuple(take(config, "chunk_shape", where), rank, "the inner chunk shape", where)
    codecs, _ = parse_v3_codecs(take(config, "codecs", where), dtype, rank, where, sharding=False)
    uint64 = np.dtype("<u8")
    default = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    index, _ = parse_v3_codecs(
        take(config, "index_codecs", where, default), uint64, rank + 1, where, sharding=False
    )
    if any(codec.name not in ("bytes", "crc32c") for codec in index):
        names = ", ".join(codec.name for codec in index)
        raise UnsupportedOperation(
            f"{where} stores its shard index through {names}; only bytes and crc32c are read"
        )
    location = take(config, "index_location", where, "end")
    if location not in ("start", "end"):
        raise FormatError(f"{where} puts the shard index at {location!r}; start or end belongs there")
    return Sharding(inner, codecs, index, location)
