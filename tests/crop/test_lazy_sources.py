"""Crops of arrays that are not ours: sliced tile by tile within the limit, however large they are."""

from __future__ import annotations

import itertools
import threading
import time
import tracemalloc

import dask.array as da
import numpy as np
import pytest
import zarr

from napari_decant.errors import BudgetExceeded, Cancelled, StorageError
from napari_decant.images import open_image
from napari_decant.images.crop import (
    CropArray,
    Cutter,
    Region,
    WorldMap,
    Written,
    measure_crop,
    place,
    placement_of,
    source_of_arrays,
    source_of_image,
    write_crop,
)
from napari_decant.progress import CancelToken
from napari_decant.spatial import Sampler

MIB = 1 << 20
TERABYTE = (8192, 8192, 8192)  # 1.1 TB of uint16
TURNED, STRAIGHT = (20.0, 10.0, -30.0), (0.0, 0.0, 0.0)


def formula(z, y, x):
    """A value for every voxel, never 0."""
    return (1 + (z * 31 + y * 17 + x * 7) % 4093).astype("u2")


class Computed:
    """Like an h5py dataset: knows shape, dtype and chunks; takes slices without steps, of one thread."""

    def __init__(self, shape=TERABYTE, chunks=(64, 64, 64), largest=64 * MIB):
        self.shape, self.chunks, self.dtype, self.ndim = shape, chunks, np.dtype("<u2"), len(shape)
        self.largest, self.asked, self._busy = largest, [], threading.Lock()

    def __getitem__(self, key):
        assert self._busy.acquire(blocking=False), "two threads at once"
        try:
            assert all(type(part) is slice and part.step is None for part in key)
            size = 2 * int(np.prod([part.stop - part.start for part in key]))
            assert size <= self.largest, f"{size} bytes at once"
            self.asked.append(size)
            return formula(*np.ogrid[key])
        finally:
            self._busy.release()

    def __array__(self, *_, **__):
        raise AssertionError("the whole array was asked for")


def cut(source, angles=STRAIGHT, size=(96.0, 128.0, 160.0), kind="nearest", center=None):
    region = Region(center or tuple(n / 2 for n in source.shape), size, angles)
    world = WorldMap.physical(source)
    return place(region, source, world, sampler=Sampler(kind, "constant", 5.0)).resolve(source)


def expected(resolution):
    """What `formula` gives at the voxels that nearest takes."""
    a, b = np.asarray(resolution.output_to_source.linear), np.asarray(resolution.output_to_source.offset)
    grid = np.stack(np.meshgrid(*[np.arange(n) + 0.5 for n in resolution.shape], indexing="ij"), -1)
    return formula(*np.moveaxis(np.floor(grid @ a.T + b).astype(int), -1, 0))


@pytest.mark.parametrize("angles", [STRAIGHT, TURNED])
@pytest.mark.parametrize("memory", [8 * MIB, 512 * MIB])
def test_a_lazy_terabyte_is_sliced_where_it_is_needed(angles, memory):
    lazy = Computed(largest=memory // 3)
    source = source_of_arrays([lazy], "zyx")
    resolution = cut(source, angles)
    with Cutter(memory) as cutter:
        facts = measure_crop(cutter, source, resolution)
        assert not lazy.asked
        assert facts.device == "CPU"
        made = cutter.cut(source, resolution)
    np.testing.assert_array_equal(made, expected(resolution))
    # turned boxes have corners that are read for nothing, but not the terabyte
    assert sum(lazy.asked) < 8 * made.nbytes


def test_the_whole_of_it_is_refused_in_one_sentence_and_told_at_once():
    lazy = Computed()
    source = source_of_arrays([lazy], "zyx")
    resolution = cut(source, STRAIGHT, tuple(map(float, TERABYTE)))
    began = time.monotonic()
    with Cutter(64 * MIB) as cutter:
        facts = measure_crop(cutter, source, resolution)
        assert facts.output_bytes == 2 * 8192**3
        with pytest.raises(BudgetExceeded, match=r"1,099,511,627,776 but memory allows 67,108,864"):
            cutter.cut(source, resolution)
        array = CropArray(source, resolution, cutter)
        with pytest.raises(BudgetExceeded):
            np.asarray(array)
        corner = array[-32:, -32:, -32:]  # parts of it may be looked at
    np.testing.assert_array_equal(corner, formula(*np.ogrid[8160:8192, 8160:8192, 8160:8192]))
    assert not any(size > 64 * MIB for size in lazy.asked)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("suffix", [".zarr", ".ome.tif"])
def test_a_crop_of_it_becomes_a_file_within_the_limit(tmp_path, suffix):
    lazy = Computed(largest=12 * MIB)
    source = source_of_arrays([lazy], "zyx", scale=(2.0, 0.5, 0.5))
    resolution = cut(source, TURNED, (256.0, 96.0, 100.0), center=(8192.0, 2048.0, 2048.0))
    with Cutter(36 * MIB) as cutter:
        placement = placement_of(source, resolution, WorldMap.physical(source))
        written = Written("crop", source.axes, placement)
        target = tmp_path / f"a{suffix}"
        write_crop(target, CropArray(source, resolution, cutter), written, memory=512 * MIB, workers=2)
    opened = open_image(target)
    found = np.asarray(opened.levels[0])
    np.testing.assert_array_equal(found.reshape(resolution.shape), expected(resolution))
    opened.close()


def test_dask_computes_few_blocks_at_once():
    """A flat slice touches every block below it; all of them together would be 64 times as much."""
    computed = []
    lock = threading.Lock()

    def block(block_info=None):
        (z, y, x) = block_info[None]["array-location"]
        with lock:
            computed.append((z[0], y[0], x[0]))
        return formula(*np.ogrid[z[0] : z[1], y[0] : y[1], x[0] : x[1]])

    blocks = ((64,) * 64, (512,) * 16, (512,) * 16)
    lazy = da.map_blocks(block, chunks=blocks, dtype="u2", meta=np.empty((0,) * 3, "u2"))
    assert lazy.nbytes > 5e11
    source = source_of_arrays([lazy], "zyx")
    resolution = cut(source, STRAIGHT, (1.0, 2048.0, 1024.0))
    limit = 240 * MIB  # two blocks of 32 MiB and what is cut from them
    with Cutter(limit) as cutter:
        np.testing.assert_array_equal(cutter.cut(source, resolution), expected(resolution))
    assert len(set(computed)) <= 15
    with (
        Cutter(64 * MIB) as cutter,
        pytest.raises(BudgetExceeded, match=r"reading array needs"),
    ):
        cutter.cut(source, resolution)


@pytest.mark.parametrize("kind", ["nearest", "linear"])
@pytest.mark.parametrize("angles", [STRAIGHT, TURNED])
def test_all_kinds_of_arrays_give_the_same(tmp_path, kind, angles):
    data = formula(*np.ogrid[0:40, 0:50, 0:60])
    np.save(tmp_path / "a.npy", data)
    wide = np.memmap(tmp_path / "b.raw", ">u2", "w+", shape=data.shape)
    wide[:] = data
    kinds = {
        "numpy": data,
        "memmap": np.load(tmp_path / "a.npy", mmap_mode="r"),
        "other byte order": wide,
        "dask": da.from_array(data, chunks=(16, 20, 7)),
        "like h5py": Computed(data.shape, (8, 8, 8)),
        "a view": np.asfortranarray(data),
    }
    results = {}
    for name, array in kinds.items():
        source = source_of_arrays([array], "zyx")
        with Cutter(8 * MIB) as cutter:
            results[name] = cutter.cut(source, cut(source, angles, (20.0, 30.0, 25.0), kind))
    for name, made in results.items():
        np.testing.assert_array_equal(made, results["numpy"], name)
        assert made.dtype == np.dtype("u2")
    assert len(np.unique(results["numpy"])) > 100


def test_memory_of_a_memmap_is_what_is_cut(tmp_path):
    """The file has 4 GB, with holes where nothing was written."""
    shape = (1024, 1024, 2048)
    held = np.memmap(tmp_path / "sparse.raw", "u2", "w+", shape=shape)
    held[511:514, 511:514, 1023:1026] = 9
    source = source_of_arrays([held], "zyx")
    tracemalloc.start()
    with Cutter(32 * MIB) as cutter:
        made = cutter.cut(source, cut(source, TURNED, (64.0, 200.0, 200.0)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 9 in made
    assert peak < 40 * MIB


def test_failures_of_others_become_one_sentence_and_cancelling_works(tmp_path):
    class Broken(Computed):
        def __getitem__(self, key):
            raise KeyError("object not found")

    class Wrong(Computed):
        def __getitem__(self, key):
            return np.ones((2, 2), "u2")

    for kind, words in ((Broken, "KeyError: 'object not found'"), (Wrong, r"gave the shape \(2, 2\)")):
        source = source_of_arrays([kind((40, 40, 40))], "zyx", name="theirs")
        with Cutter(8 * MIB) as cutter, pytest.raises(StorageError, match=rf"theirs .*\[.*{words}|{words}"):
            cutter.cut(source, cut(source, size=(8.0, 8.0, 8.0)))

    token, counter = CancelToken(), itertools.count()

    class Slow(Computed):
        def __getitem__(self, key):
            if next(counter) == 3:
                token.cancel()
            return super().__getitem__(key)

    source = source_of_arrays([Slow()], "zyx")
    resolution = cut(source, TURNED, (256.0, 256.0, 256.0))
    with Cutter(8 * MIB) as cutter:
        written = Written("crop", source.axes, placement_of(source, resolution, WorldMap.physical(source)))
        array = CropArray(source, resolution, cutter, cancel=token)
        with pytest.raises(Cancelled):
            write_crop(tmp_path / "a.zarr", array, written, memory=512 * MIB, cancel=token)
    assert next(counter) < 8
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["no dimension names", "a bare array", "a bare array in a group", "scale 0"])
@pytest.mark.parametrize("angles", [STRAIGHT, TURNED])
def test_zarr_with_flawed_metadata_goes_through_the_planner_too(tmp_path, kind, angles):
    """What a viewer shows, a crop holds: a wrong path would silently read as fill."""
    data = formula(*np.ogrid[0:40, 0:50, 0:60])
    options = {"shape": data.shape, "chunks": (16, 16, 16), "dtype": "u2"}
    if kind == "a bare array":
        zarr.create_array(tmp_path / "a.zarr", **options)[:] = data
    else:
        group = zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
        group.create_array("deep/0" if kind == "a bare array in a group" else "0", **options)[:] = data
        scale = [0.0, 1.0, 1.0] if kind == "scale 0" else [2.0, 0.5, 0.5]
        datasets = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}]
        axes = [{"name": name, "type": "space"} for name in "zyx"]
        if kind != "a bare array in a group":
            group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    opened = open_image(tmp_path / "a.zarr")
    source = source_of_image(opened)
    assert source.planned
    assert opened.ngff.strict_error
    plain = source_of_arrays([data], "zyx", scale=source.levels[0].scale)
    size = tuple(n * s / 2 for n, s in zip(data.shape, source.levels[0].scale, strict=True))
    world = WorldMap.physical(source)
    region = Region(world.whole(data.shape).center, size, angles)
    with Cutter(16 * MIB, device="cpu") as cutter:
        made, wanted = (
            cutter.cut(s, place(region, s, world, sampler=Sampler("linear", "constant")).resolve(s))
            for s in (source, plain)
        )
    np.testing.assert_array_equal(made, wanted)
    assert len(np.unique(made)) > 500
    opened.close()
