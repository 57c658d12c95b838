"""Contrast limits from a few chunks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.images._lazy import LazyArray

__all__ = ["full_range", "sample_contrast"]

_PERCENTILES = (0.1, 99.9)
_MAX_SAMPLES = 8
_WIDE = 512  # of a chunk that is too large, this many elements along each of its last two axes


def full_range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return what a data type can hold; 0 to 1 for floats, as pictures have it."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return float(info.min), float(info.max)
    return 0.0, 1.0


def sample_contrast(array: LazyArray, max_bytes: int = 32 << 20) -> tuple[float, float]:
    """Measure the 0.1 and 99.9 percentiles on a few chunks spread over the array.

    Parameters
    ----------
    array : LazyArray
        The coarsest level.
    max_bytes : int, optional
        How much is decoded at most.

    Returns
    -------
    tuple of float
        ``(low, high)`` with ``low < high``; the data type's range where the samples say nothing.
    """
    if array.dtype == bool:
        return 0.0, 1.0
    if not array.size:
        return full_range(array.dtype)
    values = np.concatenate([_finite(part) for part in _samples(array, max_bytes)])
    if not values.size:
        return full_range(array.dtype)
    low, high = (float(v) for v in np.percentile(values, _PERCENTILES))
    if not low < high:
        low, high = float(values.min()), float(values.max())
    if not low < high:
        return (0.0, high) if high > 0 else (low, low + 1.0)
    return low, high


def _finite(part: NDArray[Any]) -> NDArray[Any]:
    values = np.abs(part.ravel()) if part.dtype.kind == "c" else part.ravel()
    return values if values.dtype.kind in "iub" else values[np.isfinite(values)]


def _samples(array: LazyArray, max_bytes: int) -> list[NDArray[Any]]:
    if array.nbytes <= max_bytes:
        return [np.asarray(array)]
    box = [min(n, c) for n, c in zip(array.shape, array.chunks, strict=True)]
    if math.prod(box) * array.dtype.itemsize > max_bytes:
        box = [1] * (len(box) - 2) + [min(n, _WIDE) for n in box[-2:]]
    grid = [-(-n // b) for n, b in zip(array.shape, box, strict=True)]
    count = max(
        1, min(_MAX_SAMPLES, math.prod(grid), max_bytes // max(1, math.prod(box) * array.dtype.itemsize))
    )
    parts = []
    for i in range(count):
        # Along every axis at once, so that samples lie on a diagonal of the image and not all in its first
        # plane.
        where = [int((i + 0.5) / count * n) for n in grid]
        parts.append(
            array[
                tuple(
                    slice(w * b, min(n, (w + 1) * b)) for w, b, n in zip(where, box, array.shape, strict=True)
                )
            ]
        )
    return parts
