"""Decoding one chunk: from stored bytes to elements, into place where that is possible."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numcodecs
import numcodecs.blosc
import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._blosc import HEADER_BYTES, block_starts, blosc_blocks, parse_blosc_header
from napari_decant.engine._bytes_codecs import Buffer, decode_bytes
from napari_decant.errors import FormatError
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.ngff._zarr_codecs import CHECKSUMS, Codec

__all__ = ["ChunkDecoder"]

Fetch = Callable[[int, int], bytes]
_local = threading.local()


def _scratch(nbytes: int) -> NDArray[np.uint8]:
    """Return this thread's buffer of at least ``nbytes``: first touch of fresh memory is slow."""
    buffer: NDArray[np.uint8] | None = getattr(_local, "buffer", None)
    if buffer is None or len(buffer) < nbytes:
        _local.buffer = buffer = np.empty(nbytes, np.uint8)
    return buffer[:nbytes]


def release_scratch() -> None:
    """Let go of this thread's buffer."""
    _local.buffer = None


class ChunkDecoder:
    """Decodes the chunks of one array; may be used by any number of threads.

    Parameters
    ----------
    meta : ArrayMeta
        Inner chunks of a sharded array are what is decoded.

    Attributes
    ----------
    partial : str
        ``"raw"`` where elements lie in the stored bytes as they are, ``"blosc"`` where blocks decode
        one by one, ``""`` where only whole chunks decode.
    """

    # below this a chunk decodes as fast as its block table is looked at
    _LEAST_PARTIAL: Final = 128 << 10

    def __init__(self, meta: ArrayMeta) -> None:
        self.meta = meta
        at = next(i for i, codec in enumerate(meta.codecs) if codec.name == "bytes")
        self._arrays, self._bytes = meta.codecs[:at], meta.codecs[at + 1 :]
        self._stored = np.dtype(meta.dtype)
        for codec in self._arrays:
            if "astype" in codec.config:
                self._stored = np.dtype(codec.config["astype"])
        big = meta.codecs[at].config["endian"] == "big"
        self._stored = self._stored.newbyteorder(">" if big else "<")
        self._count = math.prod(meta.chunk_shape)
        self.nbytes = self._count * self._stored.itemsize
        native = meta.native_dtype
        plain = not any(codec.name != "bitround" for codec in self._arrays)
        # a stored byte of 2 is no valid bool, so bools never land as they are
        self.in_place = plain and self._stored == native and native.kind != "b"
        names = [codec.name for codec in self._bytes]
        self.partial = "" if not plain else "raw" if not names else "blosc" if names == ["blosc"] else ""
        self._sizes = self._stage_sizes()

    def _stage_sizes(self) -> list[tuple[int, bool]]:
        """Bytes before each bytes codec: (size, whether exact)."""
        size, exact, sizes = self.nbytes, True, []
        for codec in self._bytes:
            sizes.append((size, exact))
            if codec.name in CHECKSUMS:
                size += 4
            elif codec.name != "shuffle":  # no compressor of the list grows data by more than this
                size, exact = size + size // 64 + (64 << 10), False
        return sizes

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode a whole chunk.

        Parameters
        ----------
        data : bytes-like
            The stored bytes.
        out : array, shape ``meta.chunk_shape``, native dtype, optional
            Filled and returned; may be strided.

        Raises
        ------
        FormatError, IntegrityError
            The bytes are damaged, or are not a chunk of this array.
        """
        if out is None:
            out = np.empty(self.meta.chunk_shape, self.meta.native_dtype)
        whole = tuple(slice(0, n, 1) for n in self.meta.chunk_shape)
        self.decode_region(data, whole, out)
        return out

    def decode_region(self, data: Buffer, selection: Sequence[slice], out: NDArray[Any]) -> None:
        """Decode what ``selection`` needs of a chunk into ``out``.

        Parameters
        ----------
        data : bytes-like
            All stored bytes of the chunk.
        selection : sequence of slice
            One per axis, not empty, with start, stop and positive step given, inside the chunk.
        out : array of the selection's shape, native dtype
        """
        if self.in_place and out.flags.c_contiguous and out.dtype == self._stored and out.size == self._count:
            self._decode_flat(data, out.reshape(-1).view(np.uint8))
            return
        if self.partial and self.wants_partial(selection):
            view = memoryview(data).cast("B")
            self.decode_partial(
                lambda offset, length: bytes(view[offset : offset + length]), len(view), selection, out
            )
            return
        self._deliver(self._decode_flat(data, None), selection, out)

    def span(self, selection: Sequence[slice]) -> tuple[int, int]:
        """Bytes ``[start, stop)`` of the decoded chunk, as stored, that enclose a selection."""
        first = [s.start for s in selection]
        last = [s.start + (s.stop - 1 - s.start) // s.step * s.step for s in selection]
        shape: tuple[int, ...] = self.meta.chunk_shape
        for codec in self._arrays:
            if codec.name == "transpose":
                first, last = ([x[axis] for axis in codec.config["order"]] for x in (first, last))
                shape = tuple(shape[axis] for axis in codec.config["order"])
        size = self._stored.itemsize
        start = stop = 0
        for n, a, b in zip(shape, first, last, strict=True):
            start, stop = start * n + a, stop * n + b
        return start * size, (stop + 1) * size

    def wants_partial(self, selection: Sequence[slice]) -> bool:
        """Whether decoding only a part saves at least a quarter of a chunk that is not small."""
        if not self.partial or self.nbytes < self._LEAST_PARTIAL:
            return False
        start, stop = self.span(selection)
        return 4 * (stop - start) <= 3 * self.nbytes

    def decode_partial(
        self, fetch: Fetch, stored: int, selection: Sequence[slice], out: NDArray[Any]
    ) -> None:
        """Decode a selection from only the stored bytes it needs.

        Parameters
        ----------
        fetch : callable
            ``fetch(offset, length)`` reads stored bytes of this chunk.
        stored : int
            Stored bytes of the chunk.
        selection, out
            As `decode_region`.
        """
        start, stop = self.span(selection)
        flat = _scratch(self.nbytes)
        if self.partial == "raw":
            if stored != self.nbytes:
                raise FormatError(f"an uncompressed chunk has {stored:,} bytes where {self.nbytes:,} belong")
            flat[start:stop] = np.frombuffer(fetch(start, stop - start), np.uint8)
        else:
            self._decode_blocks(fetch, stored, start, stop, flat)
        self._deliver(flat, selection, out)

    def _decode_blocks(
        self, fetch: Fetch, stored: int, start: int, stop: int, flat: NDArray[np.uint8]
    ) -> None:
        head = fetch(0, min(stored, 512))
        header = parse_blosc_header(head, stored, self.nbytes)
        if header.raw:
            flat[start:stop] = np.frombuffer(fetch(HEADER_BYTES + start, stop - start), np.uint8)
            return
        if header.table_bytes > len(head):
            head = fetch(0, header.table_bytes)
        first, last = header.blocks_of(start, stop)
        part = blosc_blocks(header, block_starts(header, head), first, last, fetch)
        target = flat[first * header.blocksize : min(last * header.blocksize, self.nbytes)]
        try:
            numcodecs.blosc.decompress(part, target)
        except (RuntimeError, ValueError) as error:
            raise FormatError(f"Blosc data cannot be decoded ({error}); the chunk is damaged") from None

    def _decode_flat(self, data: Buffer, out: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        """Undo the bytes codecs; without ``out`` the result lives until this thread's next decode."""
        if not self._bytes:
            if len(memoryview(data).cast("B")) != self.nbytes:
                raise FormatError(
                    f"an uncompressed chunk has {len(data):,} bytes where {self.nbytes:,} belong"
                )
            flat = np.frombuffer(data, np.uint8)
            if out is not None:
                out[:] = flat
            return flat if out is None else out
        if out is None:
            out = _scratch(self.nbytes)
        for place in range(len(self._bytes) - 1, -1, -1):
            size, exact = self._sizes[place]
            data = decode_bytes(self._bytes[place], data, size, exact, out if place == 0 else None)
        return out

    def _deliver(self, flat: NDArray[np.uint8], selection: Sequence[slice], out: NDArray[Any]) -> None:
        """Undo the array codecs of a flat chunk and copy what is selected."""
        elements: NDArray[Any] = flat.view(self._stored)
        orders = [codec.config["order"] for codec in self._arrays if codec.name == "transpose"]
        shapes = [self.meta.chunk_shape]
        for order in orders:
            shapes.append(tuple(shapes[-1][axis] for axis in order))
        for codec in reversed(self._arrays):
            if codec.name != "transpose":
                elements = _undo_filter(codec, elements.reshape(-1)).reshape(elements.shape)
                continue
            order = orders.pop()
            elements = elements.reshape(shapes.pop()).transpose(np.argsort(order))
        elements = elements.reshape(self.meta.chunk_shape)
        if out.dtype.kind == "b":
            elements = elements.view(np.uint8) != 0
        out[...] = elements[tuple(selection)]


def _undo_filter(codec: Codec, elements: NDArray[Any]) -> NDArray[Any]:
    if codec.name == "bitround":
        return elements
    config: dict[str, Any] = {"id": codec.name, **codec.config}
    if codec.name == "quantize":  # its digits matter only while writing
        config["digits"] = 1
    try:
        return np.asarray(numcodecs.get_codec(config).decode(elements))
    except (ValueError, TypeError) as error:
        raise FormatError(f"the {codec.name} filter cannot be undone ({error})") from None
