"""Decoding one chunk: from stored bytes to elements, into place where that is possible."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numcodecs
import numcodecs.blosc
import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._array_codecs import ArrayCodecs
from napari_decant.engine._blosc import HEADER_BYTES, block_starts, blosc_blocks, parse_blosc_header
from napari_decant.engine._bytes_codecs import Buffer, decode_bytes, decode_zstd_prefix
from napari_decant.engine._zstd import BLOCK_BYTES, blocks_bytes
from napari_decant.errors import FormatError
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.ngff._zarr_codecs import CHECKSUMS

__all__ = ["ChunkDecoder", "Part"]

_PARTIAL: Final = {(): "raw", ("blosc",): "blosc", ("zstd",): "prefix"}
Fetch = Callable[[int, int], bytes]
_local = threading.local()


def _scratch(nbytes: int) -> NDArray[np.uint8]:
    """Return this thread's buffer of at least ``nbytes``: first touch of fresh memory is slow."""
    buffer: NDArray[np.uint8] | None = getattr(_local, "buffer", None)
    if buffer is None or len(buffer) < nbytes:
        _local.buffer = buffer = np.empty(nbytes, np.uint8)
    return buffer[:nbytes]


@dataclass(frozen=True, slots=True)
class Part:
    """Stored bytes that decode to a part of a chunk.

    Attributes
    ----------
    data : bytes
        Elements as they are, or a Blosc buffer of some blocks.
    packed : bool
        Whether ``data`` is a Blosc buffer.
    start, stop : int
        Bytes of the decoded chunk that they give.
    """

    data: bytes
    packed: bool
    start: int
    stop: int


class ChunkDecoder:
    """Decodes the chunks of one array; may be used by any number of threads.

    Parameters
    ----------
    meta : ArrayMeta
        Inner chunks of a sharded array are what is decoded.

    Attributes
    ----------
    count, itemsize, nbytes : int
        Elements of a chunk, and bytes of one and of all as stored.
    partial : {"", "raw", "blosc", "prefix"}
        How less than a chunk is decoded: elements lie in the stored bytes as they are, blocks decode
        one by one, a stream decodes from its beginning, or not at all.
    strides : tuple of int
        Bytes, in the decoded but not yet transposed chunk, between neighbours along each axis.
    """

    # below this a chunk decodes as fast as its block table is looked at
    _LEAST_PARTIAL: Final = 128 << 10
    # a read of its own costs as much as reading so much more
    _LEAST_SAVED: Final = 256 << 10

    def __init__(self, meta: ArrayMeta) -> None:
        self.meta = meta
        at = next(i for i, codec in enumerate(meta.codecs) if codec.name == "bytes")
        self._arrays, self._bytes = ArrayCodecs(meta), meta.codecs[at + 1 :]
        self._stored = self._arrays.stored
        self.count = math.prod(meta.chunk_shape)
        self.itemsize = self._stored.itemsize
        self.nbytes = self.count * self.itemsize
        native = meta.native_dtype
        # a stored byte of 2 is no valid bool, so bools never land as they are
        self.in_place = self._arrays.plain and self._stored == native and native.kind != "b"
        names = tuple(codec.name for codec in self._bytes)
        self.partial = "" if self._arrays.filtered else _PARTIAL.get(names, "")
        self._sizes = self._stage_sizes()
        self.strides = self._arrays.strides

    def _stage_sizes(self) -> list[tuple[int, bool]]:
        """Bytes before each bytes codec: (size, whether exact)."""
        size, exact = self.nbytes, True
        sizes: list[tuple[int, bool]] = []
        for codec in self._bytes:
            sizes.append((size, exact))
            if codec.name in CHECKSUMS:
                size += 4
            elif codec.name != "shuffle":  # no compressor of the list grows data by more than this
                size, exact = size + size // 64 + (64 << 10), False
        self._most_stored = size
        return sizes

    def check_stored(self, length: int) -> None:
        """Refuse stored bytes that are more than any encoding of a chunk, before they are read.

        Raises
        ------
        FormatError
        """
        most = self._most_stored
        if length > most:
            raise FormatError(
                f"{length:,} bytes are stored where a chunk takes at most {most:,}; it is damaged"
            )

    def decode(
        self,
        data: Buffer,
        out: NDArray[Any] | None = None,
        stop: int | None = None,
        rest: Callable[[], bytes] | None = None,
    ) -> NDArray[Any]:
        """Decode a chunk.

        Parameters
        ----------
        data : bytes-like
            The stored bytes.
        out : array, shape ``meta.chunk_shape``, optional
            Filled and returned; may be strided.
        stop, rest : optional
            As `elements`.

        Raises
        ------
        FormatError, IntegrityError
            The bytes are damaged, or are not a chunk of this array.
        """
        if out is None:
            out = np.empty(self.meta.chunk_shape, self.meta.native_dtype)
        if not self.fits(out):
            out[...] = self.elements(data, stop, rest)
            return out
        flat = out.reshape(-1).view(np.uint8)
        if stop is None or not decode_zstd_prefix(data, self.nbytes, flat, stop):
            self._decode_flat(bytes(data) + rest() if rest is not None else data, flat)
        return out

    def fits(self, out: NDArray[Any]) -> bool:
        """Whether a whole chunk can be decoded straight into ``out``."""
        return (
            self.in_place
            and out.size == self.count
            and out.flags.c_contiguous
            and out.dtype == self._stored
            and out.shape == self.meta.chunk_shape
        )

    def span(self, selection: Sequence[slice]) -> tuple[int, int]:
        """Bytes ``[start, stop)`` of the decoded chunk that enclose a selection (none of them empty)."""
        start = stop = 0
        for s, stride in zip(selection, self.strides, strict=True):
            start += s.start * stride
            stop += (s.start + (s.stop - 1 - s.start) // s.step * s.step) * stride
        return start, stop + self._stored.itemsize

    @property
    def can_be_partial(self) -> bool:
        """Whether decoding a part may pay: it is possible, and a chunk is not small."""
        return bool(self.partial) and self.nbytes >= self._LEAST_PARTIAL

    def wants_partial(self, start: int, stop: int) -> bool:
        """Whether decoding only ``[start, stop)`` saves a zstd block, or a quarter of a large chunk."""
        if not self.can_be_partial:
            return False
        if self.partial == "prefix":
            return -(-stop // BLOCK_BYTES) < -(-self.nbytes // BLOCK_BYTES)
        return 4 * (stop - start) <= 3 * self.nbytes

    def head_bytes(self, stored: int, stop: int) -> int:
        """Bytes to read of a chunk of ``stored`` bytes whose beginning is decoded up to ``stop``."""
        least = blocks_bytes(stored, self.nbytes, stop)
        return least if stored - least >= self._LEAST_SAVED else stored

    def decode_region(self, data: Buffer, selection: Sequence[slice], out: NDArray[Any]) -> None:
        """Decode what ``selection`` needs of a chunk into ``out``.

        Parameters
        ----------
        data : bytes-like
            All stored bytes of the chunk.
        selection : sequence of slice
            One per axis, not empty, with start, stop and positive step given, inside the chunk.
        out : array of the selection's shape
        """
        if self.fits(out):
            self._decode_flat(data, out.reshape(-1).view(np.uint8))
            return
        start, stop = self.span(selection)
        if not self.wants_partial(start, stop):
            elements = self.elements(data)
        elif self.partial == "prefix":
            elements = self.elements(data, stop)
        else:
            view = memoryview(data).cast("B")
            elements = self.elements_of(
                self.fetch_part(lambda at, n: bytes(view[at : at + n]), len(view), start, stop)
            )
        out[...] = elements[tuple(selection)]

    def elements(
        self, data: Buffer, stop: int | None = None, rest: Callable[[], bytes] | None = None
    ) -> NDArray[Any]:
        """Decode a chunk to a view that is good until this thread decodes the next.

        Parameters
        ----------
        data : bytes-like
        stop : int, optional
            Decode only this many bytes; the rest of the view is undefined. Needs ``partial == "prefix"``.
        rest : callable, optional
            Reads the stored bytes that follow ``data``, should the first ones turn out to be too few.

        Returns
        -------
        array, shape ``meta.chunk_shape``
            Of the stored type, but for bools.
        """
        if stop is not None:
            flat = _scratch(self.nbytes)
            if decode_zstd_prefix(data, self.nbytes, flat, stop):
                return self._arrays.undo(flat)
        if rest is not None:
            data = bytes(data) + rest()
        return self._arrays.undo(self._decode_flat(data, None))

    def fetch_part(self, fetch: Fetch, stored: int, start: int, stop: int) -> Part:
        """Read only the stored bytes that ``[start, stop)`` of the chunk needs; not for ``"prefix"``.

        Parameters
        ----------
        fetch : callable
            ``fetch(offset, length)`` reads stored bytes of this chunk.
        stored : int
            Stored bytes of the chunk.

        Raises
        ------
        FormatError
            The sizes are not those of a chunk of this array.
        """
        if self.partial == "raw":
            if stored != self.nbytes:
                raise FormatError(f"an uncompressed chunk has {stored:,} bytes where {self.nbytes:,} belong")
            return Part(fetch(start, stop - start), False, start, stop)
        head = fetch(0, min(stored, 1024))
        header = parse_blosc_header(head, stored, self.nbytes)
        if header.raw:
            return Part(fetch(HEADER_BYTES + start, stop - start), False, start, stop)
        if header.table_bytes > len(head):
            head = fetch(0, header.table_bytes)
        first, last = header.blocks_of(start, stop)
        data = blosc_blocks(header, block_starts(header, head), first, last, fetch)
        return Part(data, True, first * header.blocksize, min(last * header.blocksize, self.nbytes))

    def elements_of(self, part: Part) -> NDArray[Any]:
        """As `elements`, from a part; the rest of the view is undefined."""
        flat = _scratch(self.nbytes)
        target = flat[part.start : part.stop]
        if part.packed:
            try:
                numcodecs.blosc.decompress(part.data, target)
            except (RuntimeError, ValueError) as error:
                raise FormatError(f"Blosc data cannot be decoded ({error}); the chunk is damaged") from None
        else:
            target[:] = np.frombuffer(part.data, np.uint8)
        return self._arrays.undo(flat)

    def _decode_flat(self, data: Buffer, out: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        """Undo the bytes codecs; without ``out`` the result lives until this thread's next decode."""
        if not self._bytes:
            flat = np.frombuffer(data, np.uint8)
            if len(flat) != self.nbytes:
                raise FormatError(
                    f"an uncompressed chunk has {len(flat):,} bytes where {self.nbytes:,} belong"
                )
            if out is None:
                return flat
            out[:] = flat
            return out
        if out is None:
            out = _scratch(self.nbytes)
        for place in range(len(self._bytes) - 1, -1, -1):
            size, exact = self._sizes[place]
            data = decode_bytes(self._bytes[place], data, size, exact, out if place == 0 else None)
        return out
