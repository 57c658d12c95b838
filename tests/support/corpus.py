"""The corpus of files that nobody on the project wrote: what its manifest says."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CorpusFile", "corpus_root", "corpus_tiffs", "stratified"]

VARIABLE = "NAPARI_DECANT_CORPUS"


@dataclass(frozen=True)
class CorpusFile:
    """A row of the manifest."""

    path: Path
    name: str
    row: dict[str, str]

    @property
    def categories(self) -> frozenset[str]:
        return frozenset(self.row["categories"].split(","))

    @property
    def plain(self) -> bool:
        """Whether nothing in the manifest speaks against mode byte-exact."""
        row = self.row
        whole = all(row[key] == "0" for key in ("zero_segs", "oob_segs", "shared_or_overlap_segs"))
        depth = row["bits_per_sample"] in ("8", "16", "32", "64")
        return row["mode_d_candidate"] == "yes" and whole and depth and not row["ifd_anomaly"]


def corpus_root() -> Path | None:
    """Return the folder that the environment names, if it does."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def corpus_tiffs(root: Path) -> list[CorpusFile]:
    """Every TIFF of the manifest."""
    with (root / "MANIFEST.tsv").open(newline="", encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table, delimiter="\t") if row["kind"] == "tiff"]
    return [CorpusFile(root / "files" / row["path"], row["path"], row) for row in rows]


def stratified(files: list[CorpusFile], count: int) -> list[CorpusFile]:
    """Choose files so that each category of layout has some: the rarest category first, in turn.

    The choice depends on the manifest alone, so every run has the same files.
    """
    by_category: defaultdict[str, list[CorpusFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.row["sha256"]):
        for category in file.categories:
            by_category[category].append(file)
    chosen: dict[str, CorpusFile] = {}
    queues = sorted(by_category.items(), key=lambda item: (len(item[1]), item[0]))
    while len(chosen) < count and any(files for _, files in queues):
        for _, waiting in queues:
            fresh = next((file for file in waiting if file.name not in chosen), None)
            waiting[:] = [file for file in waiting if file.name not in chosen and file is not fresh]
            if fresh is not None and len(chosen) < count:
                chosen[fresh.name] = fresh
    return list(chosen.values())
