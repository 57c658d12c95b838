"""Executing one plan on a GPU: chunks are read and decoded here, and copied or sampled there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._plan import Plan, TiledOutput
from napari_decant.engine._run import Run, Tools
from napari_decant.engine.cuda._buffers import DeviceBuffers, Staging, round_up
from napari_decant.engine.cuda._device import CudaDevice
from napari_decant.engine.cuda._tables import TABLE_ALIGN, Launch, PlanTables, tables_nbytes
from napari_decant.engine.cuda._types import Recipe, recipe_of
from napari_decant.engine.cuda._waves import CudaWave, make_waves
from napari_decant.errors import BudgetExceeded, Cancelled

__all__ = ["CudaRun", "CudaTools"]


class CudaTools(Tools):
    """What all runs of a CUDA executor share."""

    def __init__(self, tools: Tools, device: CudaDevice, staging: Staging, memory: DeviceBuffers) -> None:
        super().__init__(tools.reader, tools.workers, tools.gate, tools.buffers)
        self.device, self.staging, self.memory = device, staging, memory


class _Sampled:
    """A sampled output, as `Run` looks at it."""

    def __init__(self, output: TiledOutput) -> None:
        self.output = output


class CudaRun(Run):
    """One plan under execution on a GPU.

    Chunks are decoded into page-locked buffers, each copied to its place on the GPU at once. When all
    chunks of a wave are on their way, its kernels are queued behind them; the next wave is read and
    decoded meanwhile, and is copied when the kernels are done, all in one stream.

    Parameters
    ----------
    plan : Plan
    outputs : sequence of array
        On the GPU, contiguous, one per output of the plan and of its shape; None where planning failed.
    tools : CudaTools
    slot_bytes : int
        GPU memory for decoded chunks; those that do not fit together follow one another.
    done : callable
        Called once, in any thread, after everything is written.
    groups, group_done
        As `Run`; all groups are done together, just before ``done``.
    """

    def __init__(
        self,
        plan: Plan,
        outputs: Sequence[Any],
        tools: CudaTools,
        slot_bytes: int,
        done: Callable[[Run], None],
        groups: Sequence[int] | None = None,
        group_done: Callable[[Run, int], None] | None = None,
    ) -> None:
        self._cuda = tools
        self._resident: Any = None
        self._room: Any = None  # for tables
        self._sent: tuple[NDArray[np.uint8], Any] | None = None  # kept until it has been copied
        super().__init__(plan, outputs, tools, slot_bytes, done, groups, group_done)

    def _arrange(self, slot_bytes: int) -> None:
        """Choose kernels and group chunks into waves."""
        plan, outputs = self.plan, self.outputs
        recipes: list[Recipe | None] = [None] * len(plan.outputs)
        for number, (output, out) in enumerate(zip(plan.outputs, outputs, strict=True)):
            if output is not None and out is not None:
                recipes[number] = recipe_of(output, plan.arrays[output.array].meta, np.dtype(out.dtype))
        self._live = [recipe is not None for recipe in recipes]
        sampled: dict[int, Any] = {
            number: _Sampled(output)
            for number, output in enumerate(plan.outputs)
            if self._live[number] and isinstance(output, TiledOutput)
        }
        self._samplers = sampled
        on_device: Sequence[Any] = outputs
        addresses = [0 if out is None else int(out.data.ptr) for out in on_device]
        self._tables = PlanTables(plan, recipes, addresses)
        waves: list[Any] = make_waves(plan, self._live, slot_bytes)
        self._waves = waves
        self._slot_bytes = slot_bytes
        self._begins = np.full(len(plan.chunk_file), -1, np.int64)

    def start(self) -> None:
        """Begin; returns at once."""
        self._next_wave()

    def _next_wave(self) -> None:
        """Queue what the last wave was read for, and begin to read the next."""
        try:
            if self._at >= 0:
                self._make(self._waves[self._at])  # type: ignore[arg-type]
            else:
                self._take_memory()
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the outputs, not to this thread
            self._give_up(error)
        self._at += 1
        if self._at >= len(self._waves):
            self._end()
            return
        wave: Any = self._waves[self._at]
        self._begins[wave.chunks] = wave.begins
        reads = self._schedule.reads(wave.chunks, whole=True)
        self._pending = 1 + len(wave.chunks)
        for read in reads:
            self._tools.reader.pool.submit(self._read, wave, read)
        self._finished(1)

    def _take_memory(self) -> None:
        if self._slot_bytes:
            self._resident = self._cuda.memory.take(self._slot_bytes)
        self._room = self._cuda.memory.take(round_up(tables_nbytes(self.plan, self._live)))

    def _give_up(self, error: Exception) -> None:
        """Give an error to every output and do nothing more."""
        for number, live in enumerate(self._live):
            if live:
                self._set_error(number, error)
        self._at = len(self._waves)

    def _make(self, wave: CudaWave) -> None:
        """Queue the kernels of a wave."""
        if self._cancelled:
            raise Cancelled("cancelled while sampling")
        began = perf_counter()
        launches = self._tables.launches(wave)
        self._queue(launches)
        with self._lock:
            self.stats.sample_seconds += perf_counter() - began
            self.stats.uses += sum(len(tiles) for tiles in wave.tiles.values())
            if self._at > 0:  # those of the first wave were counted with their chunks
                self.stats.uses += len(wave.uses)
            else:
                self.stats.absent_chunks += self.plan.summary.absent_chunks

    def _queue(self, launches: list[Launch]) -> None:
        """Copy the tables of some kernels in one piece, and queue the kernels."""
        places: dict[int, int] = {}
        parts: list[tuple[int, NDArray[np.uint8]]] = []
        size = 0
        for launch in launches:
            for table in launch.tables:
                if id(table) not in places:
                    places[id(table)] = size
                    parts.append((size, np.ascontiguousarray(table).reshape(-1).view(np.uint8)))
                    size += -(-table.nbytes // TABLE_ALIGN) * TABLE_ALIGN
        if not size:
            return
        if size > self._room.nbytes:  # never beside what was taken, whatever the plan
            raise BudgetExceeded("max_device_bytes", size, self._room.nbytes, "the tables of a plan")
        packed = np.zeros(size, np.uint8)
        for begin, part in parts:
            packed[begin : begin + len(part)] = part
        base = int(self._room.data.ptr)
        if self._sent is not None:
            self._cuda.device.wait(self._sent[1])  # over long ago: a whole wave was read since
        self._cuda.device.upload(packed, base)
        self._sent = packed, self._cuda.device.event()
        pool = 0 if self._resident is None else int(self._resident.data.ptr)
        for launch in launches:
            addresses = [pool, *(base + places[id(table)] for table in launch.tables)]
            self._cuda.device.launch(launch.kernel, launch.blocks, addresses, launch.parts)

    def _end(self) -> None:
        """Wait for the GPU, give memory back, and tell."""
        began = perf_counter()
        try:
            self._cuda.device.wait(self._cuda.device.event())
        except Exception as error:  # noqa: BLE001 - as above
            self._give_up(error)
        for held in (self._resident, self._room):
            if held is not None:
                self._cuda.memory.give([held])
        self._resident = self._room = self._sent = None
        with self._lock:
            self.stats.sample_seconds += perf_counter() - began
        self.finished = True
        if self._group_done is not None:
            for group in range(self._groups.count):
                self._group_done(self, group)
        self._done(self)

    def _chunk_done(self, wave: Any, chunk: int) -> None:
        """Count a chunk as sent to the GPU, or as failed."""
        self._finished(1)

    def _decode_chunk(self, wave: Any, chunk: int, data: Any, uses: range) -> None:
        """Decode a chunk into page-locked memory and send it to its place."""
        meta = self.plan.arrays[self._owner[chunk]].meta
        nbytes = meta.chunk_nbytes
        buffer = self._cuda.staging.take(nbytes)
        event, begun = None, False
        try:
            held = buffer[:nbytes].view(meta.native_dtype).reshape(meta.chunk_shape)
            if data is None:  # a remote chunk turned out to be absent
                held[...] = meta.fill_value
                with self._lock:
                    self.stats.absent_chunks += 1
            else:
                assert isinstance(data, bytes | memoryview)
                self._decoders[self._owner[chunk]].decode(data, held)
            target = int(self._resident.data.ptr) + int(self._begins[chunk])
            begun = True
            self._cuda.device.upload(buffer[:nbytes], target)
            event = self._cuda.device.event()
        finally:
            if begun and event is None:  # nothing says when the copy is over
                self._cuda.device.settle()
            self._cuda.staging.give(buffer, event)
