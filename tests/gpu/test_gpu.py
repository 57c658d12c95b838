"""What a real GPU gives is what the CPU gives, and stays there until it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.crop.helpers import image_in_memory
from tests.crop.test_geometry import agrees as assert_lies_there
from tests.cuda.test_conversion import PAIRS, hard_values
from tests.support.cuda import (
    CPU,
    agree,
    held,
    plain_kernels,
    plan_of,
    queries,
    rewritten,
    same_bytes,
    scenes,
    turned,
    values,
)  # fmt: skip
from tests.support.engine import crop, files_of, ramp
from tests.support.placing import expected
from tests.support.placing import scenes as scenes_in_space

from napari_decant.engine import BatchSpec, ChunkPlanner, Pipeline, QueueLimits
from napari_decant.engine.cuda import CudaExecutor, CudaLimits
from napari_decant.errors import BudgetExceeded, DeviceUnavailable, FormatError
from napari_decant.images.crop import Region, WorldMap, place, source_of_image
from napari_decant.images.crop import crop as cut_region
from napari_decant.spatial import Sampler


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_any_query_on_any_array_gives_what_the_cpu_gives(executor, data):
    image, names = data.draw(scenes())
    resolution = data.draw(queries(image, names))
    assume(resolution is not None)
    plan = plan_of(resolution)
    agree(executor.run(plan)[0], CPU.run(plan)[0], resolution, image)


def test_every_kernel_loads(executor):
    for expression in plain_kernels():
        assert executor.device.kernel(expression) is not None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, about values beyond a smaller type
def test_every_type_to_every_type(executor):
    for source, target in PAIRS:
        data = hard_values(source).reshape(1, -1)
        plan = plan_of(crop(rewritten(data, chunks=(1, 7)), (0, 0), data.shape))
        (wanted,) = CPU.run(plan, dtype=target)
        (found,) = executor.run(plan, dtype=target)
        np.testing.assert_array_equal(found, wanted, f"{source} to {target}")


def test_small_floats_are_not_flushed_to_zero(executor):
    tiny = np.float32(1e-42)
    image = rewritten(np.full((8, 9), tiny), chunks=(4, 5))
    assert (executor.run(plan_of(turned(image, (6, 6))))[0] == tiny).all()


@pytest.mark.parametrize("kind", ["nearest", "linear"])
@pytest.mark.parametrize("code", ["u1", "u2", "i2", "f4", "f8"])
def test_a_large_turned_crop(executor, kind, code):
    image = rewritten(values((160, 170, 180), code), chunks=(32, 48, 64))
    resolution = turned(image, (128, 128, 128), kind)
    plan = plan_of(resolution)
    found, wanted = executor.run(plan)[0], CPU.run(plan)[0]
    if kind == "nearest" or code in ("u1", "u2"):
        same_bytes(found, wanted)
    elif code == "i2":
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
    else:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * np.spacing(np.abs(wanted).max()))


def test_a_small_limit_gives_the_same_in_several_waves():
    data = values((64, 96, 128), "u2")
    image = rewritten(data, chunks=(16, 16, 16))
    plan = plan_of(
        turned(image, (48, 64, 80)), crop(image, (0, 0, 0), (64, 96, 128)), max_tile_bytes=256 << 10
    )
    with CudaExecutor(limits=CudaLimits(max_device_bytes=3 << 20, max_memory_bytes=16 << 20)) as small:
        found = small.run(plan)
        assert small.stats().chunks > plan.summary.chunks
    for got, wanted in zip(found, CPU.run(plan), strict=True):
        same_bytes(got, wanted)


def test_batches_reach_cupy_without_a_copy(executor):
    import cupy

    data = ramp((64, 80))
    image = rewritten(data, chunks=(16, 16))
    resolved = [crop(image, (i, 2 * i), (24, 32)) for i in range(9)]
    spec = BatchSpec(2, (24, 32), "f32")
    kept = []
    with Pipeline(ChunkPlanner(), executor, spec, QueueLimits(6)) as pipeline:
        for number, batch in enumerate(pipeline.map(resolved)):
            with batch:
                assert batch.__dlpack_device__()[0] == 2  # kDLCUDA
                array = cupy.from_dlpack(batch)
                assert array.data.ptr == batch.array.data.ptr
                kept.append((2 * number, array))
        for first, array in kept:  # they outlive their batches
            for i, sample in enumerate(array.get(), first):
                np.testing.assert_array_equal(sample, data[i : i + 24, 2 * i : 2 * i + 32])
    assert sum(array.shape[0] for _, array in kept) == 9
    assert executor.memory.used == 0


def test_memory_comes_back_when_the_executor_is_closed():
    with CudaExecutor(limits=CudaLimits(max_device_bytes=256 << 20)) as made:
        free, _ = made.device.memory()
        image = rewritten(ramp((256, 256, 64)), chunks=(64, 64, 64))
        made.run(plan_of(crop(image, (0, 0, 0), (256, 256, 64))))
        assert made.device.memory()[0] < free
    assert made.device.memory()[0] >= free - (4 << 20)


def test_limits_and_damage_are_told(executor):
    free, total = executor.device.memory()
    assert 0 < free <= total
    with pytest.raises(DeviceUnavailable, match="bytes of memory free but max_device_bytes"):
        CudaExecutor(limits=CudaLimits(max_device_bytes=2 * total))
    image = rewritten(ramp((64, 64)), chunks=(16, 16))
    with (
        CudaExecutor(limits=CudaLimits(max_device_bytes=4 << 10)) as small,
        pytest.raises(BudgetExceeded, match="max_device_bytes allows 4,096"),
    ):
        small.run(plan_of(crop(image, (0, 0), (64, 64))))
    files = files_of(ramp((20, 20)), chunks=(10, 10), compressors="auto")
    files["c/1/1"] = files["c/1/1"][:-3]
    with pytest.raises(FormatError):
        executor.run(plan_of(turned(held(files, "yx"), (18, 14))))


@settings(deadline=None, max_examples=100)
@given(scene=scenes_in_space())
def test_any_turned_box_of_any_image_holds_what_lies_there(executor, scene):
    resolution = scene.sized.resolve(scene.source)
    wanted, unsure = expected(scene, resolution)
    assert_lies_there(executor.run(plan_of(resolution))[0], wanted, unsure)


@pytest.mark.parametrize("kind", ["nearest", "linear"])
def test_the_crop_tools_way_takes_the_gpu_and_gives_the_same(executor, kind):
    held_image = image_in_memory([values((64, 96, 128), "u2")], "zyx", (2.0, 0.5, 0.5), chunks=(16, 32, 32))
    source = source_of_image(held_image)
    region = Region((60.0, 24.0, 32.0), (40.0, 20.0, 24.0), (20.0, -15.0, 40.0))
    query = place(region, source, WorldMap.physical(source), sampler=Sampler(kind, "constant", 3.0))
    wanted = cut_region(held_image, query, device="cpu")
    made = cut_region(held_image, query, memory=64 << 20)
    assert made.facts.device == executor.device.name
    assert made.facts.warnings == ()
    np.testing.assert_array_equal(made.array, wanted.array)
