"""In which order a plan's chunks are read, and how much of each is decoded."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._codecs import ChunkDecoder
from napari_decant.engine._plan import CopyOutput, Plan, TiledOutput
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
    head : dict of int to int
        How many stored bytes to read of chunks whose beginning is decoded.
    alone : bool array, shape (chunks,)
        Chunks of which only a part is read, in a read of its own.
    """

    def __init__(self, plan: Plan, decoders: list[ChunkDecoder], reader: FileReader) -> None:
        self._plan, self._reader = plan, reader
        count = len(plan.chunk_array)
        self.alone = np.zeros(count, bool)
        self.start: list[int] = [0] * count
        self.stop: list[int] = [0] * count
        self.partial = [False] * count
        self.head: dict[int, int] = {}
        able = [decoder.can_be_partial for decoder in decoders]
        if any(able):
            if len(plan.use_chunk):
                self._enclose(decoders, able)
            for output in plan.outputs:
                if isinstance(output, TiledOutput) and able[output.array]:
                    self._enclose_tiles(output, decoders[output.array])
            self._choose(decoders, able)

    def _enclose(self, decoders: list[ChunkDecoder], able: list[bool]) -> None:
        """Enclose all uses of each chunk, in bytes of the decoded chunk."""
        plan, start, stop = self._plan, self.start, self.stop
        tables: dict[int, list[tuple[list[int], list[int]]]] = {}
        for number, output in enumerate(plan.outputs):
            if isinstance(output, CopyOutput) and able[output.array]:
                decoder = decoders[output.array]
                tables[number] = [
                    ((axis.spans[:, 0] * stride).tolist(), (axis.spans[:, 1] * stride).tolist())
                    for axis, stride in zip(output.axes, decoder.strides, strict=True)
                ]
        for chunk, number, pieces in zip(
            plan.use_chunk.tolist(), plan.use_output.tolist(), plan.use_piece.tolist(), strict=True
        ):
            if number in tables:
                first = last = 0
                for (low, high), piece in zip(tables[number], pieces, strict=False):
                    first += low[piece]
                    last += high[piece]
                start[chunk] = min(start[chunk], first) if stop[chunk] else first
                stop[chunk] = max(stop[chunk], last + 1)

    def _enclose_tiles(self, output: TiledOutput, decoder: ChunkDecoder) -> None:
        """Enclose what tiles need of the beginning of each chunk: whole planes of its slowest axis."""
        axis = max(range(len(decoder.strides)), key=decoder.strides.__getitem__)
        if decoder.partial != "prefix" or axis not in output.spatial_axes:
            return
        at = 3 - len(output.spatial_axes) + output.spatial_axes.index(axis)
        first = (output.tile_start + output.grid_start).astype(np.float64)
        last = first + (output.tile_shape - 1)
        high = np.zeros(len(first))
        for k in range(3):  # as tiles find their chunks, in the same order
            factor = output.linear[at, k]
            high += np.maximum(factor * (first[:, k] + 0.5), factor * (last[:, k] + 0.5))
        high += output.offset[at]
        reach = np.ceil(high - 0.5) if output.sampler.filter == "linear" else np.floor(high)
        chunks = output.tile_chunks
        size = decoder.meta.chunk_shape[axis]
        reach = np.repeat(reach, np.diff(output.tile_first)) - self._plan.chunk_index[chunks, axis] * size
        planes = np.zeros(len(self.stop), np.int64)
        np.maximum.at(planes, chunks, np.clip(reach, 0, size - 1).astype(np.int64) + 1)
        stride = decoder.strides[axis]
        for chunk in np.flatnonzero(planes).tolist():
            self.stop[chunk] = max(self.stop[chunk], int(planes[chunk]) * stride - decoder.itemsize + 1)

    def _choose(self, decoders: list[ChunkDecoder], able: list[bool]) -> None:
        """Decide which chunks are decoded in part, and which of those are read in part."""
        plan = self._plan
        for chunk, owner in enumerate(plan.chunk_array.tolist()):
            decoder = decoders[owner]
            if not able[owner] or not self.stop[chunk]:
                continue
            self.stop[chunk] += decoder.itemsize - 1
            if decoder.wants_partial(self.start[chunk], self.stop[chunk]):
                self.partial[chunk] = True
                stored = int(plan.chunk_length[chunk])
                if decoder.partial == "prefix" and stored >= 0:
                    self.head[chunk] = decoder.head_bytes(stored, self.stop[chunk])
                self.alone[chunk] = decoder.partial != "prefix" or self.head.get(chunk, stored) < stored
        if self.alone.any():
            self.alone &= (plan.chunk_file >= 0) & (plan.chunk_length >= 0)
            for file, (uri, _) in enumerate(plan.files):
                if self._reader.store(uri).remote:
                    self.alone &= ~((plan.chunk_file == file) & (plan.chunk_length < _REMOTE_PARTIAL))

    def reads(
        self,
        chunks: NDArray[np.int64],
        whole: bool = False,
        turn: NDArray[np.int32] | None = None,
        heads: bool = False,
    ) -> list[Read]:
        """Reads for some chunks: merged where they touch, those of different files in turn.

        Parameters
        ----------
        chunks : int64 array
            Stored chunks of the plan.
        whole : bool
            Read all of each, whatever is needed of it.
        turn : int32 array, shape (chunks of the plan,), optional
            Chunks of a lower turn are read first.
        heads : bool
            Read only the beginning, even if ``whole``, of chunks of which no more is decoded.
        """
        plan = self._plan
        alone = self.alone[chunks]
        if whole and alone.any():
            alone &= heads and np.array([chunk in self.head for chunk in chunks.tolist()])
        if len(chunks) == 1 and not alone[0]:
            return [self._single(int(chunks[0]))]
        merged = chunks[~alone]
        reads = merge_reads(
            merged,
            plan.chunk_file[merged],
            plan.chunk_offset[merged],
            plan.chunk_length[merged],
            self._reader.max_gap_bytes,
            None if turn is None else turn[merged],
        )
        for chunk in chunks[alone].tolist():
            single = self._single(chunk)
            if chunk in self.head:
                size = self.head[chunk]
                reads.append(replace(single, length=size, ends=[size]))
            else:
                reads.append(replace(single, begins=[], ends=[]))
        return reads

    def _single(self, chunk: int) -> Read:
        plan = self._plan
        length = int(plan.chunk_length[chunk])
        return Read(
            int(plan.chunk_file[chunk]), int(plan.chunk_offset[chunk]), length, [chunk], [0], [max(length, 0)]
        )
