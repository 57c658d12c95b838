"""What a crop costs, known before it is cut."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from napari_decant.engine import CpuLimits
from napari_decant.errors import BudgetExceeded
from napari_decant.images.crop._cutter import Cutter
from napari_decant.images.crop._source import CropSource
from napari_decant.spatial import SpatialResolution, part_of

__all__ = ["CropFacts", "Pace", "measure_crop"]

_MOST_CHUNKS: Final = 1 << 16  # planned exactly; beyond, a part is planned and multiplied
_SAMPLE_CHUNKS: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class CropFacts:
    """What is read and made.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
    level : int
    resampled : bool
        False if voxels are copied.
    chunks : int or None
        Chunks touched; None for sources that are read by slices.
    stored_bytes : int or None
        Bytes to read from the store; None where that is not known.
    decoded_bytes : int
        The same as elements in memory.
    output_bytes : int
    memory : int
        Bytes in memory while an array is made of it; files are made piece by piece.
    seconds : float
        Estimated.
    exact : bool
        Whether chunks and bytes were counted, not estimated.
    device, device_reason : str
        What computes, ``"CPU"`` or a GPU's name, and why it is that.
    warnings : tuple of str
        What went otherwise than meant, after it was cut.
    """

    shape: tuple[int, ...]
    dtype: str
    level: int
    resampled: bool
    chunks: int | None
    stored_bytes: int | None
    decoded_bytes: int
    output_bytes: int
    memory: int
    seconds: float
    exact: bool
    device: str = "CPU"
    device_reason: str = ""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The facts as plain data."""
        return asdict(self)


class Pace:
    """How long crops take: known rates, corrected by the crops that were cut; any thread may use it.

    Parameters
    ----------
    workers : int, optional
        Threads that decode and resample.
    """

    _READ, _DECODE, _COPY = 400e6, 900e6, 1.5e9  # bytes a second; decoding a thread
    _NEAREST, _LINEAR = 60e6, 25e6  # samples a second and thread
    _START = 0.01

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or CpuLimits().workers
        self._factor = 1.0
        self._lock = threading.Lock()

    def seconds(
        self, *, stored: int, decoded: int, output: int, samples: int, filter_name: str | None
    ) -> float:
        """Estimate the time of a crop.

        Parameters
        ----------
        stored, decoded, output : int
            Bytes.
        samples : int
            Elements of the output.
        filter_name : str or None
            ``"nearest"`` or ``"linear"`` where it is resampled.
        """
        rate = {None: math.inf, "nearest": self._NEAREST, "linear": self._LINEAR}[filter_name]
        busy = decoded / self._DECODE + samples / rate
        return self._factor * (
            self._START + max(stored / self._READ, busy / self.workers) + output / self._COPY
        )

    def learn(self, estimated: float, taken: float) -> None:
        """Correct later estimates by a crop that took ``taken`` seconds."""
        if estimated > 0 and taken > 4 * self._START:  # shorter ones say nothing
            with self._lock:
                wanted = self._factor * taken / estimated
                self._factor = min(100.0, max(0.01, 0.5 * self._factor + 0.5 * wanted))


def measure_crop(
    cutter: Cutter,
    source: CropSource,
    resolution: SpatialResolution,
    dtype: Any = None,
    pace: Pace | None = None,
) -> CropFacts:
    """Find out what a crop costs; reads shard indexes, no pixels.

    Parameters
    ----------
    cutter : Cutter
    source : CropSource
    resolution : SpatialResolution
    dtype : dtype, optional
        Of the output.
    pace : Pace, optional

    Raises
    ------
    DecantError
        The source's chunks cannot be located.
    """
    kind = cutter.dtype_of(source, dtype)
    output = math.prod(resolution.shape) * kind.itemsize
    chunks, stored, decoded, exact = _reads(cutter, source, resolution)
    spread = os.cpu_count() or 1
    working = min(decoded, cutter.memory // 2) if source.planned else min(decoded, cutter.memory // 3)
    chunk = _chunk_bytes(source, resolution)
    seconds = (pace or Pace()).seconds(
        stored=stored or 0,
        decoded=decoded,
        output=output,
        samples=math.prod(resolution.shape),
        filter_name=resolution.sampler.filter if resolution.requires_resampling else None,
    )
    return CropFacts(
        resolution.shape,
        kind.name,
        resolution.level,
        resolution.requires_resampling,
        chunks,
        stored,
        decoded,
        output,
        output + max(working if resolution.requires_resampling else 0, min(decoded, spread * chunk)),
        seconds,
        exact,
        *cutter.device(source, resolution),
    )


def _chunk_bytes(source: CropSource, resolution: SpatialResolution) -> int:
    meta = source.levels[resolution.level].array
    return meta.chunk_nbytes if meta is not None else 0


def _reads(
    cutter: Cutter, source: CropSource, resolution: SpatialResolution
) -> tuple[int | None, int | None, int, bool]:
    """Chunks, stored bytes, decoded bytes, and whether they were counted."""
    if not source.planned:
        box = math.prod(b - a for a, b in resolution.read_bounds_index)
        return None, None, box * source.dtype.itemsize, not resolution.requires_resampling
    if _upper_chunks(source, resolution) <= _MOST_CHUNKS:
        try:
            summary = cutter.planner.plan([resolution]).summary
            return summary.chunks, summary.stored_bytes, summary.decoded_bytes, summary.exact
        except BudgetExceeded as error:
            if error.knob == "max_tile_bytes":
                raise BudgetExceeded(
                    "memory", 4 * error.need, cutter.memory, "one tile of this crop"
                ) from error
    part, share = _middle(source, resolution)
    summary = cutter.planner.plan([part]).summary
    return (
        round(summary.chunks * share),
        round(summary.stored_bytes * share),
        round(summary.decoded_bytes * share),
        False,
    )


def _upper_chunks(source: CropSource, resolution: SpatialResolution) -> float:
    meta = source.levels[resolution.level].array
    assert meta is not None
    spans = zip(resolution.read_bounds_index, meta.chunk_shape, strict=True)
    return float(math.prod(float(-(-b // c) - a // c) if b > a else 0.0 for (a, b), c in spans))


def _middle(source: CropSource, resolution: SpatialResolution) -> tuple[SpatialResolution, float]:
    """A box in the middle of the output that is planned quickly, and how many times the whole has it."""
    start, stop = [0] * len(resolution.shape), list(resolution.shape)
    part = resolution
    while _upper_chunks(source, part) > _SAMPLE_CHUNKS and any(
        b - a > 1 for a, b in zip(start, stop, strict=True)
    ):
        axis = int(np.argmax([b - a for a, b in zip(start, stop, strict=True)]))
        quarter = max(1, (stop[axis] - start[axis]) // 4)
        start[axis], stop[axis] = start[axis] + quarter, max(start[axis] + quarter + 1, stop[axis] - quarter)
        part = part_of(resolution, start, stop)
    return part, math.prod(resolution.shape) / math.prod(part.shape)
