"""What runs share: pools, buffers and decoders, and the memory of one read."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._budget import ByteGate
from napari_decant.engine._codecs import ChunkDecoder
from napari_decant.engine._memory import BufferPool
from napari_decant.engine._reader import FileReader
from napari_decant.engine._workers import WorkerPool
from napari_decant.ngff._zarr import ArrayMeta

__all__ = ["Lease", "Tools"]


class Tools:
    """What all runs of an executor share."""

    def __init__(self, reader: FileReader, workers: WorkerPool, gate: ByteGate, buffers: BufferPool) -> None:
        self.reader, self.workers, self.gate, self.buffers = reader, workers, gate, buffers
        self._decoders: dict[int, ChunkDecoder] = {}

    def decoder(self, meta: ArrayMeta) -> ChunkDecoder:
        """Return the decoder of an array, the same one for the same metadata object."""
        found = self._decoders.get(id(meta))
        if found is None or found.meta is not meta:
            if len(self._decoders) >= 256:
                self._decoders.clear()
            self._decoders[id(meta)] = found = ChunkDecoder(meta)
        return found


class Lease:
    """The buffer of one read, given back when the last chunk in it is decoded."""

    __slots__ = ("_buffer", "_entered", "_left", "_lock", "_tools")

    def __init__(self, tools: Tools, chunks: int) -> None:
        self._tools, self._left = tools, chunks
        self._entered = 0
        self._buffer: NDArray[np.uint8] | None = None
        self._lock = threading.Lock()

    def enter(self, nbytes: int) -> None:
        """Wait until so many bytes may be on their way."""
        self._entered = self._tools.gate.enter(nbytes)

    def take(self, nbytes: int) -> memoryview:
        """Return memory for the read."""
        self._buffer = self._tools.buffers.take(nbytes)
        return memoryview(self._buffer)[:nbytes]

    def leave(self) -> None:
        """Count one chunk as decoded."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        if self._buffer is not None:
            holder = [self._buffer]
            self._buffer = None
            self._tools.buffers.give(holder)
        self._tools.gate.leave(self._entered)
