"""Real multi-page files have the axes that an independent decoder finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.corpus import CorpusFile
from tests.support.limits import GIB, LimitedPool

pytestmark = pytest.mark.corpus

_UNNAMED = frozenset("IQ")
"""What tifffile calls axes it knows nothing of."""


def test_axes_of_real_files(tiffs: list[CorpusFile], tmp_path: Path) -> None:
    chosen = [
        file for file in tiffs if file.row["mode_d_candidate"] == "yes" and int(file.row["n_pages"] or 0) > 1
    ]
    arguments = [{"path": str(file.path), "work": str(tmp_path / str(i))} for i, file in enumerate(chosen)]
    with LimitedPool("tests.support.axes_check:compare_axes", memory=2 * GIB, seconds=30) as pool:
        outcomes = list(pool.map(arguments))
    faults: list[str] = []
    kinds: Counter[str] = Counter()
    for file, outcome in zip(chosen, outcomes, strict=True):
        if outcome.state != "done":
            faults.append(f"{file.name}: {outcome.state} {outcome.value}")
            continue
        found = outcome.value
        if found["mode"] != "byte-exact":
            continue
        kinds[found["equal"]] += 1
        named = set(found["tifffile"]) - set("YXS")
        if found["equal"] not in ("axes", "order", "gaps", "subset"):
            faults.append(f"{file.name}: {found['equal']} ({found['axes']}, {found['tifffile']})")
        elif found["equal"] != "axes" and named - _UNNAMED and not found["true_axes"]:
            faults.append(f"{file.name}: tifffile has {found['tifffile']}, the archive {found['axes']}")
        elif found["equal"] == "gaps" and not found["notes"]:
            faults.append(f"{file.name}: nothing says that planes are missing")
    assert not faults, "\n".join(faults)
    assert kinds["axes"] >= 30, kinds
