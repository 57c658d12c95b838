"""Reading resolved crops from any source, within one memory limit."""

from __future__ import annotations

import math
import weakref
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.engine import (
    BatchSpec,
    ChunkPlanner,
    MetadataCache,
    Plan,
    PlanLimits,
    ZarrMetadata,
    sample_block,
)
from napari_decant.errors import BudgetExceeded, DeviceUnavailable
from napari_decant.images.crop._device import Computers
from napari_decant.images.crop._source import CropSource
from napari_decant.progress import CancelToken
from napari_decant.spatial import SpatialResolution, part_of

__all__ = ["DEFAULT_MEMORY", "Cutter"]

DEFAULT_MEMORY: Final = 1 << 30
_LEAST_MEMORY: Final = 1 << 20


class Cutter:
    """Cuts resolved crops, or parts of them, out of sources; any thread may use it.

    Parameters
    ----------
    memory : int
        Bytes for one output and what it takes to make it.
    device : {"auto", "cpu", "cuda"}
    workers : int, optional
        Threads that decode and resample; one a core by default.

    Raises
    ------
    DeviceUnavailable
        ``"cuda"`` was asked for and cannot be used.
    """

    def __init__(
        self, memory: int = DEFAULT_MEMORY, *, device: str = "auto", workers: int | None = None
    ) -> None:
        if memory < _LEAST_MEMORY:
            raise BudgetExceeded("memory", _LEAST_MEMORY, memory, "cutting anything out")
        self.memory = memory
        self._computers = Computers(device, memory, workers)
        limits = PlanLimits(max_tile_bytes=max(1, min(256 << 20, memory // 4)))
        self.planner = ChunkPlanner(ZarrMetadata(cache=MetadataCache(64 << 20)), limits)
        self._finish = weakref.finalize(self, _let_go, self._computers, self.planner)

    def plan(self, source: CropSource, resolution: SpatialResolution) -> Plan | None:
        """Find out what a crop reads; None for sources that are read by slices.

        Raises
        ------
        BudgetExceeded
            It is too large for one plan; `cut` it part by part.
        DecantError
            The source's chunks cannot be located.
        """
        return self.planner.plan([resolution]) if source.planned else None

    def device(self, source: CropSource, resolution: SpatialResolution) -> tuple[str, str]:
        """Name of what computes a crop, "CPU" or the GPU's, and why it is that.

        Raises
        ------
        DeviceUnavailable
            ``"cuda"`` was asked for, and the source is read by slices.
        """
        if source.planned:
            return self._computers.choose(resolution.requires_resampling)[1:]
        if self._computers.device == "cuda":
            raise DeviceUnavailable(
                f"{source.name} is no Zarr image, and the GPU cuts only those; use the device 'cpu' or 'auto'"
            )
        return "CPU", "only Zarr images are cut on a GPU"

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why the CPU did what was meant for the GPU, each kind of reason once."""
        return self._computers.troubles

    def cut(
        self,
        source: CropSource,
        resolution: SpatialResolution,
        *,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
        cancel: CancelToken | None = None,
    ) -> NDArray[Any]:
        """Read one crop.

        Parameters
        ----------
        source : CropSource
        resolution : SpatialResolution
            Of this source, or a part of one.
        dtype : dtype, optional
            Of a new output; the source's own if not given.
        out : array, optional
            Written to instead; its memory is the caller's to count.
        cancel : CancelToken, optional

        Raises
        ------
        BudgetExceeded
            It does not fit into ``memory``.
        DecantError
            The source cannot be read.
        Cancelled
            The token was set.
        """
        if cancel is not None:
            cancel.check()
        target = out.dtype if out is not None else self.dtype_of(source, dtype)
        if out is None:
            need = math.prod(resolution.shape) * target.itemsize
            if need > self.memory:
                raise BudgetExceeded("memory", need, self.memory, "this crop")
        if not source.planned:
            self.device(source, resolution)
            made = np.empty(resolution.shape, target) if out is None else out
            self._cut_slices(source, resolution, made, cancel)
            return made
        executor, name, _ = self._computers.choose(resolution.requires_resampling)
        try:
            plan = self.planner.plan([resolution])
            if out is not None:
                executor.run(plan, out=[out], cancel=cancel)
                return out
            return executor.run(plan, dtype=target, cancel=cancel)[0]
        except BudgetExceeded as error:
            if error.knob == "max_device_bytes":
                raise DeviceUnavailable(
                    f"{name} has no room for {error.what}: it needs {error.need:,} bytes of"
                    f" {error.limit:,}; use the device 'cpu' or 'auto'"
                ) from error
            if error.knob == "max_memory_bytes":  # of the executor; ours is the one that the user gives
                raise BudgetExceeded("memory", error.need, error.limit, error.what) from error
            raise

    @staticmethod
    def dtype_of(source: CropSource, dtype: DTypeLike | None) -> np.dtype[Any]:
        """Element type of an output: as asked for, or the source's.

        Raises
        ------
        UsageError
            It is no number.
        """
        return source.dtype if dtype is None else np.dtype(BatchSpec(1, (1,), dtype).dtype)

    def _cut_slices(
        self,
        source: CropSource,
        resolution: SpatialResolution,
        out: NDArray[Any],
        cancel: CancelToken | None,
    ) -> None:
        """Slice what each tile of the output needs, tiles as small as the memory asks."""
        level = source.levels[resolution.level]
        room = max(1, (self.memory - (out.nbytes if out.base is None else 0)) // 3)
        todo = [((0,) * out.ndim, out.shape)]
        while todo:
            if cancel is not None:
                cancel.check()
            start, stop = todo.pop()
            part = part_of(resolution, start, stop)
            need = source.slice_bytes(resolution.level, part.read_bounds_index)
            if need > room:
                halves = _halved(start, stop, source, part)
                if halves is None:
                    raise BudgetExceeded("memory", 3 * need, self.memory, f"reading {source.name}")
                todo += halves
                continue
            block = source.read_slice(resolution.level, part.read_bounds_index)
            sample_block(block, part, level.shape, out[tuple(map(slice, start, stop))])

    def close(self) -> None:
        """End the threads and let go of files; a cutter that goes out of use does so by itself."""
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _let_go(computers: Computers, planner: ChunkPlanner) -> None:
    computers.close()
    planner.metadata.close()


Corner = tuple[int, ...]


def _halved(
    start: Corner, stop: Corner, source: CropSource, part: SpatialResolution
) -> list[tuple[Corner, Corner]] | None:
    """Cut a box in two along the axis whose halves read least; None if it is a single element."""
    best: tuple[int, list[tuple[Corner, Corner]]] | None = None
    for axis, (a, b) in enumerate(zip(start, stop, strict=True)):
        if b - a < 2:
            continue
        middle = (a + b) // 2
        first = (start, (*stop[:axis], middle, *stop[axis + 1 :]))
        second = ((*start[:axis], middle, *start[axis + 1 :]), stop)
        inner = part_of(part, (0,) * len(start), tuple(y - x for x, y in zip(*first, strict=True)))
        size = source.slice_bytes(part.level, inner.read_bounds_index)
        if best is None or size < best[0]:
            best = size, [second, first]
    return best[1] if best is not None else None
