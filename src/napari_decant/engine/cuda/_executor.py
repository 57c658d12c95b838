"""The executor that copies and samples on a GPU."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._budget import ByteGate, MemoryBudget
from napari_decant.engine._cpu import CpuExecutor
from napari_decant.engine._executor import Executor
from napari_decant.engine._memory import BufferPool, shaped
from napari_decant.engine._plan import Plan
from napari_decant.engine._reader import FileReader
from napari_decant.engine._run import Run, Tools
from napari_decant.engine._workers import WorkerPool
from napari_decant.engine.cuda._buffers import DeviceBuffers, Staging, round_up
from napari_decant.engine.cuda._device import CudaDevice
from napari_decant.engine.cuda._limits import CudaLimits
from napari_decant.engine.cuda._run import CudaRun, CudaTools
from napari_decant.engine.cuda._tables import tables_nbytes
from napari_decant.engine.cuda._waves import chunk_needs
from napari_decant.errors import BudgetExceeded, DeviceUnavailable
from napari_decant.progress import CancelToken

__all__ = ["CudaExecutor"]

_log = logging.getLogger(__name__)
_DEVICE_KNOB: Final = "max_device_bytes"
_HOST_KNOB: Final = "max_memory_bytes"


class CudaExecutor(Executor):
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
    host_memory : MemoryBudget
        Memory of the machine, as ``max_memory_bytes`` limits it.

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
        super().__init__()
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
        self._troubles: dict[str, str] = {}
        self.memory = MemoryBudget(size, _DEVICE_KNOB)
        self.buffers = DeviceBuffers(self.device, size)
        self.host_memory = MemoryBudget(self.limits.max_memory_bytes, _HOST_KNOB)
        self._workers = WorkerPool(self.limits.workers, "decode")
        eighth = max(1, self.limits.max_memory_bytes // 8)
        tools = Tools(self.reader, self._workers, ByteGate(min(64 << 20, eighth)), BufferPool(eighth))
        staging = Staging(self.device, self.limits.max_memory_bytes // 4, 2 * self.limits.workers)
        self._tools = CudaTools(tools, self.device, staging, self.buffers)

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
        self.host_memory.check(self._host_bytes(plan), "reading, decoding and staging")
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
        if 4 * round_up(chunk) > self.host_memory.limit:
            self.host_memory.check(4 * round_up(chunk), "staging one decoded chunk")
        reads = min(self._tools.gate.limit, max(plan.summary.stored_bytes, 1))
        staged = min(self._tools.staging.limit, 2 * self.limits.workers * round_up(chunk))
        tables = 2 * tables_nbytes(plan, [output is not None for output in plan.outputs])  # and packed ones
        return self.limits.workers * chunk + reads + staged + tables

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
        self._check_shapes(plan, outputs)
        return CudaRun(plan, outputs, self._tools, slot_bytes, self._counted(done), groups, group_done)

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
        if self.fallback is not None and self.device.failed:
            return self.fallback.run(plan, dtype=dtype, out=out, cancel=cancel)
        try:
            return self._run(plan, dtype, out, cancel)
        except (DeviceUnavailable, BudgetExceeded) as error:
            if self.fallback is None:
                raise
            self._tell(error)
        return self.fallback.run(plan, dtype=dtype, out=out, cancel=cancel)

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why ``fallback`` ran what was meant for the GPU, each kind of reason once."""
        with self._lock:
            return tuple(self._troubles.values())

    def _tell(self, error: DeviceUnavailable | BudgetExceeded) -> None:
        """Log why the CPU does it; large crops come in thousands of plans, so once for each reason."""
        kind = error.what if isinstance(error, BudgetExceeded) else str(error)
        with self._lock:
            known = kind in self._troubles
            self._troubles[kind] = f"the CPU does it instead: {error}"
        if not known:
            _log.warning("the CPU does it instead: %s", error)

    def _run(
        self,
        plan: Plan,
        dtype: DTypeLike | None,
        out: Sequence[NDArray[Any]] | None,
        cancel: CancelToken | None,
    ) -> list[NDArray[Any]]:
        targets, sizes = self._targets(plan, dtype, out)
        host = (0 if out is not None else sum(sizes)) + self._host_bytes(plan)
        self.host_memory.take(host, "the output with what it takes to make it")
        try:
            if out is not None:
                self._check_shapes(plan, out)
            with _Held(self, plan, [target.newbyteorder("=") for target in targets], sizes) as held:
                held.wait(cancel)
                arrays = (
                    list(out)
                    if out is not None
                    else [np.empty(result.shape, result.dtype) for result in held.arrays]
                )
                for array, result in zip(arrays, held.arrays, strict=True):
                    self._fetch(result, array)
        finally:
            self.host_memory.give(host)
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
        targets, sizes = self._targets(plan, dtype, None)
        with _Held(self, plan, targets, sizes) as held:
            held.wait(cancel)
            return list(held.arrays)

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

    def __enter__(self) -> _Held:
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
        executor = self._executor
        executor._wait(lambda done: executor.prepare(self._plan, self.arrays, self._slots, done), cancel)

    def __exit__(self, *_: object) -> None:
        self.arrays = []
        while self._buffers:
            self._executor.buffers.give([self._buffers.pop()])
        self._executor.memory.give(self._need)
