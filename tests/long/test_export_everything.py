"""Everything of the corpus that opens is exported, passes the check, and has the pixels of the source."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.support.corpus import CorpusFile
from tests.support.limits import GIB, LimitedPool

from napari_decant import errors

pytestmark = [pytest.mark.long, pytest.mark.corpus, pytest.mark.timeout(3600)]

# every refusal has a class of its own; a result that breaks a rule or reads back wrong is none
REFUSED = set(errors.__all__) - {"IntegrityError", "Cancelled"}


def run(paths: list[Path], folder: Path) -> None:
    calls = [{"path": str(path), "folder": str(folder / str(i))} for i, path in enumerate(paths)]
    with LimitedPool(
        "tests.support.exporting:export_and_compare", memory=4 * GIB, seconds=240, workers=2
    ) as pool:
        outcomes = list(pool.map(calls))
    wrong = [
        f"{o.arguments['path']}: {o.state}: {o.value}"
        for o in outcomes
        if o.state != "done" and not (o.state == "error" and o.value.partition(":")[0] in REFUSED)
    ]
    wrong += [f"{o.arguments['path']}: {o.value}" for o in outcomes if o.state == "done" and o.value]
    assert not wrong, "\n".join(wrong)
    assert sum(o.state == "done" for o in outcomes) > len(paths) // 3


def test_zarr(corpus: Path, tmp_path: Path) -> None:
    with (corpus / "ZARR.tsv").open(newline="", encoding="utf-8") as table:
        rows = [row["path"] for row in csv.DictReader(table, delimiter="\t")]
    # sparse metadata of 25 GB of zeros: minutes of writing nothing
    run([corpus / "files" / row for row in rows if "n5-universe" not in row], tmp_path)


def test_tiffs(tiffs: list[CorpusFile], tmp_path: Path) -> None:
    run([file.path for file in tiffs[::5]], tmp_path)
