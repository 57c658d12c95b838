"""Decoders of bytes-to-bytes codecs that never trust a declared size.

Each decoder is given the size its output must have, or a bound on it, and stops there: a chunk
meant to hold 1 MiB cannot inflate to 1 GiB, whatever its header says.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final

import google_crc32c
import imagecodecs
import numcodecs.blosc
import numcodecs.fletcher32
import numcodecs.shuffle
import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._blosc import parse_blosc_header
from napari_decant.engine._zstd import BLOCK_BYTES, cut_frame
from napari_decant.errors import FormatError, IntegrityError
from napari_decant.ngff._zarr_codecs import CHECKSUMS, Codec

__all__ = ["Buffer", "crc32c", "decode_bytes", "decode_zstd_prefix"]

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]

# Without this, c-blosc shares one context between all threads under a lock while called from the
# main thread. Our pools bring the threads, and zarr-python sets the same.
numcodecs.blosc.use_threads = False

_PIECE: Final = 1 << 20


def decode_bytes(
    codec: Codec, data: Buffer, size: int, exact: bool, out: NDArray[np.uint8] | None = None
) -> Buffer:
    """Undo one codec.

    Parameters
    ----------
    codec : Codec
        A compressor, checksum or ``shuffle``.
    data : bytes-like
        What the codec produced.
    size : int
        Bytes the result must have if ``exact``, else the most it may have.
    exact : bool
    out : uint8 array, shape (size,), contiguous, optional
        Filled and returned if given; needs ``exact``.

    Raises
    ------
    FormatError
        The data are damaged, or would decode to another size.
    IntegrityError
        A checksum differs.
    """
    if codec.name in CHECKSUMS:
        result = _strip_checksum(codec, memoryview(data).cast("B"))
    elif codec.name == "shuffle":
        result = _unshuffle(codec, data)
    else:
        if exact and out is None:
            out = np.empty(size, np.uint8)
        result = _DECOMPRESSORS[codec.name](data, size, out)
    if len(result) > size or (exact and len(result) != size):
        raise _wrong_size(codec.name, len(result), size)
    if out is not None and result is not out:
        out[:] = np.frombuffer(result, np.uint8)
        return out
    return result


def _wrong_size(name: str, found: int, size: int) -> FormatError:
    more = "more than" if found > size else "only"
    count = f"{size:,}" if found > size else f"{found:,} of {size:,}"
    return FormatError(
        f"{name} data decode to {more} {count} bytes; the chunk is damaged or not what it claims"
    )


def _strip_checksum(codec: Codec, data: memoryview) -> Buffer:
    if len(data) < 4:
        raise FormatError(f"{len(data)} bytes are too short to hold a {codec.name} checksum")
    if codec.name == "fletcher32":
        try:
            checked: Buffer = numcodecs.fletcher32.Fletcher32().decode(data)
        except RuntimeError:
            raise IntegrityError("the fletcher32 checksum of a chunk differs; its bytes changed") from None
        return checked
    first = codec.config["location"] == "start"
    body, stored = (data[4:], data[:4]) if first else (data[:-4], data[-4:])
    value: int
    if codec.name == "crc32c":
        value = crc32c(body)
    else:
        value = zlib.crc32(body) if codec.name == "crc32" else zlib.adler32(body)
    if value != int.from_bytes(stored, "little"):
        raise IntegrityError(f"the {codec.name} checksum of a chunk differs; its bytes changed")
    return body


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C of some bytes."""
    # it takes an array's buffer without a copy, but no memoryview's
    value: int = google_crc32c.value(np.frombuffer(data, np.uint8))
    return value


def _unshuffle(codec: Codec, data: Buffer) -> Buffer:
    width = codec.config["elementsize"]
    flat = np.frombuffer(data, np.uint8)
    if width == 1:
        return flat
    if len(flat) % width:
        raise FormatError(f"shuffled data of {len(flat)} bytes are no multiple of the element size {width}")
    result: NDArray[np.uint8] = np.frombuffer(numcodecs.shuffle.Shuffle(width).decode(flat), np.uint8)
    return result


def _blosc(data: Buffer, size: int, out: NDArray[np.uint8] | None) -> Buffer:
    view = memoryview(data).cast("B")
    if out is None:
        nbytes = int.from_bytes(view[4:8], "little", signed=True)
        if not 0 <= nbytes <= size:
            raise FormatError(f"a Blosc header declares {nbytes:,} bytes where at most {size:,} fit")
        out = np.empty(nbytes, np.uint8)
    parse_blosc_header(view, len(view), len(out))
    if len(out) == 0:
        return out
    try:
        numcodecs.blosc.decompress(view, out)
    except (RuntimeError, ValueError) as error:
        raise FormatError(f"Blosc data cannot be decoded ({error}); the chunk is damaged") from None
    return out


def _bounded(decode: Callable[..., Any]) -> Callable[[Buffer, int, NDArray[np.uint8] | None], Buffer]:
    """Make a decoder from one of imagecodecs, which stops with an error where ``out`` is full."""
    name = decode.__name__.removesuffix("_decode")

    def run(data: Buffer, size: int, out: NDArray[np.uint8] | None) -> Buffer:
        target = np.empty(size, np.uint8) if out is None else out
        if len(target) == 0:  # decoders refuse an empty target
            target = np.empty(1, np.uint8)
        try:
            result = decode(data, out=target)
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            raise FormatError(f"{name} data cannot be decoded into {size:,} bytes ({error})") from None
        return out if out is not None and len(result) == len(out) else memoryview(result).cast("B")

    return run


def decode_zstd_prefix(data: Buffer, size: int, out: NDArray[np.uint8], stop: int) -> bool:
    """Fill at least the first ``stop`` bytes of ``out`` from a zstd frame.

    Parameters
    ----------
    data : bytes-like
        The frame, or its first ``ceil(stop / 128 KiB)`` blocks or more.
    size : int
        Bytes that the whole frame decodes to.
    out : uint8 array, shape (size,), contiguous
    stop : int

    Returns
    -------
    bool
        False where ``data`` does not hold enough of the frame.

    Raises
    ------
    FormatError
        The data are damaged, or the frame declares another size.
    """
    blocks = -(-stop // BLOCK_BYTES)
    for _ in range(2):
        with cut_frame(memoryview(data).cast("B"), size, blocks) as frame:
            if frame is None:
                return False
            room = min(blocks * BLOCK_BYTES, size)
            got = len(_zstd(frame, room, out[:room]))
        if got >= stop:
            return True
        blocks = blocks * stop // max(got, 1) + 1  # blocks may hold less than 128 KiB
    return False


def _lz4(data: Buffer, size: int, out: NDArray[np.uint8] | None) -> Buffer:
    view = memoryview(data).cast("B")
    if len(view) < 4:
        raise FormatError(f"lz4 data of {len(view)} bytes lack their size")
    nbytes = int.from_bytes(view[:4], "little")
    if nbytes > size or (out is not None and nbytes != size):
        raise _wrong_size("lz4", nbytes, size)
    return _lz4_block(view[4:], nbytes, out)


def _stream(data: Buffer, size: int, start: Callable[[], Any]) -> Buffer:
    """Decode a stream of one or more members, at most ``size + 1`` bytes of it."""
    result = bytearray()
    rest = bytes(data)
    while rest:
        stream = start()
        try:
            while not stream.eof and len(result) <= size:
                before = len(result)
                result += stream.decompress(rest, min(_PIECE, size + 1 - len(result)))
                rest = getattr(stream, "unconsumed_tail", b"")
                if len(result) == before and not rest and getattr(stream, "needs_input", True):
                    break
        except (zlib.error, OSError, lzma.LZMAError, ValueError, EOFError) as error:
            raise FormatError(f"compressed data are damaged ({error})") from None
        if len(result) > size:
            break
        if not stream.eof:
            raise FormatError("compressed data end too early; the chunk is cut short")
        rest = stream.unused_data
    return result


def _deflate(
    fast: Callable[[Buffer, int, NDArray[np.uint8] | None], Buffer], wbits: int
) -> Callable[[Buffer, int, NDArray[np.uint8] | None], Buffer]:
    """Try libdeflate, which wants one member and the exact size; settle the rest by streaming."""

    def run(data: Buffer, size: int, out: NDArray[np.uint8] | None) -> Buffer:
        if out is not None and len(out):
            try:
                if len(fast(data, size, out)) == size:
                    return out
            except FormatError:
                pass  # the stream decoder below decides, and says why
        return _stream(data, size, lambda: zlib.decompressobj(wbits))

    return run


_lz4_block = _bounded(imagecodecs.lz4_decode)
_zstd = _bounded(imagecodecs.zstd_decode)
_DECOMPRESSORS: Final[dict[str, Callable[[Buffer, int, NDArray[np.uint8] | None], Buffer]]] = {
    "blosc": _blosc,
    "zstd": _zstd,
    "lz4": _lz4,
    "gzip": _deflate(_bounded(imagecodecs.gzip_decode), 31),
    "zlib": _deflate(_bounded(imagecodecs.deflate_decode), 15),
    "bz2": lambda data, size, out: _stream(data, size, bz2.BZ2Decompressor),
    "lzma": lambda data, size, out: _stream(data, size, lambda: lzma.LZMADecompressor(memlimit=256 << 20)),
}
