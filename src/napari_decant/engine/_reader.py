"""Reading stored bytes: merged where they touch, in threads of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._metadata import StoreHolder
from napari_decant.engine._workers import WorkerPool
from napari_decant.errors import UsageError

__all__ = ["FileReader", "Read", "merge_reads"]

MAX_READ_BYTES: Final = 8 << 20


class FileReader(StoreHolder):
    """Reads byte ranges of stores in worker threads.

    Parameters
    ----------
    workers : int
        Reads in flight.
    max_gap_bytes : int
        Ranges of one file that are at most this far apart are read as one.
    """

    def __init__(self, workers: int = 4, max_gap_bytes: int = 4096) -> None:
        super().__init__()
        if workers < 1 or max_gap_bytes < 0:
            raise UsageError("a FileReader needs at least 1 worker and a gap of at least 0 bytes")
        self.workers, self.max_gap_bytes = workers, max_gap_bytes
        self.pool = WorkerPool(workers, "read")

    def close(self) -> None:
        """End the threads and let go of the stores."""
        self.pool.close()
        super().close()


@dataclass(frozen=True, slots=True)
class Read:
    """One read of one file.

    Attributes
    ----------
    file : int
        Index into the plan's files.
    offset, length : int
        Byte range; the length is -1 for a whole object of unknown size.
    chunks : list of int
        Chunks within it.
    begins, ends : list of int
        Where their bytes lie, from ``offset``.
    """

    file: int
    offset: int
    length: int
    chunks: list[int]
    begins: list[int]
    ends: list[int]


def merge_reads(
    chunks: NDArray[np.int64],
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    max_gap: int,
    turn: NDArray[np.int32] | None = None,
) -> list[Read]:
    """Merge ranges that touch, and order the reads so that those of different files alternate.

    Parameters
    ----------
    chunks : int64 array, shape (n,)
        Numbers of the chunks.
    file, offset, length : arrays, shape (n,)
        Their byte ranges.
    max_gap : int
        Bytes between ranges that may be read and dropped.
    turn : int32 array, shape (n,), optional
        Chunks of a lower turn are read first.
    """
    if not len(chunks):
        return []
    if turn is not None and turn.min() != turn.max():
        parts = [turn == which for which in np.unique(turn)]
        return [
            read
            for now in parts
            for read in merge_reads(chunks[now], file[now], offset[now], length[now], max_gap)
        ]
    order = np.lexsort((offset, file))
    file, offset, length, chunks = file[order], offset[order], length[order], chunks[order]
    end = offset + np.maximum(length, 0)
    known = length >= 0
    joins = (file[1:] == file[:-1]) & known[1:] & known[:-1] & (offset[1:] - end[:-1] <= max_gap)
    joins &= offset[1:] >= end[:-1]  # two chunks may share bytes; each then has its own read
    starts = np.concatenate([[0], np.flatnonzero(~joins) + 1]).tolist()
    stops = [*starts[1:], len(chunks)]
    files, offsets, ends, numbers = file.tolist(), offset.tolist(), end.tolist(), chunks.tolist()
    whole = (~known).tolist()
    reads: list[Read] = []
    for first, last in zip(starts, stops, strict=True):
        at = first
        while at < last:
            base, stop = offsets[at], at + 1
            while stop < last and ends[stop] - base <= MAX_READ_BYTES:
                stop += 1
            reads.append(
                Read(
                    files[at],
                    base,
                    -1 if whole[at] else ends[stop - 1] - base,
                    numbers[at:stop],
                    [o - base for o in offsets[at:stop]],
                    [e - base for e in ends[at:stop]],
                )
            )
            at = stop
    return _interleave(reads)


def _interleave(reads: list[Read]) -> list[Read]:
    """Take a read of each file in turn."""
    turns: dict[int, int] = {}
    keyed = []
    for read in reads:
        turn = turns.get(read.file, 0)
        turns[read.file] = turn + 1
        keyed.append(turn)
    if len(turns) == 1:
        return reads
    return [reads[i] for i in sorted(range(len(reads)), key=keyed.__getitem__)]
