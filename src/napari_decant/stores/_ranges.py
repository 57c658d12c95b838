"""Many byte ranges at once: a million strips must cost neither a million reads nor a million objects."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from napari_decant.stores._positional import PositionalFile

__all__ = ["copy_ranges", "cut_ranges", "read_ranges"]

_SMALL = 1024  # bytes: below this one numpy index beats one Python step a range
_STEP = 1 << 17  # bytes copied by one index (which takes 24 times as much)
_GAP = 4096  # bytes between ranges that are cheaper to read than to skip
_SPAN = 4 << 20  # bytes of one read over gaps


def copy_ranges(
    target: np.ndarray,
    target_offsets: np.ndarray,
    source: np.ndarray,
    source_offsets: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Copy ranges of one uint8 array to ranges of another one.

    Parameters
    ----------
    target, source : numpy.ndarray of uint8
    target_offsets, source_offsets, lengths : numpy.ndarray of int64
        One entry a range; ranges of the target do not overlap.
    """
    count = len(lengths)
    if not count:
        return
    ends = np.cumsum(lengths)
    if count < 4 or int(ends[-1]) >= _SMALL * count:
        for at, where, length in zip(
            target_offsets.tolist(), source_offsets.tolist(), lengths.tolist(), strict=True
        ):
            target[at : at + length] = source[where : where + length]
        return
    edges = np.searchsorted(ends, np.arange(_STEP, int(ends[-1]) + _STEP, _STEP), side="left") + 1
    first = 0
    for last in np.minimum(edges, count).tolist():
        if last <= first:
            continue
        part = slice(first, last)
        sizes = lengths[part]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        target[np.repeat(target_offsets[part], sizes) + within] = source[
            np.repeat(source_offsets[part], sizes) + within
        ]
        first = last


def read_ranges(file: PositionalFile, offsets: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    """Read file ranges one behind the other into ``out``; near neighbours share a read.

    Parameters
    ----------
    file : PositionalFile
    offsets, lengths : numpy.ndarray of int64
        In any order.
    out : numpy.ndarray of uint8
        As long as all ranges together.
    """
    if not len(offsets):
        return
    ends = offsets + lengths
    positions = np.cumsum(lengths) - lengths
    gap = offsets[1:] - ends[:-1]
    breaks = np.flatnonzero((gap < 0) | (gap > _GAP)) + 1
    scratch = np.empty(0, np.uint8)
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(offsets)], strict=True):
        if last == first + 1:
            at = int(positions[first])
            file.read_into(int(offsets[first]), memoryview(out)[at : at + int(lengths[first])])
            continue
        # a long group is read in steps, each whole ranges
        steps = np.flatnonzero(np.diff((ends[first:last] - offsets[first]) // _SPAN)) + 1 + first
        for a, b in zip([first, *steps.tolist()], [*steps.tolist(), last], strict=True):
            start, stop = int(offsets[a]), int(ends[b - 1])
            if len(scratch) < stop - start:
                scratch = np.empty(stop - start, np.uint8)
            file.read_into(start, memoryview(scratch)[: stop - start])
            copy_ranges(out, positions[a:b], scratch, offsets[a:b] - start, lengths[a:b])


def cut_ranges(
    offsets: np.ndarray, lengths: np.ndarray, block: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut ranges, taken one behind the other, into lists of ``block`` bytes (the last may be shorter).

    Parameters
    ----------
    offsets, lengths : numpy.ndarray of int64
    block : int
        Bytes of each list.

    Yields
    ------
    offsets, lengths : numpy.ndarray of int64
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, block):
        stop = min(start + block, total)
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left")) + 1
        part_offsets, part_lengths = offsets[first:last].copy(), lengths[first:last].copy()
        skip = start - int(ends[first] - lengths[first])
        part_offsets[0] += skip
        part_lengths[0] -= skip
        part_lengths[-1] -= int(ends[last - 1]) - stop
        yield part_offsets, part_lengths
