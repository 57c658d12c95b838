"""An original as a seekable file, computed on demand from the chunks and the husk of its archive.

What section 5 of the archive format does for a whole file is done here for any range of it: only the
chunks under the range are read, and of Blosc chunks only the blocks under it are decoded.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._geometry import PageLayout, array_to_segments
from napari_decant.archive._reader import Archive
from napari_decant.archive._write import SUMS_KEY
from napari_decant.engine import ZarrArray
from napari_decant.engine._selection import parse_selection
from napari_decant.errors import FormatError, StorageError, UsageError
from napari_decant.stores import PositionalFile
from napari_decant.stores._stream import PositionalStream

__all__ = ["OriginalFile", "OriginalStream", "open_original", "original_file"]

_BLOCK: Final = 1 << 20  # bytes decoded at once where a chunk decodes in parts
_LEAST_KEPT: Final = 2  # pixels and husk take turns along the rows of an edge tile
_Key = tuple[str, int, int]  # pixels or husk; page or chunk; where the block starts in it


def open_original(
    archive: str | Path | Archive, member: str | None = None, *, cache_bytes: int = 64 << 20
) -> OriginalStream:
    """Open an original inside an archive as a read-only binary file, without restoring it.

    Works for every mode of the format, so any TIFF reader can work on an archive:
    ``tifffile.TiffFile(open_original("a.tif.zarr.zip"))``. Nothing is written anywhere. The bytes are those
    that `restore` would write, but they are proved only by `verify` or `restore`, which read everything.

    Parameters
    ----------
    archive : path or Archive
        ``NAME.zarr.zip``, an unpacked archive folder, or an opened archive, which then stays open.
    member : str, optional
        Which file of a series, by its path within it; not needed where there is only one.
    cache_bytes : int
        Decoded bytes kept for later reads. The two blocks last used are always kept, however large: a block
        has about 1 MiB, or is a whole chunk where its codec decodes nothing less.

    Returns
    -------
    OriginalStream
        Seekable; closing it releases the archive. Its ``file`` may be read at positions by many threads.

    Raises
    ------
    UsageError
        No such archive or member, or a series without a member named.
    FormatError, UnsafeInput, UnsupportedOperation
        The archive is damaged, unsafe, or needs a newer version. Reading may raise `FormatError` too.
    """
    return OriginalStream(original_file(archive, member, cache_bytes=cache_bytes))


def original_file(
    archive: str | Path | Archive, member: str | None = None, *, cache_bytes: int = 64 << 20
) -> OriginalFile:
    """As `open_original`, for reading at positions only."""
    with ExitStack() as undo:
        opened = archive if isinstance(archive, Archive) else undo.enter_context(Archive(Path(archive)))
        found = _choose(opened, member)
        owned = None if isinstance(archive, Archive) else opened
        file = OriginalFile(found, f"{opened.path}/{found.name}", cache_bytes=cache_bytes, owner=owned)
        undo.pop_all()
    return file


def _choose(archive: Archive, member: str | None) -> ArchivedFile:
    if member is None and len(archive.manifest.members) > 1:
        names = ", ".join(repr(m.relpath) for m in archive.manifest.members[:3])
        raise UsageError(
            f"{archive.path} holds {len(archive.manifest.members):,} files ({names}, ...); name one of them"
        )
    for number, record in enumerate(archive.records):
        if member in (None, record.relpath):
            return archive.file(number)  # of a nested series, only this part is opened
    raise UsageError(f"{archive.path} has no member {member!r}; `info` lists them")


class OriginalFile(PositionalFile):
    """An original that any number of threads read at positions.

    Parameters
    ----------
    file : ArchivedFile
        What to compute.
    uri : str
        Names it in messages.
    cache_bytes : int
        See `open_original`.
    owner : Archive, optional
        Closed together with this file.
    """

    def __init__(
        self, file: ArchivedFile, uri: str, *, cache_bytes: int = 64 << 20, owner: Archive | None = None
    ) -> None:
        self.uri, self.size = uri, file.size
        self._file, self._owner, self._limit = file, owner, cache_bytes
        regions = file.regions
        self._starts, self._lengths = regions.offset, regions.length
        self._before = np.concatenate([[0], np.cumsum(regions.length)])  # pixel bytes before each region
        self._complete = {
            id(array): array.store.exists(SUMS_KEY) for array in (file.pixels, file.husk) if array is not None
        }
        self._blocks: OrderedDict[_Key, np.ndarray] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()  # guards the cache, never held while reading
        self._closed = False

    def read_at(self, offset: int, length: int) -> bytes:
        """See `PositionalFile.read_at`."""
        if length < 0 or offset < 0 or offset + length > self.size:
            raise self._short(offset, length)
        out = bytearray(length)
        self.read_into(offset, memoryview(out))
        return bytes(out)

    def read_into(self, offset: int, out: memoryview) -> None:
        """See `PositionalFile.read_into`."""
        target = np.frombuffer(out, np.uint8)
        if offset < 0 or offset + len(target) > self.size:
            raise self._short(offset, len(target))
        done = 0
        while done < len(target):
            for block, skip, length in self._blocks_at(offset + done, len(target) - done):
                target[done : done + length] = block[skip : skip + length]
                done += length

    @property
    def held_bytes(self) -> int:
        """Decoded bytes kept for later reads."""
        return self._held

    def close(self) -> None:
        """See `PositionalFile.close`."""
        self._closed = True
        with self._lock:
            self._blocks.clear()
            self._held = 0
        if self._owner is not None:
            self._owner.close()

    def _blocks_at(self, offset: int, wanted: int) -> Iterator[tuple[np.ndarray, int, int]]:
        """Decoded blocks for the start of a file range: (block, first byte in it, bytes of it).

        The range is served up to the next border between pixels and husk.
        """
        region = int(np.searchsorted(self._starts, offset, "right")) - 1
        within = offset - int(self._starts[region]) if region >= 0 else 0
        if region >= 0 and within < int(self._lengths[region]):
            wanted = min(wanted, int(self._lengths[region]) - within)
            page = int(self._file.regions.page[region])
            position = int(self._file.regions.position[region]) + within
            yield from self._pixel_blocks(page, position, wanted)
            return
        if region + 1 < len(self._starts):
            wanted = min(wanted, int(self._starts[region + 1]) - offset)
        yield from self._husk_blocks(offset - int(self._before[region + 1]), wanted)

    def _husk_blocks(self, position: int, wanted: int) -> Iterator[tuple[np.ndarray, int, int]]:
        husk = self._file.husk
        assert husk is not None  # its size was compared with the array when the archive was opened
        chunk = husk.meta.chunk_shape[0]
        size = min(chunk, _BLOCK) if husk.decoder.partial else chunk
        while wanted:
            number, inside = divmod(position, chunk)
            start = number * chunk + inside // size * size
            stop = min(start + size, (number + 1) * chunk, self._file.husk_size)
            block = self._get(("husk", number, start), husk, (slice(start, stop),))
            length = min(stop - position, wanted)
            yield block, position - start, length
            position, wanted = position + length, wanted - length

    def _pixel_blocks(self, page: int, position: int, wanted: int) -> Iterator[tuple[np.ndarray, int, int]]:
        layout, pixels = self._file.pages[page], self._file.pixels
        assert pixels is not None
        coordinate = self._file.coordinate(page)
        rows = _rows_at_once(layout) if pixels.decoder.partial else 0
        while wanted:
            if not rows:
                start, size, part, where = 0, layout.nbytes, layout, (*coordinate, ...)
            else:
                start, size, part, where = _band(layout, position, rows, coordinate)
            block = self._get(("pixels", page, start), pixels, where, part)
            length = min(start + size - position, wanted)
            yield block, position - start, length
            position, wanted = position + length, wanted - length

    def _get(
        self, key: _Key, array: ZarrArray, selection: tuple[object, ...], layout: PageLayout | None = None
    ) -> np.ndarray:
        """A block as it stands in the file, from the cache or decoded now."""
        if self._closed:
            raise StorageError(f"{self.uri} is closed")
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
                return block
        if self._complete[id(array)]:
            self._refuse_absent(array, selection)
        values = array.read(selection)
        if layout is None:
            block = values
        else:
            block = np.empty(values.nbytes, np.uint8)
            array_to_segments(layout, values, self._file.byteorder, block)
        with self._lock:
            if key not in self._blocks:
                self._blocks[key] = block
                self._held += block.nbytes
            while self._held > self._limit and len(self._blocks) > _LEAST_KEPT:
                self._held -= self._blocks.popitem(last=False)[1].nbytes
        return block

    def _refuse_absent(self, array: ZarrArray, selection: tuple[object, ...]) -> None:
        """An archive that lists its keys has every chunk; one that is not there is a loss, not zeros."""
        axes = parse_selection(selection, array.shape).axes
        touched = [
            [chunk for chunk, _, _ in axis.chunks(size)]
            for axis, size in zip(axes, array.meta.chunk_shape, strict=True)
        ]
        for index in itertools.product(*touched):
            if array.chunk_extent(index) is None:
                raise FormatError(
                    f"{array.store.uri} lacks {array.chunk_key(index)}; the archive is damaged,"
                    " `verify` says how far"
                )


def _rows_at_once(layout: PageLayout) -> int:
    """Rows decoded together, whole rows of tiles; 0 where the page is best taken whole."""
    if layout.nbytes <= 2 * _BLOCK:
        return 0
    y, x = layout.shape[:2]
    samples = layout.samples if layout.planarconfig == 1 else 1
    step = min(layout.tilelength or 1, y)
    return min(y, max(1, _BLOCK // (x * samples * layout.dtype.itemsize * step)) * step)


def _band(
    layout: PageLayout, position: int, rows: int, coordinate: tuple[int, ...]
) -> tuple[int, int, PageLayout, tuple[object, ...]]:
    """The rows around a serialised position: (start, bytes, their layout, where they are in the array)."""
    y, x = layout.shape[:2]
    planar = layout.planarconfig == 2 and layout.samples > 1
    row_bytes = x * (1 if planar else layout.samples) * layout.dtype.itemsize
    plane, rest = divmod(position, y * row_bytes)
    top = rest // row_bytes // rows * rows
    count = min(rows, y - top)
    shape = (count, x) if planar or layout.samples == 1 else (count, x, layout.samples)
    where: tuple[object, ...] = (*coordinate, slice(top, top + count), slice(None))
    if len(layout.shape) == 3:
        where += (plane,) if planar else (slice(None),)
    part = replace(layout, shape=shape, planarconfig=1)
    return plane * y * row_bytes + top * row_bytes, count * row_bytes, part, where


class OriginalStream(PositionalStream):
    """An original as a read-only binary file with a position of its own.

    Attributes
    ----------
    file : OriginalFile
        The same bytes for reading at positions.
    """

    def __init__(self, file: OriginalFile) -> None:
        super().__init__(file)
        self.file = file

    def close(self) -> None:
        """Release the archive; later reads raise `StorageError`."""
        if not self.closed:
            self.file.close()
        super().close()
