"""The executor that reads and decodes with this machine's cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._budget import ByteGate, MemoryBudget
from napari_decant.engine._convert import check_conversion
from napari_decant.engine._executor import Executor
from napari_decant.engine._limits import CpuLimits
from napari_decant.engine._memory import BufferPool
from napari_decant.engine._plan import Plan, TiledOutput
from napari_decant.engine._reader import FileReader
from napari_decant.engine._run import Run
from napari_decant.engine._tools import Tools
from napari_decant.engine._waves import slot_size, tile_need
from napari_decant.engine._workers import WorkerPool
from napari_decant.progress import CancelToken

__all__ = ["CpuExecutor"]

_HERE_BYTES: Final = 8 << 20  # one chunk has nothing to do side by side
_KNOB: Final = "max_memory_bytes"


class CpuExecutor(Executor):
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
        super().__init__()
        self.reader = reader if reader is not None else FileReader()
        self._owns_reader = reader is None
        self.limits = limits if limits is not None else CpuLimits()
        self.memory = MemoryBudget(self.limits.max_memory_bytes, _KNOB)
        self.buffers = BufferPool(self.limits.max_memory_bytes // 2)
        self._workers = WorkerPool(self.limits.workers, "decode")
        gate = ByteGate(max(1, min(64 << 20, self.limits.max_memory_bytes // 8)))
        self._tools = Tools(self.reader, self._workers, gate, self.buffers)

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
        self._check_shapes(plan, outputs)
        for output, out in zip(plan.outputs, outputs, strict=True):
            if output is not None and out is not None:
                check_conversion(plan.arrays[output.array].meta.native_dtype, out.dtype)
        return Run(plan, outputs, self._tools, slot_bytes, self._counted(done), groups, group_done)

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
        targets, sizes = self._targets(plan, dtype, out)
        made = 0 if out is not None else sum(sizes)
        self.memory.check(made + 1, "the output")
        working, held = self.working_bytes(plan, targets, self.limits.max_memory_bytes - made)
        need = made + working
        self.memory.take(need, "the output with what it takes to make it")
        try:
            shapes = [output.shape for output in plan.outputs if output is not None]
            arrays = list(out if out is not None else map(np.empty, shapes, targets))
            summary = plan.summary
            few = summary.chunks == 1 and not summary.resampled and summary.decoded_bytes <= _HERE_BYTES
            self._wait(lambda done: self.prepare(plan, arrays, held, done), cancel, here=few)
        finally:
            self.memory.give(need)
        return arrays

    def close(self) -> None:
        """Finish running plans and end the threads."""
        if self._owns_reader:
            self.reader.close()
        self._workers.close()
        self.buffers.clear()
