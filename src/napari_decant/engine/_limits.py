"""Limits given at construction, and the batch that is asked for. A limit too small is refused up front."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from napari_decant.errors import UsageError

__all__ = ["BatchSpec", "CpuLimits", "PlanLimits", "QueueLimits", "parse_dtype"]

_SHORT: Final = {
    "bool": "?",
    **{f"u{bits}": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"i{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"f{bits // 8}" for bits in (16, 32, 64)},
}


def parse_dtype(value: DTypeLike) -> np.dtype[Any]:
    """Return a native numeric dtype from ``"f32"``, ``"u16"``, ... (bits) or anything numpy takes.

    ``"u8"`` and ``"i8"`` name 8 bits here, as ``"f32"`` names 32; numpy's own codes count bytes.
    """
    try:
        dtype = np.dtype(_SHORT.get(value, value) if isinstance(value, str) else value)
    except TypeError:
        raise UsageError(
            f"the element type {value!r} is unknown; use f32, u16, ... or a numpy dtype"
        ) from None
    if dtype.kind not in "biufc":
        raise UsageError(f"the element type {value!r} is not numeric")
    return dtype.newbyteorder("=")


@cache
def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _positive(owner: str, **values: int) -> None:
    for name, value in values.items():
        try:
            good = operator.index(value) >= 1
        except TypeError:
            good = False
        if not good:
            raise UsageError(f"{owner}.{name} is {value!r}; a whole number of at least 1 belongs there")


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What one plan may ask for.

    Parameters
    ----------
    max_chunks : int
        Distinct chunks.
    max_stored_bytes, max_decoded_bytes : int
        Bytes read from the store, and bytes they decode to.
    max_index_bytes : int
        Bytes of shard indexes read while planning.
    max_tile_bytes : int
        Decoded chunks under one tile of a resampled output; tiles shrink to keep to it.
    """

    max_chunks: int = 1 << 20
    max_stored_bytes: int = 1 << 40
    max_decoded_bytes: int = 1 << 40
    max_index_bytes: int = 1 << 30
    max_tile_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        _positive("PlanLimits", **{name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True)
class CpuLimits:
    """What an executor may use.

    Parameters
    ----------
    max_memory_bytes : int
        Outputs not yet released, decoded chunks, stored bytes on their way and working buffers, together.
    decode_workers : int, optional
        Threads that decode and resample; the machine's cores if not given.
    """

    max_memory_bytes: int = 2 << 30
    decode_workers: int | None = None

    def __post_init__(self) -> None:
        _positive("CpuLimits", max_memory_bytes=self.max_memory_bytes, decode_workers=self.workers)

    @property
    def workers(self) -> int:
        """Decoding threads."""
        return self.decode_workers if self.decode_workers is not None else _cores()


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How far a pipeline runs ahead.

    Parameters
    ----------
    lookahead_samples : int
        Samples accepted by ``push`` that ``pop`` has not handed out yet. Up to half of them are planned
        together and share chunks, while the other half is decoded.
    """

    lookahead_samples: int = 16

    def __post_init__(self) -> None:
        _positive("QueueLimits", lookahead_samples=self.lookahead_samples)


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Shape and element type of every batch.

    Parameters
    ----------
    samples : int
        Samples in a batch, its first axis.
    shape : sequence of int
        Output grid of each sample.
    dtype : str or dtype
        ``"f32"``, ``"u16"``, ... or a numpy dtype. Values are converted once: rounded half to even
        and clamped to the range.
    """

    samples: int
    shape: tuple[int, ...]
    dtype: Any = "f32"

    def __init__(self, samples: int, shape: Sequence[int], dtype: DTypeLike = "f32") -> None:
        _positive("BatchSpec", samples=samples)
        extents = tuple(shape)
        for n in extents:
            _positive("BatchSpec", shape=n)
        object.__setattr__(self, "samples", int(samples))
        object.__setattr__(self, "shape", tuple(int(n) for n in extents))
        object.__setattr__(self, "dtype", parse_dtype(dtype))

    @property
    def nbytes(self) -> int:
        """Bytes of a whole batch."""
        count = self.samples
        for n in self.shape:
            count *= n
        return count * int(self.dtype.itemsize)
