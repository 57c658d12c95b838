"""Compare the numbers of all pages of an archive with each other and with the pixel array, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from napari_decant.archive._page_table import PageColumns, PageKind
from napari_decant.ngff import ArrayMeta

__all__ = ["find_faults"]

_SUM = "husk and pixels of {file} do not add up to its size; the manifest is damaged"
_OVERLAP = "pixel regions of {file} overlap or pass its end; the manifest is damaged"


def find_faults(
    columns: PageColumns,
    starts: np.ndarray,
    sizes: np.ndarray,
    husks: np.ndarray,
    pixels: ArrayMeta | None,
    plane_order: Sequence[str],
) -> dict[int, str]:
    """Which files have pages that cannot be.

    Parameters
    ----------
    columns : PageColumns
        Pages of all files.
    starts : numpy.ndarray
        First page of each file, and the number of all pages.
    sizes, husks : numpy.ndarray of int64
        Bytes of each file and of its husk.
    pixels : ArrayMeta or None
        The pixel array; None skips what needs it.
    plane_order : sequence of str

    Returns
    -------
    dict
        A sentence with the place ``{file}``, by the number of the file; the first fault of each.
    """
    faults: dict[int, str] = {}
    page_file = np.repeat(np.arange(len(sizes)), np.diff(starts))
    nbytes = np.array([prod(kind.shape) * kind.dtype.itemsize for kind in columns.kinds] or [0], np.int64)
    ends = np.concatenate([[0], np.cumsum(nbytes[columns.kind])])
    # as floats first: sums of false numbers may pass what an integer holds
    listed = np.bincount(page_file, nbytes[columns.kind].astype(np.float64), minlength=len(sizes))
    wrong = (listed + husks.astype(np.float64) >= 1 << 62) | (np.diff(ends[starts]) + husks != sizes)
    faults |= dict.fromkeys(np.flatnonzero(wrong).tolist(), _SUM)
    file = np.repeat(page_file, np.diff(columns.start))
    for k in _overlapping(file, columns.offsets, columns.counts, sizes).tolist():
        faults.setdefault(k, _OVERLAP)
    if pixels is not None:
        for number, kind in enumerate(columns.kinds):
            rows = np.flatnonzero(columns.kind == number)
            for row, fault in _misplaced(kind, columns.index[rows], pixels, plane_order):
                index = int(columns.index[rows[row]])
                faults.setdefault(int(page_file[rows[row]]), fault.replace("{index}", str(index)))
    return faults


def _overlapping(file: np.ndarray, offset: np.ndarray, length: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Files with a region that shares bytes with another one or passes the end."""
    end = offset + length  # each is below 2**63 and so is a file's size: a sum that wraps is negative
    bad = [file[(end < 0) | (end > sizes[file])]]
    same = file[1:] == file[:-1]
    if bool((same & (offset[1:] < offset[:-1])).any()):
        order = np.lexsort((offset, file))
        offset, end = offset[order], end[order]
        # the sorted column of files is the one there was
    bad.append(file[1:][same & (offset[1:] < end[:-1])])
    return np.unique(np.concatenate(bad))


def _misplaced(
    kind: PageKind, index: np.ndarray, pixels: ArrayMeta, plane_order: Sequence[str]
) -> list[tuple[int, str]]:
    """Pages of one kind that do not lie in the pixel array: their rows, and what is wrong."""
    leading = len(pixels.shape) - len(kind.shape)
    fits = leading >= 0 and tuple(pixels.shape[leading:]) == kind.shape
    planes = prod(pixels.shape[: max(0, leading)])
    everywhere = range(len(index))
    if not fits:
        outside: Sequence[int] = everywhere
    else:
        outside = np.flatnonzero(index >= min(planes, 1 << 62)).tolist()
    place = "page {index} of {file} does not lie in its pixel array; the manifest is damaged"
    found = [(row, place) for row in outside]
    if pixels.dtype.newbyteorder("<") != kind.dtype:
        other = "page {index} of {file} has another dtype than its pixel array"
        found += [(row, other) for row in everywhere]
    if plane_order and len(plane_order) != leading:
        order = "plane_order of the archive of {file} does not fit its pixel array; the manifest is damaged"
        found += [(row, order) for row in everywhere]
    return found
