"""Stores and TIFFs that nobody here wrote show the right pixels or say why not; none crashes or hangs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.support.corpus import CorpusFile, stratified
from tests.support.limits import LimitedPool, Outcome

pytestmark = pytest.mark.corpus


def rows(corpus: Path) -> list[dict[str, str]]:
    with (corpus / "ZARR.tsv").open(newline="", encoding="utf-8") as table:
        return list(csv.DictReader(table, delimiter="\t"))


def run(function: str, paths: list[Path]) -> list[Outcome]:
    with LimitedPool(f"tests.support.corpus_images:{function}", seconds=60) as pool:
        return list(pool.map({"path": str(path)} for path in paths))


def test_every_zarr_store_shows_zarr_pythons_pixels_or_says_why_not(corpus: Path) -> None:
    table = rows(corpus)
    outcomes = run("check_zarr", [corpus / "files" / row["path"] for row in table])
    assert [o.arguments["path"] for o in outcomes if o.state != "done"] == []
    assert [(o.arguments["path"], o.value["different"]) for o in outcomes if o.value["different"]] == []
    assert sum(o.value["equal"] for o in outcomes) >= 500
    silent = []
    for row, outcome in zip(table, outcomes, strict=True):
        found = outcome.value
        readable = (
            row["zarr_python_readable"].startswith("yes") and "yes (0" not in row["zarr_python_readable"]
        )
        nothing = not found["equal"] and not found["refused"] and not found["unreadable_elsewhere"]
        if readable and nothing and "no_arrays" not in row["flags"] and int(row["files"] or 0) > 1:
            silent.append(row["path"])
    assert silent == []
    reasons = {reason for o in outcomes for reason in o.value["refused"]}
    assert all(len(reason) > 20 and "\n" not in reason for reason in reasons)


def test_some_tiffs_of_every_kind_show_tifffiles_pixels_or_say_why_not(tiffs: list[CorpusFile]) -> None:
    outcomes = run("check_tiff", [file.path for file in stratified(tiffs, 250)])
    assert [o.arguments["path"] for o in outcomes if o.state != "done"] == []
    assert [(o.arguments["path"], o.value["different"]) for o in outcomes if o.value["different"]] == []
    assert sum(o.value["equal"] for o in outcomes) >= 150
