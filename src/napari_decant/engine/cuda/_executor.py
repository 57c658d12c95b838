"""The executor that copies and samples on a GPU."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._budget import ByteGate, MemoryBudget
from napari_decant.engine._cpu import CpuExecutor
from napari_decant.engine._limits import parse_dtype
from napari_decant.engine._memory import BufferPool, shaped
from napari_decant.engine._plan import Plan
from napari_decant.engine._reader import FileReader
from napari_decant.engine._run import Run, Tools
from napari_decant.engine._stats import Stats
from napari_decant.engine._workers import WorkerPool
from napari_decant.engine.cuda._buffers import DeviceBuffers, Staging, round_up
from napari_decant.engine.cuda._device import CudaDevice
from napari_decant.engine.cuda._limits import CudaLimits
from napari_decant.engine.cuda._run import CudaRun, CudaTools
from napari_decant.engine.cuda._tables import tables_nbytes
from napari_decant.engine.cuda._waves import chunk_needs
from napari_decant.errors import BudgetExceeded, DeviceUnavailable, UsageError
from napari_decant.progress import CancelToken

__all__ = ["CudaExecutor"]

_log = logging.getLogger(__name__)
_DEVICE_KNOB: Final = "max_device_bytes"
_HOST_KNOB: Final = "max_memory_bytes"


class CudaExecutor:
    """Executes plans on an NVIDIA GPU, within memory limits; results are those of `CpuExecutor`.

    Bytes are read and decoded by this machine's cores; decoded chunks are copied to the GPU and copied
    or sampled there. Copies and nearest are the same bit for bit, linear within rounding.

    Parameters
    ----------
    reader : FileReader, optional
        Reads stored bytes in threads of its own.
    limits : CudaLimits, optional
    fallback : CpuExecutor, optional
        Runs what the GPU has no room for, or cannot do, in `run`; a warning is logged then.

    Attributes
    ----------
    device : CudaDevice
        ``device.name`` names the GPU.

    Raises
    ------
    DeviceUnavailable
        There is no GPU that can be used, or it has less free memory than the limit; the message says why.

    Notes
    -----
    A `Pipeline` with this executor hands out batches that lie on the GPU: `Batch.__dlpack__` gives them
    to PyTorch, JAX or cupy without a copy. They are complete when handed out. Work on them that is queued
    on another than the default stream must be done before the batch is released.
    """

    def __init__(
        self,
        reader: FileReader | None = None,
        limits: CudaLimits | None = None,
        *,
        fallback: CpuExecutor | None = None,
    ) -> None:
        self.limits = limits if limits is not None else CudaLimits()
        self.device = CudaDevice(self.limits.device)
        free, _ = self.device.memory()
        asked = self.limits.max_device_bytes
        if asked is not None and asked > free:
            raise DeviceUnavailable(
                f"{self.device.name} has {free:,} bytes of memory free but max_device_bytes is {asked:,};"
                " lower it, or end other programs that use the GPU"
            )
        size = asked if asked is not None else max(1, free // 2)
        self.device.kernel("gather<u8, u8>")  # whether there is a compiler shows now, not in the first run
        self.reader = reader if reader is not None else FileReader()
        self.owns_reader = reader is None
        self.fallback = fallback
        self.memory = MemoryBudget(size, _DEVICE_KNOB)
        self.buffers = DeviceBuffers(self.device, size)
        self._host = MemoryBudget(self.limits.max_memory_bytes, _HOST_KNOB)
        self._workers = WorkerPool(self.limits.workers, "decode")
        eighth = max(1, self.limits.max_memory_bytes // 8)
        tools = Tools(self.reader, self._workers, ByteGate(min(64 << 20, eighth)), BufferPool(eighth))
        staging = Staging(self.device, self.limits.max_memory_bytes // 4, 2 * self.limits.workers)
        self._tools = CudaTools(tools, self.device, staging, self.buffers)
        self._lock = threading.Lock()
        self._stats = Stats()

    def stats(self) -> Stats:
        """Return what all finished plans took, together; sampling only as far as it was waited for."""
        total = Stats()
        with self._lock:
            total.add(self._stats)
        return total

    def working_bytes(
        self, plan: Plan, targets: Sequence[np.dtype[Any] | None], room: int | None = None
    ) -> tuple[int, int]:
        """GPU memory that executing a plan takes beside its outputs.

        Parameters
        ----------
        plan : Plan
        targets : sequence of (dtype or None)
            Element type of each output.
        room : int, optional
            What there is; chunks come in several waves to keep to it. By default the memory limit.

        Returns
        -------
        (int, int)
            Bytes in all, and the part of them that holds decoded chunks.

        Raises
        ------
        BudgetExceeded
            Not even the chunks under one tile fit on the GPU, or decoding one does not fit into
            this machine's share.
        """
        self._host.check(self._host_bytes(plan), "reading, decoding and staging")
        live = [target is not None for target in targets]
        tables = round_up(tables_nbytes(plan, live))
        least, wanted = chunk_needs(plan, live)
        self.memory.check(tables + least, "what lies under one tile, with its tables,")
        left = (self.memory.limit if room is None else room) - tables
        held = max(least, min(round_up(wanted) if wanted else 0, left))
        return tables + held, held

    def _host_bytes(self, plan: Plan) -> int:
        """Memory of the machine that a plan takes beside its results."""
        chunk = max((array.meta.chunk_nbytes for array in plan.arrays), default=0)
        if 4 * round_up(chunk) > self._host.limit:
            self._host.check(4 * round_up(chunk), "staging one decoded chunk")
        reads = min(self._tools.gate.limit, max(plan.summary.stored_bytes, 1))
        staged = min(self._tools.staging.limit, 2 * self.limits.workers * round_up(chunk))
        return self.limits.workers * chunk + reads + staged

    def prepare(
        self,
        plan: Plan,
        outputs: Sequence[Any],
        slot_bytes: int,
        done: Callable[[Run], None],
        groups: Sequence[int] | None = None,
        group_done: Callable[[Run, int], None] | None = None,
    ) -> Run:
        """Prepare a plan whose outputs lie on the GPU; memory is the caller's to promise. See `CudaRun`.

        Raises
        ------
        UsageError
            An output has another shape than planned.
        UnsupportedOperation
            An output's element type cannot be made.
        """
        for output, out in zip(plan.outputs, outputs, strict=True):
            if output is not None and out is not None and tuple(out.shape) != output.shape:
                raise UsageError(f"an output of shape {out.shape} was given where {output.shape} is planned")

        def count(run: Run) -> None:
            with self._lock:
                self._stats.add(run.stats)
            done(run)

        return CudaRun(plan, outputs, self._tools, slot_bytes, count, groups, group_done)

    def run(
        self,
        plan: Plan,
        *,
        dtype: DTypeLike | None = None,
        out: Sequence[NDArray[Any]] | None = None,
        cancel: CancelToken | None = None,
    ) -> list[NDArray[Any]]:
        """Execute a plan, wait for it, and fetch the results; see `CpuExecutor.run`, also for errors.

        Raises
        ------
        DeviceUnavailable
            The GPU has no memory left, or failed.
        """
        try:
            return self._run(plan, dtype, out, cancel)
        except (DeviceUnavailable, BudgetExceeded) as error:
            if self.fallback is None or (isinstance(error, BudgetExceeded) and error.knob != _DEVICE_KNOB):
                raise
            _log.warning("the CPU does it instead: %s", error)
            return self.fallback.run(plan, dtype=dtype, out=out, cancel=cancel)

    def _run(
        self,
        plan: Plan,
        dtype: DTypeLike | None,
        out: Sequence[NDArray[Any]] | None,
        cancel: CancelToken | None,
    ) -> list[NDArray[Any]]:
        targets = self._targets(plan, dtype, out)
        shapes = [output.shape for output in plan.outputs if output is not None]
        sizes = [math.prod(s) * t.itemsize for s, t in zip(shapes, targets, strict=True)]
        made = 0 if out is not None else sum(sizes)
        host = made + self._host_bytes(plan)
        self._host.take(host, "the output with what it takes to make it")
        try:
            arrays = list(out if out is not None else map(np.empty, shapes, targets))
            for array, shape in zip(arrays, shapes, strict=True):
                if array.shape != shape:
                    raise UsageError(f"an output of shape {array.shape} was given where {shape} is planned")
            with _Held(self, plan, targets, sizes) as held:
                held.wait(cancel)
                for array, result in zip(arrays, held.arrays, strict=True):
                    self._fetch(result, array)
        finally:
            self._host.give(host)
        return arrays

    def run_on_device(
        self, plan: Plan, *, dtype: DTypeLike | None = None, cancel: CancelToken | None = None
    ) -> list[Any]:
        """Execute a plan and wait for it, as `run` does, but leave the results on the GPU.

        Returns
        -------
        list of cupy.ndarray
            One per output; their memory is no longer counted.
        """
        targets = self._targets(plan, dtype, None)
        shapes = [output.shape for output in plan.outputs if output is not None]
        sizes = [math.prod(s) * t.itemsize for s, t in zip(shapes, targets, strict=True)]
        with _Held(self, plan, targets, sizes) as held:
            held.wait(cancel)
            return list(held.arrays)

    @staticmethod
    def _targets(
        plan: Plan, dtype: DTypeLike | None, out: Sequence[NDArray[Any]] | None
    ) -> list[np.dtype[Any]]:
        for error in plan.errors:
            if error is not None:
                raise error
        if out is not None:
            return [array.dtype.newbyteorder("=") for array in out]
        used = [plan.arrays[output.array].meta for output in plan.outputs if output is not None]
        return [meta.native_dtype if dtype is None else parse_dtype(dtype) for meta in used]

    def _fetch(self, result: Any, array: NDArray[Any]) -> None:
        """Copy a result from the GPU."""
        if not array.size:
            return
        if array.flags.c_contiguous and array.dtype.isnative:
            self.device.download(result, array)
            return
        flat = np.empty(array.shape, array.dtype.newbyteorder("="))
        self.device.download(result, flat)
        array[...] = flat

    def close(self) -> None:
        """Finish running plans, end the threads and free memory that nobody uses."""
        if self.owns_reader:
            self.reader.close()
        self._workers.close()
        self._tools.buffers.clear()
        self._tools.staging.clear()
        self.buffers.clear()
        if self.fallback is not None:
            self.fallback.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Held:
    """Promised GPU memory with the outputs of one plan in it."""

    def __init__(
        self, executor: CudaExecutor, plan: Plan, targets: list[np.dtype[Any]], sizes: list[int]
    ) -> None:
        self._executor, self._plan = executor, plan
        memory = executor.memory
        made = sum(sizes)
        memory.check(made + 1, "the output")
        working, self._slots = executor.working_bytes(plan, targets, memory.limit - made)
        self._need = made + working
        self._targets, self._sizes = targets, sizes
        self._buffers: list[Any] = []
        self.arrays: list[Any] = []

    def __enter__(self) -> Self:
        self._executor.memory.take(self._need, "the output with what it takes to make it")
        try:
            for output, target, size in zip(self._plan.outputs, self._targets, self._sizes, strict=True):
                assert output is not None
                self._buffers.append(self._executor.buffers.take(size))
                self.arrays.append(shaped(self._buffers[-1], output.shape, target))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def wait(self, cancel: CancelToken | None) -> None:
        """Execute the plan."""
        finished = threading.Event()
        run = self._executor.prepare(self._plan, self.arrays, self._slots, lambda _: finished.set())
        run.start()
        while not finished.wait(None if cancel is None else 0.05):
            if cancel is not None and cancel.cancelled:
                run.cancel()
        if cancel is not None:
            cancel.check()
        for error in run.errors:
            if error is not None:
                raise error

    def __exit__(self, *_: object) -> None:
        self.arrays = []
        while self._buffers:
            self._executor.buffers.give([self._buffers.pop()])
        self._executor.memory.give(self._need)
