"""Field reports on crops and odd arrays: the right place, the right values, nothing invented."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import zipfile

import numcodecs
import numpy as np
import pytest
import zarr
from tests.support.engine import crop, files_of, image_in, indexed, ramp

from napari_decant.engine import ChunkPlanner, CpuExecutor, ZarrArray
from napari_decant.errors import UnsupportedOperation
from napari_decant.ngff import NgffImage
from napari_decant.spatial import Sampler, SpatialQuery, level_crop, physical_crop, rotated_crop
from napari_decant.stores import MemoryStore, open_store


@pytest.fixture(scope="module")
def executor():
    with CpuExecutor() as made:
        yield made


def run(executor, resolution, **options):
    return executor.run(ChunkPlanner().plan([resolution]), **options)[0]


def pyramid(data, levels, scale, translate=True, axes="yx", label=False):
    """A 0.4 image in memory, means of 2 x 2 blocks below level 0."""
    raw: dict = {}
    group = zarr.open_group(zarr.storage.MemoryStore(raw), mode="w", zarr_format=2)
    datasets = []
    for level in range(levels):
        step = 2**level
        group.create_array(
            str(level),
            data=data,
            chunks=(32,) * data.ndim,
            chunk_key_encoding={"name": "v2", "separator": "/"},
        )
        transform = [{"type": "scale", "scale": [s * step for s in scale]}]
        if translate and level:
            transform.append({"type": "translation", "translation": [s * (step - 1) / 2 for s in scale]})
        datasets.append({"path": str(level), "coordinateTransformations": transform})
        if level + 1 < levels:
            blocks = data.reshape(data.shape[0] // 2, 2, data.shape[1] // 2, 2)
            data = blocks.mean(axis=(1, 3)).astype(data.dtype)
    kinds = [{"name": n, "type": "space", "unit": "micrometer"} for n in axes]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": kinds, "datasets": datasets}]
    if label:
        group.attrs["image-label"] = {"version": "0.4"}
    store = MemoryStore({key: value.to_bytes() for key, value in raw.items()})
    image = NgffImage(store)
    return image, store


def test_d03_a_turned_box_gives_the_bar_upright(executor):
    yy, xx = np.mgrid[0:96, 0:96] + 0.5
    angle = np.deg2rad(30)
    # the bar's long side runs along x turned by 30 degrees towards y
    along = (xx - 48) * np.cos(angle) + (yy - 48) * np.sin(angle)
    across = -(xx - 48) * np.sin(angle) + (yy - 48) * np.cos(angle)
    data = np.where((abs(along) <= 10) & (abs(across) <= 5), 1000, 1).astype("u2")
    image, _store = pyramid(data, 1, (0.5, 0.5))
    query = rotated_crop(image, (48, 48), (20, 40), 30, units="reference", sampler=Sampler("linear", "error"))
    found = run(executor, query.resolve(image))
    rows, columns = np.where(found > 500)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == pytest.approx((5, 14, 10, 29), abs=1)
    assert (found > 500).sum() == pytest.approx(200, rel=0.1)


@pytest.mark.parametrize("factor", [0.5, 2, 4])
@pytest.mark.parametrize("name", ["nearest", "linear"])
def test_d04_no_ring_and_no_shift(executor, factor, name):
    image, _store = pyramid(np.full((32, 32), 100, "u2"), 1, (1, 1))
    n = int(32 / factor)
    boundary = "clamp" if name == "linear" else "error"
    query = SpatialQuery([[factor, 0, 0], [0, factor, 0]], Sampler(name, boundary), 0)
    assert (run(executor, query.resolve(image, (n, n))) == 100).all()


def test_d04_a_bright_pixel_stays_where_it_is(executor):
    data = np.ones((33, 33), "f4")
    data[16, 10] = 1001
    image, _store = pyramid(data, 1, (1, 1))
    query = SpatialQuery([[0.5, 0, 0], [0, 0.5, 0]], Sampler("linear", "clamp"), 0)
    found = run(executor, query.resolve(image, (66, 66))).astype(float) - 1
    centre = [(found.sum(axis=1 - a) * (np.arange(66) + 0.5)).sum() / found.sum() / 2 for a in (0, 1)]
    np.testing.assert_allclose(centre, (16.5, 10.5), atol=1e-6)


@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_d05_no_value_leaves_the_range_of_the_source(executor, dtype):
    data = np.zeros((40, 40), dtype)
    data[:, 20:] = 65535
    image, _store = pyramid(data, 1, (1, 1))
    query = rotated_crop(image, (20, 20), (24, 24), 17, units="reference", sampler=Sampler("linear", "clamp"))
    found = run(executor, query.resolve(image))
    assert found.dtype == np.dtype(dtype)
    assert found.min() >= 0
    assert found.max() <= 65535
    assert 0 < found.mean() < 65535


def test_d05_labels_keep_their_ids(executor):
    data = np.ones((40, 40), "u4")
    data[5:30, 8:33] = 7
    data[12:20, 15:25] = 4000000001
    image, _store = pyramid(data, 1, (1, 1), label=True)
    turned = rotated_crop(
        image, (20, 20), (24, 24), 33, units="reference", sampler=Sampler("nearest", "error")
    )
    found = run(executor, turned.resolve(image))
    assert set(np.unique(found)) == {1, 7, 4000000001}
    smooth = rotated_crop(
        image, (20, 20), (24, 24), 33, units="reference", sampler=Sampler("linear", "error")
    )
    with pytest.raises(UnsupportedOperation, match="labels"):
        smooth.resolve(image)


@pytest.mark.parametrize(
    "codec",
    [None, numcodecs.Zstd(1), numcodecs.Blosc("lz4", 5, 1), numcodecs.Blosc("zstd", 5, 1), numcodecs.GZip(1)],
    ids=lambda codec: type(codec).__name__,
)
@pytest.mark.parametrize("kind", ["one byte", "incompressible", "large"])
def test_d06_every_valid_buffer_decodes(executor, codec, kind):
    rng = np.random.default_rng(1)
    data = {
        "one byte": np.full(1, 9, "u1"),
        "incompressible": rng.integers(1, 255, 300_000).astype("u1"),
        "large": np.repeat(ramp((1 << 19,), "u4"), 8),
    }[kind]
    image = image_in(files_of(data, chunks=data.shape, zarr_format=2, compressors=codec), "x")
    half = max(1, len(data) // 2)
    for start, n in ((0, len(data)), (len(data) - half, half), (half // 2, 1)):
        found = run(executor, indexed(image, slice(start, start + n)))
        np.testing.assert_array_equal(found, data[start : start + n])


@pytest.mark.parametrize("translate", [True, False])
def test_d07_levels_show_the_same_place(executor, translate):
    yy, xx = np.mgrid[0:64, 0:64]
    data = (1000 + 10 * yy + xx).astype("f4")
    image, _store = pyramid(data, 3, (0.4, 0.4), translate)
    for level, source in enumerate(image.levels):
        box = level_crop(image, level, (2, 3), (8, 9), Sampler("linear", "error")).resolve(image)
        assert not box.requires_resampling
        found = run(executor, box)
        corners = np.stack(np.meshgrid(np.arange(2, 8) + 0.5, np.arange(3, 9) + 0.5, indexing="ij"), -1)
        reference = corners * source.scale_to_reference + source.origin_reference_index - 0.5
        expected = 1000 + 10 * reference[..., 0] + reference[..., 1]
        # without translations the metadata says another place than the pixels come from: we follow it
        shift = 0 if translate else 11 * (2**level - 1) / 2
        np.testing.assert_allclose(found, expected + shift, atol=1e-3)


def test_a_physical_box_is_the_same_place_on_every_level(executor):
    yy, xx = np.mgrid[0:64, 0:64]
    image, _store = pyramid((1000 + 10 * yy + xx).astype("f4"), 3, (0.4, 0.4))
    means = []
    for level in range(3):
        spacing = (0.4 * 2**level,) * 2
        box = physical_crop(
            image, (3.2, 6.4), (12.8, 9.6), sampler=Sampler("linear"), level=level, spacing=spacing
        )
        means.append(run(executor, box.resolve(image)).mean())
    np.testing.assert_allclose(means, means[0], atol=0.05)


def test_a05_the_arrays_own_metadata_decides_the_keys(executor):
    data = ramp((10, 12))
    for options in (
        {"zarr_format": 2},
        {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
        {"zarr_format": 3, "chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"zarr_format": 3},
    ):
        files = files_of(data, chunks=(4, 5), **options)
        image = image_in(files, "yx")
        np.testing.assert_array_equal(run(executor, crop(image, (1, 2), (9, 10))), data[1:, 2:])
        if options["zarr_format"] == 2 and len(options) == 1:  # the separator absent means "."
            meta = json.loads(files[".zarray"])
            meta.pop("dimension_separator", None)
            image = image_in(files | {".zarray": json.dumps(meta).encode()}, "yx")
            np.testing.assert_array_equal(run(executor, crop(image, (1, 2), (9, 10))), data[1:, 2:])


def test_a06_null_fill_and_one_of_four_chunks_absent(executor):
    data = ramp((64, 64))
    files = files_of(data, chunks=(32, 32), zarr_format=2)
    meta = json.loads(files[".zarray"]) | {"fill_value": None}
    del files["1.0"]
    image = image_in(files | {".zarray": json.dumps(meta).encode()}, "yx")
    plan = ChunkPlanner().plan([crop(image, (0, 0), (64, 64))])
    assert (plan.summary.absent_chunks, plan.summary.chunks) == (1, 4)
    (found,) = executor.run(plan)
    assert (found[32:, :32] == 0).all()
    np.testing.assert_array_equal(found[:32], data[:32])
    np.testing.assert_array_equal(found[:, 32:], data[:, 32:])


def test_a10_one_zip_read_by_many_threads(tmp_path):
    rng = np.random.default_rng(0)
    chunks = [rng.integers(1, 255, 4096).astype("u1").tobytes() for _ in range(200)]
    sums = [hashlib.sha256(chunk).digest() for chunk in chunks]
    meta = {"zarr_format": 2, "shape": [200 * 4096], "chunks": [4096], "dtype": "|u1", "fill_value": 0}
    meta |= {"compressor": None, "filters": None, "order": "C"}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = tmp_path / f"{method}.zarr.zip"
        with zipfile.ZipFile(path, "w", method) as zipped:
            zipped.writestr(".zarray", json.dumps(meta))
            for i, chunk in enumerate(chunks):
                zipped.writestr(str(i), chunk)
        array = ZarrArray(open_store(path))
        wrong = []
        stop = time.monotonic() + 0.7

        def read(seed, array=array, wrong=wrong, stop=stop):
            order = np.random.default_rng(seed)
            while time.monotonic() < stop:
                i = int(order.integers(200))
                if hashlib.sha256(array.read_chunk((i,)).tobytes()).digest() != sums[i]:
                    wrong.append(i)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        array.store.close()


@pytest.mark.parametrize("dtype", [">u2", ">f4", ">i2"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a11_big_endian_reads_right(executor, dtype, zarr_format):
    data = np.arange(1, 65536, dtype="i4")[: 255 * 257].reshape(255, 257).astype(dtype)
    options = {"zarr_format": zarr_format}
    if zarr_format == 3:
        options["serializer"] = zarr.codecs.BytesCodec(endian="big")
    native = data.astype(data.dtype.newbyteorder("="))
    image = image_in(files_of(data if zarr_format == 2 else native, chunks=(64, 100), **options), "yx")
    assert image.levels[0].array.dtype == np.dtype(dtype)
    found = run(executor, crop(image, (3, 5), (240, 250)))
    assert found.dtype == native.dtype
    np.testing.assert_array_equal(found, native[3:243, 5:255])
    turned = SpatialQuery([[0, 1, 0], [-1, 0, 257]], Sampler("nearest", "error"), 0).resolve(
        image, (257, 255)
    )
    np.testing.assert_array_equal(run(executor, turned), native.T[::-1])
