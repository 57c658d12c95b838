"""Every Zarr store of the corpus, good, odd and hostile, gets a report: none crashes, none takes long."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.support.limits import GIB, LimitedPool


@pytest.mark.corpus
def test_every_zarr_row_is_checked_without_a_crash(corpus: Path) -> None:
    with (corpus / "ZARR.tsv").open(newline="", encoding="utf-8") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    paths = [{"path": str(corpus / "files" / row["path"])} for row in rows]
    with LimitedPool("tests.support.checking:check_location", memory=GIB, seconds=30, workers=2) as pool:
        outcomes = list(pool.map(paths))
    wrong = [f"{o.arguments['path']}: {o.state}: {o.value}" for o in outcomes if o.state != "done"]
    assert not wrong, "\n".join(wrong)
    assert len(outcomes) == len(rows)
    for row, outcome in zip(rows, outcomes, strict=True):
        # what zarr-python opens as OME-Zarr is looked at image by image
        if row["ome_version"] in ("0.4", "0.5") and row["zarr_python_readable"].startswith("yes (4"):
            assert outcome.value["images"] >= 1, row["path"]
        # a report that is not good says what is wrong
        assert outcome.value["ok"] or outcome.value["first"], row["path"]
