"""A stand-in for the few calls of cupy that are used: a GPU made of this machine's memory.

It keeps what is hard about a real one: work is queued and done later in another thread, page-locked
memory is read only then, device memory is separate, limited, guarded at both ends and full of garbage,
and arrays on it do not turn into numpy arrays by themselves. Kernels are the product's own source,
compiled by the machine's C++ compiler and called once per thread of the grid.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-w"]
GUARD = 64

BEFORE = """
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#define __global__
#define __device__
struct Three { unsigned x, y, z; };
static thread_local Three blockIdx, threadIdx, blockDim;
static inline long long __double_as_longlong(double v) { long long r; std::memcpy(&r, &v, 8); return r; }
static inline double __longlong_as_double(long long v) { double r; std::memcpy(&r, &v, 8); return r; }
using std::floor;
using std::rint;
"""
AFTER = """
template <class... P, std::size_t... I>
static void every_thread(void (*kernel)(P...), unsigned blocks, unsigned threads, const u64 *given,
                         std::index_sequence<I...>)
{
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
            kernel((P)given[I]...);
        }
    }
}
template <class... P>
static void start(void (*kernel)(P...), unsigned blocks, unsigned threads, const u64 *given)
{
    every_thread(kernel, blocks, threads, given, std::index_sequence_for<P...>{});
}
"""
ENTRY = """
extern "C" void {name}(unsigned blocks, unsigned threads, const u64 *given)
{{
    start(&{expression}, blocks, threads, given);
}}
"""


class HostCompiler:
    """Compiles kernels for this machine; several at once where they are known before."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.built: dict[tuple[str, str], tuple[Path, str]] = {}
        self.expressions: dict[str, str] = {}

    def build(self, source, expressions, extra=""):
        names = {e: "k" + hashlib.sha1(e.encode()).hexdigest() for e in expressions}
        text = BEFORE + source + AFTER + extra
        text += "".join(ENTRY.format(name=names[e], expression=e) for e in expressions)
        stem = self.folder / hashlib.sha1(text.encode()).hexdigest()
        stem.with_suffix(".cpp").write_text(text)
        library = stem.with_suffix(".so")
        command = [COMPILER, *FLAGS, "-o", str(library), str(stem.with_suffix(".cpp"))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        for expression in expressions:
            self.built[source, expression] = library, names[expression]
            self.expressions[names[expression]] = expression
        return library


class RuntimeFailure(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class OutOfMemoryError(MemoryError):
    pass


class DriverFailure(RuntimeError):
    pass


class Gpu:
    """What the fake module's parts share; tests look at it and break it."""

    def __init__(self, compiler, memory, delay):
        self.compiler, self.total, self.delay = compiler, memory, delay
        self.count = 1
        self.status = 0  # what asking for devices answers
        self.used = self.peak = self.pinned = 0
        self.lockable, self.pinned_peak = 1 << 40, 0
        self.blocks: dict[int, int] = {}
        self.locked: dict[int, int] = {}
        self.streams: dict[int, Stream] = {}
        self.launches: list[str] = []
        self.options: list[tuple] = []
        self.uploads = 0
        self.broken = False
        self.lock = threading.RLock()  # memory may be collected anywhere

    def inside(self, ranges, address, n):
        return any(begin <= address and address + n <= begin + size for begin, size in list(ranges.items()))


def module(compiler, *, memory=64 << 20, delay=0.0):
    """Return a module to put into ``sys.modules["cupy"]``; its ``gpu`` is for tests."""
    gpu = Gpu(compiler, memory, delay)

    class Memory:
        def __init__(self, size):
            with gpu.lock:
                if gpu.used + size > gpu.total:
                    raise RuntimeFailure(2, "cudaErrorMemoryAllocation: out of memory")
                gpu.used += size
                gpu.peak = max(gpu.peak, gpu.used)
            self.size = size
            self.raw = np.full(size + 2 * GUARD, 0xA5, np.uint8)
            self.raw[GUARD : GUARD + size] = 0xCD
            self.ptr = self.raw.ctypes.data + GUARD
            gpu.blocks[self.ptr] = size

        def __del__(self):
            if hasattr(self, "raw"):
                beside = np.concatenate([self.raw[:GUARD], self.raw[-GUARD:]])
                assert (beside == 0xA5).all(), "a kernel wrote beside a buffer"
                with gpu.lock:
                    gpu.used -= self.size
                del gpu.blocks[self.ptr]

    class UnownedMemory:
        def __init__(self, ptr, size, owner, device_id=-1):
            self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id

    class PinnedMemory:
        def __init__(self, size):
            if gpu.pinned + size > gpu.lockable:
                raise RuntimeFailure(2, "cudaErrorMemoryAllocation: out of memory")
            self.raw = np.full(size, 0xCD, np.uint8)
            self.address = self.raw.ctypes.data
            gpu.pinned += size
            gpu.pinned_peak = max(gpu.pinned_peak, gpu.pinned)
            gpu.locked[self.address] = size

        def __del__(self):
            if not hasattr(self, "address"):
                return
            self.raw[:] = 0xEE  # whoever still reads it shall see
            gpu.pinned -= len(self.raw)
            del gpu.locked[self.address]

    class PinnedMemoryPointer:
        def __init__(self, mem, offset):
            assert offset == 0
            self.mem = mem

        def __buffer__(self, flags):
            return memoryview(self.mem.raw)

    def memcpy_async(target, source, n, kind, stream):
        stream = gpu.streams[stream]
        gpu.uploads += kind == 1
        device = target if kind == 1 else source
        if gpu.broken or not gpu.inside(gpu.blocks, device, n):
            raise RuntimeFailure(700, "cudaErrorIllegalAddress")
        if kind == 1 and not gpu.inside(gpu.locked, source, n):  # pageable memory is read at once
            kept = ctypes.string_at(source, n)
            stream.add(lambda: ctypes.memmove(target, kept, n))
        else:
            stream.add(lambda: ctypes.memmove(target, source, n))
            if kind == 2:
                stream.synchronize()

    def device_count():
        if gpu.status:
            raise RuntimeFailure(gpu.status, f"cuda error {gpu.status}")
        return gpu.count

    class Device:
        def __init__(self, index):
            self.id = index

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        @property
        def mem_info(self):
            return gpu.total - gpu.used, gpu.total

    class Module:
        def load(self, binary):
            self.library = ctypes.CDLL(binary.decode())

        def get_function(self, name):
            function = getattr(self.library, name)
            function.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p]

            def call(grid, block, arguments, stream):
                for argument in arguments[:-1]:
                    assert type(argument) is np.uint64
                    assert argument == 0 or gpu.inside(gpu.blocks, int(argument), 0)
                assert type(arguments[-1]) is np.uint32
                assert 0 < grid[0] < 2**31
                given = np.array([int(a) for a in arguments], np.uint64)
                gpu.launches.append(compiler.expressions[name])
                stream.add(lambda: function(grid[0], block[0], given.ctypes.data))

            return call

    def compile_program(program, options):
        gpu.options.append(tuple(options))
        key = program.source, program.expression
        if key not in compiler.built:
            compiler.build(program.source, [program.expression])
        library, program.name = compiler.built[key]
        program.library = str(library).encode()

    nvrtc = SimpleNamespace(
        getVersion=lambda: ("host", str(compiler.folder)),
        getSupportedArchs=lambda: [75, 80, 90],
        createProgram=lambda source, *_: SimpleNamespace(source=source),
        addNameExpression=lambda program, expression: setattr(program, "expression", expression),
        compileProgram=compile_program,
        getCUBIN=lambda program: program.library,
        getPTX=lambda program: program.library,
        getLoweredName=lambda program, _: program.name,
        getProgramLog=lambda _: "",
        destroyProgram=lambda _: None,
        NVRTCError=RuntimeError,
    )
    fake = ModuleType("cupy")
    fake.gpu = gpu
    fake.ndarray = DeviceArray
    fake.cuda = SimpleNamespace(
        Memory=Memory,
        UnownedMemory=UnownedMemory,
        MemoryPointer=MemoryPointer,
        PinnedMemory=PinnedMemory,
        PinnedMemoryPointer=PinnedMemoryPointer,
        Device=Device,
        Stream=type("Stream", (Stream,), {"gpu": gpu, "null": None}),
        Event=Event,
        nvrtc=nvrtc,
        function=SimpleNamespace(Module=Module),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        driver=SimpleNamespace(CUDADriverError=DriverFailure),
        runtime=SimpleNamespace(
            CUDARuntimeError=RuntimeFailure,
            is_hip=False,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyAsync=memcpy_async,
            getDeviceCount=device_count,
            getDeviceProperties=lambda _: {"name": b"Pretended GPU", "major": 9, "minor": 0},
            runtimeGetVersion=lambda: 12090,
        ),
    )
    return fake


class Stream:
    """Work done in order, later, in a thread."""

    gpu: Gpu
    numbers = itertools.count(1)

    def __init__(self, non_blocking=False):
        assert non_blocking
        self.ptr = next(self.numbers)
        self._thread = ThreadPoolExecutor(1, "stream")
        self._last: Future | None = None
        self._failed: list[BaseException] = []
        self.gpu.streams[self.ptr] = self

    def add(self, work):
        def later():
            time.sleep(self.gpu.delay)
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whoever waits for the stream gets it
                self._failed.append(error)

        with self.gpu.lock:
            self._last = self._thread.submit(later)

    def synchronize(self):
        if self._last is not None:
            self._last.result()
        if self._failed:
            raise self._failed[0]

    def wait_event(self, event):
        self.add(event.done.wait)


class Event:
    def __init__(self, block=False, disable_timing=False):
        self.done = threading.Event()

    def record(self, stream):
        if stream is None:  # nobody uses the default stream here
            self.done.set()
        else:
            stream.add(self.done.set)

    def synchronize(self):
        assert self.done.wait(60)


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class DeviceArray:
    """As much of ``cupy.ndarray`` as is used; it is no numpy array, and makes none by itself."""

    def __init__(self, shape, dtype, memptr):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = (ctypes.c_uint8 * count).from_address(memptr.ptr)
        raw.owner = memptr.mem
        self._set(np.frombuffer(raw, np.uint8).view(dtype).reshape(shape), memptr)

    def _set(self, values, data):
        self._values, self.data = values, data
        self.shape, self.dtype, self.nbytes, self.ndim = (
            values.shape,
            values.dtype,
            values.nbytes,
            values.ndim,
        )

    def _view(self, values):
        made = object.__new__(DeviceArray)
        offset = values.ctypes.data - self.data.mem.ptr if values.size else 0
        made._set(values, MemoryPointer(self.data.mem, offset))
        return made

    def view(self, dtype):
        return self._view(self._values.view(dtype))

    def reshape(self, shape):
        return self._view(self._values.reshape(shape))

    def __getitem__(self, index):
        return self._view(self._values[index])

    def get(self):
        return self._values.copy()

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, **_):
        return self._values.__dlpack__()

    def __dlpack_device__(self):
        return 2, 0


def installed(monkeypatch, compiler, **options):
    """Put a fake cupy in place of the real one and return its ``gpu``."""
    fake = module(compiler, **options)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake.gpu
