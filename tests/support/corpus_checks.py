"""Runs corpus files through the archive under limits, and says what no file may do."""

from __future__ import annotations

from pathlib import Path

from .corpus import CorpusFile
from .limits import GIB, LimitedPool, Outcome

__all__ = ["RULES", "assert_sound", "kept_archives", "run_corpus"]

RULES = {
    "complex-integer": "complex int",
    "fill-order": "FillOrder 2",
    "image-depth": "ImageDepth > 1",
    "mixed-pages": "the image data left in the husk would outweigh the listed pixels",
    "overlapping-segments": "shared, overlapping segments",
    "plane-too-large": "plane > 2 GiB",
    "segments-beyond-end": "wrong StripByteCounts: past the end of the file",
    "short-segments": "wrong StripByteCounts: shortfall",
    "sparse-segments": "offset or count 0",
    "subsampled-colour": "chroma at a lower resolution has no array of one plane",
}
"""Rules of the design that keep a file verbatim whose manifest row looks plain: code and words."""


def run_corpus(
    files: list[CorpusFile], folder: Path, *, keep: bool = False
) -> list[tuple[CorpusFile, Outcome]]:
    """Pack, restore, verify and compare each file, in two workers of 2 GiB, 30 s a file."""
    arguments = [
        {
            "path": str(file.path),
            "sha256": file.row["sha256"],
            "work": str(folder / f"{number}"),
            "keep": keep,
        }
        for number, file in enumerate(files)
    ]
    with LimitedPool("tests.support.roundtrip:round_trip", memory=2 * GIB, seconds=30) as pool:
        return list(zip(files, pool.map(arguments), strict=True))


def kept_archives(folder: Path) -> dict[int, Path]:
    """Return the archives that `run_corpus` kept, by the number of their file."""
    found = {int(path.name.partition(".")[0]): path for path in folder.glob("*.zarr.zip")}
    return dict(sorted(found.items()))


def assert_sound(results: list[tuple[CorpusFile, Outcome]]) -> None:
    """Fail with a line for each file that did not come back whole, or has no good reason to be verbatim."""
    faults = [f"{file.name}: {fault}" for file, outcome in results for fault in _faults(file, outcome)]
    assert not faults, "\n".join(faults)


def _faults(file: CorpusFile, outcome: Outcome) -> list[str]:
    if outcome.state != "done":
        return [f"{outcome.state} after {outcome.seconds:.1f} s: {outcome.value}"]
    result, faults = outcome.value, []
    if not result["same"]:
        faults.append("did not come back byte for byte")
    if not result["whole"]:
        faults.append("its archive does not verify")
    if result["pixels"]:
        faults.append(result["pixels"])
    if outcome.peak > 2 * GIB:
        faults.append(f"took {outcome.peak:,} bytes of memory")
    if result["mode"] == "verbatim":
        if not result["reason"]:
            faults.append("is verbatim and does not say why")
        elif result["reason"] == "reconstruction-differs":
            faults.append("was planned as byte-exact but was not")
        elif file.plain and result["reason"] not in RULES:
            faults.append(f"should be byte-exact, but is verbatim: {result['reason']}")
    return faults
