"""Memory stays under the budget, whatever the size of the image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.big_export import PlaneByPlane
from tests.support.limits import LimitedPool

from napari_decant.images import open_image

MIB = 1 << 20
SHAPE = (160, 1024, 1024)  # 320 MiB


@pytest.mark.parametrize("budget", [800 * MIB, 330 * MIB])
def test_an_image_larger_than_the_budget_is_written_within_it(budget: int, tmp_path: Path) -> None:
    call = {"target": str(tmp_path / "a.zarr"), "shape": list(SHAPE), "memory": budget}
    with LimitedPool("tests.support.big_export:write_planes", seconds=120, workers=1) as pool:
        (outcome,) = pool.map([call])
    assert outcome.state == "done", outcome.value
    assert 0 < outcome.peak <= budget
    assert outcome.value["planned"] <= budget
    # the smaller one pays with decoding planes more than once, and says so
    assert (outcome.value["passes"] == 1.0) == (budget > 500 * MIB)
    opened = open_image(tmp_path / "a.zarr")
    some = opened.levels[0][0, 0, 100:140, 500:530, 1000:]
    np.testing.assert_array_equal(some, PlaneByPlane(SHAPE)[100:140, 500:530, 1000:1024])
    opened.close()
