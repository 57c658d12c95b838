"""An export spread over a Dask cluster: a scheduler and two workers, each a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.ngff import group_keys, image_keys, ramp
from tests.support.writing import holes

from napari_decant.cli import main
from napari_decant.images import open_image

distributed = pytest.importorskip("distributed")

from tests.test_cluster import Cluster  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


FIELDS = [f"{row}/{column}/{field}" for row in "AB" for column in "12" for field in "01"]


def pixels(number: int) -> np.ndarray:
    return ramp((2, 200, 300)) + 10 * number


def plate_keys() -> dict[str, bytes]:
    wells = list(dict.fromkeys(field.rpartition("/")[0] for field in FIELDS))
    listed = [{"path": w, "rowIndex": "AB".index(w[0]), "columnIndex": "12".index(w[2])} for w in wells]
    names = {"rows": [{"name": r} for r in "AB"], "columns": [{"name": c} for c in "12"]}
    keys = group_keys("", {"plate": {"name": "p", "wells": listed, "field_count": 2, **names}})
    for well in wells:
        keys |= group_keys(well[0], {})
        keys |= group_keys(well, {"well": {"images": [{"path": "0"}, {"path": "1"}]}})
    for number, field in enumerate(FIELDS):
        keys |= image_keys([pixels(number)], "cyx", path=field)
    return keys


def put(keys: dict[str, bytes], folder: Path) -> Path:
    for key, value in keys.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    return folder


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
def test_the_fields_of_a_plate_are_spread_over_the_workers(
    cluster: Cluster, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = put(plate_keys(), tmp_path / "plate.zarr")
    target = tmp_path / f"out.{suffix}"
    words = ["export", source, "-o", target, "--cluster", cluster.address, "--workers", "1", "--json"]
    assert main([str(word) for word in words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["images"], report["verified"], report["check"]["ok"]) == (len(FIELDS), True, True)
    for number, field in enumerate(FIELDS):
        opened = open_image(target, image=field)
        np.testing.assert_array_equal(np.asarray(opened.levels[0])[0, :, 0], pixels(number))
        opened.close()
    assert holes(target) == 0
