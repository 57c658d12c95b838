"""What computes crops: the processor, or a GPU where there is one."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, get_args

from napari_decant.engine import CpuExecutor, CpuLimits
from napari_decant.errors import DeviceUnavailable, UsageError
from napari_decant.images._write_zarr_plan import worker_count

if TYPE_CHECKING:
    from napari_decant.engine.cuda import CudaExecutor

__all__ = ["DEVICES", "Computers", "Device", "gpu_problem"]

Device = Literal["auto", "cpu", "cuda"]
DEVICES: Final[tuple[Device, ...]] = get_args(Device)


@cache
def gpu_problem() -> str | None:
    """Why crops are not cut on a GPU; None if they can be. Found out once, which may take seconds."""
    from napari_decant.engine.cuda import cuda_problem

    return cuda_problem()


class Computers:
    """The executors of a device, made when they are needed; any thread may use them.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` takes the GPU, where it can be used, for what is resampled, and the processor for the rest
        and for what the GPU has no room for. Voxels that are only copied would go there and back for nothing.
    memory : int
        Bytes of the machine for outputs, decoded chunks and working buffers together.
    workers : int, optional
        Threads that decode and resample; one a core by default.

    Raises
    ------
    DeviceUnavailable
        ``"cuda"`` was asked for and cannot be used; the message says why.
    UsageError
        The device is unknown.
    """

    def __init__(self, device: str, memory: int, workers: int | None = None) -> None:
        if device not in DEVICES:
            raise UsageError(f"the device {device!r} is unknown; use one of {', '.join(DEVICES)}")
        self.device = device
        self._limits = CpuLimits(max_memory_bytes=memory, decode_workers=worker_count(workers))
        self._lock = threading.Lock()
        self._cpu: CpuExecutor | None = None
        self._gpu: CudaExecutor | None = None
        self._reason = "the CPU was asked for" if device == "cpu" else ""
        if device == "cuda":
            self._choose()

    def choose(self, resampled: bool) -> tuple[CpuExecutor | CudaExecutor, str, str]:
        """Return the executor of a crop, its name, and why it is that one.

        Parameters
        ----------
        resampled : bool
            Whether voxels are resampled, not copied.
        """
        with self._lock:
            if self.device == "auto" and not resampled:
                # the GPU's fallback, if there is one already: both keep to one limit then
                mine = self._gpu.fallback if self._gpu is not None else None
                return mine or self._processor(), "CPU", "voxels are copied, which a GPU does no faster"
            if self.device != "cpu" and not self._reason:
                self._choose()
            if self._gpu is not None:
                asked = "the GPU was asked for" if self.device == "cuda" else "a GPU is there"
                return self._gpu, self._gpu.device.name, asked
            return self._processor(), "CPU", self._reason

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why the CPU did what was meant for the GPU."""
        return self._gpu.troubles if self._gpu is not None else ()

    def _choose(self) -> None:
        from napari_decant.engine.cuda import CudaExecutor, choose_executor

        try:
            made, self._reason = choose_executor(self.device, cpu_limits=self._limits)
        except DeviceUnavailable as error:
            raise DeviceUnavailable(
                f"no GPU can be used: {error}; or use the device 'cpu' or 'auto'"
            ) from error
        if isinstance(made, CudaExecutor):
            self._gpu = made
            if made.fallback is not None and self._cpu is not None:
                made.fallback.memory = made.host_memory = self._cpu.memory
        else:
            made.close()
            self._reason = f"no GPU can be used: {self._reason}"

    def _processor(self) -> CpuExecutor:
        if self._cpu is None:
            self._cpu = CpuExecutor(limits=self._limits)
        return self._cpu

    def close(self) -> None:
        """End the threads."""
        for made in (self._gpu, self._cpu):
            if made is not None:
                made.close()
