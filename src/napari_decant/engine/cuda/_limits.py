"""What the CUDA executor may use."""

from __future__ import annotations

from dataclasses import dataclass

from napari_decant.engine._limits import CpuLimits, _positive
from napari_decant.errors import UsageError

__all__ = ["CudaLimits"]


@dataclass(frozen=True, slots=True)
class CudaLimits:
    """What an executor may use of a GPU, and of the machine it is in.

    Parameters
    ----------
    max_device_bytes : int, optional
        GPU memory: outputs not yet released, decoded chunks and tables, together. Half of what is
        free when the executor is made, if not given.
    max_memory_bytes : int
        Memory of the machine: arrays that `CudaExecutor.run` returns, stored bytes on their way, page-locked
        staging and working buffers, together.
    decode_workers : int, optional
        Threads that decode; the machine's cores if not given.
    device : int
        Number of the GPU.
    """

    max_device_bytes: int | None = None
    max_memory_bytes: int = 2 << 30
    decode_workers: int | None = None
    device: int = 0

    def __post_init__(self) -> None:
        _positive(
            "CudaLimits",
            max_device_bytes=1 if self.max_device_bytes is None else self.max_device_bytes,
            max_memory_bytes=self.max_memory_bytes,
            decode_workers=self.workers,
        )
        if self.device < 0:
            raise UsageError(f"CudaLimits.device is {self.device}; GPUs are numbered from 0")

    @property
    def workers(self) -> int:
        """Decoding threads."""
        return CpuLimits(decode_workers=self.decode_workers).workers if self.decode_workers != 0 else 0
