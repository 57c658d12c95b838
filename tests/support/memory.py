"""Packs, verifies and restores a file in a limited worker, and reports the memory that each verb took."""

from __future__ import annotations

from pathlib import Path

from .limits import LimitedPool
from .tiffspec import WrittenTiff

__all__ = ["MIB", "peaks"]

MIB = 1 << 20


def peaks(tiff: WrittenTiff, folder: Path, *, seconds: float = 60) -> dict[str, int]:
    """Return most resident bytes of each verb; fails unless the file comes back as an equal image."""
    found = {}
    with LimitedPool("tests.support.roundtrip:run_verb", seconds=seconds, workers=1) as pool:

        def run(verb: str, path: Path) -> dict[str, object]:
            [outcome] = pool.map([{"verb": verb, "path": str(path), "folder": str(folder)}])
            assert outcome.state == "done", outcome
            found[verb] = outcome.peak
            return dict(outcome.value)

        archive = Path(str(run("pack", tiff.path)["archive"]))
        assert run("verify", archive) == {"whole": True}
        folder = folder / "back"
        run("restore", archive)
    assert same_bytes(tiff.path, folder / tiff.path.name)
    (folder / tiff.path.name).unlink()
    return found


def same_bytes(one: Path, other: Path) -> bool:
    """Compare two files block by block."""
    with one.open("rb") as first, other.open("rb") as second:
        while True:
            block = first.read(1 << 24)
            if block != second.read(1 << 24):
                return False
            if not block:
                return True
