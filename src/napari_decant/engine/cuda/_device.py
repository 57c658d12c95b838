"""One GPU: the few calls of cupy that the executor makes. Nothing else imports cupy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine.cuda._compile import compile_kernel
from napari_decant.errors import DeviceUnavailable

__all__ = ["BLOCK_THREADS", "CudaDevice", "load_cupy"]

BLOCK_THREADS: Final = 256
_NO_MEMORY: Final = 2  # cudaErrorMemoryAllocation
_OLD_DRIVER: Final = 35  # cudaErrorInsufficientDriver, also where there is no driver at all
_NO_DEVICE: Final = 100  # cudaErrorNoDevice


def load_cupy() -> Any:
    """Import cupy.

    Raises
    ------
    DeviceUnavailable
        It is not installed, is broken, or is not for CUDA.
    """
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise DeviceUnavailable(f"cupy cannot be imported: {error}") from error
        raise DeviceUnavailable(
            "cupy is not installed; install napari-decant[cuda13], or napari-decant[cuda12] for older drivers"
        ) from error
    except ImportError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip(" =-")]
        raise DeviceUnavailable(f"cupy cannot be imported: {lines[0] if lines else error}") from error
    if cupy.cuda.runtime.is_hip:
        raise DeviceUnavailable("this cupy is for AMD GPUs; only NVIDIA ones are used")
    return cupy


class CudaDevice:
    """A GPU with a stream of its own; any thread may use it.

    Parameters
    ----------
    index : int
        Number of the GPU.

    Attributes
    ----------
    name : str
    capability : int
        Compute capability: 90 for 9.0.
    failed : bool
        Whether a call failed for another reason than memory; CUDA then refuses all later ones too.

    Raises
    ------
    DeviceUnavailable
        There is no such GPU, or it cannot be used; the message says why. All methods raise it too.
    """

    def __init__(self, index: int = 0) -> None:
        self._cupy = cupy = load_cupy()
        self._failures = (
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.memory.OutOfMemoryError,
        )
        self.name, self.failed = f"GPU {index}", False
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceUnavailable(self._why(error)) from error
        if index >= count:
            raise DeviceUnavailable(f"there is no GPU {index}; {count or 'none'} found")
        self._device = cupy.cuda.Device(index)
        with self._used():
            properties = cupy.cuda.runtime.getDeviceProperties(index)
            name = properties["name"]
            self.name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            self.capability = 10 * properties["major"] + properties["minor"]
            # work of others, on the default stream, neither waits for ours nor holds it up
            self.stream = cupy.cuda.Stream(non_blocking=True)
        self._kernels: dict[str, Any] = {}

    def _why(self, error: Exception) -> str:
        status = getattr(error, "status", None)
        if isinstance(error, MemoryError) or status == _NO_MEMORY:
            return f"{self.name} has no memory left; end other programs on it, or lower max_device_bytes"
        if status == _OLD_DRIVER:
            version = self._cupy.cuda.runtime.runtimeGetVersion()
            return (
                f"the NVIDIA driver is missing or too old for CUDA {version // 1000}.{version % 1000 // 10}"
                " of this cupy; install a newer driver, or cupy for an older CUDA"
            )
        if status == _NO_DEVICE:
            return "no NVIDIA GPU was found"
        return f"{self.name} failed: {error}"

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Make this the thread's GPU, and turn cupy's errors into ours."""
        try:
            with self._device:
                yield
        except self._failures as error:
            memory = isinstance(error, MemoryError) or getattr(error, "status", None) == _NO_MEMORY
            self.failed = self.failed or not memory
            raise DeviceUnavailable(self._why(error)) from error

    def memory(self) -> tuple[int, int]:
        """Bytes free on the GPU and in all."""
        with self._used():
            free, total = self._device.mem_info
        return int(free), int(total)

    def allocate(self, nbytes: int) -> Any:
        """Allocate device memory; an object with ``ptr`` and ``size`` that frees it when forgotten."""
        with self._used():
            return self._cupy.cuda.Memory(nbytes)

    def array(self, memory: Any, owner: object) -> Any:
        """Return device memory as a flat uint8 array that keeps ``owner`` alive, as all its views do."""
        cuda = self._cupy.cuda
        with self._used():
            lent = cuda.UnownedMemory(memory.ptr, memory.size, owner, self._device.id)
            return self._cupy.ndarray((memory.size,), np.uint8, memptr=cuda.MemoryPointer(lent, 0))

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Allocate page-locked memory of the machine: what is copied from it need not be waited for.

        It is freed when the array is forgotten; cupy's pool would round it up to a power of two and keep it.
        """
        cuda = self._cupy.cuda
        try:
            with self._device:
                pointer = cuda.PinnedMemoryPointer(cuda.PinnedMemory(nbytes), 0)
        except self._failures as error:
            if getattr(error, "status", None) != _NO_MEMORY:
                self.failed = True
                raise DeviceUnavailable(self._why(error)) from error
            raise DeviceUnavailable(
                f"this machine has no {nbytes:,} bytes of page-locked memory left for {self.name};"
                " lower max_memory_bytes, or use the CPU"
            ) from error
        return np.frombuffer(pointer, np.uint8, nbytes)

    def upload(self, source: NDArray[np.uint8], target: int) -> None:
        """Begin to copy bytes to an address on the GPU; pinned ones must stay until an `event` is over."""
        runtime = self._cupy.cuda.runtime
        with self._used():
            kind = runtime.memcpyHostToDevice
            runtime.memcpyAsync(target, source.ctypes.data, source.nbytes, kind, self.stream.ptr)

    def download(self, source: Any, target: NDArray[Any]) -> None:
        """Copy a contiguous device array into a contiguous array of its size, and wait for it."""
        runtime = self._cupy.cuda.runtime
        with self._used():
            kind = runtime.memcpyDeviceToHost
            runtime.memcpyAsync(target.ctypes.data, source.data.ptr, target.nbytes, kind, self.stream.ptr)
            self.stream.synchronize()

    def event(self) -> Any:
        """Mark the end of the work begun so far; see `wait`."""
        with self._used():
            event = self._cupy.cuda.Event(block=True, disable_timing=True)
            event.record(self.stream)
            return event

    def settle(self) -> None:
        """Wait for all work begun so far, whether it succeeds or not."""
        with contextlib.suppress(DeviceUnavailable), self._used():
            self.stream.synchronize()

    def wait(self, event: Any) -> None:
        """Wait until the work before an event is done."""
        with self._used():
            event.synchronize()

    def follow_default_stream(self) -> None:
        """Let later work wait for what is queued on the default stream, where others read our arrays."""
        with self._used():
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record(self._cupy.cuda.Stream.null)
            self.stream.wait_event(event)

    def kernel(self, expression: str) -> Any:
        """Compile and load a kernel, unless it is there already."""
        if expression not in self._kernels:
            binary, name = compile_kernel(self._cupy.cuda.nvrtc, expression, self.capability)
            with self._used():
                module = self._cupy.cuda.function.Module()
                module.load(binary)
                self._kernels[expression] = module.get_function(name)
        return self._kernels[expression]

    def launch(self, expression: str, blocks: int, addresses: Sequence[int], parts: int) -> None:
        """Begin a kernel: addresses of its arrays, then in how many parts each record is worked on."""
        kernel = self.kernel(expression)
        arguments = (*(np.uint64(address) for address in addresses), np.uint32(parts))
        with self._used():
            kernel((blocks,), (BLOCK_THREADS,), arguments, stream=self.stream)
