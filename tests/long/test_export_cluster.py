"""An export spread over a Dask cluster: a scheduler and two workers, each a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tifffile
from tests.support.ngff import ramp
from tests.support.writing import holes

from napari_decant.cli import main
from napari_decant.images import open_image
from napari_decant.standard import check

distributed = pytest.importorskip("distributed")

from tests.test_cluster import Cluster  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_workers(2)
        with distributed.Client(made.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("suffix", ["zarr", "ozx"])
def test_a_time_series_is_exported_by_the_cluster(
    cluster: Cluster, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 1.3 GB in two channels: shards of 1 GiB and more, so that there are jobs to spread
    data = np.tile(ramp((1, 1, 128, 1024, 1024)), (3, 2, 1, 1, 1))
    for t, c in np.ndindex(3, 2):
        data[t, c] += 100 * t + c
    tifffile.imwrite(tmp_path / "a.ome.tif", data, ome=True, bigtiff=True, metadata={"axes": "TCZYX"})
    target = tmp_path / f"a.{suffix}"
    words = [
        "export",
        tmp_path / "a.ome.tif",
        "-o",
        target,
        "--cluster",
        cluster.address,
        "--workers",
        "1",
        "--json",
    ]
    assert main([str(word) for word in words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verified"]
    assert report["check"]["ok"]
    opened = open_image(target)
    for t, c in np.ndindex(3, 2):
        np.testing.assert_array_equal(opened.levels[0][t, c], data[t, c])
    opened.close()
    assert holes(target) == 0
    assert check(target).ok
