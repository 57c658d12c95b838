"""What executors share, and what a pipeline asks of them."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._budget import MemoryBudget
from napari_decant.engine._limits import parse_dtype
from napari_decant.engine._plan import Plan
from napari_decant.engine._run import Run
from napari_decant.engine._stats import Stats
from napari_decant.errors import UsageError
from napari_decant.progress import CancelToken

__all__ = ["Buffers", "Executor"]


class Buffers(Protocol):
    """Byte buffers, in the memory where an executor's outputs lie, that come back."""

    def take(self, nbytes: int) -> Any:
        """Return a flat uint8 array of at least so many bytes."""
        ...

    def give(self, holder: list[Any]) -> None:
        """Take back the one buffer of a list."""
        ...

    def clear(self) -> None:
        """Free what nobody uses."""
        ...


class Executor(ABC):
    """Executes plans: `CpuExecutor`, or `CudaExecutor` of ``engine.cuda``.

    Attributes
    ----------
    memory : MemoryBudget
        Memory for outputs and what it takes to make them, where the outputs lie.
    buffers : Buffers
        Buffers for outputs.
    """

    memory: MemoryBudget
    buffers: Buffers

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = Stats()

    def stats(self) -> Stats:
        """Return what all finished plans took, together."""
        total = Stats()
        with self._lock:
            total.add(self._stats)
        return total

    @abstractmethod
    def working_bytes(
        self, plan: Plan, targets: Sequence[np.dtype[Any] | None], room: int | None = None
    ) -> tuple[int, int]:
        """Bytes of ``memory`` that a plan takes beside its outputs, and those that hold decoded chunks."""

    @abstractmethod
    def prepare(
        self,
        plan: Plan,
        outputs: Sequence[Any],
        slot_bytes: int,
        done: Callable[[Run], None],
        groups: Sequence[int] | None = None,
        group_done: Callable[[Run, int], None] | None = None,
    ) -> Run:
        """Prepare a plan; `Run.start` begins it."""

    @abstractmethod
    def run(
        self,
        plan: Plan,
        *,
        dtype: DTypeLike | None = None,
        out: Sequence[NDArray[Any]] | None = None,
        cancel: CancelToken | None = None,
    ) -> list[NDArray[Any]]:
        """Execute a plan and wait for it: one array in this machine's memory per output."""

    @abstractmethod
    def close(self) -> None:
        """Finish running plans and end the threads."""

    def _counted(self, done: Callable[[Run], None]) -> Callable[[Run], None]:
        """Add what a run took to the counts before it is told to be done."""

        def count(run: Run) -> None:
            with self._lock:
                self._stats.add(run.stats)
            done(run)

        return count

    @staticmethod
    def _check_shapes(plan: Plan, outputs: Sequence[Any]) -> None:
        for output, out in zip(plan.outputs, outputs, strict=True):
            if output is not None and out is not None and tuple(out.shape) != output.shape:
                raise UsageError(f"an output of shape {out.shape} was given where {output.shape} is planned")

    @staticmethod
    def _targets(
        plan: Plan, dtype: DTypeLike | None, out: Sequence[NDArray[Any]] | None
    ) -> tuple[list[np.dtype[Any]], list[int]]:
        """Element type and bytes of every output; raises what planning found wrong."""
        for error in plan.errors:
            if error is not None:
                raise error
        used = [output for output in plan.outputs if output is not None]
        if out is not None:
            types = [array.dtype for array in out]
        elif dtype is not None:
            types = [parse_dtype(dtype)] * len(used)
        else:
            types = [plan.arrays[output.array].meta.native_dtype for output in used]
        return types, [math.prod(o.shape) * t.itemsize for o, t in zip(used, types, strict=True)]

    @staticmethod
    def _wait(
        prepare: Callable[[Callable[[Run], None]], Run], cancel: CancelToken | None, *, here: bool = False
    ) -> None:
        """Execute a plan that ``prepare`` makes ready, and raise its first error.

        Parameters
        ----------
        prepare : callable
            Given what to call when it is done.
        cancel : CancelToken or None
        here : bool
            In this thread.
        """
        finished = threading.Event()
        run = prepare(lambda _: finished.set())
        if not here:
            run.start()
        else:
            if cancel is not None:
                cancel.check()
            run.run_here()
        while not finished.wait(None if cancel is None else 0.05):
            if cancel is not None and cancel.cancelled:
                run.cancel()
        if cancel is not None:
            cancel.check()
        for error in run.errors:
            if error is not None:
                raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
