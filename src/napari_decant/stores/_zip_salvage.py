"""What is left of a zip file whose end is missing: its entries, found by their own headers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._zip_directory import (
    DEFLATED,
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    LOCAL_HEADER_SIZE,
    STORED,
    ZipDirectory,
)
from napari_decant.stores._zip_records import FLAG_UTF8

__all__ = ["SalvagedEntry", "salvage_directory", "salvage_entries"]

_LOCAL = struct.Struct("<4s5H3L2H")
_BLOCK = 1 << 20
_MAX_ENTRIES = 8_000_000


@dataclass(frozen=True, slots=True)
class SalvagedEntry:
    """One entry found without a directory; sizes and offsets in bytes.

    Attributes
    ----------
    name : str
        As found: it may be unsafe, see `unsafe_name_reason`.
    size, data_offset : int
        Stored length and where the data begin.
    state : str
        ``"intact"``: all bytes are there and match their CRC. ``"damaged"``: they do not. ``"cut"``: the
        file ends before they do. ``"unchecked"``: the method is not read.
    """

    name: str
    size: int
    data_offset: int
    state: Literal["intact", "damaged", "cut", "unchecked"]


def salvage_entries(file: PositionalFile) -> Iterator[SalvagedEntry]:
    """Walk the local headers of a zip file from its start and check each entry's CRC.

    For a file that `ZipStore` refuses as incomplete. Reads everything once, 1 MiB at a time, and stops at
    the first place where no header follows, at once if there is none. Entries whose size follows their
    data (written to a pipe) end the walk too: without the directory nothing says where they end.

    Parameters
    ----------
    file : PositionalFile
        The file.

    Yields
    ------
    SalvagedEntry
        In file order.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    for found in _walk(file):
        if found.data + found.compressed > file.size:
            yield SalvagedEntry(found.name, found.compressed, found.data, "cut")
            return
        yield SalvagedEntry(found.name, found.compressed, found.data, _state(file, found))


def salvage_directory(file: PositionalFile, step: Callable[[], None] = lambda: None) -> ZipDirectory:
    """Make a directory of the entries that are there whole; only their headers are read.

    `ZipStore` takes it in place of the one that the file has lost, and checks names as ever.

    Parameters
    ----------
    file : PositionalFile
        The file.
    step : callable
        Called now and then; may raise to stop.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    entries = []
    for number, found in enumerate(_walk(file)):
        if number % 4096 == 0:
            step()
        same = found.size == found.compressed if found.method == STORED else found.size < 1 << 62
        if found.data + found.compressed <= file.size and same:
            entries.append(found)
    end = entries[-1].data + entries[-1].compressed if entries else 0

    def column(values: Iterable[int]) -> npt.NDArray[np.int64]:
        return np.array(list(values), np.int64)

    lengths = column(len(found.raw_name) for found in entries)
    return ZipDirectory(
        file.uri,
        [found.name for found in entries],
        b"",
        end,
        column(found.flags for found in entries),
        column(found.method for found in entries),
        column(found.crc for found in entries),
        column(found.compressed for found in entries),
        column(found.size for found in entries),
        column(found.header for found in entries),
        np.zeros(len(entries), np.bool_),
        column([*(found.header for found in entries[1:]), end][: len(entries)]),
        b"".join(found.raw_name for found in entries),
        np.cumsum(lengths) - lengths,
        lengths,
        b"",
        file.size,
    )


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    header: int
    data: int


def _walk(file: PositionalFile) -> Iterator[_Header]:
    """Local headers from the start of a file to the first place where none follows."""
    at = 0
    for _ in range(_MAX_ENTRIES):
        if at + LOCAL_HEADER_SIZE > file.size:
            return
        fields = _LOCAL.unpack(file.read_at(at, LOCAL_HEADER_SIZE))
        signature, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = fields
        data = at + LOCAL_HEADER_SIZE + name_length + extra_length
        if signature != b"PK\3\4" or data > file.size:
            return
        tail = file.read_at(at + LOCAL_HEADER_SIZE, name_length + extra_length)
        if compressed == 0xFFFFFFFF or size == 0xFFFFFFFF:
            size, compressed = _zip64_sizes(tail[name_length:], size, compressed)
        if flags & FLAG_DESCRIPTOR and not compressed:
            return
        raw_name = tail[:name_length]
        name = raw_name.decode("utf-8" if flags & FLAG_UTF8 else "cp437", "replace")
        yield _Header(name, raw_name, flags, method, crc, compressed, size, at, data)
        at = data + compressed


def _zip64_sizes(extra: bytes, size: int, compressed: int) -> tuple[int, int]:
    """Sizes from the ZIP64 extra field of a local header, which holds both (APPNOTE 4.5.3)."""
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == 1 and length >= 16 and place + 20 <= len(extra):
            own_size, own_compressed = struct.unpack_from("<2Q", extra, place + 4)
            return int(own_size), int(own_compressed)
        place += 4 + length
    return size, compressed


def _state(file: PositionalFile, header: _Header) -> Literal["intact", "damaged", "unchecked"]:
    offset, compressed, size = header.data, header.compressed, header.size
    method, flags, crc = header.method, header.flags, header.crc
    if flags & FLAG_ENCRYPTED or method not in (STORED, DEFLATED):
        return "unchecked"
    inflater = zlib.decompressobj(-zlib.MAX_WBITS) if method == DEFLATED else None
    found, total = 0, 0
    for start in range(offset, offset + compressed, _BLOCK):
        block = file.read_at(start, min(_BLOCK, offset + compressed - start))
        try:
            # Bounded output: what does not come out now is left and asked for until the declared size is
            # passed.
            while block:
                data = block if inflater is None else inflater.decompress(block, _BLOCK)
                found, total = zlib.crc32(data, found), total + len(data)
                if total > size:
                    return "damaged"
                block = b"" if inflater is None else inflater.unconsumed_tail
        except zlib.error:
            return "damaged"
    return "intact" if (found, total) == (crc, size) else "damaged"
