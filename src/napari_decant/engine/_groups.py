"""Groups of outputs: which come first, and when all of one is written."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._plan import Plan, TiledOutput

__all__ = ["OutputGroups"]


class OutputGroups:
    """Counts the regions of each group's outputs that are not written yet.

    Parameters
    ----------
    groups : sequence of int
        Group of each output, counted from 0.
    use_output : sequence of int
        Output that each use of the plan writes.
    tiled : mapping of int to TiledOutput
        Sampled outputs by number.

    Attributes
    ----------
    of_output, of_use : list of int
        Group of each output, and of each use.
    count : int
    """

    def __init__(
        self,
        groups: Sequence[int],
        use_output: Sequence[int],
        tiled: Mapping[int, TiledOutput],
    ) -> None:
        self.of_output = list(groups)
        self.of_use = [self.of_output[number] for number in use_output]
        self.count = max(self.of_output, default=0) + 1
        self._tiled = tiled
        self._lock = threading.Lock()
        self._left = [0] * self.count
        for group in self.of_use:
            self._left[group] += 1
        for number, output in tiled.items():
            self._left[self.of_output[number]] += len(output.tile_start)

    def empty(self) -> list[int]:
        """Groups of which nothing has to be written."""
        return [group for group, left in enumerate(self._left) if left == 0]

    def written(self, groups: Sequence[int]) -> list[int]:
        """Count one region more of each of ``groups`` as written; return those now complete."""
        complete = []
        with self._lock:
            for group in groups:
                self._left[group] -= 1
                if self._left[group] == 0:
                    complete.append(group)
        return complete

    def turns(self, plan: Plan) -> NDArray[np.int32] | None:
        """For every chunk the first group that needs it; None if there is only one."""
        if self.count == 1:
            return None
        turn = np.full(len(plan.chunk_array), self.count, np.int32)
        np.minimum.at(turn, plan.use_chunk, np.array(self.of_use, np.int32))
        for number, output in self._tiled.items():
            np.minimum.at(turn, output.tile_chunks, np.int32(self.of_output[number]))
        return turn
