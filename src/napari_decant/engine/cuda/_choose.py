"""Which executor: the GPU's where there is one that can be used, else the processor's."""

from __future__ import annotations

import logging

from napari_decant.engine._cpu import CpuExecutor
from napari_decant.engine._limits import CpuLimits
from napari_decant.engine._reader import FileReader
from napari_decant.engine.cuda._device import CudaDevice
from napari_decant.engine.cuda._executor import CudaExecutor
from napari_decant.engine.cuda._limits import CudaLimits
from napari_decant.errors import DeviceUnavailable, UsageError

__all__ = ["choose_executor", "cuda_problem"]

_log = logging.getLogger(__name__)


def cuda_problem(device: int = 0) -> str | None:
    """Why a GPU cannot be used, in a sentence; None if it can.

    Parameters
    ----------
    device : int
        Number of the GPU.
    """
    try:
        CudaDevice(device).kernel("gather<u8, u8>")
    except DeviceUnavailable as error:
        return str(error)
    return None


def choose_executor(
    device: str = "auto",
    *,
    reader: FileReader | None = None,
    cpu_limits: CpuLimits | None = None,
    cuda_limits: CudaLimits | None = None,
) -> tuple[CpuExecutor | CudaExecutor, str]:
    """Make the executor of a device.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` takes the GPU where it can be used, and the processor for what the GPU has no room for.
    reader : FileReader, optional
        Shared by both.
    cpu_limits : CpuLimits, optional
    cuda_limits : CudaLimits, optional
        Half of the GPU's free memory, and ``cpu_limits`` for this machine, if not given.

    Returns
    -------
    (CpuExecutor or CudaExecutor, str)
        The executor, and why it is this one: the GPU's name, or what keeps it from being used.

    Raises
    ------
    DeviceUnavailable
        ``"cuda"`` was asked for and cannot be used; the message says why.
    UsageError
        The device is unknown.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"the device {device!r} is unknown; use auto, cpu or cuda")
    cpu = cpu_limits if cpu_limits is not None else CpuLimits()
    if device == "cpu":
        return CpuExecutor(reader, cpu), "the CPU was asked for"
    if cuda_limits is None:
        cuda_limits = CudaLimits(max_memory_bytes=cpu.max_memory_bytes, decode_workers=cpu.decode_workers)
    if device == "cuda":
        made = CudaExecutor(reader, cuda_limits)
        return made, made.device.name
    shared = reader if reader is not None else FileReader()
    try:
        made = CudaExecutor(shared, cuda_limits)
    except DeviceUnavailable as error:
        _log.info("no GPU is used: %s", error)
        return CpuExecutor(reader, cpu), str(error)
    made.fallback = CpuExecutor(shared, cpu)
    if cpu.max_memory_bytes == cuda_limits.max_memory_bytes:
        made.fallback.memory = made.host_memory  # one limit for both, whichever works
    made.owns_reader = reader is None
    return made, made.device.name
