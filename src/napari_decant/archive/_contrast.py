"""Measure how an image should be shown while its planes pass by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["ContrastMeter", "PlaneSample", "sample_plane"]

_POOL = 1 << 20  # values kept a channel
_LEAST = 16  # values of each plane, however many planes there are
_MOST = 1 << 16
_PERCENTILES = (0.1, 99.9)


@dataclass(frozen=True, slots=True)
class PlaneSample:
    """Extremes and evenly spaced values of one plane (or of each of its samples)."""

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray


def sample_plane(array: np.ndarray, planes: int) -> PlaneSample | None:
    """Measure one plane.

    Parameters
    ----------
    array : numpy.ndarray
        ``(Y, X)`` or ``(Y, X, S)``.
    planes : int
        How many planes share the pool.

    Returns
    -------
    PlaneSample or None
        None for complex values and planes without a finite value.
    """
    if array.dtype.kind == "c":
        return None
    samples = array.shape[2] if array.ndim == 3 else 1
    flat = array.reshape(-1, samples)
    wanted = min(_MOST, max(_LEAST, _POOL // max(1, planes)))
    values = flat[:: max(1, len(flat) // wanted)]
    if array.dtype.kind == "f":
        finite = np.isfinite(flat)
        if not finite.all(axis=0).all():
            # rare, so the copies are no matter
            kept = flat[finite.all(axis=1)]
            if not len(kept):
                return None
            flat, values = kept, kept[:: max(1, len(kept) // wanted)]
    return PlaneSample(flat.min(axis=0), flat.max(axis=0), values.copy())


class ContrastMeter:
    """Collects plane samples by channel and gives each channel's display window.

    Results depend on the order in which planes are added, so they are added in plane order.
    """

    def __init__(self) -> None:
        self._channels: dict[int, list[PlaneSample]] = {}

    def add(self, channel: int, sample: PlaneSample | None) -> None:
        """Add one plane of a channel."""
        if sample is not None:
            self._channels.setdefault(channel, []).append(sample)

    def window(self, channel: int, sample: int = 0) -> dict[str, float] | None:
        """Make the ``window`` of an omero channel: min, max, and 0.1 to 99.9 percentiles as start, end."""
        planes = self._channels.get(channel)
        if not planes:
            return None
        pool = np.concatenate([plane.values[:, sample] for plane in planes])
        start, end = (float(value) for value in np.percentile(pool, _PERCENTILES))
        low = _number(min(plane.low[sample] for plane in planes))
        high = _number(max(plane.high[sample] for plane in planes))
        if not end > start:
            start, end = low, high
        return {"min": low, "max": high, "start": _number(start), "end": _number(end)}


def _number(value: float | np.generic) -> float:
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def channel_of(position: Sequence[int], plane_order: Sequence[str]) -> int:
    """Index along the channel axis of a plane at ``position`` (storage order); 0 without one."""
    for name, index in zip(plane_order, position, strict=True):
        if name in ("c", "ch"):
            return index
    return 0
