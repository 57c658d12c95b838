"""Copying decoded chunks into the regions of outputs that a plan assigns to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._convert import convert_into
from napari_decant.engine._plan import CopyOutput, Plan

__all__ = ["Copies"]


class Copies:
    """The uses of a plan's chunks, each of which copies a part of one chunk into one output.

    Parameters
    ----------
    plan : Plan
    outputs : sequence of array
        One per output of the plan; None where nothing is to be written, which may be said at any time.

    Attributes
    ----------
    output : list of int
        Output that each use writes.
    first : list of int, length ``chunks + 1``
        First use of each chunk; its uses end where those of the next one begin.
    """

    def __init__(self, plan: Plan, outputs: Sequence[NDArray[Any] | None]) -> None:
        self._plan, self._outputs = plan, outputs
        self.first: list[int] = np.searchsorted(plan.use_chunk, np.arange(len(plan.chunk_array) + 1)).tolist()
        self.output: list[int] = plan.use_output.tolist()
        self._piece = plan.use_piece.tolist()

    def target(self, use: int) -> NDArray[Any] | None:
        """Region that a use writes, if it takes elements in order."""
        number = self.output[use]
        output, out = self._plan.outputs[number], self._outputs[number]
        if out is None:
            return None
        assert isinstance(output, CopyOutput)
        pieces = self._piece[use]
        index = []
        for axis, piece in zip(output.axes, pieces, strict=False):
            if type(axis.source[piece]) is not slice or type(axis.target[piece]) is not slice:
                return None
            index.append(axis.target[piece])
        region: NDArray[Any] = out[(*index, ...)]  # with an ellipsis a scalar array stays one
        return region

    def copy(self, use: int, elements: NDArray[Any]) -> None:
        """Copy what one use needs of a decoded chunk."""
        number = self.output[use]
        output, out = self._plan.outputs[number], self._outputs[number]
        if out is None:  # the output failed for a reason of its own
            return
        assert isinstance(output, CopyOutput)
        pieces = self._piece[use]
        source = tuple(axis.source[piece] for axis, piece in zip(output.axes, pieces, strict=False))
        target = tuple(axis.target[piece] for axis, piece in zip(output.axes, pieces, strict=False))
        if all(type(part) is slice for part in source) and all(type(part) is slice for part in target):
            convert_into(elements[(*source, ...)], out[(*target, ...)])
            return
        picked = elements[_open_mesh(source)]
        held = np.empty(picked.shape, out.dtype)
        convert_into(picked, held)
        out[_open_mesh(target)] = held


def _open_mesh(parts: tuple[slice | NDArray[np.int64], ...]) -> tuple[NDArray[np.int64], ...]:
    return np.ix_(*[np.arange(p.start, p.stop, p.step or 1) if isinstance(p, slice) else p for p in parts])
