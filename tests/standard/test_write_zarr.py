"""What is written is the source, whole, at every level, in shards that everybody reads."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import yaozarrs
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.ngff import ramp
from tests.support.writing import CountedArray, expected_levels, holes, small_layout

from napari_decant.errors import BudgetExceeded, TargetExists, UnsupportedOperation, UsageError
from napari_decant.images import ImageToWrite, LazyArray, open_image, plan_ome_zarr, write_ome_zarr
from napari_decant.images._write_zarr_layout import choose_chunk, plan_levels
from napari_decant.ngff import Axis, Channel, LabelInfo
from napari_decant.standard import check

numbers = itertools.count()


def as_five(data: np.ndarray, axes: str) -> np.ndarray:
    """A t, c, z, y, x view of an array of some of these axes, in any order."""
    order = [axes.index(a) for a in "tczyx" if a in axes]
    shape = [data.shape[axes.index(a)] if a in axes else 1 for a in "tczyx"]
    return data.transpose(order).reshape(shape)


def by_tensorstore(target: Path, level: int) -> np.ndarray:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(target / str(level))}}
    return np.asarray(tensorstore.open(spec).result().read().result())


def levels_of(target: Path) -> list[np.ndarray]:
    group = zarr.open_group(target, mode="r")
    return [np.asarray(group[str(i)][...]) for i in range(len(list(group.array_keys())))]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_extents_types_chunks_and_budgets(
    data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_layout(monkeypatch)
    axes = data.draw(st.sampled_from(["yx", "zyx", "tyx", "czyx", "tczyx", "xyz", "yxc", "tzcyx"]))
    extents = {"t": st.integers(1, 7), "c": st.integers(1, 3)}
    shape = tuple(data.draw(extents.get(a, st.integers(1, 41))) for a in axes)
    dtype = data.draw(st.sampled_from(["uint8", "uint16", "int16", "uint32", "float32"]))
    label = dtype == "uint32"
    pixels = ramp(shape, dtype)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    source = CountedArray(pixels, chunks)
    image = ImageToWrite(source, axes, label=LabelInfo() if label else None)
    least = None
    try:
        plan_ome_zarr(tmp_path / "x.zarr", image, memory=1)
    except BudgetExceeded as error:
        least = error.need
    assert least is not None
    memory = data.draw(st.sampled_from([least, least + 20_000, 2 << 30]))
    target = tmp_path / f"{next(numbers)}.{data.draw(st.sampled_from(['zarr', 'ozx']))}"
    plan = plan_ome_zarr(target, image, memory=memory, workers=2)
    assert plan.memory <= memory
    report = write_ome_zarr(plan, workers=2)
    # every level, voxel for voxel
    wanted = expected_levels(as_five(pixels, axes), plan.images[0].layout.factors, "max" if label else "mean")
    opened = open_image(target)
    assert len(opened.levels) == len(wanted)
    for level, expected in zip(opened.levels, wanted, strict=True):
        found = np.asarray(level)
        assert found.dtype == pixels.dtype
        np.testing.assert_array_equal(found, expected)
    opened.close()
    assert holes(target) == 0
    if target.suffix == ".zarr":  # other programs see the same
        yaozarrs.open_group(str(target)).validate()
        for found, expected in zip(levels_of(target), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)
        if dtype != "float32":  # whose shuffle tensorstore does not know
            np.testing.assert_array_equal(by_tensorstore(target, 0), wanted[0])
    # the plan said how often the source is decoded
    assert source.decodes <= plan.passes * 1.001 * math.prod(
        -(-n // c) * c / n for n, c in zip(shape, chunks, strict=True)
    )
    assert report.size > 0
    failed = [f for f in check(target).failed() if f.rule not in ("C1", "S1")]  # sizes were made small
    assert not failed


REAL = [
    ("zyx", (320, 207, 211), "zarr"),
    ("yx", (997, 1009), "ozx"),
    ("x", (997,), "zarr"),
    ("tyx", (70, 101, 103), "ozx"),
    ("czyx", (2, 236, 275, 71), "zarr"),
    ("tczyx", (3, 2, 5, 300, 310), "ozx"),
    ("yx", (1, 1), "zarr"),
    ("zyx", (5000, 3, 7), "ozx"),
    ("cyx", (300, 20, 21), "zarr"),
    ("tyx", (1500, 1, 1), "ozx"),
]


@pytest.mark.parametrize(("axes", "shape", "suffix"), REAL, ids=str)
def test_e02_real_sizes_follow_the_standard_and_say_why_where_they_cannot(
    axes: str, shape: tuple[int, ...], suffix: str, tmp_path: Path
) -> None:
    pixels = ramp(shape)
    described = [Axis(a, "time" if a == "t" else "channel" if a == "c" else "space") for a in axes]
    target = tmp_path / f"a.{suffix}"
    write_ome_zarr(target, ImageToWrite(pixels, described), workers=2)
    report = check(target)
    assert report.failed() == []
    for finding in report.every:
        assert finding.status != "warn" or finding.because, finding
    opened = open_image(target)
    np.testing.assert_array_equal(np.asarray(opened.levels[0]), as_five(pixels, axes))
    opened.close()
    assert holes(target) == 0
    if suffix == "zarr":
        yaozarrs.open_group(str(target)).validate()


@pytest.mark.parametrize(
    ("shape", "chunk"),
    [
        ((1, 1, 1000, 2048, 2048), (1, 1, 128, 128, 128)),
        ((50, 2, 32, 2048, 2048), (1, 1, 32, 128, 128)),  # 512 KiB: not grown
        ((50, 2, 20, 2048, 2048), (2, 1, 20, 128, 128)),
        ((100, 1, 1, 512, 512), (32, 1, 1, 128, 128)),
        ((20, 1, 1, 5120, 5120), (1, 1, 1, 1024, 1024)),  # too few time points: y and x
        ((1, 1, 1, 997, 1009), (1, 1, 1, 997, 1009)),
        ((1, 1, 320, 207, 5), (1, 1, 320, 207, 5)),  # smaller than 512 KB
        ((1, 1, 10000, 20, 20), (1, 1, 2048, 20, 20)),
        ((1, 3, 1, 350, 350), (1, 3, 1, 350, 350)),  # smaller than 512 KB: one chunk
        ((1, 10, 1, 256, 256), (1, 8, 1, 256, 256)),
        ((1, 1, 1, 1, 997), (1, 1, 1, 1, 997)),
    ],
)
def test_e02_chunks_are_those_of_the_standard(shape: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    assert choose_chunk(shape) == chunk


@settings(max_examples=200, deadline=None)
@given(
    shape=st.tuples(
        st.sampled_from([1, 3, 15, 16, 17, 100, 997, 100_000]),
        st.sampled_from([1, 2, 7]),
        *[st.sampled_from([1, 5, 42, 128, 129, 997, 2048, 3798, 30_000])] * 3,
    ),
    itemsize=st.sampled_from([1, 2, 4, 8]),
)
def test_layouts_of_any_extents_keep_the_rules_that_must_hold(shape: tuple[int, ...], itemsize: int) -> None:
    layout = plan_levels(shape, itemsize)
    assert len(layout.levels) >= 3
    for number, level in enumerate(layout.levels):
        array = math.prod(level.shape) * itemsize
        clipped = math.prod(min(s, n) for s, n in zip(level.shard, level.shape, strict=True)) * itemsize
        assert all(s % c == 0 for s, c in zip(level.shard, level.chunk, strict=True))
        assert array < 1 << 30 or clipped >= 1 << 30
        assert clipped < 5 * 10**12
        if number == 0:
            voxels = math.prod(level.chunk)
            assert voxels >= 512 << 10 or level.chunk == level.shape
        else:
            # a job that has all of this shard has all of those below it
            below, factors = layout.levels[number - 1], layout.factors[number - 1]
            for s, b, f, n in zip(level.shard, below.shard, factors, below.shape, strict=True):
                assert s * f % b == 0 or b >= n or s * f >= n


def test_three_terabytes_are_planned_at_once() -> None:
    class Virtual:
        shape, dtype, ndim = (100, 2, 2000, 2048, 2048), np.dtype("uint16"), 5
        chunks = (1, 1, 1, 2048, 2048)

    plan = plan_ome_zarr("big.zarr", ImageToWrite(Virtual(), "tczyx"), memory=4 << 30)
    assert plan.raw_bytes > 3.3e12
    assert plan.memory <= 4 << 30
    assert plan.passes == 1.0
    assert plan.images[0].choice.tile[2:] == (128, 2048, 2048)
    assert "once" in plan.sentence()
    # a plane does not fit beside its pyramid: it is decoded more often, and the plan says so
    tight = plan_ome_zarr("big.zarr", ImageToWrite(Virtual(), "tczyx"), memory=600 << 20)
    assert tight.passes > 1.5
    assert "times on average" in tight.sentence()
    with pytest.raises(BudgetExceeded, match="memory"):
        plan_ome_zarr("big.zarr", ImageToWrite(Virtual(), "tczyx"), memory=270 << 20)


def test_each_source_chunk_is_decoded_once_where_a_slab_fits(tmp_path: Path) -> None:
    source = CountedArray(ramp((2, 150, 200, 210)), (1, 1, 200, 210))
    plan = plan_ome_zarr(tmp_path / "a.zarr", ImageToWrite(source, "czyx"))
    assert plan.passes == 1.0
    write_ome_zarr(plan)
    assert set(source.touched.values()) == {1}
    assert len(source.touched) == 300


class CountedSource:
    """Chunks for a lazy array, which counts how often each is decoded."""

    def __init__(self, data: np.ndarray, chunk: tuple[int, ...]) -> None:
        self.data, self.chunk_shape = data, chunk
        self.shape, self.dtype = data.shape, data.dtype
        self.decoded: Counter[tuple[int, ...]] = Counter()

    def read_chunk(self, index: Any, out: np.ndarray | None = None) -> np.ndarray:
        self.decoded[tuple(index)] += 1
        chunk = np.zeros(self.chunk_shape, self.dtype) if out is None else out
        part = self.data[
            tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunk_shape, strict=True))
        ]
        chunk[tuple(slice(0, n) for n in part.shape)] = part
        return chunk

    def read(self, selection: tuple[slice, ...]) -> np.ndarray:
        self.decoded[tuple(s.start // c for s, c in zip(selection, self.chunk_shape, strict=True))] += 1
        return self.data[selection]


def test_source_chunks_that_straddle_slabs_are_kept_for_the_next_one(tmp_path: Path) -> None:
    source = CountedSource(ramp((300, 140, 150)), (50, 64, 64))  # 128 is no multiple of 50
    plan = plan_ome_zarr(tmp_path / "a.zarr", ImageToWrite(LazyArray(source), "zyx"), workers=1)
    assert plan.passes == 1.0
    assert plan.images[0].choice.tile[2] == 128
    assert plan.images[0].choice.cache_bytes > 0
    write_ome_zarr(plan, workers=1)
    assert set(source.decoded.values()) == {1}
    opened = open_image(plan.target)
    np.testing.assert_array_equal(np.asarray(opened.levels[0])[0, 0], source.data)
    opened.close()


@pytest.mark.parametrize("suffix", ["zarr", "ozx"])
def test_e01_small_source_blocks_and_many_threads_lose_nothing(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_layout(monkeypatch, edge=25, shard=50)
    data = ramp((100, 100, 100))
    plan = plan_ome_zarr(
        tmp_path / f"a.{suffix}", ImageToWrite(CountedArray(data, (25, 25, 25)), "zyx"), workers=8
    )
    first = plan.images[0].layout.levels[0]
    assert first.chunk[2:] == (25, 25, 25)
    assert math.prod(first.shard_grid) >= 4
    write_ome_zarr(plan, workers=8)
    opened = open_image(plan.target)
    np.testing.assert_array_equal(np.asarray(opened.levels[0])[0, 0], data)
    opened.close()


def test_other_libraries_read_the_same(tmp_path: Path) -> None:
    data = ramp((3, 2, 40, 170, 190))
    target = tmp_path / "a.zarr"
    plan = plan_ome_zarr(target, ImageToWrite(data, "tczyx"))
    write_ome_zarr(plan)
    expected = expected_levels(data, plan.images[0].layout.factors)
    for number, level in enumerate(expected):
        np.testing.assert_array_equal(by_tensorstore(target, number), level)
    for level, found in zip(expected, levels_of(target), strict=True):
        np.testing.assert_array_equal(found, level)


def test_floats_are_shuffled_and_can_be_left_plain(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(0, 1, (40, 130, 140)).astype(np.float32)
    write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(data, "zyx"))
    write_ome_zarr(tmp_path / "b.zarr", ImageToWrite(data, "zyx"), shuffle=False)
    for name, status in (("a", "pass"), ("b", "warn")):
        report = check(tmp_path / f"{name}.zarr")
        assert report.ok
        assert [f.status for f in report.every if f.rule == "Z5"] == [status]
        opened = open_image(tmp_path / f"{name}.zarr")
        np.testing.assert_array_equal(np.asarray(opened.levels[0])[0, 0], data)
        opened.close()
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "b.zarr", 0)[0, 0], data)


def test_metadata_go_along_in_strict_json_e05(tmp_path: Path) -> None:
    axes = [Axis("c", "channel"), Axis("y", "space", "um"), Axis("x", "space", "micrometer")]
    channels = [Channel("DNA", "0000FF", (5.0, 90.0), (0.0, 255.0)), Channel("actin")]
    cells = ImageToWrite(ramp((30, 40), "uint32"), "yx", label=LabelInfo({1: (255, 0, 0, 255)}), name="cells")
    image = ImageToWrite(
        ramp((2, 30, 40)),
        axes,
        scale=(1, 0.25, 0.5),
        translation=(0, 3, -4),
        name="cell α",
        channels=channels,
        labels={"cells": cells},
        attributes={"note": [float("nan"), {"deep": float("inf")}], "text": "NaN"},
        default_z=0,
    )
    write_ome_zarr(tmp_path / "a.zarr", image)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    document = json.loads((tmp_path / "a.zarr" / "zarr.json").read_bytes(), parse_constant=refuse)
    assert document["attributes"]["note"] == [None, {"deep": None}]
    assert document["attributes"]["text"] == "NaN"
    opened = open_image(tmp_path / "a.zarr")
    assert opened.name == "cell α"
    assert [a.unit for a in opened.axes] == [None, None, None, "micrometer", "micrometer"]
    assert opened.scales[0] == (1, 1, 1, 0.25, 0.5)
    assert opened.translations[0] == (0, 0, 0, 3, -4)
    assert opened.translations[1] == (0, 0, 0, 3.125, -3.75)
    assert opened.channels[0] == Channel("DNA", "0000FF", (5.0, 90.0), (0.0, 255.0))
    assert opened.channels[1].label == "actin"
    low, high = opened.channels[1].window or (0, 0)
    assert 1200 <= low < high <= 2400  # measured: the ramp of the second channel
    assert opened.labels == ("cells",)
    opened.close()
    label = open_image(tmp_path / "a.zarr", image="labels/cells")
    assert label.label is not None
    assert label.label.colors == {1: (255, 0, 0, 255)}
    np.testing.assert_array_equal(np.asarray(label.levels[0]).reshape(30, 40), ramp((30, 40), "uint32"))
    label.close()
    assert check(tmp_path / "a.zarr").ok
    yaozarrs.open_group(str(tmp_path / "a.zarr")).validate()


def test_two_axes_without_a_place_are_folded_into_channels(tmp_path: Path) -> None:
    data = ramp((3, 2, 20, 25))
    axes = [Axis("angle", "custom"), Axis("c", "channel"), Axis("y", "space"), Axis("x", "space")]
    write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(data, axes))
    np.testing.assert_array_equal(levels_of(tmp_path / "a.zarr")[0], data.reshape(1, 6, 1, 20, 25))


def test_what_cannot_be_written_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    refused: list[tuple[type[Exception], str, Any]] = [
        (UnsupportedOperation, "real numbers", ImageToWrite(np.zeros((4, 4), np.complex64), "yx")),
        (UnsupportedOperation, "holds nothing", ImageToWrite(np.zeros((0, 4)), "yx")),
        (UsageError, "finite", ImageToWrite(np.zeros((4, 4)), "yx", scale=(1, math.nan))),
        (UsageError, "2 axes were named", ImageToWrite(np.zeros((4, 4, 4)), "yx")),
        (UsageError, "cannot be written", {"../x": ImageToWrite(np.zeros((4, 4)), "yx")}),
    ]
    for kind, words, image in refused:
        with pytest.raises(kind, match=words):
            write_ome_zarr(tmp_path / "a.zarr", image)
    with pytest.raises(UsageError, match=r"\.ozx"):
        write_ome_zarr(tmp_path / "a.tif", ImageToWrite(np.zeros((4, 4)), "yx"))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_without_being_asked(tmp_path: Path) -> None:
    for name in ("a.zarr", "a.ozx"):
        write_ome_zarr(tmp_path / name, ImageToWrite(ramp((4, 5)), "yx"))
        with pytest.raises(TargetExists):
            write_ome_zarr(tmp_path / name, ImageToWrite(ramp((6, 7)), "yx"))
        write_ome_zarr(tmp_path / name, ImageToWrite(ramp((6, 7)), "yx"), overwrite=True)
        opened = open_image(tmp_path / name)
        assert opened.shape == (1, 1, 1, 6, 7)
        opened.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.ozx", "a.zarr"]
