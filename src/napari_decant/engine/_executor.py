"""What a pipeline asks of an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine._budget import MemoryBudget
from napari_decant.engine._plan import Plan
from napari_decant.engine._run import Run
from napari_decant.engine._stats import Stats
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


class Executor(Protocol):
    """Executes plans: `CpuExecutor`, or `CudaExecutor` of ``engine.cuda``."""

    @property
    def memory(self) -> MemoryBudget:
        """Memory for outputs and what it takes to make them, where the outputs lie."""
        ...

    @property
    def buffers(self) -> Buffers:
        """Buffers for outputs."""
        ...

    def stats(self) -> Stats:
        """Return what all finished plans took, together."""
        ...

    def working_bytes(
        self, plan: Plan, targets: Sequence[np.dtype[Any] | None], room: int | None = None
    ) -> tuple[int, int]:
        """Bytes of ``memory`` that a plan takes beside its outputs, and those that hold decoded chunks."""
        ...

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
        ...

    def run(
        self,
        plan: Plan,
        *,
        dtype: DTypeLike | None = None,
        out: Sequence[NDArray[Any]] | None = None,
        cancel: CancelToken | None = None,
    ) -> list[NDArray[Any]]:
        """Execute a plan and wait for it: one array in this machine's memory per output."""
        ...

    def close(self) -> None:
        """Finish running plans and end the threads."""
        ...
