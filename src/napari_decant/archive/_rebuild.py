"""Rebuild an original file piece by piece, in file order (section 5, "Splice pixels into the husk").

The file is cut into units of some megabytes. Worker threads decode what a unit needs into a
recycled buffer; units come out in order, so that a hash can run over them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from napari_decant.archive._geometry import array_to_segments
from napari_decant.archive._ranges import copy_ranges
from napari_decant.archive._reader import ArchivedFile
from napari_decant.archive._workers import Scratch, ordered
from napari_decant.engine import ChunkDecoder, ZarrArray
from napari_decant.progress import CancelToken

__all__ = ["UNIT", "Fetch", "read_entry", "rebuild"]

UNIT = 8 << 20
_MOST_PIECES = 1 << 17  # of a unit: each takes some tens of bytes

Fetch = Callable[[ZarrArray, str], bytes | None]
"""Stored bytes of a chunk by its key in the store; None if it is absent."""

_HUSK = -1


def read_entry(array: ZarrArray, key: str) -> bytes | None:
    """Read a chunk without further checks: the plain `Fetch`."""
    where = array.store.extent(key)
    return None if where is None else array.store.read_file(where.file, where.offset, where.length)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A contiguous range of the file: columns ``first:last`` of the piece table."""

    start: int
    stop: int
    first: int
    last: int


class _Pieces:
    """The whole file as consecutive pieces: a region of a page, or a run of husk."""

    def __init__(self, file: ArchivedFile) -> None:
        regions = file.regions
        gap_offset, gap_length = regions.gaps(file.size)
        husk_position = np.cumsum(gap_length) - gap_length
        # Long runs of husk are cut so that one unit never holds more than its share.
        cuts = -(-gap_length // UNIT)
        run = np.repeat(np.arange(len(gap_length)), cuts)
        skip = (np.arange(len(run)) - np.repeat(np.cumsum(cuts) - cuts, cuts)) * UNIT
        offset = np.concatenate([regions.offset, gap_offset[run] + skip])
        order = np.argsort(offset, kind="stable")
        self.offset = offset[order]
        self.length = np.concatenate([regions.length, np.minimum(gap_length[run] - skip, UNIT)])[order]
        self.page = np.concatenate([regions.page, np.full(len(run), _HUSK)])[order]
        self.position = np.concatenate([regions.position, husk_position[run] + skip])[order]

    def units(self, plane_bytes: int) -> Iterator[_Unit]:
        """Cut the table into units; pieces of one page stay together where they lie together."""
        count = len(self.offset)
        if not count:
            return
        anchor = self.offset.copy()
        listed = self.page != _HUSK
        if listed.any():
            first_of_page = np.full(int(self.page.max()) + 1, np.iinfo(np.int64).max)
            np.minimum.at(first_of_page, self.page[listed], self.offset[listed])
            anchor[listed] = first_of_page[self.page[listed]]
        label = np.maximum.accumulate(anchor // UNIT)
        # Pages whose pieces are interleaved would all become one unit, and so would a million
        # strips: those are cut again, and planes are decoded more than once.
        most = max(4 * UNIT, 2 * plane_bytes)
        edges = np.flatnonzero(np.diff(label)) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), count], strict=True):
            inner = [first]
            if int(self.offset[last - 1] + self.length[last - 1] - self.offset[first]) > most:
                inner += (np.flatnonzero(np.diff(self.offset[first:last] // most)) + 1 + first).tolist()
            for a, b in zip(inner, [*inner[1:], last], strict=True):
                for start in range(a, b, _MOST_PIECES):
                    stop = min(start + _MOST_PIECES, b)
                    end = int(self.offset[stop - 1] + self.length[stop - 1])
                    yield _Unit(int(self.offset[start]), end, start, stop)


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
    pieces = _Pieces(file)
    plane_bytes = file.pages[0].nbytes if file.pages else 0
    decoder = _Decoder(file, fetch)
    ahead = workers + 1
    free = [np.empty(0, np.uint8) for _ in range(ahead + 1)]

    def tasks() -> Iterator[tuple[_Unit, np.ndarray]]:
        for unit in pieces.units(plane_bytes):
            buffer = free.pop()
            if len(buffer) < unit.stop - unit.start:
                buffer = np.empty(unit.stop - unit.start, np.uint8)
            yield unit, buffer

    def fill(task: tuple[_Unit, np.ndarray]) -> tuple[_Unit, np.ndarray]:
        unit, buffer = task
        decoder.fill(pieces, unit, buffer[: unit.stop - unit.start])
        return unit, buffer

    for unit, buffer in ordered(fill, tasks(), workers=workers, ahead=ahead, cancel=cancel):
        yield unit.start, memoryview(buffer)[: unit.stop - unit.start]
        free.append(buffer)


class _Decoder:
    """Fills the buffer of a unit; used by all workers at once."""

    def __init__(self, file: ArchivedFile, fetch: Fetch) -> None:
        self._file, self._fetch = file, fetch
        self._husk = _BytesReader(file.husk, fetch) if file.husk is not None else None
        self._pixels = file.pixels
        self._decode = ChunkDecoder(file.pixels.meta) if file.pixels is not None else None
        self._scratch = Scratch()

    def fill(self, pieces: _Pieces, unit: _Unit, out: np.ndarray) -> None:
        table = slice(unit.first, unit.last)
        page, offset = pieces.page[table], pieces.offset[table] - unit.start
        length, position = pieces.length[table], pieces.position[table]
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
