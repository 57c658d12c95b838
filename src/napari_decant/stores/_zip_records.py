"""The records of a zip file's central directory: where they are, what their names are."""

from __future__ import annotations

import re
import struct
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_decant.errors import FormatError
from napari_decant.stores._keys import MAX_KEY_LENGTH, unsafe_name_reason
from napari_decant.stores._ranges import copy_ranges

__all__ = [
    "CENTRAL",
    "FLAG_UTF8",
    "TOGETHER",
    "decode_names",
    "find_positions",
    "read_rows",
    "read_zip64_extra",
    "unsafe_names",
]

FLAG_UTF8 = 0x800
CENTRAL = np.dtype(
    [
        ("signature", "<u4"), ("made_by", "<u2"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"),
        ("time", "<u4"), ("crc", "<u4"), ("compressed", "<u4"), ("size", "<u4"), ("name", "<u2"),
        ("extra", "<u2"), ("comment", "<u2"), ("disk", "<u2"), ("internal", "<u2"), ("external", "<u4"),
        ("offset", "<u4"),
    ]
)  # fmt: skip
TOGETHER = 1 << 14  # records looked at in one step: the columns of millions must not be copied at once
_LENGTHS = struct.Struct("<3H")
_SIGNATURE = re.compile(rb"PK\x01\x02")
# Parts of names between two NULs of which one must be there where a name is unsafe; see `unsafe_name_reason`.
_SUSPECT = (
    "\0\0", "\\", "\0/", "//", "\0./", "\0../", "/./", "/../", "/.\0", "/..\0", "\0.\0", "\0..\0", ":",
)  # fmt: skip

Column = npt.NDArray[np.int64]


def find_positions(uri: str, data: bytes, count: int) -> npt.NDArray[np.int64]:
    """Where each directory record begins."""
    quick = _quick_positions(data, count)
    if quick is not None:
        return quick
    positions = np.empty(count, np.int64)
    unpack, fixed, at, last = _LENGTHS.unpack_from, CENTRAL.itemsize, 0, len(data)
    for i in range(count):
        if at + fixed > last or data[at : at + 4] != b"PK\1\2":
            raise FormatError(f"{uri} is damaged: directory entry {i:,} of {count:,} is not there")
        name, extra, comment = unpack(data, at + 28)
        positions[i] = at
        at += fixed + name + extra + comment
    if at > last:
        raise FormatError(f"{uri} is damaged: the last directory entry ends outside the directory")
    return positions


def _quick_positions(data: bytes, count: int) -> npt.NDArray[np.int64] | None:
    """The same where the signature stands at the records and nowhere else; None if they must be walked."""
    found = (match.start() for match in islice(_SIGNATURE.finditer(data), count + 1))
    at = np.fromiter(found, np.int64)
    if len(at) != count or not count or int(at[-1]) + CENTRAL.itemsize > len(data):
        return None
    stops = np.empty(count, np.int64)
    for first in range(0, count, TOGETHER):
        part = slice(first, first + TOGETHER)
        rows = read_rows(data, at[part])
        lengths = sum(rows[field].astype(np.int64) for field in ("name", "extra", "comment"))
        stops[part] = at[part] + CENTRAL.itemsize + lengths
    touching = at[0] == 0 and bool((at[1:] == stops[:-1]).all()) and int(stops[-1]) <= len(data)
    return at if touching else None


def read_rows(data: bytes, positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Directory records as a structured array."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), CENTRAL.itemsize)
    return np.ascontiguousarray(windows[positions]).view(CENTRAL)[:, 0]


def unsafe_names(names: list[str]) -> list[tuple[str, str]]:
    """Names that must not be used, each with the reason."""
    text = "\0".join(["", *names, ""])
    suspect = any(part in text for part in _SUSPECT) or text.count("\0") != len(names) + 1
    if not suspect and max(map(len, names), default=0) <= MAX_KEY_LENGTH:
        return []
    return [
        (name, reason)
        for name in names
        if (reason := unsafe_name_reason(name[:-1] if name[-1:] == "/" else name)) is not None
    ]


def decode_names(uri: str, data: bytes, start: Column, length: Column, flags: Column) -> list[str]:
    """Entry names; all at once where they are ASCII."""
    count, total = len(start), int(length.sum())
    joined = np.zeros(total + count, np.uint8)  # a NUL behind each
    copy_ranges(joined, np.cumsum(length + 1) - length - 1, np.frombuffer(data, np.uint8), start, length)
    if count and int(joined.max(initial=0)) < 128 and int(np.count_nonzero(joined)) == total:
        return joined[:-1].tobytes().decode("ascii").split("\0")
    names = []
    for at, size, utf8 in zip(start.tolist(), length.tolist(), (flags & FLAG_UTF8).tolist(), strict=True):
        name = data[at : at + size]
        try:
            names.append(name.decode("utf-8" if utf8 else "cp437"))
        except UnicodeDecodeError:
            raise FormatError(
                f"{uri} is damaged: the entry name {name[:80]!r} is said to be UTF-8 and is not"
            ) from None
    return names


def read_zip64_extra(uri: str, data: bytes, at: int, row: Any) -> tuple[int, int, int]:
    """Size, compressed size and offset of a record whose 32-bit fields are full (APPNOTE 4.5.3)."""
    size, compressed, offset = int(row["size"]), int(row["compressed"]), int(row["offset"])
    start = at + CENTRAL.itemsize + int(row["name"])
    name = data[at + CENTRAL.itemsize : start]
    extra = data[start : start + int(row["extra"])]
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            values = extra[place + 4 : place + 4 + length]
            wanted = sum(v == 0xFFFFFFFF for v in (size, compressed, offset))
            if len(values) < 8 * wanted:
                raise FormatError(f"{uri} is damaged: the ZIP64 sizes of entry {name[:80]!r} are cut short")
            numbers = iter(struct.unpack_from(f"<{wanted}Q", values))
            size = next(numbers) if size == 0xFFFFFFFF else size
            compressed = next(numbers) if compressed == 0xFFFFFFFF else compressed
            offset = next(numbers) if offset == 0xFFFFFFFF else offset
            break
        place += 4 + length
    return size, compressed, offset
