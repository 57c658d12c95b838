"""Which executor cuts: the processor's, or a GPU's where there is one."""

from __future__ import annotations

from typing import Final, Literal, get_args

from napari_decant.engine import CpuExecutor, CpuLimits
from napari_decant.errors import UnsupportedOperation, UsageError

__all__ = ["DEVICES", "Device", "gpu_problem", "make_executor"]

Device = Literal["auto", "cpu", "cuda"]
DEVICES: Final[tuple[Device, ...]] = get_args(Device)


def gpu_problem() -> str | None:
    """Why crops are not cut on a GPU; None if they can be."""
    return "this version cuts with the processor only"


def make_executor(device: str, memory: int, workers: int | None = None) -> CpuExecutor:
    """Make the executor of a device.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` takes the GPU where it can be used, else the processor.
    memory : int
        Bytes for outputs, decoded chunks and working buffers together.
    workers : int, optional
        Threads that decode and resample; one a core by default.

    Raises
    ------
    UnsupportedOperation
        ``"cuda"`` was asked for and cannot be used; the message says why.
    UsageError
        The device is unknown.
    """
    if device not in DEVICES:
        raise UsageError(f"the device {device!r} is unknown; use one of {', '.join(DEVICES)}")
    problem = gpu_problem()
    if device == "cuda" and problem is not None:
        raise UnsupportedOperation(f"no GPU can be used: {problem}; use the device 'cpu' or 'auto'")
    return CpuExecutor(limits=CpuLimits(max_memory_bytes=memory, decode_workers=workers))
