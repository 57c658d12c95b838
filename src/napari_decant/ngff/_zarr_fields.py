"""Single fields of Zarr array metadata, each checked and turned into what it means.

``where`` names the file in messages. Everything here raises `FormatError` for what breaks the format,
`UnsafeInput` for what is beyond any limit, and `UnsupportedOperation` for what is valid but not read.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from napari_decant.errors import FormatError, UnsafeInput, UnsupportedOperation
from napari_decant.ngff._zarr_json import take

__all__ = [
    "attributes_of",
    "dimension_names_of",
    "extents",
    "fill_value_of",
    "key_encoding",
    "named_config",
    "number_type",
    "separator_of",
]

MAX_RANK: Final = 32
MAX_EXTENT: Final = 2**52 - 1  # so that half-voxel centres stay representable in float64


def extents(value: object, what: str, where: str, least: int, rank: int | None = None) -> tuple[int, ...]:
    """A shape: a list of whole numbers, of ``rank`` of them if that is known."""
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


def number_type(text: object, where: str) -> np.dtype[Any]:
    """The element type that v2 names; only numbers are read."""
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


def separator_of(value: object, where: str) -> str:
    """The character between chunk indices."""
    if value not in (".", "/"):
        raise FormatError(f"{where} separates chunk indices by {value!r}; '.' or '/' belongs there")
    return str(value)


def named_config(obj: dict[str, Any], key: str, name: str, entry: str, where: str) -> Any:
    """One entry of the configuration of a named extension of v3, which must have that name."""
    value = take(obj, key, where)
    if not isinstance(value, dict) or not isinstance(take(value, "configuration", where, {}), dict):
        raise FormatError(f"{where} has a {key} that is no object with a name and a configuration")
    if take(value, "name", where) != name:
        raise UnsupportedOperation(f"{where} has the {key} {value['name']!r}; only {name!r} is read")
    return take(value["configuration"], entry, where) if "configuration" in value else None


def key_encoding(obj: dict[str, Any], where: str) -> tuple[str, str]:
    """Name and separator of the encoding of chunk keys of v3."""
    value = take(obj, "chunk_key_encoding", where)
    value = {"name": value} if isinstance(value, str) else value
    if not isinstance(value, dict) or not isinstance(take(value, "configuration", where, {}), dict):
        raise FormatError(f"{where} has a chunk_key_encoding that is no object with a name")
    name = take(value, "name", where)
    if name not in ("default", "v2"):
        raise UnsupportedOperation(f"{where} has the chunk_key_encoding {name!r}; default and v2 are read")
    config = value.get("configuration", {})
    return name, separator_of(take(config, "separator", where, "/" if name == "default" else "."), where)


def dimension_names_of(value: object, rank: int, where: str) -> tuple[str | None, ...] | None:
    """A name or None for each axis, or None."""
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


def attributes_of(value: object, where: str) -> dict[str, Any]:
    """The attributes of a v3 array."""
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{where} has attributes that are no object")
    return value or {}


def fill_value_of(value: object, dtype: np.dtype[Any], where: str) -> Any:
    """The value of absent chunks, in native byte order; ``null`` is 0."""
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
