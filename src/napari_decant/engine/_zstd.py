"""Zstandard frames cut after some of their blocks: they decode from the beginning, as far as needed.

A frame (RFC 8878) is a header, blocks of at most 128 KiB each, and perhaps a checksum. Its first blocks
under a header that declares no size are a frame again, which decodes at once, straight into place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from napari_decant.errors import FormatError

__all__ = ["BLOCK_BYTES", "blocks_bytes", "cut_frame", "fetch_blocks"]

BLOCK_BYTES: Final = 128 << 10
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_RLE: Final = 1


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
    window = (max((size - 1).bit_length(), 10) - 10) << 3 if single else data[5]
    return at + width, window


def _block(data: memoryview, at: int) -> tuple[int, bool]:
    """Where the block at ``at`` ends, and whether it is the last of its frame."""
    head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return at + 3 + (1 if head >> 1 & 3 == _RLE else head >> 3), bool(head & 1)


def cut_frame(data: bytes | memoryview, size: int, blocks: int) -> bytes | None:
    """Build a frame of the first blocks of another.

    Parameters
    ----------
    data : bytes-like
        Stored bytes of the frame, from its first one; may end after the wanted blocks.
    size : int
        Bytes the whole frame decodes to.
    blocks : int
        How many blocks, at least 1.

    Returns
    -------
    bytes or None
        None where the frame has no further blocks, is not complete, or is no plain frame: decode it whole.

    Raises
    ------
    FormatError
        The frame declares another size.
    """
    view = memoryview(data).cast("B")
    header = _frame_header(view, size)
    if header is None:
        return None
    begin, window = header
    at = end = begin
    last = False
    for _ in range(blocks):
        at = end
        if last or at + 3 > len(view):
            return None
        end, last = _block(view, at)
    if end > len(view) or last:
        return None
    cut = bytearray(struct.pack("<4sBB", _MAGIC, 0, window))
    moved = len(cut) + at - begin
    cut += view[begin:end]
    cut[moved] |= 1  # now the last one
    return bytes(cut)


def blocks_bytes(stored: int, size: int, stop: int) -> int:
    """Guess how many stored bytes of a frame give its first ``stop`` of ``size`` bytes; rather more."""
    wanted, blocks = -(-stop // BLOCK_BYTES), -(-size // BLOCK_BYTES)
    return min(stored, stored * (wanted + 1) // blocks + 64)


def fetch_blocks(fetch: Callable[[int, int], bytes], stored: int, size: int, stop: int) -> bytes:
    """Read about as much of a frame as its first ``stop`` decoded bytes need.

    Parameters
    ----------
    fetch : callable
        ``fetch(offset, length)`` reads stored bytes of the frame.
    stored, size : int
        Stored and decoded bytes of the whole frame.

    Returns
    -------
    bytes
        The beginning of the frame, with at least ``ceil(stop / 128 KiB)`` blocks; all of it where that
        does not save anything.
    """
    data = fetch(0, blocks_bytes(stored, size, stop))
    if len(data) < stored and cut_frame(data, size, -(-stop // BLOCK_BYTES)) is None:
        data += fetch(len(data), stored - len(data))
    return data
