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
from napari_decant.engine._convert import convert_into
from napari_decant.engine._locate import ABSENT, chunk_key
from napari_decant.engine._plan import CopyOutput, Plan, TiledOutput
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


_Stored = Part | bytes | memoryview | None


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
        self._first = np.searchsorted(plan.use_chunk, np.arange(len(plan.chunk_array) + 1)).tolist()
        self._use_output = plan.use_output.tolist()
        self._use_piece = plan.use_piece.tolist()
        self._schedule = Schedule(plan, self._decoders, tools.reader)
        self._arrange(slot_bytes)
        self._groups, self._group_done = list(groups or [0] * len(plan.outputs)), group_done
        self._use_group = [self._groups[number] for number in self._use_output]
        self._left = [0] * (max(self._groups, default=0) + 1)
        for group in self._use_group:
            self._left[group] += 1
        for number, sampler in self._samplers.items():
            self._left[self._groups[number]] += len(sampler.output.tile_start)
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
            for group, left in enumerate(self._left.copy()):
                if left == 0:
                    self._group_done(self, group)
        self._next_wave()

    def _written(self, groups: Sequence[int]) -> None:
        """Count regions of some groups as written."""
        if self._group_done is None or not groups:
            return
        complete = []
        with self._lock:
            for group in groups:
                self._left[group] -= 1
                if self._left[group] == 0:
                    complete.append(group)
        for group in complete:
            self._let_go(group)
            self._group_done(self, group)

    def _let_go(self, group: int) -> None:
        """Forget the finished outputs of a group, so that their memory can be used again at once."""
        for number, other in enumerate(self._groups):
            if other == group:
                self.outputs[number] = None
        for number, sampler in self._samplers.items():
            if self._groups[number] == group:
                sampler.release()

    def _turns(self) -> NDArray[np.int32] | None:
        """For every chunk the first group that needs it."""
        if len(self._left) == 1:
            return None
        turn = np.full(len(self._owner), len(self._left), np.int32)
        np.minimum.at(turn, self.plan.use_chunk, np.array(self._use_group, np.int32))
        for number, sampler in self._samplers.items():
            np.minimum.at(turn, sampler.output.tile_chunks, np.int32(self._groups[number]))
        return turn

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
        reads = self._schedule.reads(wave.read_chunks, bool(wave.slots), self._turns(), heads=True)
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
            pieces = self._fetch(read, lease)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the outputs, not to this thread
            for chunk in read.chunks:
                self._fail(chunk, error)
                lease.leave()
                self._chunk_done(wave, chunk)
            return
        for chunk, data in pieces:
            self._submit(self._tools.workers, self._decode, wave, chunk, data, lease)

    def _fetch(self, read: Read, lease: Lease) -> list[tuple[int, _Stored]]:
        """Read what one read names: (chunk, its bytes)."""
        uri, file = self.plan.files[read.file]
        store = self._tools.reader.store(uri)
        began = perf_counter()
        decoder = self._decoders[self._owner[read.chunks[0]]]
        if read.length < 0:
            data = store.read_optional(file, decoder.check_stored)
            self._count_read(began, 1, len(data or b""))
            return [(read.chunks[0], data)]
        if not read.begins:
            chunk = read.chunks[0]

            def fetch(at: int, n: int) -> bytes:
                start = perf_counter()
                data = store.read_file(file, read.offset + at, n)
                self._count_read(start, 1, n)
                return data

            decoder.check_stored(read.length)
            schedule = self._schedule
            part = decoder.fetch_part(fetch, read.length, schedule.start[chunk], schedule.stop[chunk])
            return [(chunk, part)]
        if len(read.chunks) == 1:
            decoder.check_stored(int(self.plan.chunk_length[read.chunks[0]]))
        whole = lease.take(read.length)
        store.read_file_into(file, read.offset, whole)
        self._count_read(began, 1, read.length)
        return [
            (chunk, whole[begin:end])
            for chunk, begin, end in zip(read.chunks, read.begins, read.ends, strict=True)
        ]

    def _rest(self, chunk: int, have: int) -> bytes:
        """Read what follows the first bytes of a chunk."""
        uri, file = self.plan.files[self.plan.chunk_file[chunk]]
        offset, length = int(self.plan.chunk_offset[chunk]), int(self.plan.chunk_length[chunk])
        began = perf_counter()
        data = self._tools.reader.store(uri).read_file(file, offset + have, length - have)
        self._count_read(began, 1, length - have)
        return data

    def _count_read(self, began: float, reads: int, nbytes: int) -> None:
        with self._lock:
            self.stats.read_seconds += perf_counter() - began
            self.stats.reads += reads
            self.stats.read_bytes += nbytes

    def _decode(self, wave: Wave, chunk: int, data: _Stored, lease: Lease) -> None:
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
            self._written(self._use_group[self._first[chunk] : self._first[chunk + 1]])
        for tile in wave.chunk_done(chunk):
            self._submit(self._tools.workers, self._sample, wave, tile)
        self._finished(1)

    def _decode_chunk(self, wave: Wave, chunk: int, data: _Stored, uses: range) -> None:
        decoder = self._decoders[self._owner[chunk]]
        if data is None:
            self._fill_chunk(wave, chunk, uses)
        elif wave.slots and wave.begins[chunk] >= 0:
            held = self._slot(wave, chunk)
            assert not isinstance(data, Part)
            decoder.decode(data, held, self._head(chunk), self._more(chunk, data))
            for use in uses:
                self._copy(use, held)
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
                target = self._target(uses[0])
                if target is not None and decoder.fits(target):
                    decoder.decode(data, target)
                    return
            elements = decoder.elements(data)
        for use in uses:
            self._copy(use, elements)

    def _head(self, chunk: int) -> int | None:
        """Up to where a chunk is decoded, if only its beginning is."""
        prefix = self._decoders[self._owner[chunk]].partial == "prefix"
        return self._schedule.stop[chunk] if prefix and self._schedule.partial[chunk] else None

    def _more(self, chunk: int, data: Buffer) -> Callable[[], bytes] | None:
        """How to read what follows the first bytes of a chunk, if only those were read."""
        return partial(self._rest, chunk, len(data)) if self._schedule.alone[chunk] else None

    def _target(self, use: int) -> NDArray[Any] | None:
        """Region that a use writes, if it takes elements in order."""
        number = self._use_output[use]
        output, out = self.plan.outputs[number], self.outputs[number]
        if out is None:
            return None
        assert isinstance(output, CopyOutput)
        pieces = self._use_piece[use]
        index = []
        for axis, piece in zip(output.axes, pieces, strict=False):
            if type(axis.source[piece]) is not slice or type(axis.target[piece]) is not slice:
                return None
            index.append(axis.target[piece])
        region: NDArray[Any] = out[(*index, ...)]  # with an ellipsis a scalar array stays one
        return region

    def _copy(self, use: int, elements: NDArray[Any]) -> None:
        """Copy what one use needs of a decoded chunk."""
        number = self._use_output[use]
        output, out = self.plan.outputs[number], self.outputs[number]
        if out is None:  # the output failed for a reason of its own
            return
        assert isinstance(output, CopyOutput)
        pieces = self._use_piece[use]
        source = tuple(axis.source[piece] for axis, piece in zip(output.axes, pieces, strict=False))
        target = tuple(axis.target[piece] for axis, piece in zip(output.axes, pieces, strict=False))
        if all(type(part) is slice for part in source) and all(type(part) is slice for part in target):
            convert_into(elements[(*source, ...)], out[(*target, ...)])
            return
        picked = elements[_open_mesh(source)]
        held = np.empty(picked.shape, out.dtype)
        convert_into(picked, held)
        out[_open_mesh(target)] = held

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
            self._copy(use, fill)
        with self._lock:
            self.stats.absent_chunks += 1

    def _fill(self) -> None:
        """Write the fill value where chunks are absent."""
        absent = np.flatnonzero(self.plan.chunk_file == ABSENT).tolist()
        for chunk in absent:
            uses = range(self._first[chunk], self._first[chunk + 1])
            if self._cancelled:
                self._fail(chunk, Cancelled("cancelled while filling"))
                self._written(self._use_group[uses.start : uses.stop])
                continue
            meta = self.plan.arrays[self._owner[chunk]].meta
            fill = np.broadcast_to(np.asarray(meta.fill_value, meta.native_dtype), meta.chunk_shape)
            for use in uses:
                self._copy(use, fill)
            self._written(self._use_group[uses.start : uses.stop])
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
        self._written([self._groups[number]])
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
            self._set_error(self._use_output[use], error)
        for number, sampler in self._samplers.items():
            if (sampler.output.tile_chunks == chunk).any():
                self._set_error(number, error)

    def _set_error(self, number: int, error: Exception) -> None:
        with self._lock:
            if self.errors[number] is None:
                self.errors[number] = error


def _open_mesh(parts: tuple[slice | NDArray[np.int64], ...]) -> tuple[NDArray[np.int64], ...]:
    return np.ix_(*[np.arange(p.start, p.stop, p.step or 1) if isinstance(p, slice) else p for p in parts])
