"""In which order a plan's chunks are read, and how much of each is decoded."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._codecs import ChunkDecoder
from napari_decant.engine._plan import CopyOutput, Plan
from napari_decant.engine._reader import FileReader, Read, merge_reads

__all__ = ["Schedule"]

_REMOTE_PARTIAL: Final = 1 << 20  # below this a second round trip costs more than the bytes it saves


class Schedule:
    """Reads of a plan's copies and which parts of chunks they need.

    Attributes
    ----------
    start, stop : list of int
        Bytes of each decoded chunk that its copies enclose.
    partial : list of bool
        Whether only those are decoded.
    alone : bool array, shape (chunks,)
        Chunks of which only a part is read, in a read of its own.
    """

    def __init__(self, plan: Plan, decoders: list[ChunkDecoder], reader: FileReader) -> None:
        self._plan, self._reader = plan, reader
        count = len(plan.chunk_array)
        start, stop = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.alone = np.zeros(count, bool)
        partial = np.zeros(count, bool)
        able = [decoder.can_be_partial for decoder in decoders]
        if any(able) and len(plan.use_chunk):
            self._spans(decoders, able, start, stop)
            for number, decoder in enumerate(decoders):
                mine = plan.chunk_array == number
                if able[number]:
                    span = stop if decoder.partial == "prefix" else stop - start
                    partial |= mine & (stop > 0) & (4 * span <= 3 * decoder.nbytes)
                    if decoder.partial != "prefix":
                        self.alone |= mine
            self.alone &= partial & (plan.chunk_file >= 0) & (plan.chunk_length >= 0)
            for file, (uri, _) in enumerate(plan.files):
                if self.alone.any() and reader.store(uri).remote:
                    self.alone &= ~((plan.chunk_file == file) & (plan.chunk_length < _REMOTE_PARTIAL))
        self.start, self.stop, self.partial = start.tolist(), stop.tolist(), partial.tolist()

    def _spans(
        self,
        decoders: list[ChunkDecoder],
        able: list[bool],
        start: NDArray[np.int64],
        stop: NDArray[np.int64],
    ) -> None:
        """Enclose all uses of each chunk, in bytes of the decoded chunk."""
        plan = self._plan
        low = np.zeros(len(plan.use_chunk), np.int64)
        high = np.zeros(len(plan.use_chunk), np.int64)
        for number, output in enumerate(plan.outputs):
            if not isinstance(output, CopyOutput) or not able[output.array]:
                continue
            mine = np.flatnonzero(plan.use_output == number) if len(plan.outputs) > 1 else slice(None)
            decoder = decoders[output.array]
            for axis, pieces in enumerate(output.axes):
                chosen = pieces.spans[plan.use_piece[mine, axis]] * decoder.strides[axis]
                low[mine] += chosen[:, 0]
                high[mine] += chosen[:, 1]
            high[mine] += decoder.itemsize
        used, begins = np.unique(plan.use_chunk, return_index=True)
        start[used] = np.minimum.reduceat(low, begins)
        stop[used] = np.maximum.reduceat(high, begins)

    def reads(self, chunks: NDArray[np.int64], whole: bool = False) -> list[Read]:
        """Reads for some chunks: merged where they touch, those of different files in turn.

        Parameters
        ----------
        chunks : int64 array
            Stored chunks of the plan.
        whole : bool
            Read all of each, whatever its copies need.
        """
        plan = self._plan
        merged = chunks if whole else chunks[~self.alone[chunks]]
        reads = merge_reads(
            merged,
            plan.chunk_file[merged],
            plan.chunk_offset[merged],
            plan.chunk_length[merged],
            self._reader.max_gap_bytes,
        )
        if not whole:
            for chunk in chunks[self.alone[chunks]].tolist():
                length = int(plan.chunk_length[chunk])
                reads.append(
                    Read(int(plan.chunk_file[chunk]), int(plan.chunk_offset[chunk]), length, [chunk], [], [])
                )
        return reads
