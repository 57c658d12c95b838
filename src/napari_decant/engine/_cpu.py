"""The executor that reads and decodes with this machine's cores."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._budget import ByteGate, MemoryBudget
from napari_decant.engine._convert import check_conversion
from napari_decant.engine._limits import CpuLimits, parse_dtype
from napari_decant.engine._memory import BufferPool
from napari_decant.engine._plan import CopyOutput, Plan, TiledOutput
from napari_decant.engine._reader import FileReader
from napari_decant.engine._run import Run
from napari_decant.engine._stats import Stats
from napari_decant.engine._tools import Tools
from napari_decant.engine._waves import slot_size, tile_need
from napari_decant.engine._workers import WorkerPool
from napari_decant.errors import UsageError
from napari_decant.progress import CancelToken

__all__ = ["CpuExecutor"]

_HERE_BYTES: Final = 384 << 10
_KNOB: Final = "max_memory_bytes"


class CpuExecutor:
    """Executes plans in threads, within a memory limit.

    Parameters
    ----------
    reader : FileReader, optional
        Reads stored bytes in threads of its own.
    limits : CpuLimits, optional

    Notes
    -----
    Threads start with the first work. `close`, or leaving a ``with`` block, ends them.
    """

    def __init__(self, reader: FileReader | None = None, limits: CpuLimits | None = None) -> None:
        self.reader = reader if reader is not None else FileReader()
        self._owns_reader = reader is None
        self.limits = limits if limits is not None else CpuLimits()
        self.memory = MemoryBudget(self.limits.max_memory_bytes, _KNOB)
        self.buffers = BufferPool(self.limits.max_memory_bytes // 2)
        self._workers = WorkerPool(self.limits.workers, "decode")
        gate = ByteGate(max(1, min(64 << 20, self.limits.max_memory_bytes // 8)))
        self._tools = Tools(self.reader, self._workers, gate, self.buffers)
        self._lock = threading.Lock()
        self._stats = Stats()

    def stats(self) -> Stats:
        """Return what all finished plans took, together."""
        total = Stats()
        with self._lock:
            total.add(self._stats)
        return total

    def working_bytes(
        self, plan: Plan, targets: Sequence[np.dtype[Any] | None], room: int | None = None
    ) -> tuple[int, int]:
        """Memory that executing a plan takes beside its outputs.

        Parameters
        ----------
        plan : Plan
        targets : sequence of (dtype or None)
            Element type of each output.
        room : int, optional
            What there is; tiles are sampled in several waves to keep to it. By default the memory limit.

        Returns
        -------
        (int, int)
            Bytes in all, and the part of them that holds decoded chunks under tiles.

        Raises
        ------
        BudgetExceeded
            Not even the chunks under one tile fit.
        """
        chunk = max((array.meta.chunk_nbytes for array in plan.arrays), default=0)
        reads = min(self._tools.gate.limit, max(plan.summary.stored_bytes, 1))
        fixed = self.limits.workers * chunk + reads
        if not plan.summary.resampled:
            self.memory.check(fixed, "decoding and reading ahead")
            return fixed, 0
        slot = slot_size(plan, targets)
        under = np.concatenate([o.tile_chunks for o in plan.outputs if isinstance(o, TiledOutput)])
        left = (self.limits.max_memory_bytes if room is None else room) - fixed
        least, wanted = slot * tile_need(plan), slot * len(np.unique(under))
        self.memory.check(fixed + least, "decoding what lies under one tile")
        held = max(least, min(wanted, left))
        return fixed + held, held

    def prepare(
        self,
        plan: Plan,
        outputs: Sequence[NDArray[Any] | None],
        slot_bytes: int,
        done: Callable[[Run], None],
        groups: Sequence[int] | None = None,
        group_done: Callable[[Run, int], None] | None = None,
    ) -> Run:
        """Prepare a plan; memory is the caller's to promise. See `Run`, whose ``start`` begins it."""
        for output, out in zip(plan.outputs, outputs, strict=True):
            if output is not None and out is not None:
                if out.shape != output.shape:
                    raise UsageError(
                        f"an output of shape {out.shape} was given where {output.shape} is planned"
                    )
                check_conversion(plan.arrays[output.array].meta.native_dtype, out.dtype)

        def count(run: Run) -> None:
            with self._lock:
                self._stats.add(run.stats)
            done(run)

        return Run(plan, outputs, self._tools, slot_bytes, count, groups, group_done)

    def run(
        self,
        plan: Plan,
        *,
        dtype: DTypeLike | None = None,
        out: Sequence[NDArray[Any]] | None = None,
        cancel: CancelToken | None = None,
    ) -> list[NDArray[Any]]:
        """Execute a plan and wait for it.

        Parameters
        ----------
        plan : Plan
        dtype : dtype, optional
            Element type of the outputs; each source's own if not given.
        out : sequence of array, optional
            Written to, of any element type and layout; made if not given.
        cancel : CancelToken, optional

        Returns
        -------
        list of array
            One per output.

        Raises
        ------
        BudgetExceeded
            The memory limit is too small.
        DecantError
            The first error of any output: `FormatError`, `IntegrityError`, `StorageError`, `SourceChanged`.
        Cancelled
            The token was cancelled.
        """
        for error in plan.errors:
            if error is not None:
                raise error
        outputs = [output for output in plan.outputs if output is not None]
        if out is not None:
            targets, made = [array.dtype for array in out], 0
        else:
            targets = [self._own_dtype(plan, output, dtype) for output in outputs]
            made = sum(
                math.prod(output.shape) * target.itemsize
                for output, target in zip(outputs, targets, strict=True)
            )
        self.memory.check(made + 1, "the output")
        working, held = self.working_bytes(plan, targets, self.limits.max_memory_bytes - made)
        need = made + working
        self.memory.take(need, "the output with what it takes to make it")
        try:
            arrays = (
                list(out)
                if out is not None
                else [np.empty(output.shape, target) for output, target in zip(outputs, targets, strict=True)]
            )
            self._wait(plan, arrays, held, cancel)
        finally:
            self.memory.give(need)
        return arrays

    @staticmethod
    def _own_dtype(plan: Plan, output: CopyOutput | TiledOutput, dtype: DTypeLike | None) -> np.dtype[Any]:
        return plan.arrays[output.array].meta.native_dtype if dtype is None else parse_dtype(dtype)

    def _wait(self, plan: Plan, arrays: list[NDArray[Any]], held: int, cancel: CancelToken | None) -> None:
        finished = threading.Event()
        run = self.prepare(plan, arrays, held, lambda _: finished.set())
        if (
            plan.summary.chunks == 1
            and not plan.summary.resampled
            and plan.summary.decoded_bytes <= _HERE_BYTES
        ):
            if cancel is not None:
                cancel.check()
            run.run_here()
        else:
            run.start()
        while not finished.wait(None if cancel is None else 0.05):
            if cancel is not None and cancel.cancelled:
                run.cancel()
        if cancel is not None:
            cancel.check()
        for error in run.errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """Finish running plans and end the threads."""
        if self._owns_reader:
            self.reader.close()
        self._workers.close()
        self.buffers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
