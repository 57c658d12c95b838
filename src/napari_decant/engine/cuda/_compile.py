"""Compiling the kernels for a GPU, with NVRTC."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any, Final

from napari_decant.errors import DeviceUnavailable

__all__ = ["OPTIONS", "compile_kernel", "kernel_source"]

# No fused operations and no flushing of small floats to zero, so that results are those of the CPU.
# (cupy.RawModule always adds -ftz=true behind what it is given, so it is not used.)
OPTIONS: Final = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true")
_built: dict[tuple[Any, ...], tuple[bytes, str]] = {}
_lock = threading.Lock()


@cache
def kernel_source() -> str:
    """Return the text of the kernels."""
    return Path(__file__).with_name("_kernels.cu").read_text(encoding="utf-8")


def compile_kernel(nvrtc: Any, expression: str, capability: int) -> tuple[bytes, str]:
    """Compile one kernel, once per process.

    Parameters
    ----------
    nvrtc : module
        ``cupy.cuda.nvrtc``.
    expression : str
        A kernel with its types, like ``nearest<u16, u16, f32>``.
    capability : int
        Of the GPU: 90 for 9.0.

    Returns
    -------
    (bytes, str)
        A cubin, or PTX for a GPU newer than the compiler, and the kernel's name in it.

    Raises
    ------
    DeviceUnavailable
        The compiler is missing, or knows no such GPU.
    """
    try:
        version = tuple(nvrtc.getVersion())
    except (RuntimeError, ImportError) as error:
        raise DeviceUnavailable(
            f"CUDA's compiler NVRTC was not found ({_first_line(error)});"
            " install napari-decant[cuda12] or napari-decant[cuda13]"
        ) from error
    key = (version, expression, capability)
    with _lock:
        if key not in _built:
            _built[key] = _compile(nvrtc, version, expression, capability)
        return _built[key]


def _compile(nvrtc: Any, version: tuple[int, ...], expression: str, capability: int) -> tuple[bytes, str]:
    known = [int(arch) for arch in nvrtc.getSupportedArchs()]
    exact = capability in known
    older = [arch for arch in known if arch < capability]
    if not exact and not older:
        shown = ".".join(str(part) for part in version)
        raise DeviceUnavailable(
            f"CUDA {shown} makes no code for GPUs of compute capability {capability / 10:.1f};"
            " install cupy for an older CUDA"
        )
    arch = f"sm_{capability}" if exact else f"compute_{max(older)}"
    program = nvrtc.createProgram(kernel_source(), "napari_decant.cu", [], [])
    try:
        nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, (f"--gpu-architecture={arch}", *OPTIONS))
        except RuntimeError as error:
            log = nvrtc.getProgramLog(program)
            raise DeviceUnavailable(f"the kernel {expression} does not compile: {log or error}") from error
        binary = nvrtc.getCUBIN(program) if exact else nvrtc.getPTX(program)
        name = nvrtc.getLoweredName(program, expression)
        return bytes(binary), name if isinstance(name, str) else name.decode()
    finally:
        nvrtc.destroyProgram(program)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
