"""A crop of 20 GB goes to a file within its memory limit: straight, turned, and as TIFF."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.tiffwriter import write_sparse_imagej

from napari_decant.images import open_image
from napari_decant.images.crop import CropArray, Cutter, SavedQuery, source_of_image
from napari_decant.spatial import SizedQuery

logger = logging.getLogger(__name__)
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.name == "nt", reason="peak memory is measured with POSIX calls"),
]
SHAPE = (1100, 3008, 3072)  # 20.3 GB of uint16
CHUNK = (32, 128, 128)
FILL = 7
BLOCK = (96, 384, 384)
ROOM = 2 << 30
TURNED = ("--rotate", "10,5,-5", "--filter", "linear", "--boundary", "constant")
MIB = 1 << 20


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large image of which little is stored: blocks of camera-like noise along its diagonal."""
    folder = tmp_path_factory.mktemp("large")
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        pytest.skip(f"the disk of {folder} has {free / 1e9:.1f} GB free; this needs {ROOM / 1e9:.1f} GB")
    path = folder / "large.zarr"
    group = zarr.create_group(path, zarr_format=3)
    array = group.create_array("0", shape=SHAPE, chunks=CHUNK, dtype="u2", fill_value=FILL)
    rng = np.random.default_rng(3)
    for at in range(8):
        start = [int((n - b) * at / 7) // c * c for n, b, c in zip(SHAPE, BLOCK, CHUNK, strict=True)]
        array[tuple(slice(s, s + b) for s, b in zip(start, BLOCK, strict=True))] = rng.poisson(
            300, BLOCK
        ).astype("u2")
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    steps = [{"type": "scale", "scale": [2.0, 0.5, 0.5]}]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    return path


def cut(source: Path, target: Path, memory: int, *words: str) -> tuple[dict[str, object], int]:
    """Run the verb; what it says, and the most resident bytes that it had."""
    command = [sys.executable, "-m", "napari_decant.cli", "crop", str(source), "-o", str(target), "--json"]
    command += ["--quiet", "--memory", str(memory), "--device", "cpu", *words]
    code = (
        "import os, subprocess, sys\n"
        "done = subprocess.Popen(sys.argv[1:])\n"
        "_, status, used = os.wait4(done.pid, 0)\n"
        "print(used.ru_maxrss)\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, _, peak = done.stdout.rstrip().rpartition("\n")
    return json.loads(said), int(peak) * (1 if sys.platform == "darwin" else 1024)


def compare(source: Path, target: Path, query: SizedQuery, distinct: int = 10) -> None:
    """Boxes of the file are those of a crop that was never written."""
    opened, made = open_image(source), open_image(target)
    origin = source_of_image(opened)
    resolution = query.resolve(origin)
    found = made.levels[0]
    lead = (0,) * (found.ndim - 3)
    with Cutter(256 * MIB) as cutter:
        wanted = CropArray(origin, resolution, cutter)
        assert found.shape[-3:] == wanted.shape
        seen = set()
        for at in range(8):
            box = tuple(slice((n - 64) * at // 7, (n - 64) * at // 7 + 64) for n in wanted.shape)
            part = wanted[box]
            seen |= set(np.unique(part).tolist())
            np.testing.assert_array_equal(np.asarray(found[(*lead, *box)]), part)
        assert len(seen) >= distinct
    opened.close()
    made.close()


def query_of(report: dict[str, object], source: Path) -> SizedQuery:
    opened = open_image(source)
    made = SavedQuery.from_json(report["query"]).fit(source_of_image(opened))
    opened.close()
    return made


def told(what: str, report: dict[str, object], peak: int, limit: int) -> None:
    """Shown with ``-o log_cli=true -o log_cli_level=INFO``."""
    seconds, size = report["seconds"], report["size"]
    logger.info("%s: %d of %d MiB, %s s, %s bytes", what, peak // MIB, limit // MIB, seconds, size)


def output_bytes(report: dict[str, object]) -> int:
    facts = report["facts"]
    assert isinstance(facts, dict)
    return int(facts["output_bytes"])


@pytest.mark.parametrize("words", [(), TURNED], ids=["straight", "turned"])
def test_twenty_gigabytes_stay_within_the_budget(
    source: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    limit = 1 << 30
    report, peak = cut(source, tmp_path / "out.zarr", limit, *words)
    told(f"20 GB, {words or 'straight'}", report, peak, limit)
    assert output_bytes(report) > 20e9
    assert peak < limit
    compare(source, tmp_path / "out.zarr", query_of(report, source))
    shutil.rmtree(tmp_path / "out.zarr")


def test_a_tiff_of_five_gigabytes_stays_within_the_budget(source: Path, tmp_path: Path) -> None:
    limit = 1 << 30
    report, peak = cut(source, tmp_path / "out.ome.tif", limit, "--size", "280,3008,3072")
    told("TIFF of 5 GB", report, peak, limit)
    assert output_bytes(report) > 5e9
    assert peak < limit
    compare(source, tmp_path / "out.ome.tif", query_of(report, source))


def test_a_tiff_is_cut_within_the_budget(tmp_path: Path) -> None:
    """It is read by slices, not by a plan."""
    limit = 512 * MIB
    tiff = write_sparse_imagej(tmp_path / "in.tif", 750, 2048, 2048)
    report, peak = cut(tiff.path, tmp_path / "out.zarr", limit, "--origin", "z=20", "--size", "z=500")
    told("4 GB out of a TIFF", report, peak, limit)
    assert output_bytes(report) > 4e9
    assert peak < limit
    compare(tiff.path, tmp_path / "out.zarr", query_of(report, tiff.path), distinct=1)
