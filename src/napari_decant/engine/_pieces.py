"""Cutting the axes of copies at chunk borders, and combining the pieces of all axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.engine._plan import AxisPieces
from napari_decant.errors import BudgetExceeded
from napari_decant.spatial import AxisIndices

__all__ = ["axis_pieces", "check_pieces", "combinations"]

_FEW: Final = 32  # below this plain Python is faster than numpy


def combinations(axes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Every combination, one a row, the last axis fastest."""
    dims = tuple(len(axis) for axis in axes)
    count = math.prod(dims)
    if count <= _FEW and axes:
        return np.array(list(product(*[axis.tolist() for axis in axes])), np.int64).reshape(count, len(dims))
    rows = np.empty((count, len(axes)), np.int64)
    table = rows.reshape(*dims, len(axes))
    for at, axis in enumerate(axes):
        table[..., at] = axis.reshape((-1,) + (1,) * (len(dims) - 1 - at))
    return rows


def check_pieces(axis: AxisIndices, size: int, limits: PlanLimits) -> None:
    """Refuse an axis of more pieces than a plan may have chunks, before it is cut.

    Raises
    ------
    BudgetExceeded
    """
    pieces = (
        axis.count if axis.indices is not None else min(axis.count, axis.count * abs(axis.step) / size + 2)
    )
    if pieces > limits.max_chunks:
        raise BudgetExceeded("max_chunks", int(pieces), limits.max_chunks, "one axis of the plan")


def axis_pieces(axis: AxisIndices, size: int) -> AxisPieces:
    """Cut one axis of a copy at chunk borders."""
    if axis.count == 0:
        empty = np.empty(0, np.int64)
        return AxisPieces(empty, (), (), np.empty((0, 2), np.int64))
    if axis.indices is None and axis.step == 1:
        start, stop = axis.start, axis.start + axis.count
        source, target, ends = [], [], []
        for at in range(start - start % size, stop, size):
            first, last = max(at, start), min(at + size, stop)
            source.append(slice(first - at, last - at, 1))
            target.append(slice(first - start, last - start))
            ends.append((first - at, last - at - 1))
        numbers = np.arange(start // size, start // size + len(source))
        return AxisPieces(numbers, tuple(source), tuple(target), np.array(ends, np.int64))
    indices = axis.to_array()
    chunk = indices // size
    order = np.argsort(chunk, kind="stable")
    chunks, begins = np.unique(chunk[order], return_index=True)
    groups = np.split(order, begins[1:])
    sources = [indices[group] - c * size for c, group in zip(chunks.tolist(), groups, strict=True)]
    spans = np.array([(s.min(), s.max()) for s in sources], np.int64).reshape(-1, 2)
    return AxisPieces(chunks, tuple(map(_as_slice, sources)), tuple(map(_as_slice, groups)), spans)


def _as_slice(indices: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Turn an ascending progression into a slice, which copies faster than a list."""
    if len(indices) == 1:
        return slice(int(indices[0]), int(indices[0]) + 1, 1)
    steps = np.diff(indices)
    if steps[0] > 0 and (steps == steps[0]).all():
        return slice(int(indices[0]), int(indices[-1]) + 1, int(steps[0]))
    return indices
