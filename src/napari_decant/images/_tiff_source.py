"""Chunks of a TIFF series: straight from the file where it is one run of pixels, else segment by segment."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import DecantError, FormatError, UnsafeInput
from napari_decant.stores import PositionalFile

__all__ = ["PageSource", "RawSource", "WithAxis"]

_ROWS_BYTES = 4 << 20  # decoded size of a chunk made of whole strips or rows
_MAX_SEGMENT_BYTES = 2 << 30


class RawSource:
    """Uncompressed pixels in C order in one run, such as ImageJ stacks above 4 GB that have a single page.

    Parameters
    ----------
    file : PositionalFile
        The file.
    offset : int
        Of the first pixel, in bytes.
    shape : tuple of int
        Elements along each axis.
    dtype : numpy.dtype
        With the file's byte order.
    frame_axes : int
        How many of the last axes make up one page: a chunk never reaches across pages.

    Raises
    ------
    FormatError
        The file ends before the pixels do.
    """

    def __init__(
        self, file: PositionalFile, offset: int, shape: Sequence[int], dtype: np.dtype[Any], frame_axes: int
    ) -> None:
        self._file, self._offset, self._stored = file, offset, np.dtype(dtype)
        self.shape, self.dtype = tuple(shape), self._stored.newbyteorder("=")
        nbytes = math.prod(self.shape) * self._stored.itemsize
        if offset + nbytes > file.size:
            raise FormatError(
                f"{file.uri} is cut short: its pixels need {offset + nbytes:,} bytes, it has {file.size:,}"
            )
        leading = len(self.shape) - frame_axes
        frame = list(self.shape[leading:])
        if frame:
            row = math.prod(frame[1:]) * self._stored.itemsize
            frame[0] = max(1, min(frame[0], _ROWS_BYTES // max(1, row)))
        self.chunk_shape = (1,) * leading + tuple(frame)

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `ChunkSource.read_chunk`."""
        if out is None:
            out = np.empty(self.chunk_shape, self.dtype)
        start = [i * c for i, c in zip(index, self.chunk_shape, strict=True)]
        shape = [min(c, n - s) for c, n, s in zip(self.chunk_shape, self.shape, start, strict=True)]
        first = int(np.ravel_multi_index(start, self.shape)) if start else 0
        whole = np.empty(shape, self._stored)
        self._file.read_into(self._offset + first * self._stored.itemsize, memoryview(whole).cast("B"))
        out[tuple(slice(0, n) for n in shape)] = whole
        return out

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """See `ChunkSource.read`; the box lies within one chunk."""
        index = [s.start // c for s, c in zip(selection, self.chunk_shape, strict=True)]
        chunk = self.read_chunk(index)
        return chunk[
            tuple(
                slice(s.start - i * c, s.stop - i * c, s.step)
                for s, i, c in zip(selection, index, self.chunk_shape, strict=True)
            )
        ]


class WithAxis:
    """Another source with one more axis of length 1: TIFF readers drop those.

    Parameters
    ----------
    source : RawSource or PageSource
    at : int
        Where the axis goes.
    """

    def __init__(self, source: RawSource | PageSource, at: int) -> None:
        self._source, self._at = source, at
        self.dtype = source.dtype
        self.shape = (*source.shape[:at], 1, *source.shape[at:])
        self.chunk_shape = (*source.chunk_shape[:at], 1, *source.chunk_shape[at:])

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `ChunkSource.read_chunk`."""
        inner = None if out is None else out.squeeze(self._at)
        chunk = self._source.read_chunk([*index[: self._at], *index[self._at + 1 :]], inner)
        return chunk.reshape(self.chunk_shape) if out is None else out

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """See `ChunkSource.read`; the box lies within one chunk."""
        block = self._source.read((*selection[: self._at], *selection[self._at + 1 :]))
        return np.expand_dims(block, self._at)[(slice(None),) * self._at + (selection[self._at],)]


class PageSource:
    """Pages made of tiles or strips, decoded by tifffile one segment at a time.

    A chunk is a tile, or as many whole strips as make about 4 MiB.

    Parameters
    ----------
    file : PositionalFile
        The file.
    series : tifffile.TiffPageSeries
        Which pages.
    lock : threading.Lock
        Held while tifffile itself touches the file.

    Raises
    ------
    FormatError
        Shape and pages of the series do not belong together.
    UnsafeInput
        One segment is too large to decode.
    """

    def __init__(self, file: PositionalFile, series: Any, lock: threading.Lock) -> None:
        self._file, self._series, self._lock = file, series, lock
        self._pages: dict[int, Any] = {}
        page = series.keyframe
        self._keyframe = page
        self.shape = tuple(int(n) for n in series.shape)
        self.dtype = np.dtype(series.dtype).newbyteorder("=")
        page_shape = tuple(int(n) for n in page.shape)
        self._leading = self.shape[: len(self.shape) - len(page_shape)]
        if self.shape[len(self._leading) :] != page_shape or math.prod(self._leading) != len(series.pages):
            raise FormatError(f"{file.uri}: pages of {page_shape} do not make up a series of {self.shape}")
        # separate samples, depth, length, width, contiguous samples
        self._normal = tuple(int(n) for n in page.shaped)
        segment = (
            (1, page.tiledepth, page.tilelength, page.tilewidth, self._normal[4])
            if page.is_tiled
            else (1, 1, min(page.rowsperstrip, self._normal[2]), self._normal[3], self._normal[4])
        )
        self._segment = tuple(max(1, int(n)) for n in segment)
        nbytes = math.prod(self._segment) * self.dtype.itemsize
        if nbytes > _MAX_SEGMENT_BYTES:
            raise UnsafeInput(
                f"{file.uri} has tiles or strips of {nbytes:,} bytes; above {_MAX_SEGMENT_BYTES:,} none"
                " is decoded"
            )
        if 0 in self._normal:
            raise FormatError(f"{file.uri} has a page without pixels")
        self._grid = tuple(-(-n // s) for n, s in zip(self._normal, self._segment, strict=True))
        chunk = list(self._segment)
        if not page.is_tiled:
            strips = min(self._grid[2], max(1, _ROWS_BYTES // max(1, nbytes)))
            chunk[2] = min(self._segment[2] * strips, self._normal[2])
        self._kept = _kept_axes(self._normal, page_shape, file.uri)
        self._chunk = tuple(c if axis in self._kept else 1 for axis, c in enumerate(chunk))
        self.chunk_shape = (1,) * len(self._leading) + tuple(self._chunk[axis] for axis in self._kept)

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `ChunkSource.read_chunk`."""
        if out is None:
            out = np.zeros(self.chunk_shape, self.dtype)
        lead = len(self._leading)
        number = int(np.ravel_multi_index(tuple(index[:lead]), self._leading)) if lead else 0
        where = [0] * 5
        for position, axis in zip(index[lead:], self._kept, strict=True):
            where[axis] = int(position) * self._chunk[axis]
        target = out.reshape(self._chunk)
        page = self._page(number)
        if page is None:
            out[...] = self._keyframe.nodata
            return out
        first = [w // s for w, s in zip(where, self._segment, strict=True)]
        last = [
            -(-min(w + c, n) // s)
            for w, c, n, s in zip(where, self._chunk, self._normal, self._segment, strict=True)
        ]
        for place in itertools.product(*(range(a, b) for a, b in zip(first, last, strict=True))):
            block = self._decode(page, place)
            start = [p * s - w for p, s, w in zip(place, self._segment, where, strict=True)]
            room = [c - s for c, s in zip(self._chunk, start, strict=True)]
            region = tuple(
                slice(s, s + min(b, r))
                for s, b, r in zip(
                    start, block.shape if block is not None else self._segment, room, strict=True
                )
            )
            if block is None:
                target[region] = self._keyframe.nodata
            else:
                target[region] = block[tuple(slice(0, r.stop - r.start) for r in region)]
        return out

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """See `ChunkSource.read`; the box lies within one chunk."""
        index = [s.start // c for s, c in zip(selection, self.chunk_shape, strict=True)]
        chunk = self.read_chunk(index)
        return chunk[
            tuple(
                slice(s.start - i * c, s.stop - i * c, s.step)
                for s, i, c in zip(selection, index, self.chunk_shape, strict=True)
            )
        ]

    def _page(self, number: int) -> Any:
        with self._lock:  # pages load when they are first asked for
            if number not in self._pages:
                page = self._series.pages[number]
                tables = None if page is None else (page.dataoffsets, page.databytecounts, page.jpegtables)
                self._pages[number] = tables
            return self._pages[number]

    def _decode(self, page: tuple[Any, Any, Any], place: Sequence[int]) -> NDArray[Any] | None:
        """One segment as (1, depth, length, width, samples); None if the file leaves it out."""
        number = int(np.ravel_multi_index(tuple(place), self._grid))
        offsets, counts, tables = page
        held = min(len(offsets), len(counts))
        if number >= held:
            raise FormatError(
                f"{self._file.uri} is damaged: a page has {held:,} segments where"
                f" {math.prod(self._grid):,} belong"
            )
        offset, count = int(offsets[number]), int(counts[number])
        if not offset or not count:
            return None
        decoded = math.prod(self._segment) * self.dtype.itemsize
        count = min(count, 2 * decoded + (1 << 20))  # no codec makes data larger than that
        if offset + count > self._file.size:
            raise FormatError(
                f"{self._file.uri} is cut short: a segment of {count:,} bytes at {offset:,} is not there"
            )
        data = self._file.read_at(offset, count)
        options: dict[str, Any] = {}
        if self._keyframe.compression in (6, 7, 34892, 33007):
            options = {"jpegtables": tables, "jpegheader": self._keyframe.jpegheader}
        try:
            block = self._keyframe.decode(data, number, **options)[0]
        except (DecantError, MemoryError):
            raise
        except Exception as error:
            raise FormatError(f"{self._file.uri} is damaged or not supported: {str(error)[:200]}") from error
        if block is None:
            return None
        block = np.asarray(block)[None]
        if any(b > s for b, s in zip(block.shape, self._segment, strict=True)):
            raise FormatError(
                f"{self._file.uri} is damaged: a segment of {block.shape} where {self._segment} belongs"
            )
        return block.astype(self.dtype, copy=False)


def _kept_axes(normal: tuple[int, ...], shape: tuple[int, ...], uri: str) -> tuple[int, ...]:
    """Which of the five axes of a page its shape keeps; the others have length 1."""
    for count in range(5, 1, -1):
        for axes in itertools.combinations(range(5), count):
            if tuple(normal[a] for a in axes) == shape and all(
                normal[a] == 1 for a in range(5) if a not in axes
            ):
                return axes
    raise FormatError(f"{uri}: a page of {normal} does not have the shape {shape}")
