"""What is left of a zip file whose end is missing: its entries, found by their own headers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._zip_directory import (
    DEFLATED,
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    FLAG_UTF8,
    LOCAL_HEADER_SIZE,
    STORED,
)

__all__ = ["SalvagedEntry", "salvage_entries"]

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
        name = tail[:name_length].decode("utf-8" if flags & FLAG_UTF8 else "cp437", "replace")
        if data + compressed > file.size:
            yield SalvagedEntry(name, compressed, data, "cut")
            return
        yield SalvagedEntry(name, compressed, data, _state(file, data, compressed, size, method, flags, crc))
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


def _state(
    file: PositionalFile, offset: int, compressed: int, size: int, method: int, flags: int, crc: int
) -> Literal["intact", "damaged", "unchecked"]:
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
