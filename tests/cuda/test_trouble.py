"""Damage, absent chunks, full and failing GPUs, and none at all: what a user is told."""

from __future__ import annotations

import re
import sys
import threading

import numpy as np
import pytest
from tests.support import fakecupy
from tests.support.cuda import (
    CPU,
    held,
    plan_of,
    rewritten,
    same_bytes,
    turned,
    values,
)
from tests.support.engine import crop, files_of, ramp

from napari_decant.engine import CpuExecutor, CpuLimits
from napari_decant.engine.cuda import CudaExecutor, CudaLimits, choose_executor, cuda_problem
from napari_decant.errors import (
    Cancelled,
    DeviceUnavailable,
    FormatError,
    UsageError,
)
from napari_decant.progress import CancelToken


def small_plan():
    return plan_of(crop(rewritten(ramp((20, 20)), chunks=(10, 10)), (1, 1), (15, 15)))


def test_a_damaged_chunk_raises(executor):
    files = files_of(ramp((20, 20)), chunks=(10, 10), compressors="auto")
    files["c/1/1"] = files["c/1/1"][:-3]
    plan = plan_of(turned(held(files, "yx"), (18, 14)))
    with pytest.raises(FormatError):
        executor.run(plan)
    assert executor.memory.used == 0


def test_chunks_that_are_not_stored_read_as_fill(executor):
    data = ramp((20, 20))
    files = files_of(data, chunks=(10, 10), fill_value=9)
    del files["c/0/1"]
    image = held(files, "yx")
    (found,) = executor.run(plan_of(crop(image, (0, 0), (20, 20))))
    data[:10, 10:] = 9
    same_bytes(found, data)
    before = executor.stats().absent_chunks
    (found,) = executor.run(plan_of(crop(image, (0, 12), (5, 5))))  # nothing is read at all
    assert (found == 9).all()
    assert executor.stats().absent_chunks == before + 1


def test_cancelling_stops_and_gives_memory_back(executor):
    image = rewritten(ramp((64, 64, 64)), chunks=(8, 8, 8))
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        executor.run(plan_of(turned(image, (40, 40, 40))), cancel=token)
    assert executor.memory.used == 0


def test_a_gpu_that_is_full_is_told_or_the_cpu_does_it(gpu, caplog):
    plan = small_plan()
    with CudaExecutor(limits=CudaLimits(decode_workers=1)) as cuda:
        gpu.total = gpu.used  # another program took the rest
        with pytest.raises(DeviceUnavailable, match="Pretended GPU has no memory left"):
            cuda.run(plan)
        assert cuda.memory.used == 0
    gpu.total = 64 << 20
    made, why = choose_executor("auto", cpu_limits=CpuLimits(decode_workers=1))
    with made:
        assert (type(made), why) == (CudaExecutor, "Pretended GPU")
        same_bytes(made.run(plan)[0], CPU.run(plan)[0])
        made.buffers.clear()
        gpu.total = gpu.used
        with caplog.at_level("WARNING"):
            same_bytes(made.run(plan)[0], CPU.run(plan)[0])
        assert "the CPU does it instead: Pretended GPU has no memory left" in caplog.text


def test_auto_lets_the_cpu_make_what_the_gpu_has_no_room_for(gpu):
    limits = CudaLimits(max_device_bytes=4 << 10, decode_workers=1)
    image = rewritten(ramp((64, 64)), chunks=(16, 16))
    made, _ = choose_executor("auto", cuda_limits=limits)
    with made:
        same_bytes(made.run(plan_of(crop(image, (0, 0), (64, 64))))[0], ramp((64, 64)))
        assert made.stats().batches == 0
        assert made.fallback.stats().chunks == 16


def test_a_gpu_that_fails_in_the_middle_is_told(gpu):
    with CudaExecutor(limits=CudaLimits(decode_workers=1)) as cuda:
        gpu.broken = True
        with pytest.raises(DeviceUnavailable, match="Pretended GPU failed: cudaErrorIllegalAddress"):
            cuda.run(small_plan())
        assert cuda.memory.used == 0
        gpu.broken = False
        same_bytes(cuda.run(small_plan())[0], CPU.run(small_plan())[0])


def test_many_threads_share_one_executor(gpu):
    data = values((40, 60), "u2")
    image = rewritten(data, chunks=(7, 9))
    wrong = []
    with CudaExecutor(limits=CudaLimits(max_device_bytes=128 << 10, decode_workers=2)) as cuda:

        def work(seed):
            for i in range(seed, seed + 6):
                (found,) = cuda.run(plan_of(crop(image, (i, i), (20, 30))))
                if not np.array_equal(found, data[i : i + 20, i : i + 30]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def problems():
    with pytest.raises(DeviceUnavailable) as caught:
        choose_executor("cuda")
    made, why = choose_executor("auto")
    made.close()
    assert type(made) is CpuExecutor
    assert why == str(caught.value) == cuda_problem()
    assert "\n" not in why
    return why


def test_the_cpu_is_there_without_a_look_at_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    made, why = choose_executor("cpu")
    made.close()
    assert (type(made), why) == (CpuExecutor, "the CPU was asked for")
    with pytest.raises(UsageError, match="'gpu' is unknown; use auto, cpu or cuda"):
        choose_executor("gpu")


def test_no_cupy(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing("cupy"), *sys.meta_path])
    assert "cupy is not installed; install napari-decant[cuda13]" in problems()


def test_a_cupy_that_does_not_load(monkeypatch):
    broken = ImportError("\n====\nCuPy is not correctly installed.\n\nlibcudart.so.12: cannot open\n====\n")
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing("cupy", broken), *sys.meta_path])
    assert problems() == "cupy cannot be imported: CuPy is not correctly installed."


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (35, "the NVIDIA driver is missing or too old for CUDA 12.9 of this cupy"),
        (100, "no NVIDIA GPU was found"),
        (2, "GPU 0 has no memory left"),
        (999, "GPU 0 failed: cuda error 999"),
    ],
)
def test_no_driver_and_no_gpu(monkeypatch, tmp_path, status, text):
    gpu = fakecupy.installed(monkeypatch, fakecupy.HostCompiler(tmp_path))
    gpu.status = status
    assert text in problems()


def test_a_gpu_that_is_not_there(monkeypatch, tmp_path):
    gpu = fakecupy.installed(monkeypatch, fakecupy.HostCompiler(tmp_path))
    with pytest.raises(DeviceUnavailable, match="there is no GPU 3; 1 found"):
        CudaExecutor(limits=CudaLimits(device=3))
    gpu.count = 0
    assert problems() == "there is no GPU 0; none found"


def test_cupy_for_other_gpus(monkeypatch, tmp_path):
    fakecupy.installed(monkeypatch, fakecupy.HostCompiler(tmp_path))
    sys.modules["cupy"].cuda.runtime.is_hip = True
    assert "only NVIDIA" in problems()


def test_no_compiler(monkeypatch, tmp_path):
    fakecupy.installed(monkeypatch, fakecupy.HostCompiler(tmp_path))

    def missing():
        raise RuntimeError('Failure finding "libnvrtc.so.13"\nmore')

    sys.modules["cupy"].cuda.nvrtc.getVersion = missing
    assert re.search(r"NVRTC was not found \(Failure finding .*13\"\); install napari-decant", problems())


def test_a_gpu_older_than_the_compiler_knows(monkeypatch, tmp_path):
    fakecupy.installed(monkeypatch, fakecupy.HostCompiler(tmp_path))
    runtime = sys.modules["cupy"].cuda.runtime
    runtime.getDeviceProperties = lambda _: {"name": b"Old", "major": 6, "minor": 1}
    assert "no code for GPUs of compute capability 6.1" in problems()


class Missing:
    """Finds a module only to fail."""

    def __init__(self, name, error=None):
        self.name, self.error = name, error

    def find_spec(self, name, *_):
        if name == self.name:
            raise self.error or ModuleNotFoundError(f"No module named {name!r}", name=name)
        return
