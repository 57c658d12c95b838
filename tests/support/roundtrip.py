"""One file's way into an archive and back, for `tests.support.limits` workers."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from pathlib import Path
from typing import Any

from tests.support.pixels import compare_pixels

from napari_decant.archive import pack, restore, verify

__all__ = ["round_trip", "run_verb"]


def round_trip(path: str, sha256: str, work: str, keep: bool = False) -> dict[str, Any]:
    """Pack a file, restore it, verify the archive and compare its pixels; runs in a limited worker.

    The folder ``work`` is removed; with ``keep`` the archive stays as ``WORK.zarr.zip``.
    """
    folder = Path(work)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        report = pack(path, folder, workers=1)
        restored = restore(report.archive, folder / "back", workers=1).files
        state = verify(report.archive, workers=1)
        found = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in restored]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = compare_pixels(Path(path), report.archive) if report.mode == "byte-exact" else ""
        if keep:
            report.archive.rename(folder.with_name(folder.name + ".zarr.zip"))
        return {
            "same": found == [(Path(path).name, sha256)] and report.sha256 == sha256,
            "whole": state.whole is True and not state.problems,
            "mode": report.mode,
            "reason": report.reason,
            "axes": list(report.axes),
            "shape": list(report.shape),
            "notes": list(report.notes),
            "pixels": pixels,
        }
    finally:
        shutil.rmtree(folder)


def run_verb(verb: str, path: str, folder: str) -> dict[str, Any]:
    """Run one verb with two workers, so that its memory can be measured alone."""
    if verb == "pack":
        packed = pack(path, folder, workers=2, overwrite=True)
        return {"archive": str(packed.archive), "mode": packed.mode, "shape": list(packed.shape)}
    if verb == "verify":
        return {"whole": verify(path, workers=2).whole}
    return {"files": [str(file) for file in restore(path, folder, workers=2, overwrite=True).files]}
