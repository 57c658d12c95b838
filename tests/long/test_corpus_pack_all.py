"""All files of the corpus pack and come back, also through the short reader alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.archivewriter import nest
from tests.support.corpus import CorpusFile
from tests.support.corpus_checks import assert_sound, kept_archives, run_corpus
from tests.support.recovering import recover

pytestmark = [pytest.mark.corpus, pytest.mark.long, pytest.mark.timeout(1800)]


def test_every_file_comes_back(
    tiffs: list[CorpusFile], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    results = run_corpus(tiffs, tmp_path, keep=True)
    assert len(results) >= 1805
    modes = Counter(outcome.value["mode"] for _, outcome in results if outcome.state == "done")
    reasons = Counter(outcome.value["reason"] for _, outcome in results if outcome.state == "done")
    record_property("byte-exact", modes["byte-exact"])
    record_property("reasons", dict(reasons))
    print(f"\n{modes['byte-exact']} of {len(results)} files are byte-exact; {reasons}")  # noqa: T201
    assert_sound(results)
    assert modes["byte-exact"] >= 500
    archives = {f"{number}.tif": archive for number, archive in kept_archives(tmp_path).items()}
    assert len(archives) == len(tiffs)
    assert recover(nest(tmp_path / "all.zarr", archives), tmp_path / "recovered", seconds=600) == (0, "")
    for number, file in enumerate(tiffs):
        assert (tmp_path / "recovered" / f"{number}.tif").read_bytes() == file.path.read_bytes(), file.name
