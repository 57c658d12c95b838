"""Fewer bits where they are asked for, and labels as the standard has them; what was done is recorded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.images import Axis
from napari_decant.images._write_zarr_source import VolumeSource
from napari_decant.progress import CancelToken

__all__ = ["Quantiser", "as_labels", "measure_range"]

_TOP = 65535


@dataclass(frozen=True, slots=True)
class Quantiser:
    """Maps a range of values to uint16; usable from several threads, and pickles.

    Attributes
    ----------
    low, high : float
        Become 0 and 65535; values beyond are clipped, NaN becomes 0.
    source : str
        Data type before.
    """

    low: float
    high: float
    source: str

    @property
    def step(self) -> float:
        """What one stored unit means. Integers of a range that fits keep steps of 1, so nothing is lost."""
        if np.dtype(self.source).kind in "iu" and self.high - self.low <= _TOP:
            return 1.0
        return (self.high - self.low) / _TOP or 1.0

    def __call__(self, block: NDArray[Any]) -> NDArray[Any]:
        """Stored values of a block."""
        if block.dtype.kind in "iu" and self.step == 1.0:
            wide = np.clip(block, int(self.low), int(self.high))
            lossless: NDArray[Any] = (wide - wide.dtype.type(int(self.low))).astype(np.uint16)
            return lossless
        scaled = (block.astype(np.float64) - self.low) / self.step
        np.nan_to_num(scaled, copy=False, nan=0.0, posinf=_TOP, neginf=0.0)
        result: NDArray[Any] = np.clip(np.rint(scaled), 0, _TOP).astype(np.uint16)
        return result

    def stored(self, value: float) -> float:
        """Where a value lies in stored units."""
        return (value - self.low) / self.step

    def record(self) -> dict[str, Any]:
        """What the attributes say of it."""
        return {
            "from": self.source,
            "to": "uint16",
            "scale": self.step,
            "offset": self.low,
            "formula": "value = stored * scale + offset",
            "largest_error": 0.0
            if self.step == 1.0 and np.dtype(self.source).kind in "iu"
            else self.step / 2,
            "not_a_number": 0,
        }


def measure_range(
    array: Any, axes: Sequence[Axis], *, workers: int, cancel: CancelToken | None = None
) -> tuple[float, float]:
    """Least and greatest finite value of an array: one pass over it.

    Parameters
    ----------
    array : array-like
    axes : sequence of Axis
    workers : int
        Threads.
    cancel : CancelToken, optional

    Raises
    ------
    UsageError
        No value is finite.
    """
    source = VolumeSource(array, axes)

    def piece(box: Any) -> tuple[float, float]:
        if cancel is not None:
            cancel.check()
        block = np.empty([s.stop - s.start for s in box], source.dtype)
        source.read(box, block)
        finite = block[np.isfinite(block)] if block.dtype.kind == "f" else block
        return (float(finite.min()), float(finite.max())) if finite.size else (math.inf, -math.inf)

    whole: Any = tuple(slice(0, n) for n in source.shape)
    low, high = math.inf, -math.inf
    with ThreadPoolExecutor(workers, thread_name_prefix="range") as pool:
        for boxes in itertools.batched(source.pieces(whole), 8 * workers):
            for least, most in pool.map(piece, boxes):
                low, high = min(low, least), max(high, most)
    if low > high:
        raise UsageError("there is no finite value to quantise; export without --quantize")
    return low, high


def as_labels(block: NDArray[Any]) -> NDArray[Any]:
    """Labels as uint32.

    Raises
    ------
    UnsupportedOperation
        A value is no whole number from 0 to 2**32 - 1.
    """
    if block.dtype == np.uint32:
        return block
    if block.size and not (block.dtype.kind in "bu" and block.dtype.itemsize < 4):
        least, most = block.min(), block.max()
        # written so that NaN fails too
        if not (
            least >= 0 and most <= 2**32 - 1 and (block.dtype.kind != "f" or (np.rint(block) == block).all())
        ):
            raise UnsupportedOperation(
                f"labels of type {block.dtype} from {least} to {most} do not fit uint32; export with"
                " --keep-label-type"
            )
    return block.astype(np.uint32)
