"""A crop far larger than memory is made piece by piece within its limit."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

CODE = """
import json, resource, sys
import numpy as np
from napari_decant import BatchSpec, ChunkPlanner, CpuExecutor, CpuLimits, Pipeline, QueueLimits
from napari_decant import Sampler, SpatialQuery
from napari_decant.engine import ZarrArray
from napari_decant.spatial import part_of
from napari_decant.stores import MemoryStore
from tests.support.images import image_of

planes, limit, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
side = 2048
meta = {"zarr_format": 2, "shape": [1 << 20, side, side], "chunks": [16, 256, 256], "dtype": "<u2",
        "fill_value": 7, "compressor": None, "filters": None, "order": "C"}
store = MemoryStore({".zarray": json.dumps(meta).encode()})
image = image_of("zyx", [{"shape": meta["shape"]}], uri=store.uri, arrays=[ZarrArray(store).meta])
image.levels[0].path = ""
query = SpatialQuery([[1, 0, 0, 9.5], [0, 1, 0, 0], [0, 0, 1, 0]], Sampler("linear", "error"), 0)
whole = query.resolve(image, (planes, side, side))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

slab = 4
parts = [part_of(whole, (z, 0, 0), (z + slab, side, side)) for z in range(0, planes, slab)]
with CpuExecutor(limits=CpuLimits(max_memory_bytes=limit, decode_workers=2)) as executor:
    warm = part_of(whole, (0, 0, 0), (1, 8, 8))
    executor.run(ChunkPlanner().plan([warm]))  # compiles, which takes memory of its own
    before = peak()
    written = 0
    output = BatchSpec(1, (slab, side, side), "u2")
    with Pipeline(ChunkPlanner(), executor, output, QueueLimits(4)) as pipeline, open(out, "wb") as file:
        for batch in pipeline.map(parts):
            with batch:
                assert (batch.array[0, ::5, ::401, ::397] == 7).all()
                written += file.write(batch.array.data)
                if written % (1 << 28) == 0:
                    file.seek(0)  # the disk need not hold all of it
    print(json.dumps({"written": written, "grown": peak() - before, "counted": executor.memory.used}))
"""


def test_a_crop_written_slab_by_slab_stays_within_its_memory(tmp_path):
    planes, limit = 48, 160 << 20
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(planes), str(limit), str(tmp_path / "out.raw")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["written"] == planes * 2048 * 2048 * np.dtype("u2").itemsize
    assert found["grown"] < limit
    assert found["counted"] == 0
