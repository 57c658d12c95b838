"""Look at a few planes of a file: to estimate sizes, and to choose the codec that packs them best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from napari_decant.archive._codec import BYTES_CODEC, SMALLEST, PixelCodec, parse_codec
from napari_decant.archive._geometry import segments_to_array
from napari_decant.archive._layout import FileLayout
from napari_decant.archive._series import SeriesPlan
from napari_decant.archive._source import Source

__all__ = ["DOCUMENTS", "packed_size", "resolve_codec", "sample_planes", "series_size"]

DOCUMENTS = 5000
"""Bytes of metadata and directory in an archive of one file."""

_SAMPLES = 3
_SAMPLE_BYTES = 1 << 20
_LARGEST_PLANE = 64 << 20  # looking must stay quick
# Level 9 of Blosc is many times slower for a fraction of a percent.
_CANDIDATES = [
    PixelCodec("zstd", shuffle, level)
    for shuffle in ("byteshuffle", "bitshuffle", "noshuffle")
    for level in (5, 8)
]


def sample_planes(source: Source, layout: FileLayout, nbytes: int = _SAMPLE_BYTES) -> Iterator[np.ndarray]:
    """The first rows of some planes spread over a file, about ``nbytes`` of each."""
    step = max(1, len(layout.planes) // _SAMPLES)
    for plane in layout.planes[::step][:_SAMPLES]:
        if plane.nbytes > _LARGEST_PLANE:
            return
        data = np.empty(plane.nbytes, np.uint8)
        source.read_segments(plane, data)
        array = np.empty(plane.shape, plane.dtype)
        segments_to_array(plane, data, layout.byteorder, array)
        yield np.ascontiguousarray(array[: max(1, len(array) * nbytes // max(1, plane.nbytes))])


def packed_size(source: Source, layout: FileLayout, codec: PixelCodec) -> int:
    """Estimate how many bytes a file takes when it is packed, without the documents beside it."""
    raw, packed = 0, 0
    for rows in sample_planes(source, layout):
        raw, packed = raw + rows.nbytes, packed + len(codec.encode(rows))
    if not raw:
        for start in range(0, source.size, max(1, source.size // _SAMPLES))[:_SAMPLES]:
            block = np.frombuffer(source.read_at(start, _SAMPLE_BYTES), np.uint8)
            raw, packed = raw + len(block), packed + len(BYTES_CODEC.encode(block))
    return source.size * packed // max(1, raw)


def series_size(plan: SeriesPlan, codec: PixelCodec) -> int:
    """Estimate how many bytes the archive of a series takes, from a few members."""
    raw, packed = 1, 0
    for member in plan.members[:: max(1, len(plan.members) // _SAMPLES)][:_SAMPLES]:
        with Source(member.path) as source:
            raw, packed = raw + source.size, packed + packed_size(source, member.layout, codec)
    return DOCUMENTS * (1 + len(plan.members) // 8) + plan.size * packed // raw


def resolve_codec(codec: str, samples: Iterable[np.ndarray]) -> PixelCodec:
    """Turn the name of a codec into the codec; ``smallest`` is the one that packs the samples best.

    Parameters
    ----------
    codec : str
        As `parse_codec` takes it.
    samples : iterable of arrays
        Only looked at for ``smallest``.

    Raises
    ------
    UsageError
        There is no such codec.
    """
    chosen = parse_codec(codec)
    if codec != SMALLEST:
        return chosen
    arrays = list(samples)
    if not arrays:
        return chosen
    # of equals the first one, which is also the fastest
    return min(_CANDIDATES, key=lambda candidate: sum(len(candidate.encode(array)) for array in arrays))
