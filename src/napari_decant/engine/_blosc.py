"""The Blosc 1 container: its header, its block table, and buffers made of some of its blocks.

A Blosc buffer is a 16-byte header, one little-endian int32 offset a block, and the blocks, each of
which decodes by itself (c-blosc ``README_CHUNK_FORMAT``). Wanted rows of a large chunk are decoded
by writing a header and table for only their blocks and handing that to the same library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import FormatError

__all__ = ["HEADER_BYTES", "BloscHeader", "block_starts", "blosc_blocks", "parse_blosc_header"]

HEADER_BYTES: Final = 16
_MEMCPYED: Final = 0x2
_NOT_SPLIT: Final = 0x10


@dataclass(frozen=True, slots=True)
class BloscHeader:
    """What the 16 bytes say, checked against each other.

    Attributes
    ----------
    version, flags, typesize : int
        Format version, flag byte, bytes of one element.
    nbytes, blocksize, cbytes : int
        Decoded bytes, decoded bytes of a block, stored bytes of the whole buffer.
    """

    version: int
    flags: int
    typesize: int
    nbytes: int
    blocksize: int
    cbytes: int

    @property
    def nblocks(self) -> int:
        """Blocks in the buffer; the last one may be shorter."""
        return -(-self.nbytes // self.blocksize) if self.nbytes else 0

    @property
    def table_bytes(self) -> int:
        """Bytes of header and block table; raw buffers have no table."""
        return HEADER_BYTES if self.raw else HEADER_BYTES + 4 * self.nblocks

    def blocks_of(self, start: int, stop: int) -> tuple[int, int]:
        """Blocks ``[first, stop)`` that hold the decoded bytes ``[start, stop)``.

        A short last block is stored without the split by byte that whole blocks have; the library
        tells by its being the shorter one, so it is never taken alone.
        """
        first, last = start // self.blocksize, -(-stop // self.blocksize)
        short = self.nbytes % self.blocksize != 0
        if first == self.nblocks - 1 and first > 0 and short and not self.flags & _NOT_SPLIT:
            first -= 1
        return first, last

    @property
    def raw(self) -> bool:
        """Whether the bytes are stored as they are, without blocks."""
        return bool(self.flags & _MEMCPYED)


def parse_blosc_header(data: bytes | memoryview, stored: int, expected: int) -> BloscHeader:
    """Read and check a header.

    Parameters
    ----------
    data : bytes-like
        At least the first 16 bytes of the buffer.
    stored : int
        Bytes the buffer has in the store.
    expected : int
        Decoded bytes the array's metadata asks for.

    Raises
    ------
    FormatError
        The header is cut short, or its sizes are not the ones expected.
    """
    if len(data) < HEADER_BYTES:
        raise FormatError(
            f"a Blosc buffer of {stored} bytes is shorter than its header; the chunk is cut short"
        )
    version, _, flags, typesize, nbytes, blocksize, cbytes = struct.unpack_from("<BBBBiii", data)
    if nbytes != expected:
        raise FormatError(f"a Blosc header declares {nbytes:,} bytes where the chunk has {expected:,}")
    if cbytes > stored or cbytes < HEADER_BYTES:
        raise FormatError(f"a Blosc header declares {cbytes:,} stored bytes where {stored:,} are there")
    if version not in (1, 2) or typesize == 0 or (nbytes and not 0 < blocksize <= nbytes):
        raise FormatError("a Blosc header has an impossible version, type size or block size")
    header = BloscHeader(version, flags, typesize, nbytes, blocksize, cbytes)
    if header.table_bytes > cbytes or (header.raw and cbytes < HEADER_BYTES + nbytes):
        raise FormatError(f"a Blosc buffer of {cbytes:,} bytes is too short for what its header declares")
    return header


def block_starts(header: BloscHeader, data: bytes | memoryview) -> NDArray[np.int64]:
    """Offsets of all blocks from ``data``, which holds at least header and table, checked."""
    starts = np.frombuffer(data, "<i4", header.nblocks, HEADER_BYTES).astype(np.int64)
    if header.nblocks and (starts.min() < header.table_bytes or starts.max() >= header.cbytes):
        raise FormatError("a Blosc block table points outside its buffer; the chunk is damaged")
    return starts


def blosc_blocks(
    header: BloscHeader, starts: NDArray[np.int64], first: int, stop: int, fetch: Callable[[int, int], bytes]
) -> bytes:
    """Build a Blosc buffer that holds only the blocks ``[first, stop)``.

    Parameters
    ----------
    header : BloscHeader
        Of the whole buffer, which must not be ``raw``.
    starts : int64 array, shape (nblocks,)
        From `block_starts`. Blocks may lie in any order (several threads may have written them).
    first, stop : int
        Wanted blocks, as `BloscHeader.blocks_of` gives them.
    fetch : callable
        ``fetch(offset, length)`` returns that part of the stored buffer.
    """
    ends = np.append(np.sort(starts), header.cbytes)
    stops = ends[np.searchsorted(ends, starts, side="right")]
    begin, end = int(starts[first:stop].min()), int(stops[first:stop].max())
    table = 4 * (stop - first)
    nbytes = min(stop * header.blocksize, header.nbytes) - first * header.blocksize
    if end - begin <= 2 * int((stops - starts)[first:stop].sum()):
        body, moved = fetch(begin, end - begin), starts[first:stop] - begin
    else:  # scattered: gather block by block
        pieces = [fetch(int(starts[i]), int(stops[i] - starts[i])) for i in range(first, stop)]
        body = b"".join(pieces)
        moved = np.cumsum([0, *(len(piece) for piece in pieces[:-1])])
    size = HEADER_BYTES + table + len(body)
    flags = header.flags
    head = struct.pack(
        "<BBBBiii", header.version, 1, flags, header.typesize, nbytes, min(header.blocksize, nbytes), size
    )
    return head + (moved + HEADER_BYTES + table).astype("<i4").tobytes() + body
