"""Rebuild an original file piece by piece, in file order (section 5, "Splice pixels into the husk").

The file is cut into units of some megabytes. Worker threads decode what a unit needs into a
recycled buffer; units come out in order, so that a hash can run over them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._geometry import array_to_segments
from napari_decant.archive._workers import Scratch, ordered
from napari_decant.engine import ChunkDecoder, ZarrArray
from napari_decant.progress import CancelToken
from napari_decant.stores._ranges import copy_ranges

__all__ = ["UNIT", "Fetch", "read_entry", "rebuild"]

UNIT = 8 << 20
_REGIONS = 1 << 16  # looked at together

Fetch = Callable[[ZarrArray, str], bytes | None]
"""Stored bytes of a chunk by its key in the store; None if it is absent."""

_HUSK = -1


def read_entry(array: ZarrArray, key: str) -> bytes | None:
    """Read a chunk without further checks: the plain `Fetch`."""
    where = array.store.extent(key)
    return None if where is None else array.store.read_file(where.file, where.offset, where.length)


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """A contiguous range of the file as consecutive pieces: a region of a page, or a run of husk.

    Columns are int64: file offset, length, page (or `_HUSK`), and the position in the page's
    serialised bytes or in the husk.
    """

    offset: np.ndarray
    length: np.ndarray
    page: np.ndarray
    position: np.ndarray

    @property
    def start(self) -> int:
        return int(self.offset[0])

    @property
    def stop(self) -> int:
        return int(self.offset[-1] + self.length[-1])

    def part(self, first: int, last: int) -> _Pieces:
        rows = slice(first, last)
        return _Pieces(self.offset[rows], self.length[rows], self.page[rows], self.position[rows])


def _blocks(file: ArchivedFile) -> Iterator[_Pieces]:
    """Pieces of the whole file, some ten thousand regions at a time: a table of millions would be large."""
    regions = file.regions
    start, pixels = 0, 0  # of the file, and pixel bytes before it
    for first in range(0, max(1, len(regions)), _REGIONS):
        rows = slice(first, first + _REGIONS)
        offset, length = regions.offset[rows], regions.length[rows]
        is_last = first + _REGIONS >= len(regions)
        stop = file.size if is_last else int(offset[-1] + length[-1])
        gap_start = np.concatenate([[start], offset + length])
        gap_length = np.concatenate([offset, [stop]]) - gap_start
        before = pixels + np.concatenate([[0], np.cumsum(length)])
        some = gap_length > 0
        gap_start, gap_length, before = gap_start[some], gap_length[some], before[some]
        # Long runs of husk are cut so that one unit never holds more than its share.
        cuts = -(-gap_length // UNIT)
        run = np.repeat(np.arange(len(gap_length)), cuts)
        skip = (np.arange(len(run)) - np.repeat(np.cumsum(cuts) - cuts, cuts)) * UNIT
        husk_offset = gap_start[run] + skip
        husk_length = np.minimum(gap_length[run] - skip, UNIT)
        order = np.argsort(np.concatenate([offset, husk_offset]), kind="stable")
        if len(order):
            yield _Pieces(
                np.concatenate([offset, husk_offset])[order],
                np.concatenate([length, husk_length])[order],
                np.concatenate([regions.page[rows], np.full(len(run), _HUSK)])[order],
                np.concatenate([regions.position[rows], husk_offset - before[run]])[order],
            )
        start, pixels = stop, pixels + int(length.sum())


def _units(file: ArchivedFile) -> Iterator[_Pieces]:
    """Cut the file into units; pieces of one page stay together where they lie together."""
    plane_bytes = file.pages[0].nbytes if file.pages else 0
    # Pages whose pieces are interleaved would all become one unit: those are cut by offset
    # again, and planes are decoded more than once.
    most = max(4 * UNIT, 2 * plane_bytes)
    for block in _blocks(file):
        anchor = block.offset.copy()
        listed = block.page != _HUSK
        if listed.any():
            pages, inverse = np.unique(block.page[listed], return_inverse=True)
            first_of_page = np.full(len(pages), np.iinfo(np.int64).max)
            np.minimum.at(first_of_page, inverse, block.offset[listed])
            anchor[listed] = first_of_page[inverse]
        label = np.maximum.accumulate(anchor // UNIT)
        edges = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), len(label)]
        for first, last in pairwise(edges):
            unit = block.part(first, last)
            inner = [0]
            if unit.stop - unit.start > most:
                inner += (np.flatnonzero(np.diff(unit.offset // most)) + 1).tolist()
            for a, b in pairwise([*inner, last - first]):
                yield unit.part(a, b)


def rebuild(
    file: ArchivedFile, *, workers: int, fetch: Fetch = read_entry, cancel: CancelToken | None = None
) -> Iterator[tuple[int, memoryview]]:
    """Yield the original in file order as ``(offset, bytes)``; the bytes last until the next step.

    Parameters
    ----------
    file : ArchivedFile
        What to rebuild.
    workers : int
        Decoding threads.
    fetch : callable
        Reads stored chunks; a verifier looks at the bytes on their way.
    cancel : CancelToken, optional
        Stops the work.

    Raises
    ------
    FormatError, IntegrityError
        A chunk does not decode.
    StorageError
        Reading failed.
    """
    decoder = _Decoder(file, fetch)
    ahead = workers + 1
    free = [np.empty(0, np.uint8) for _ in range(ahead + 1)]

    def tasks() -> Iterator[tuple[_Pieces, np.ndarray]]:
        for unit in _units(file):
            buffer = free.pop()
            if len(buffer) < unit.stop - unit.start:
                buffer = np.empty(unit.stop - unit.start, np.uint8)
            yield unit, buffer

    def fill(task: tuple[_Pieces, np.ndarray]) -> tuple[int, np.ndarray, np.ndarray]:
        unit, buffer = task
        data = buffer[: unit.stop - unit.start]
        decoder.fill(unit, data)
        return unit.start, data, buffer

    for start, data, buffer in ordered(fill, tasks(), workers=workers, ahead=ahead, cancel=cancel):
        yield start, memoryview(data)
        free.append(buffer)


class _Decoder:
    """Fills the buffer of a unit; used by all workers at once."""

    def __init__(self, file: ArchivedFile, fetch: Fetch) -> None:
        self._file, self._fetch = file, fetch
        self._husk = _BytesReader(file.husk, fetch) if file.husk is not None else None
        self._pixels = file.pixels
        self._decode = ChunkDecoder(file.pixels.meta) if file.pixels is not None else None
        self._scratch = Scratch()

    def fill(self, unit: _Pieces, out: np.ndarray) -> None:
        page, length, position = unit.page, unit.length, unit.position
        offset = unit.offset - unit.start
        rows = np.flatnonzero(page == _HUSK)
        if len(rows):
            # the husk's pieces follow each other in the husk, however far apart they lie in the file
            first, last = int(position[rows[0]]), int(position[rows[-1]] + length[rows[-1]])
            assert self._husk is not None
            if len(rows) == 1:
                self._husk.read_into(first, out[offset[rows[0]] : offset[rows[0]] + last - first])
            else:
                data = self._scratch.get("husk", last - first)
                self._husk.read_into(first, data)
                copy_ranges(out, offset[rows], data, position[rows] - first, length[rows])
        for number in np.unique(page[page != _HUSK]).tolist():
            rows = np.flatnonzero(page == number)
            nbytes = self._file.pages[number].nbytes
            if len(rows) == 1 and int(length[rows[0]]) == nbytes:
                self._serialise(number, out[offset[rows[0]] : offset[rows[0]] + nbytes])
                continue
            data = self._scratch.get("page", nbytes)
            self._serialise(number, data)
            copy_ranges(out, offset[rows], data, position[rows], length[rows])

    def _serialise(self, number: int, out: np.ndarray) -> None:
        """Put the pixel bytes of a page, as they stand in the file, into ``out``."""
        layout, byteorder = self._file.pages[number], self._file.byteorder
        native = np.dtype(layout.dtype).newbyteorder("=")
        as_stored = layout.is_plain and layout.dtype.newbyteorder(byteorder) == native
        if as_stored:
            self._plane(number, out.view(native).reshape(layout.shape))
            return
        array = self._scratch.get("plane", layout.nbytes).view(native).reshape(layout.shape)
        self._plane(number, array)
        array_to_segments(layout, array, byteorder, out)

    def _plane(self, number: int, out: np.ndarray) -> None:
        assert self._pixels is not None
        assert self._decode is not None
        coordinate, meta = self._file.coordinate(number), self._pixels.meta
        one_chunk = (1,) * len(coordinate) + out.shape
        if meta.object_shape != one_chunk:  # foreign chunking: the general reader puts it together
            self._pixels.read((*coordinate, ...), out=out)
            return
        key = f"{self._pixels.path}/{meta.object_key(coordinate + (0,) * out.ndim)}"
        data = self._fetch(self._pixels, key)
        if data is None:
            out[...] = meta.fill_value
        else:
            self._decode.decode(data, out.reshape(one_chunk))


class _BytesReader:
    """Reads ranges of a 1-D uint8 array; neighbours in one chunk decode it once."""

    def __init__(self, array: ZarrArray, fetch: Fetch) -> None:
        self._array, self._fetch = array, fetch
        self._decode = ChunkDecoder(array.meta)
        self._chunk = array.meta.object_shape[0]
        self._lock = threading.Lock()
        self._cached: tuple[int, np.ndarray] = (-1, np.empty(0, np.uint8))

    def read_into(self, start: int, out: np.ndarray) -> None:
        done = 0
        while done < len(out):
            number, skip = divmod(start + done, self._chunk)
            part = min(self._chunk - skip, len(out) - done)
            out[done : done + part] = self._get(number)[skip : skip + part]
            done += part

    def _get(self, number: int) -> np.ndarray:
        with self._lock:
            cached_number, cached = self._cached
        if cached_number == number:
            return cached
        meta = self._array.meta
        data = self._fetch(self._array, f"{self._array.path}/{meta.object_key((number,))}")
        fill = meta.fill_value
        chunk = self._decode.decode(data) if data is not None else np.full(self._chunk, fill, np.uint8)
        with self._lock:
            self._cached = (number, chunk)
        return chunk
