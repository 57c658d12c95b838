"""What the kernels give, compiled for this machine, is what the CPU executor gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.cuda import (
    CPU,
    agree,
    held,
    plan_of,
    queries,
    rewritten,
    same_bytes,
    scenes,
    turned,
)
from tests.support.engine import crop, files_of, indexed, ramp

from napari_decant.engine.cuda import _tables
from napari_decant.engine.cuda._compile import OPTIONS, kernel_source
from napari_decant.spatial import Sampler, SpatialQuery


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_query_on_any_array_gives_what_the_cpu_gives(executor, data):
    image, names = data.draw(scenes())
    resolution = data.draw(queries(image, names))
    assume(resolution is not None)
    plan = plan_of(resolution)
    (found,) = executor.run(plan)
    (wanted,) = CPU.run(plan)
    agree(found, wanted, resolution, image)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_several_queries_in_one_plan_share_chunks_and_few_kernels(executor, data):
    image, names = data.draw(scenes(("u1", "u2", "f4")))
    found = [data.draw(queries(image, names)) for _ in range(4)]
    resolutions = [resolution for resolution in found if resolution is not None]
    assume(resolutions)
    plan = plan_of(*resolutions)
    before = executor.stats().chunks
    executor.gpu.launches.clear()
    results = executor.run(plan)
    for resolution, got, wanted in zip(resolutions, results, CPU.run(plan), strict=True):
        agree(got, wanted, resolution, image)
    assert executor.stats().chunks - before <= plan.summary.chunks
    assert len(executor.gpu.launches) == len(set(executor.gpu.launches)) <= 3


def test_one_kernel_makes_a_whole_crop_of_many_tiles(executor):
    image = rewritten(ramp((40, 80, 90)), chunks=(16, 16, 16))
    plan = plan_of(turned(image, (32, 64, 64)), max_tile_bytes=256 << 10)
    assert len(plan.outputs[0].tile_start) > 4
    executor.gpu.launches.clear()
    (found,) = executor.run(plan)
    assert executor.gpu.launches == ["linear<u16, f32, u16>"]
    same_bytes(found, CPU.run(plan)[0])


def test_indices_along_axes_of_any_number(executor):
    data = ramp((3, 4, 2, 5, 6, 3, 2))
    image = held(files_of(data, chunks=(2, 3, 1, 2, 4, 2, 2)), "tabczyx")
    picked = ([2, 0], slice(None, None, 3), slice(None), [4, 4, 1], slice(5, None, -2), slice(1, 3), [1])
    (found,) = executor.run(plan_of(indexed(image, *picked)))
    expected = data[[2, 0]][:, ::3][:, :, :, [4, 4, 1]][:, :, :, :, 5::-2][..., 1:3, :][..., [1]]
    same_bytes(found, np.ascontiguousarray(expected))


def test_an_array_without_axes_and_an_empty_selection(executor):
    (found,) = executor.run(plan_of(indexed(held(files_of(np.array(7, "u2")), ""))))
    same_bytes(found, np.array(7, "u2"))
    image = rewritten(ramp((4, 5)), chunks=(2, 2))
    (found,) = executor.run(plan_of(indexed(image, slice(2, 2), slice(None))))
    assert found.shape == (0, 5)


@pytest.mark.parametrize("boundary", ["error", "clamp", "constant"])
def test_neighbours_without_weight_do_not_spread_infinity(executor, boundary):
    data = np.ones((6, 6), "f4")
    data[2, 3], data[4, 1] = np.inf, np.nan
    image = rewritten(data, chunks=(2, 4))
    resolution = SpatialQuery([[1, 0, 0], [0, 1, 0.5]], Sampler("linear", boundary), 0).resolve(image, (6, 5))
    (found,) = executor.run(plan_of(resolution))
    assert np.isinf(found[2, 2:4]).all()
    assert np.isnan(found[4, 0:2]).all()
    assert (found == 1).sum() == found.size - 4


def test_small_floats_are_not_flushed_to_zero(executor):
    tiny = np.float32(1e-42)
    image = rewritten(np.full((4, 6), tiny), chunks=(2, 3))
    (found,) = executor.run(plan_of(turned(image, (3, 3))))
    assert (found == tiny).all()


def test_nan_payloads_survive_copies_and_nearest(executor):
    bits = (0x7F800001 + np.arange(24, dtype="u4")).reshape(4, 6)
    image = rewritten(bits.view("f4"), chunks=(2, 3))
    (copied,) = executor.run(plan_of(crop(image, (1, 1), (3, 4))))
    np.testing.assert_array_equal(copied.view("u4"), bits[1:4, 1:5])
    flipped = SpatialQuery([[1, 0, 0], [0, -1, 6]], Sampler(), 0).resolve(image, (4, 6))
    np.testing.assert_array_equal(executor.run(plan_of(flipped))[0].view("u4"), bits[:, ::-1])


def test_records_have_the_same_layout_in_python_and_in_the_kernels(compiler):
    text = ""
    for name in ("Output", "Tile", "Use", "Span"):
        dtype = getattr(_tables, name.upper())
        text += f"static_assert(sizeof({name}) == {dtype.itemsize});\n"
        for field, (_, offset) in dtype.fields.items():
            text += f"static_assert(offsetof({name}, {field}) == {offset});\n"
    compiler.build(kernel_source(), [], text)


def test_nothing_is_fused_or_flushed():
    assert "--fmad=false" in OPTIONS
    assert "--ftz=false" in OPTIONS
