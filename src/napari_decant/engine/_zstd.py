"""Zstandard frames cut after some of their blocks: they decode from the beginning, as far as needed.

A frame (RFC 8878) is a header, blocks of at most 128 KiB each, and perhaps a checksum. Its first blocks
under a header that declares no size are a frame again, which decodes at once, straight into place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from napari_decant.errors import FormatError

__all__ = ["BLOCK_BYTES", "blocks_bytes", "cut_frame"]

BLOCK_BYTES: Final = 128 << 10
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_RLE: Final = 1
_MOST_WINDOW: Final = 31  # a power of two; no decoder takes more


def _frame_header(data: memoryview, size: int) -> tuple[int, int] | None:
    """Where the blocks begin, and a window descriptor for them; None for anything but a plain frame."""
    if len(data) < 18 or bytes(data[:4]) != _MAGIC:
        return None
    flags = data[4]
    single = flags & 0x20
    if flags & 0x0B:  # a reserved bit, or a dictionary
        return None
    at = 5 if single else 6
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    if width:
        declared = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
        if declared != size:
            raise FormatError(f"a zstd frame declares {declared:,} bytes where the chunk has {size:,}")
    power = max((size - 1).bit_length(), 10)
    if power > _MOST_WINDOW:
        return None
    return at + width, (power - 10) << 3 if single else data[5]


def _block(data: memoryview, at: int) -> tuple[int, bool]:
    """Where the block at ``at`` ends, and whether it is the last of its frame."""
    head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return at + 3 + (1 if head >> 1 & 3 == _RLE else head >> 3), bool(head & 1)


@contextmanager
def cut_frame(data: memoryview, size: int, blocks: int) -> Iterator[memoryview | None]:
    """Make a frame of the first blocks of another, in place: no memory is touched for it.

    Parameters
    ----------
    data : memoryview
        Stored bytes of the frame, from its first one; may end after the wanted blocks. Changed within
        the context, and as before after it; copied if it cannot be written.
    size : int
        Bytes the whole frame decodes to.
    blocks : int
        How many blocks, at least 1.

    Yields
    ------
    memoryview or None
        None where the frame has no further blocks, is not complete, or is no plain frame: decode it whole.

    Raises
    ------
    FormatError
        The frame declares another size.
    """
    found = _find_cut(data, size, blocks)
    if found is None:
        yield None
        return
    begin, window, last, end = found
    view = memoryview(bytearray(data[:end])) if data.readonly else data
    start = begin - 6  # a header that declares no size is the shortest
    kept, flag = bytes(view[start:begin]), view[last]
    try:
        view[start:begin] = struct.pack("<4sBB", _MAGIC, 0, window)
        view[last] = flag | 1
        yield view[start:end]
    finally:
        view[start:begin], view[last] = kept, flag


def _find_cut(data: memoryview, size: int, blocks: int) -> tuple[int, int, int, int] | None:
    """Where the blocks begin, their window descriptor, where the last wanted one begins and ends."""
    header = _frame_header(data, size)
    if header is None:
        return None
    begin, window = header
    at = end = begin
    last = False
    for _ in range(blocks):
        at = end
        if last or at + 3 > len(data):
            return None
        end, last = _block(data, at)
    return None if end > len(data) or last else (begin, window, at, end)


def blocks_bytes(stored: int, size: int, stop: int) -> int:
    """Guess how many stored bytes of a frame give its first ``stop`` of ``size`` bytes; rather more."""
    wanted, blocks = -(-stop // BLOCK_BYTES), -(-size // BLOCK_BYTES)
    return min(stored, stored * (wanted + 1) // blocks + 64)
