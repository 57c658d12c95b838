"""Reading the directory of a zip file: end record, ZIP64, central directory.

After APPNOTE.TXT 6.3.10 (PKWARE), sections 4.3 to 4.5. Every count and size is compared with the bytes
that are really there before anything is allocated from it.
"""

from __future__ import annotations

import stat
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_decant.errors import FormatError, IncompleteFile, UnsafeInput
from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._zip_directory import (
    DEFLATED,
    LOCAL_HEADER_SIZE,
    STORED,
    Column,
    ZipDirectory,
    ZipLimits,
)
from napari_decant.stores._zip_records import (
    CENTRAL,
    TOGETHER,
    decode_names,
    find_positions,
    read_rows,
    read_zip64_extra,
)

__all__ = ["read_zip_directory"]

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_MAX_COMMENT = 0xFFFF
_MAX_RATIO = 1032  # deflate cannot do better: 258 bytes from 2 bits
_LOCAL_TAIL, _REMOTE_TAIL = 1 << 17, 1 << 20


def _find_end(file: PositionalFile, tail: bytes) -> tuple[int, tuple[Any, ...]]:
    """Position of the end record within ``tail`` and its fields."""
    at = len(tail) - _END.size
    first = max(0, at - _MAX_COMMENT)
    while at >= first:
        at = tail.rfind(b"PK\5\6", first, at + 4)
        if at < 0:
            break
        fields = _END.unpack_from(tail, at)
        if at + _END.size + fields[7] == len(tail):
            return at, fields
        at -= 1
    raise IncompleteFile(
        f"{file.uri} is incomplete (no end record): it was cut short, never closed, or is no zip file;"
        " copy it again from its source"
    )


def read_zip_directory(file: PositionalFile, limits: ZipLimits | None = None) -> ZipDirectory:
    """Read the directory of a zip file.

    Names are reported as found, with `ZipDirectory.duplicates` and `ZipDirectory.unsafe`, so that a verifier
    can list them; `ZipStore` refuses unsafe ones.

    Parameters
    ----------
    file : PositionalFile
        The zip file. Its tail is read once (1 MiB remote, 128 KiB local) and the rest of the directory
        once more where it is longer.
    limits : ZipLimits, optional
        Caps, checked before anything is allocated.

    Returns
    -------
    ZipDirectory
        The entries.

    Raises
    ------
    FormatError
        The file is cut short or damaged.
    UnsafeInput
        Too many entries, entries that overlap, or a size no compression reaches.
    """
    limits = limits or ZipLimits()
    tail = file.tail(_REMOTE_TAIL if file.remote else _LOCAL_TAIL)
    tail_offset = file.size - len(tail)
    at, (_, disk, first_disk, here, count, length, offset, _) = _find_end(file, tail)
    end = tail_offset + at
    comment = tail[at + _END.size :]
    if at >= _END64_LOCATOR.size and tail[at - _END64_LOCATOR.size :].startswith(b"PK\6\7"):
        end, disk, first_disk, here, count, length, offset = _read_end64(file, tail, tail_offset, at)
    if disk or first_disk or here != count:
        raise FormatError(f"{file.uri} is one part of a zip file in several parts; join the parts first")
    if count > limits.max_entries:
        raise UnsafeInput(
            f"{file.uri} claims {count:,} entries; more than {limits.max_entries:,} are not read"
        )
    if length > limits.max_directory_bytes:
        raise UnsafeInput(
            f"{file.uri} claims a directory of {length:,} bytes; more than {limits.max_directory_bytes:,}"
            " are not read"
        )
    if offset + length > end or count * CENTRAL.itemsize > length:
        raise FormatError(
            f"{file.uri} is damaged: its end record places {count:,} entries ({length:,} bytes) at"
            f" {offset:,},"
            f" but the directory must end before {end:,}"
        )
    if offset >= tail_offset:
        data = tail[offset - tail_offset : offset - tail_offset + length]
    else:
        data = file.read_at(offset, length)
    return _parse(file, data, count, offset, comment, tail, tail_offset)


def _read_end64(file: PositionalFile, tail: bytes, tail_offset: int, at: int) -> tuple[int, ...]:
    """End position, disk, first disk, entries here, entries, directory length and offset (APPNOTE 4.3.14)."""
    _, _, end64, _ = _END64_LOCATOR.unpack_from(tail, at - _END64_LOCATOR.size)
    stop = tail_offset + at - _END64_LOCATOR.size
    if end64 + _END64.size > stop:
        raise FormatError(f"{file.uri} is damaged: its ZIP64 end record lies outside the file")
    raw = (
        tail[end64 - tail_offset : end64 - tail_offset + _END64.size]
        if end64 >= tail_offset
        else file.read_at(end64, _END64.size)
    )
    signature, _, _, _, disk, first_disk, here, count, length, offset = _END64.unpack(raw)
    if signature != b"PK\6\6":
        raise FormatError(f"{file.uri} is damaged: there is no ZIP64 end record where its locator points")
    return end64, disk, first_disk, here, count, length, offset


def _parse(
    file: PositionalFile, data: bytes, count: int, offset: int, comment: bytes, tail: bytes, tail_offset: int
) -> ZipDirectory:
    uri = file.uri
    positions = find_positions(uri, data, count)
    fields = ("flags", "method", "crc", "compressed", "size", "offset", "name")
    column = {name: np.empty(count, np.int64) for name in fields}
    links = np.zeros(count, np.bool_)
    for first in range(0, count, TOGETHER):
        part = slice(first, first + TOGETHER)
        rows = read_rows(data, positions[part])
        for name in fields:
            column[name][part] = rows[name]
        full = np.zeros(len(rows), np.bool_)
        for name in ("size", "compressed", "offset"):
            full |= rows[name] == 0xFFFFFFFF
        for i in np.flatnonzero(full).tolist():
            values = read_zip64_extra(uri, data, int(positions[first + i]), rows[i])
            if max(values) >= 1 << 62:
                raise FormatError(
                    f"{uri} is damaged: directory entry {first + i:,} claims {max(values):,} bytes"
                )
            for name, value in zip(("size", "compressed", "offset"), values, strict=True):
                column[name][first + i] = value
        mode = (rows["external"] >> np.uint32(16)).astype(np.int64)
        links[part] = (rows["made_by"] >> 8 == 3) & ((mode & 0o170000) == stat.S_IFLNK)
    starts = positions + CENTRAL.itemsize
    names = decode_names(uri, data, starts, column["name"], column["flags"])
    next_header = _check_layout(uri, names, column, column["name"], offset)
    return ZipDirectory(
        uri, names, comment, offset, column["flags"], column["method"], column["crc"], column["compressed"],
        column["size"], column["offset"], links, next_header, data, starts, column["name"], tail, tail_offset,
    )  # fmt: skip


def _check_layout(uri: str, names: list[str], column: dict[str, Column], lengths: Column, end: int) -> Column:
    """Refuse entries outside the file, overlapping or with impossible sizes; return where each must end."""
    header, compressed, size, method = (column[k] for k in ("offset", "compressed", "size", "method"))
    stop = header + LOCAL_HEADER_SIZE + lengths + compressed
    order = np.argsort(header, kind="stable")
    next_header = np.empty_like(header)
    next_header[order] = np.append(header[order][1:], end)

    def first(wrong: npt.NDArray[np.bool_]) -> int:
        return int(np.flatnonzero(wrong)[0])

    outside = stop > end
    if outside.any():
        i = first(outside)
        raise FormatError(
            f"{uri} is damaged: entry {names[i][:80]!r} claims {int(compressed[i]):,} bytes at"
            f" {int(header[i]):,},"
            f" past the directory at {end:,}"
        )
    overlap = stop > next_header
    if overlap.any():
        raise UnsafeInput(
            f"{uri} has {int(overlap.sum()):,} overlapping entries ({names[first(overlap)][:80]!r} runs"
            " into the next);"
            " such a file is made to exhaust memory and is not read"
        )
    false_size = (method == STORED) & (size != compressed)
    if false_size.any():
        i = first(false_size)
        raise FormatError(
            f"{uri} is damaged: entry {names[i][:80]!r} is stored, but its two sizes differ"
            f" ({int(compressed[i]):,} and {int(size[i]):,} bytes)"
        )
    bomb = (method == DEFLATED) & (size > compressed * _MAX_RATIO + 64)
    if bomb.any():
        i = first(bomb)
        raise UnsafeInput(
            f"{uri}: entry {names[i][:80]!r} claims to inflate {int(compressed[i]):,} bytes to"
            f" {int(size[i]):,},"
            " which no deflate stream does; it is not read"
        )
    return next_header
