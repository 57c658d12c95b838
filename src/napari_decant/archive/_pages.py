"""Judge each page of a TIFF: its layout if the format can list its pixels, else the reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from napari_decant.archive._geometry import PageLayout, merge_touching, strip_segments, tile_segments
from napari_decant.tiff._ifd import Ifd, TiffDirectory

__all__ = ["MAX_PLANE_BYTES", "Page", "Reason", "read_page"]

MAX_PLANE_BYTES = 2 << 30
"""Blosc cannot hold more in one chunk."""

_MAX_EXTENT = 1 << 31
_LSM_INFO = 34412
_KINDS = {1: "u", 2: "i", 3: "f", 4: "u", 6: "c"}
_DTYPES = {"u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8"}


class Reason:
    """Codes that say why pixels, or a whole file, are kept as they are.

    Each is a rule of ``spec/archive.md``, "When a file is kept verbatim".
    """

    EMPTY = "empty-file"
    NOT_TIFF = "not-a-tiff"
    NO_PAGES = "no-readable-pages"
    BAD_TAGS = "unreadable-tags"
    COMPRESSED = "compressed"
    PREDICTOR = "predictor"
    BIT_DEPTH = "bit-depth"
    COMPLEX_INTEGER = "complex-integer"
    FILL_ORDER = "fill-order"
    IMAGE_DEPTH = "image-depth"
    PLANE_TOO_LARGE = "plane-too-large"
    PLANE_OVER_MEMORY = "plane-over-memory"
    SUBSAMPLED = "subsampled-colour"
    SHORT_SEGMENTS = "short-segments"
    BEYOND_END = "segments-beyond-end"
    SPARSE = "sparse-segments"
    OVERLAP = "overlapping-segments"
    MIXED = "mixed-pages"
    TOO_MANY = "too-many-pieces"
    OTHER_SHAPE = "other-shape-than-the-series"
    RECONSTRUCTION = "reconstruction-differs"


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A page as found: exactly one of ``layout`` and ``reason`` is set.

    ``image_bytes`` is how much image data of the file it (or a page below it) accounts for.
    """

    ifd: Ifd
    layout: PageLayout | None
    reason: str | None
    image_bytes: int


class _Unlistable(Exception):
    """Carries the reason out of the checks."""


class _Tags:
    """Tag values of one page, with the defaults of TIFF 6.0."""

    def __init__(self, directory: TiffDirectory, ifd: Ifd) -> None:
        self._directory, self._ifd = directory, ifd

    def array(self, code: int) -> np.ndarray | None:
        tag = self._ifd.tags.get(code)
        if tag is None:
            return None
        values = self._directory.values(tag)
        if values is None or values.dtype.kind not in "ui" or not len(values):
            raise _Unlistable(Reason.BAD_TAGS)
        return values

    def integer(self, code: int, default: int | None = None) -> int:
        values = self.array(code)
        if values is not None:
            return int(values[0])
        if default is None:
            raise _Unlistable(Reason.BAD_TAGS)
        return default

    def uniform(self, code: int, default: int, samples: int = 1 << 16) -> int | None:
        """The value that all samples share, None if they differ; more values than samples are ignored."""
        values = self.array(code)
        if values is None:
            return default
        values = values[:samples]
        return int(values[0]) if bool((values == values[0]).all()) else None

    def lsm_bits(self, samples: int) -> int | None:
        """Bits per sample of an LSM file of two channels, which has an offset where two values would fit."""
        tag = self._ifd.tags.get(258)
        if samples != 2 or tag is None or tag.count != 2 or _LSM_INFO not in self._ifd.tags:
            return None
        order = self._directory.byteorder
        offset = int.from_bytes(self._directory.read(tag.offset, 4), "little" if order == "<" else "big")
        values = np.frombuffer(self._directory.read(offset, 4), order + "u2")
        return int(values[0]) if len(values) == 2 and values[0] == values[1] else None


def read_page(directory: TiffDirectory, ifd: Ifd) -> Page:
    """Judge one page.

    A page that cannot be listed is no error: its bytes stay in the husk, or the file is kept verbatim.
    """
    tags = _Tags(directory, ifd)
    below = sum(read_page(directory, sub).image_bytes for sub in ifd.subifds)
    try:
        layout = _layout(directory, tags)
    except _Unlistable as reason:
        return Page(ifd, None, str(reason), below + _stored_bytes(directory, tags))
    return Page(ifd, layout, None, below + layout.nbytes)


def _stored_bytes(directory: TiffDirectory, tags: _Tags) -> int:
    try:
        counts = tags.array(325)
        if counts is None:
            counts = tags.array(279)
    except _Unlistable:
        return 0
    return 0 if counts is None else int(min(float(counts.sum(dtype=np.float64)), directory.size))


def _layout(directory: TiffDirectory, tags: _Tags) -> PageLayout:
    x, y = tags.integer(256), tags.integer(257)
    samples = tags.integer(277, 1)
    if not (0 < x < _MAX_EXTENT and 0 < y < _MAX_EXTENT and 0 < samples < 65536):
        raise _Unlistable(Reason.BAD_TAGS)
    if tags.integer(259, 1) != 1:
        raise _Unlistable(Reason.COMPRESSED)
    if tags.integer(317, 1) != 1:
        raise _Unlistable(Reason.PREDICTOR)
    if tags.integer(266, 1) != 1:
        raise _Unlistable(Reason.FILL_ORDER)
    if tags.integer(32997, 1) != 1:
        raise _Unlistable(Reason.IMAGE_DEPTH)
    if tags.integer(262, 1) == 6 and tags.uniform(530, 1) != 1:
        raise _Unlistable(Reason.SUBSAMPLED)
    dtype = _dtype(tags, samples)
    shape = (y, x) if samples == 1 else (y, x, samples)
    nbytes = prod(shape) * dtype.itemsize
    if nbytes > MAX_PLANE_BYTES - 64:
        raise _Unlistable(Reason.PLANE_TOO_LARGE)
    if nbytes > directory.size:
        raise _Unlistable(Reason.SHORT_SEGMENTS)  # before any array is made from the declared shape
    planarconfig = tags.integer(284, 1) if samples > 1 else 1
    if planarconfig not in (1, 2):
        raise _Unlistable(Reason.BAD_TAGS)
    # Old writers put tiles under the strip tags: the tile sizes decide.
    if tags.array(322) is not None:
        return _tiled(directory, tags, shape, dtype, planarconfig)
    return _stripped(directory, tags, shape, dtype, planarconfig)


def _dtype(tags: _Tags, samples: int) -> np.dtype:
    bits = tags.uniform(258, 1, samples) or tags.lsm_bits(samples)
    sample_format = tags.uniform(339, 1, samples)
    if sample_format == 5:
        raise _Unlistable(Reason.COMPLEX_INTEGER)
    if bits is None or sample_format is None or bits % 8:
        raise _Unlistable(Reason.BIT_DEPTH)
    name = f"{_KINDS.get(sample_format, 'u')}{bits // 8}"
    if name not in _DTYPES:
        raise _Unlistable(Reason.BIT_DEPTH)
    return np.dtype(name).newbyteorder("<")


def _segments(tags: _Tags, offsets_code: int, counts_code: int, expected: np.ndarray) -> np.ndarray:
    """Check the file's segments against the geometry; return their offsets.

    Geometry decides how many bytes of a segment are pixels. Absent byte counts are no
    obstacle then, short or missing segments are.
    """
    offsets = tags.array(offsets_code)
    counts = tags.array(counts_code)
    if offsets is None:
        raise _Unlistable(Reason.BAD_TAGS)
    if len(offsets) < len(expected):
        raise _Unlistable(Reason.SHORT_SEGMENTS)
    if int(offsets.max()) > np.iinfo(np.int64).max or int(offsets.min()) < 0:
        raise _Unlistable(Reason.BEYOND_END)
    offsets = offsets[: len(expected)].astype(np.int64)
    # Counts may be missing for the last segments, as they may be missing altogether.
    given = np.zeros(0, np.int64) if counts is None else counts[: len(expected)]
    if bool((offsets == 0).any()) or bool((given == 0).any()):
        raise _Unlistable(Reason.SPARSE)
    if bool((given < expected[: len(given)]).any()):
        raise _Unlistable(Reason.SHORT_SEGMENTS)
    return offsets


def _finish(
    directory: TiffDirectory, offsets: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if bool((offsets > directory.size - counts).any()):
        raise _Unlistable(Reason.BEYOND_END)
    return merge_touching(offsets, counts)


def _stripped(
    directory: TiffDirectory, tags: _Tags, shape: tuple[int, ...], dtype: np.dtype, planarconfig: int
) -> PageLayout:
    rows = min(tags.integer(278, shape[0]) or shape[0], shape[0])
    listed = tags.array(273)
    planes = shape[2] if planarconfig == 2 else 1
    if listed is not None and len(listed) < -(-shape[0] // rows) * planes:
        raise _Unlistable(Reason.SHORT_SEGMENTS)  # before the geometry's own array is made
    counts = strip_segments(shape, dtype.itemsize, planarconfig, rows)
    offsets = _segments(tags, 273, 279, counts)
    offsets, counts = _finish(directory, offsets, counts)
    return PageLayout(shape, dtype, offsets, counts, planarconfig, rowsperstrip=rows)


def _tiled(
    directory: TiffDirectory, tags: _Tags, shape: tuple[int, ...], dtype: np.dtype, planarconfig: int
) -> PageLayout:
    width, length = tags.integer(322), tags.integer(323)
    if not (0 < width < _MAX_EXTENT and 0 < length < _MAX_EXTENT):
        raise _Unlistable(Reason.BAD_TAGS)
    samples = shape[2] if len(shape) == 3 else 1
    planes, pixel = (samples, dtype.itemsize) if planarconfig == 2 else (1, samples * dtype.itemsize)
    tiles = -(-shape[0] // length) * -(-shape[1] // width) * planes
    tile_bytes = width * length * pixel
    if tile_bytes > directory.size:
        raise _Unlistable(Reason.SHORT_SEGMENTS)
    codes = (324, 325) if tags.array(324) is not None else (273, 279)
    offsets = _segments(tags, *codes, np.broadcast_to(np.int64(tile_bytes), tiles))
    offsets, counts = tile_segments(shape, dtype.itemsize, planarconfig, width, length, offsets)
    offsets, counts = _finish(directory, offsets, counts)
    return PageLayout(shape, dtype, offsets, counts, planarconfig, tilewidth=width, tilelength=length)
