"""Limits hold on the GPU and beside it; batches lie there and leave by DLPack."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from tests.support import fakecupy
from tests.support.cuda import (
    CPU,
    SMALL,
    held,
    plan_of,
    rewritten,
    same_bytes,
    turned,
    values,
)
from tests.support.engine import crop, files_of, indexed, ramp

from napari_decant.engine import BatchSpec, ChunkPlanner, CpuLimits, Pipeline, QueueLimits
from napari_decant.engine.cuda import CudaExecutor, CudaLimits, choose_executor
from napari_decant.errors import (
    BudgetExceeded,
    DeviceUnavailable,
    FormatError,
    UsageError,
)

DATA = values((24, 40, 40), "u2")


def image_of_data():
    return rewritten(DATA, chunks=(8, 8, 8))


def test_a_small_limit_gives_the_same_in_several_waves_and_is_kept(gpu):
    plan = plan_of(turned(image_of_data(), (20, 30, 30)), max_tile_bytes=24 << 10)
    limits = CudaLimits(max_device_bytes=96 << 10, max_memory_bytes=2 << 20, decode_workers=2)
    with CudaExecutor(limits=limits) as small:
        (found,) = small.run(plan)
        assert small.stats().chunks > plan.summary.chunks  # several waves decode some chunks again
        assert small.memory.used == 0
    assert gpu.peak <= 96 << 10
    assert gpu.launches.count("linear<u16, f32, u16>") > 1
    same_bytes(found, CPU.run(plan)[0])
    assert gpu.used == 0


def test_copies_come_in_waves_too(gpu):
    image = image_of_data()
    resolutions = [
        crop(image, (0, 0, 0), (24, 40, 40)),
        indexed(image, slice(None, None, 5), [3, 39, 3], 7),
    ]
    plan = plan_of(*resolutions)
    limits = CudaLimits(max_device_bytes=120 << 10, max_memory_bytes=2 << 20, decode_workers=2)
    with CudaExecutor(limits=limits) as small:
        found = small.run(plan)
        assert small.stats().chunks == plan.summary.chunks
    assert gpu.launches.count("gather<u16, u16>") > 2
    same_bytes(found[0], DATA)
    same_bytes(found[1], DATA[::5][:, [3, 39, 3]][:, :, [7]])


def test_staging_waits_for_the_gpu_before_it_is_written_again(monkeypatch, compiler):
    gpu = fakecupy.installed(monkeypatch, compiler, delay=0.004)
    image = image_of_data()
    limits = CudaLimits(max_device_bytes=1 << 20, max_memory_bytes=64 << 10, decode_workers=4)
    with CudaExecutor(limits=limits) as small:
        (found,) = small.run(
            plan_of(crop(image, (0, 0, 0), (24, 40, 10))), out=[np.empty((24, 40, 10), "u2")]
        )
    same_bytes(found, DATA[:, :, :10])
    assert gpu.pinned <= 16 << 10


def test_an_output_that_does_not_fit_is_refused_before_anything_is_read(gpu):
    plan = plan_of(crop(image_of_data(), (0, 0, 0), (24, 40, 40)))
    with CudaExecutor(limits=CudaLimits(max_device_bytes=64 << 10, decode_workers=1)) as small:
        with pytest.raises(BudgetExceeded, match="max_device_bytes allows 65,536"):
            small.run(plan)
        assert small.stats().reads == 0
        assert gpu.uploads == 0


def test_what_lies_under_one_tile_must_fit(gpu):
    plan = plan_of(turned(image_of_data(), (1, 1, 1), boundary="clamp"))
    with (
        CudaExecutor(limits=CudaLimits(max_device_bytes=3 << 10, decode_workers=1)) as small,
        pytest.raises(BudgetExceeded, match=r"under one tile.*max_device_bytes"),
    ):
        small.run(plan)


def test_a_chunk_larger_than_the_staging_is_refused(gpu):
    image = rewritten(np.ones((64, 64, 64), "u2"), chunks=(64, 64, 64))
    with (
        CudaExecutor(limits=CudaLimits(max_memory_bytes=1 << 20, decode_workers=1)) as small,
        pytest.raises(BudgetExceeded, match=r"one decoded chunk needs .* max_memory_bytes"),
    ):
        small.run(plan_of(crop(image, (0, 0, 0), (8, 8, 8))))


def test_more_than_is_free_is_refused_when_the_executor_is_made(gpu):
    with pytest.raises(DeviceUnavailable, match=r"67,108,864 bytes .* max_device_bytes is 67,108,865"):
        CudaExecutor(limits=CudaLimits(max_device_bytes=(64 << 20) + 1))
    with CudaExecutor() as made:
        assert made.memory.limit == 32 << 20


@pytest.mark.parametrize(
    "wrong", [{"max_device_bytes": 0}, {"max_memory_bytes": -1}, {"decode_workers": 0}, {"device": -1}]
)
def test_limits_without_sense_are_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        CudaLimits(**wrong)


def test_results_go_where_the_caller_wants_them(executor):
    image = image_of_data()
    plan = plan_of(crop(image, (0, 0, 0), (8, 9, 10)))
    out = np.zeros((8, 9, 20), ">u2")[:, :, ::2]
    assert executor.run(plan, out=[out])[0] is out
    np.testing.assert_array_equal(out, DATA[:8, :9, :10])
    with pytest.raises(UsageError, match=r"\(8, 9, 11\).*\(8, 9, 10\)"):
        executor.run(plan, out=[np.zeros((8, 9, 11), "u2")])
    assert executor.memory.used == 0


def test_batches_lie_on_the_gpu_and_go_out_by_dlpack(gpu):
    data = ramp((30, 40))
    image = rewritten(data, chunks=(7, 9))
    resolved = [crop(image, (i, 2 * i), (12, 16)) for i in range(7)]
    with (
        CudaExecutor(limits=SMALL) as executor,
        Pipeline(ChunkPlanner(), executor, BatchSpec(2, (12, 16), "f32"), QueueLimits(4)) as pipeline,
    ):
        got = []
        for batch in pipeline.map(resolved):
            with batch:
                assert batch.__dlpack_device__() == (2, 0)
                assert type(batch.__dlpack__()).__name__ == "PyCapsule"
                with pytest.raises(TypeError, match="NumPy array"):
                    np.asarray(batch)
                got += list(batch.array.get())
        assert pipeline.stats().samples == 7
        assert executor.memory.used == 0
    for i, found in enumerate(got):
        same_bytes(found, data[i : i + 12, 2 * i : 2 * i + 16].astype("f4"))


def test_an_array_that_outlives_its_batch_keeps_its_values(gpu):
    data = ramp((64, 64))
    image = rewritten(data, chunks=(16, 16))
    with (
        CudaExecutor(limits=SMALL) as executor,
        Pipeline(ChunkPlanner(), executor, BatchSpec(1, (32, 32), "u16"), QueueLimits(2)) as pipeline,
    ):
        kept = []
        for batch in pipeline.map([crop(image, (i, i), (32, 32)) for i in range(6)]):
            with batch:
                kept.append(batch.array[0] if len(kept) % 2 else batch.array.reshape((32, 32)))
        for i, array in enumerate(kept):
            np.testing.assert_array_equal(array.get(), data[i : i + 32, i : i + 32])
        pinned = len({array.data.mem.ptr for array in kept})
        assert pinned == 6
    held = gpu.used
    assert held >= 6 * 2048
    gone = weakref.ref(kept[0].data.mem)
    del array, batch
    kept.clear()
    assert gone() is None
    executor.buffers.clear()
    assert gpu.used == 0


def test_memory_of_released_batches_is_used_again(gpu):
    image = rewritten(ramp((64, 64)), chunks=(16, 16))
    with (
        CudaExecutor(limits=SMALL) as executor,
        Pipeline(ChunkPlanner(), executor, BatchSpec(1, (32, 32), "u16"), QueueLimits(1)) as pipeline,
    ):
        places = set()
        for batch in pipeline.map([crop(image, (i, i), (32, 32)) for i in range(8)]):
            with batch:
                places.add(batch.array.data.ptr)
    assert len(places) < 4


def test_one_damaged_chunk_fails_its_samples_only(gpu):
    data = ramp((20, 20))
    files = files_of(data, chunks=(10, 10), compressors="auto")
    files["c/1/1"] = files["c/1/1"][:-3]
    image = held(files, "yx")
    resolved = [crop(image, (0, 0), (6, 6)), crop(image, (8, 8), (6, 6)), turned(image, (6, 6))]
    with (
        CudaExecutor(limits=SMALL) as executor,
        Pipeline(ChunkPlanner(), executor, BatchSpec(3, (6, 6), "u16"), QueueLimits(3)) as pipeline,
    ):
        pipeline.push(resolved)
        with pipeline.pop() as batch:
            assert [type(error) for error in batch.errors] == [type(None), FormatError, type(None)]
            np.testing.assert_array_equal(batch.sample(0).get(), data[:6, :6])
            with pytest.raises(FormatError):
                batch.array  # noqa: B018


def test_results_may_stay_on_the_gpu(executor):
    data = ramp((20, 20))
    image = rewritten(data, chunks=(10, 10))
    (found,) = executor.run_on_device(plan_of(crop(image, (1, 1), (15, 15))), dtype="u4")
    assert found.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(found.get(), data[1:16, 1:16])


def test_a_plan_of_many_types_keeps_its_tables_within_what_was_taken(executor):
    """Each kind of kernel has tables of its own, and each begins at a round address."""
    resolutions = []
    for code in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"):
        image = rewritten(values((9, 10), code), chunks=(4, 3))
        resolutions += [turned(image, (5, 6), "linear"), turned(image, (5, 6), "nearest")]
        resolutions += [crop(image, (1, 1), (7, 8)), indexed(image, [3, 1, 8], slice(None, None, 2))]
    plan = plan_of(*resolutions)
    executor.gpu.launches.clear()
    found = executor.run(plan)
    assert len(set(executor.gpu.launches)) >= 18
    for got, wanted in zip(found, CPU.run(plan), strict=True):
        assert np.abs(got.astype(float) - wanted.astype(float)).max() <= 4 * np.spacing(
            np.abs(wanted.astype(np.float32)).max()
        )


def test_page_locked_memory_keeps_to_its_share_whatever_the_sizes_of_chunks(gpu):
    limits = CudaLimits(max_device_bytes=4 << 20, max_memory_bytes=1 << 20, decode_workers=3)
    with CudaExecutor(limits=limits) as small:
        for edge in (8, 20, 11, 28, 8, 16):
            image = rewritten(DATA, chunks=(edge, edge, edge))
            plan = plan_of(crop(image, (0, 0, 0), (24, 40, 40)))
            same_bytes(small.run(plan, out=[np.empty((24, 40, 40), "u2")])[0], DATA)
        assert 0 < gpu.pinned_peak <= limits.max_memory_bytes // 4
    assert gpu.pinned == 0


def test_memory_kept_for_later_goes_before_a_gpu_is_called_full(gpu):
    image = image_of_data()
    with CudaExecutor(limits=CudaLimits(max_device_bytes=16 << 20, decode_workers=1)) as made:
        made.run(plan_of(crop(image, (0, 0, 0), (24, 40, 40))))
        gpu.total = gpu.used + (8 << 10)  # another program took all else
        same_bytes(made.run(plan_of(crop(image, (0, 0, 0), (24, 40, 39))))[0], DATA[:, :, :39])


def test_both_ways_of_auto_keep_to_one_limit_and_count_a_use_once(gpu):
    made, _ = choose_executor("auto", cpu_limits=CpuLimits(max_memory_bytes=8 << 20, decode_workers=1))
    plan = plan_of(crop(image_of_data(), (1, 1, 1), (22, 30, 30)))
    with made:
        assert made.fallback.memory is made.host_memory
        made.run(plan)
        before = CPU.stats().uses
        CPU.run(plan)
        assert made.stats().uses == CPU.stats().uses - before == len(plan.use_chunk)


def test_a_chunk_too_large_for_the_staging_is_left_to_the_cpu(gpu):
    """The CPU decodes it into place; if that does not fit either, its own error says so."""
    data = np.arange(1, 48**3 + 1, dtype="u4").reshape(48, 48, 48)
    plan = plan_of(turned(rewritten(data, chunks=(48, 48, 48)), (20, 20, 20)))
    made, _ = choose_executor("auto", cpu_limits=CpuLimits(max_memory_bytes=1600 << 10, decode_workers=1))
    with made:
        same_bytes(made.run(plan)[0], CPU.run(plan)[0])
        assert "staging one decoded chunk" in made.troubles[0]
    tiny, _ = choose_executor("auto", cpu_limits=CpuLimits(max_memory_bytes=600 << 10, decode_workers=1))
    with tiny, pytest.raises(BudgetExceeded, match="max_memory_bytes"):
        tiny.run(plan)
