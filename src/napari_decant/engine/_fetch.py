"""Fetching the stored bytes of a plan's chunks, whole or in part."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter

from napari_decant.engine._codecs import ChunkDecoder, Part
from napari_decant.engine._plan import Plan
from napari_decant.engine._reader import FileReader, Read
from napari_decant.engine._schedule import Schedule
from napari_decant.engine._stats import Stats
from napari_decant.engine._tools import Lease

__all__ = ["ChunkFetcher", "Stored"]

Stored = Part | bytes | memoryview | None


class ChunkFetcher:
    """Reads what the reads of a schedule name.

    Parameters
    ----------
    plan : Plan
    decoders : sequence of ChunkDecoder
        One per array of the plan.
    schedule : Schedule
    reader : FileReader
    stats : Stats
        Counts everything read.
    lock : Lock
        Held while ``stats`` is changed.
    """

    def __init__(
        self,
        plan: Plan,
        decoders: Sequence[ChunkDecoder],
        schedule: Schedule,
        reader: FileReader,
        stats: Stats,
        lock: threading.Lock,
    ) -> None:
        self._plan, self._decoders, self._schedule, self._reader = plan, decoders, schedule, reader
        self._stats, self._lock = stats, lock

    def fetch(self, read: Read, lease: Lease) -> list[tuple[int, Stored]]:
        """Read what one read names: (chunk, its bytes)."""
        uri, file = self._plan.files[read.file]
        store = self._reader.store(uri)
        began = perf_counter()
        decoder = self._decoders[self._plan.chunk_array[read.chunks[0]]]
        if read.length < 0:
            data = store.read_optional(file, decoder.check_stored)
            self._count(began, 1, len(data or b""))
            return [(read.chunks[0], data)]
        if not read.begins:
            chunk = read.chunks[0]

            def fetch(at: int, n: int) -> bytes:
                start = perf_counter()
                data = store.read_file(file, read.offset + at, n)
                self._count(start, 1, n)
                return data

            decoder.check_stored(read.length)
            schedule = self._schedule
            part = decoder.fetch_part(fetch, read.length, schedule.start[chunk], schedule.stop[chunk])
            return [(chunk, part)]
        if len(read.chunks) == 1:
            decoder.check_stored(int(self._plan.chunk_length[read.chunks[0]]))
        whole = lease.take(read.length)
        store.read_file_into(file, read.offset, whole)
        self._count(began, 1, read.length)
        return [
            (chunk, whole[begin:end])
            for chunk, begin, end in zip(read.chunks, read.begins, read.ends, strict=True)
        ]

    def rest(self, chunk: int, have: int) -> bytes:
        """Read what follows the first bytes of a chunk."""
        uri, file = self._plan.files[self._plan.chunk_file[chunk]]
        offset, length = int(self._plan.chunk_offset[chunk]), int(self._plan.chunk_length[chunk])
        began = perf_counter()
        data = self._reader.store(uri).read_file(file, offset + have, length - have)
        self._count(began, 1, length - have)
        return data

    def _count(self, began: float, reads: int, nbytes: int) -> None:
        with self._lock:
            self._stats.read_seconds += perf_counter() - began
            self._stats.reads += reads
            self._stats.read_bytes += nbytes
