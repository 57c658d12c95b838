"""Files that nobody here wrote pack and come back: some of every kind, hostile ones under limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.corpus import CorpusFile, stratified
from tests.support.corpus_checks import assert_sound, run_corpus

pytestmark = pytest.mark.corpus


def test_some_files_of_every_kind_come_back(tiffs: list[CorpusFile], tmp_path: Path) -> None:
    chosen = stratified(tiffs, 150)
    kinds = frozenset().union(*(file.categories for file in tiffs))
    assert frozenset().union(*(file.categories for file in chosen)) == kinds
    results = run_corpus(chosen, tmp_path)
    assert_sound(results)
