"""Executing one plan: chunks are read, decoded once each, and copied or sampled into the outputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._bytes_codecs import Buffer
from napari_decant.engine._codecs import ChunkDecoder, Part
from napari_decant.engine._copies import Copies
from napari_decant.engine._fetch import ChunkFetcher, Stored
from napari_decant.engine._groups import OutputGroups
from napari_decant.engine._locate import ABSENT, chunk_key
from napari_decant.engine._plan import Plan, TiledOutput
from napari_decant.engine._reader import Read
from napari_decant.engine._sampling import TileSampler
from napari_decant.engine._schedule import Schedule
from napari_decant.engine._stale import explain
from napari_decant.engine._stats import Stats
from napari_decant.engine._tools import Lease, Tools
from napari_decant.engine._waves import Wave, make_waves
from napari_decant.engine._workers import WorkerPool
from napari_decant.errors import Cancelled, DecantError, SourceChanged

__all__ = ["Run", "Tools"]


class Run:
    """One plan under execution.

    Parameters
    ----------
    plan : Plan
    outputs : sequence of array
        One per output of the plan, of its shape and any element type; None where planning failed.
    tools : Tools
    slot_bytes : int
        Memory for decoded chunks under tiles; tiles that do not fit together follow one another.
    done : callable
        Called once, in any thread, after everything is written.
    groups : sequence of int, optional
        Group of each output, counted from 0. Chunks that an earlier group needs come first.
    group_done : callable, optional
        Called with each group, in any thread, when its outputs are written; before ``done``.
    """

    def __init__(
        self,
        plan: Plan,
        outputs: Sequence[NDArray[Any] | None],
        tools: Tools,
        slot_bytes: int,
        done: Callable[[Run], None],
        groups: Sequence[int] | None = None,
        group_done: Callable[[Run, int], None] | None = None,
    ) -> None:
        self.plan, self._tools, self._done = plan, tools, done
        self.outputs = list(outputs)
        self.errors: list[Exception | None] = list(plan.errors)
        self.stats = Stats()
        self.stale: set[tuple[str, str]] = set()
        self.finished = False
        self._cancelled = False
        self._lock = threading.Lock()
        self._decoders = [tools.decoder(array.meta) for array in plan.arrays]
        self._owner = plan.chunk_array.tolist()
        self._copies = Copies(plan, self.outputs)
        self._first = self._copies.first
        self._schedule = Schedule(plan, self._decoders, tools.reader)
        self._fetcher = ChunkFetcher(
            plan, self._decoders, self._schedule, tools.reader, self.stats, self._lock
        )
        self._arrange(slot_bytes)
        self._group_done = group_done
        self._groups = OutputGroups(
            groups or [0] * len(plan.outputs),
            self._copies.output,
            {number: sampler.output for number, sampler in self._samplers.items()},
        )
        self._at = -1
        self._pending = 0
        self._buffer: NDArray[np.uint8] | None = None

    def _arrange(self, slot_bytes: int) -> None:
        """Prepare sampling, and group the work into waves; other executors have their own way."""
        self._samplers = {
            number: TileSampler(self.plan, output, out)
            for number, (output, out) in enumerate(zip(self.plan.outputs, self.outputs, strict=True))
            if isinstance(output, TiledOutput) and out is not None
        }
        self._waves = make_waves(self.plan, self._samplers, slot_bytes)

    def cancel(self) -> None:
        """Stop at the next chunk; outputs not finished fail with `Cancelled`."""
        self._cancelled = True

    def start(self) -> None:
        """Begin; returns at once."""
        if self._group_done is not None:
            for group in self._groups.empty():
                self._group_done(self, group)
        self._next_wave()

    def _written(self, groups: Sequence[int]) -> None:
        """Count regions of some groups as written."""
        if self._group_done is None or not groups:
            return
        for group in self._groups.written(groups):
            self._let_go(group)
            self._group_done(self, group)

    def _let_go(self, group: int) -> None:
        """Forget the finished outputs of a group, so that their memory can be used again at once."""
        for number, other in enumerate(self._groups.of_output):
            if other == group:
                self.outputs[number] = None
        for number, sampler in self._samplers.items():
            if self._groups.of_output[number] == group:
                sampler.release()

    def run_here(self) -> None:
        """Do everything in this thread: for so little work that handing it over costs more."""
        self._here = True
        self._next_wave()

    _here = False

    def _submit(self, pool: WorkerPool, call: Callable[..., None], *arguments: Any) -> None:
        if self._here:
            call(*arguments)
        else:
            pool.submit(call, *arguments)

    def _next_wave(self) -> None:
        self._release()
        self._at += 1
        if self._at >= len(self._waves):
            self.finished = True
            self._done(self)
            return
        wave = self._waves[self._at]
        if wave.slots:
            self._buffer = self._tools.buffers.take(wave.slots * wave.slot_bytes)
            for owner, begin in wave.fills.items():
                self._held(wave, owner, begin)[...] = self.plan.arrays[owner].meta.fill_value
        reads = self._schedule.reads(
            wave.read_chunks, bool(wave.slots), self._groups.turns(self.plan), heads=True
        )
        absent = self._at == 0 and bool((self.plan.chunk_file == ABSENT).any())
        self._pending = 1 + len(wave.read_chunks) + len(wave.tiles) + absent
        for tile in wave.ready:
            self._submit(self._tools.workers, self._sample, wave, tile)
        if absent:
            self._submit(self._tools.workers, self._fill)
        for read in reads:
            self._submit(self._tools.reader.pool, self._read, wave, read)
        self._finished(1)

    def _release(self) -> None:
        if self._buffer is not None:
            holder = [self._buffer]
            self._buffer = None
            self._tools.buffers.give(holder)

    def _finished(self, count: int) -> None:
        with self._lock:
            self._pending -= count
            last = self._pending == 0
        if last:
            self._next_wave()

    def _read(self, wave: Wave, read: Read) -> None:
        """Read bytes and hand every chunk in them to the decoders."""
        lease = Lease(self._tools, len(read.chunks))
        try:
            if self._cancelled:
                raise Cancelled("cancelled while reading")
            if read.length >= 0 and not self._here:
                lease.enter(read.length)
            pieces = self._fetcher.fetch(read, lease)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the outputs, not to this thread
            for chunk in read.chunks:
                self._fail(chunk, error)
                lease.leave()
                self._chunk_done(wave, chunk)
            return
        for chunk, data in pieces:
            self._submit(self._tools.workers, self._decode, wave, chunk, data, lease)

    def _decode(self, wave: Wave, chunk: int, data: Stored, lease: Lease) -> None:
        began = perf_counter()
        uses = range(self._first[chunk], self._first[chunk + 1]) if self._at == 0 else range(0)
        try:
            if self._cancelled:
                raise Cancelled("cancelled while decoding")
            self._decode_chunk(wave, chunk, data, uses)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(chunk, error)
        if isinstance(data, memoryview):
            data.release()  # or the buffer would seem to be in use
        lease.leave()
        with self._lock:
            self.stats.decode_seconds += perf_counter() - began
            self.stats.chunks += 1
            self.stats.decoded_bytes += self._decoders[self._owner[chunk]].nbytes
            self.stats.uses += len(uses)
        self._chunk_done(wave, chunk)

    def _chunk_done(self, wave: Wave, chunk: int) -> None:
        if self._at == 0:
            self._written(self._groups.of_use[self._first[chunk] : self._first[chunk + 1]])
        for tile in wave.chunk_done(chunk):
            self._submit(self._tools.workers, self._sample, wave, tile)
        self._finished(1)

    def _decode_chunk(self, wave: Wave, chunk: int, data: Stored, uses: range) -> None:
        decoder = self._decoders[self._owner[chunk]]
        if data is None:
            self._fill_chunk(wave, chunk, uses)
        elif wave.slots and wave.begins[chunk] >= 0:
            held = self._slot(wave, chunk)
            assert not isinstance(data, Part)
            decoder.decode(data, held, self._head(chunk), self._more(chunk, data))
            for use in uses:
                self._copies.copy(use, held)
        else:
            self._decode_copies(decoder, chunk, data, uses)

    def _decode_copies(
        self, decoder: ChunkDecoder, chunk: int, data: Part | bytes | memoryview, uses: range
    ) -> None:
        if isinstance(data, Part):
            elements = decoder.elements_of(data)
        elif (stop := self._head(chunk)) is not None:
            elements = decoder.elements(data, stop, self._more(chunk, data))
        else:
            if len(uses) == 1:
                target = self._copies.target(uses[0])
                if target is not None and decoder.fits(target):
                    decoder.decode(data, target)
                    return
            elements = decoder.elements(data)
        for use in uses:
            self._copies.copy(use, elements)

    def _head(self, chunk: int) -> int | None:
        """Up to where a chunk is decoded, if only its beginning is."""
        prefix = self._decoders[self._owner[chunk]].partial == "prefix"
        return self._schedule.stop[chunk] if prefix and self._schedule.partial[chunk] else None

    def _more(self, chunk: int, data: Buffer) -> Callable[[], bytes] | None:
        """How to read what follows the first bytes of a chunk, if only those were read."""
        return partial(self._fetcher.rest, chunk, len(data)) if self._schedule.alone[chunk] else None

    def _held(self, wave: Wave, owner: int, begin: int) -> NDArray[Any]:
        """View a decoded chunk of an array in the wave's buffer."""
        assert self._buffer is not None
        dtype = wave.dtypes[owner]
        count = self._decoders[owner].count * dtype.itemsize
        return (
            self._buffer[begin : begin + count].view(dtype).reshape(self.plan.arrays[owner].meta.chunk_shape)
        )

    def _slot(self, wave: Wave, chunk: int) -> NDArray[Any]:
        return self._held(wave, self._owner[chunk], int(wave.begins[chunk]))

    def _fill_chunk(self, wave: Wave, chunk: int, uses: range) -> None:
        """A remote chunk turned out to be absent."""
        meta = self.plan.arrays[self._owner[chunk]].meta
        if wave.slots and wave.begins[chunk] >= 0:
            self._slot(wave, chunk)[...] = meta.fill_value
        fill = np.broadcast_to(np.asarray(meta.fill_value, meta.native_dtype), meta.chunk_shape)
        for use in uses:
            self._copies.copy(use, fill)
        with self._lock:
            self.stats.absent_chunks += 1

    def _fill(self) -> None:
        """Write the fill value where chunks are absent."""
        absent = np.flatnonzero(self.plan.chunk_file == ABSENT).tolist()
        for chunk in absent:
            uses = range(self._first[chunk], self._first[chunk + 1])
            if self._cancelled:
                self._fail(chunk, Cancelled("cancelled while filling"))
                self._written(self._groups.of_use[uses.start : uses.stop])
                continue
            meta = self.plan.arrays[self._owner[chunk]].meta
            fill = np.broadcast_to(np.asarray(meta.fill_value, meta.native_dtype), meta.chunk_shape)
            for use in uses:
                self._copies.copy(use, fill)
            self._written(self._groups.of_use[uses.start : uses.stop])
        with self._lock:
            self.stats.absent_chunks += len(absent)
        self._finished(1)

    def _sample(self, wave: Wave, tile: tuple[int, int]) -> None:
        number, at = tile
        began = perf_counter()
        try:
            if self._cancelled:
                raise Cancelled("cancelled while sampling")
            if self.errors[number] is None:
                buffer: Any = self._buffer if self._buffer is not None else np.empty(16, np.uint8)
                self._samplers[number].sample(at, buffer, wave.begins)
        except Exception as error:  # noqa: BLE001 - as above
            self._set_error(number, error)
        buffer = None  # or the wave's buffer would seem to be in use when the last tile ends the wave
        with self._lock:
            self.stats.sample_seconds += perf_counter() - began
            self.stats.uses += 1
        self._written([self._groups.of_output[number]])
        self._finished(1)

    def _fail(self, chunk: int, error: Exception) -> None:
        """Give an error to every output that needs a chunk."""
        if isinstance(error, DecantError):
            error = explain(self.plan, chunk, error, self._tools.reader)
            if isinstance(error, SourceChanged):
                array = self.plan.arrays[self._owner[chunk]]
                index = self.plan.chunk_index[chunk, : array.meta.rank].tolist()
                self.stale.add((array.uri, chunk_key(array, index)))
        for use in range(self._first[chunk], self._first[chunk + 1]):
            self._set_error(self._copies.output[use], error)
        for number, sampler in self._samplers.items():
            if (sampler.output.tile_chunks == chunk).any():
                self._set_error(number, error)

    def _set_error(self, number: int, error: Exception) -> None:
        with self._lock:
            if self.errors[number] is None:
                self.errors[number] = error
