"""Where the pixels of one TIFF page lie, and how its array becomes the file's bytes.

Section numbers refer to the archive format document: a page's segments are listed in the
order in which section 5 serialises its pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

__all__ = [
    "ByteOrder",
    "PageLayout",
    "array_to_segments",
    "merge_touching",
    "segments_to_array",
    "strip_segments",
    "tile_segments",
]

Array = np.ndarray
ByteOrder = Literal["<", ">"]


@dataclass(frozen=True, slots=True, eq=False)
class PageLayout:
    """Layout of one page (section 4b, "Page record").

    Attributes
    ----------
    shape : tuple of int
        ``(Y, X)``, or ``(Y, X, S)`` for more than one sample.
    dtype : numpy.dtype
        Little-endian; the file's own byte order is a property of the file.
    offsets, counts : numpy.ndarray of int64
        File ranges of the real pixels in serialisation order; touching ones are merged.
    planarconfig : {1, 2}
        1 chunky, 2 planar.
    rowsperstrip : int
        0 when tiled.
    tilewidth, tilelength : int
        0 when in strips.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    offsets: Array
    counts: Array
    planarconfig: int = 1
    rowsperstrip: int = 0
    tilewidth: int = 0
    tilelength: int = 0

    @property
    def samples(self) -> int:
        """Samples per pixel."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def nbytes(self) -> int:
        """Pixel bytes of the page."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """Whether the serialised bytes are just those of the array in the file's byte order."""
        if self.tilewidth:
            one_row_of_tiles = self.tilewidth >= self.shape[1]
            return one_row_of_tiles and (self.planarconfig == 1 or self.samples == 1)
        return self.planarconfig == 1 or self.samples == 1


def merge_touching(offsets: Array, counts: Array) -> tuple[Array, Array]:
    """Join consecutive segments where one ends at the next one's offset (order is kept)."""
    if len(offsets) < 2:
        return offsets, counts
    starts = np.flatnonzero(np.concatenate([[True], offsets[1:] != offsets[:-1] + counts[:-1]]))
    return offsets[starts], np.add.reduceat(counts, starts)


def strip_segments(shape: tuple[int, ...], itemsize: int, planarconfig: int, rowsperstrip: int) -> Array:
    """Byte count of every strip that the geometry asks for, in tag order."""
    y, x = shape[:2]
    samples = shape[2] if len(shape) == 3 else 1
    planes, row = (samples, x * itemsize) if planarconfig == 2 else (1, x * samples * itemsize)
    strips = -(-y // rowsperstrip)
    counts = np.full(strips, rowsperstrip * row, np.int64)
    counts[-1] = (y - (strips - 1) * rowsperstrip) * row
    return np.tile(counts, planes)


def tile_segments(
    shape: tuple[int, ...], itemsize: int, planarconfig: int, tilewidth: int, tilelength: int, offsets: Array
) -> tuple[Array, Array]:
    """Real-pixel segments of a tiled page; edge padding is left out (it rides in the husk).

    Parameters
    ----------
    offsets : numpy.ndarray of int64
        TileOffsets.

    Returns
    -------
    offsets, counts : numpy.ndarray of int64
        In serialisation order: sample-major if planar, then the grid row by row; a tile of full
        width is one segment, a tile at the right edge one segment a row.
    """
    y, x = shape[:2]
    samples = shape[2] if len(shape) == 3 else 1
    pixel = itemsize if planarconfig == 2 else itemsize * samples
    planes = samples if planarconfig == 2 else 1
    down, across = -(-y // tilelength), -(-x // tilewidth)
    rows = np.full(down, tilelength, np.int64)
    rows[-1] = y - (down - 1) * tilelength
    rows = np.tile(np.repeat(rows, across), planes)
    stride = tilewidth * pixel
    edge_width = x - (across - 1) * tilewidth
    is_edge = np.tile(np.arange(across) == across - 1, down * planes) & (edge_width < tilewidth)
    pieces = np.where(is_edge, rows, 1)
    starts = np.repeat(offsets, pieces)
    row_in_tile = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    counts = np.where(is_edge, edge_width * pixel, rows * stride)
    return starts + row_in_tile * stride, np.repeat(counts, pieces)


def _tiles(layout: PageLayout, array: Array) -> Iterator[Array]:
    """Views of ``array`` (Y, X, S) in serialisation order, one a tile or a sample plane."""
    planes = [array[:, :, s] for s in range(layout.samples)] if layout.planarconfig == 2 else [array]
    y, x = layout.shape[:2]
    width, length = layout.tilewidth or x, layout.tilelength or y
    for plane in planes:
        for top in range(0, y, length):
            for left in range(0, x, width):
                yield plane[top : top + length, left : left + width]


def segments_to_array(layout: PageLayout, data: Array, byteorder: ByteOrder, out: Array) -> None:
    """Turn the serialised pixel bytes of a page into its array.

    Parameters
    ----------
    data : numpy.ndarray of uint8
        The page's bytes in serialisation order, ``layout.nbytes`` long.
    byteorder : {"<", ">"}
        Of the file.
    out : numpy.ndarray
        ``layout.shape``, ``layout.dtype``, C order; filled whole.
    """
    values = data.view(layout.dtype.newbyteorder(byteorder))
    if layout.is_plain:
        out[...] = values.reshape(layout.shape)
        return
    position = 0
    for tile in _tiles(layout, out.reshape(*layout.shape[:2], layout.samples)):
        tile[...] = values[position : position + tile.size].reshape(tile.shape)
        position += tile.size


def array_to_segments(layout: PageLayout, array: Array, byteorder: ByteOrder, out: Array) -> None:
    """Serialise a page (section 5, ``serialize_page``): the inverse of `segments_to_array`.

    Parameters
    ----------
    array : numpy.ndarray
        ``layout.shape`` in any byte order; bit patterns are kept (NaN payloads too).
    out : numpy.ndarray of uint8
        ``layout.nbytes`` long; filled whole.
    """
    values = out.view(layout.dtype.newbyteorder(byteorder))
    if layout.is_plain:
        values.reshape(layout.shape)[...] = array
        return
    position = 0
    for tile in _tiles(layout, array.reshape(*layout.shape[:2], layout.samples)):
        values[position : position + tile.size].reshape(tile.shape)[...] = tile
        position += tile.size
