"""Crops over http: few round trips, several in flight, sizes that are only known once read."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
import zarr.codecs as zc
from tests.support.engine import ramp
from tests.support.servers import serve_http

from napari_decant.engine import ChunkPlanner, CpuExecutor, CpuLimits, FileReader, ZarrMetadata
from napari_decant.errors import FormatError
from napari_decant.ngff import NgffImage
from napari_decant.spatial import Sampler, SpatialQuery, level_crop
from napari_decant.stores import FileMetadataReader

DATA = ramp((16, 40, 48))


def write(root, shards):
    group = zarr.open_group(root / "image.zarr", mode="w", zarr_format=3)
    group.create_array(
        "0", data=DATA, chunks=(4, 10, 12), shards=shards, compressors=zc.ZstdCodec(level=1),
        dimension_names=list("zyx"), fill_value=9,
    )  # fmt: skip
    axes = [{"name": n, "type": "space"} for n in "zyx"]
    transform = [{"type": "scale", "scale": [1.0, 1.0, 1.0]}]
    datasets = [{"path": "0", "coordinateTransformations": transform}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}


@pytest.fixture
def executor():
    with FileReader(workers=8) as reader, CpuExecutor(reader, CpuLimits(decode_workers=2)) as made:
        yield made


@pytest.mark.parametrize("shards", [None, (8, 20, 24)])
def test_crops_over_http_equal_the_array(tmp_path, executor, shards):
    write(tmp_path, shards)
    with serve_http(tmp_path) as server, ZarrMetadata(FileMetadataReader(concurrency=8)) as metadata:
        image = NgffImage(f"{server.url}/image.zarr")
        planner = ChunkPlanner(metadata)
        resolved = level_crop(image, 0, (2, 5, 6), (9, 33, 40)).resolve(image)
        server.requests.clear()
        server.delay = 0.1
        plan = planner.plan([resolved])
        assert plan.summary.exact == (shards is not None)
        assert plan.summary.stored_bytes > 0
        planned = len(server.requests)
        server.most = 0
        (found,) = executor.run(plan)
        np.testing.assert_array_equal(found, DATA[2:9, 5:33, 6:40])
        read = len(server.requests) - planned
        assert read <= plan.summary.chunks
        assert server.most > 1, "reads were in flight together"
        turned = SpatialQuery([[1, 0.1, 0, 3], [0, 1, 0.1, 9], [0, 0, 1, 10]], Sampler("linear", "clamp"), 0)
        (remote,) = executor.run(planner.plan([turned.resolve(image, (4, 12, 12))]))
        server.delay = 0
        local = NgffImage(tmp_path / "image.zarr")
        (expected,) = executor.run(ChunkPlanner().plan([turned.resolve(local, (4, 12, 12))]))
        np.testing.assert_array_equal(remote, expected)


def test_chunks_absent_on_a_server_are_fill_in_copies_and_tiles(tmp_path, executor):
    write(tmp_path, None)
    for path in (tmp_path / "image.zarr/0/c/0/0").iterdir():
        path.unlink()
    with serve_http(tmp_path) as server:
        image = NgffImage(f"{server.url}/image.zarr")
        planner = ChunkPlanner()
        (found,) = executor.run(planner.plan([level_crop(image, 0, (0, 0, 0), (8, 20, 48)).resolve(image)]))
        assert (found[:4, :10] == 9).all()
        np.testing.assert_array_equal(found[4:], DATA[4:8, :20])
        half = SpatialQuery([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0]], Sampler("nearest", "error"), 0)
        (sampled,) = executor.run(planner.plan([half.resolve(image, (7, 20, 48))]))
        np.testing.assert_array_equal(sampled, found[1:])
        planner.metadata.close()


def test_a_server_that_sends_too_much_is_refused_before_the_body_is_kept(tmp_path, executor):
    write(tmp_path, None)
    (tmp_path / "image.zarr/0/c/0/0/0").write_bytes(bytes(8 << 20))
    with serve_http(tmp_path) as server:
        image = NgffImage(f"{server.url}/image.zarr")
        plan = ChunkPlanner().plan([level_crop(image, 0, (0, 0, 0), (4, 10, 12)).resolve(image)])
        with pytest.raises(FormatError, match="at most"):
            executor.run(plan)
