"""The worked example of the spatial queries document, with this package's name in it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import zarr
import zarr.codecs as zc

import napari_decant

PIXELS = (1 + np.arange(32 * 96 * 96) % 65535).astype("u2").reshape(32, 96, 96)


def write_image(path):
    group = zarr.open_group(path, mode="w", zarr_format=3)
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    datasets = []
    for level, step in enumerate((1, 2)):
        data = PIXELS[:, ::step, ::step]
        group.create_array(
            str(level),
            data=data,
            chunks=(8, 16, 16),
            shards=(16, 48, 48),
            dimension_names=list("zyx"),
            compressors=zc.ZstdCodec(level=1),
        )
        transform = [{"type": "scale", "scale": [1.0, float(step), float(step)]}]
        datasets.append({"path": str(level), "coordinateTransformations": transform})
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}


def test_the_worked_example_runs(tmp_path):
    path = tmp_path / "image.zarr"
    write_image(path)

    metadata_reader = napari_decant.FileMetadataReader(concurrency=8)
    image = napari_decant.NgffImage(
        str(path),
        reader=metadata_reader,
        multiscale_index=0,
        limits=napari_decant.NgffLimits(max_levels=16, max_metadata_bytes=4 << 20),
    )
    output = napari_decant.BatchSpec(samples=1, shape=(16, 64, 64), dtype="f32")
    query = napari_decant.SpatialQuery(
        output_to_reference=(
            (1, 0, 0, 8),
            (0, 1, 0, 16),
            (0, 0, 1, 16),
        ),
        sampler=napari_decant.Sampler(filter="nearest", boundary="error"),
    )
    resolved = image.resolve(query, shape=output.shape)

    planner = napari_decant.ChunkPlanner(
        metadata=napari_decant.ZarrMetadata(reader=metadata_reader, cache=napari_decant.MetadataCache()),
        limits=napari_decant.PlanLimits(),
    )
    executor = napari_decant.CpuExecutor(
        reader=napari_decant.FileReader(workers=4),
        limits=napari_decant.CpuLimits(max_memory_bytes=3 << 30),
    )
    with napari_decant.Pipeline(
        planner=planner,
        executor=executor,
        output=output,
        queues=napari_decant.QueueLimits(lookahead_samples=8),
    ) as pipeline:
        pipeline.push([resolved])
        with pipeline.pop() as batch:
            array = np.from_dlpack(batch)
            assert array.shape == (1, 16, 64, 64)
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array[0], PIXELS[8:24, 16:80, 16:80])


def test_importing_the_package_stays_light():
    code = """
import json, sys
before = set(sys.modules)
import napari_decant
heavy = ["zarr", "numba", "qtpy", "napari", "cupy", "numcodecs", "tifffile", "obstore"]
print(json.dumps([name for name in heavy if name in set(sys.modules) - before]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_copies_do_not_need_the_compiler():
    code = """
import sys
import napari_decant
napari_decant.CpuExecutor, napari_decant.Pipeline, napari_decant.NgffImage
assert "numba" not in sys.modules
assert "zarr" not in sys.modules, "the engine reads without zarr-python"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
