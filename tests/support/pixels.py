"""Reads array 0 of an archive with zarr alone and compares its pages with what tifffile decodes."""

from __future__ import annotations

import json
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
import zarr.storage

__all__ = ["compare_pixels", "open_array", "read_manifest", "stored_pages"]

RANK = {"t": 0, "z": 2, "y": 2, "x": 2}


def read_manifest(archive: Path) -> dict[str, Any]:
    """Return the manifest of a zipped archive."""
    with zipfile.ZipFile(archive) as opened:
        return dict(json.loads(opened.read(".decant/manifest.json")))


def open_array(archive: Path, name: str = "0") -> np.ndarray[Any, Any]:
    """Read an array of a zipped archive whole."""
    store = zarr.storage.ZipStore(archive, mode="r")
    try:
        values = zarr.open_array(store, path=name, mode="r")[...]
    finally:
        store.close()
    assert isinstance(values, np.ndarray)
    return values


def stored_pages(
    array: np.ndarray[Any, Any], manifest: dict[str, Any], pages: list[dict[str, Any]] | None = None
) -> list[np.ndarray[Any, Any]]:
    """Return the pages in the order of the manifest: section 5 of the format, by transposing back.

    ``pages`` are those of a member; by default the manifest's own.
    """
    pages = manifest["pages"] if pages is None else pages
    if not pages:
        return []
    names = manifest["plane_order"]
    assert len(names) == array.ndim - len(pages[0]["shape"])
    perm = sorted(range(len(names)), key=lambda n: RANK.get(names[n], 1))
    back = [perm.index(n) for n in range(len(names))]
    stored = array.transpose(*back, *range(len(names), array.ndim))
    flat = stored.reshape(-1, *array.shape[len(names) :])
    return [flat[page["index"]] for page in pages]


def compare_pixels(tiff: Path, archive: Path) -> str:
    """Return what differs between an archive's pages and the TIFF's as tifffile decodes them, or ''.

    Pages are found by the place of their first byte. Stacks of planes behind a single directory
    are read as tifffile's first series.
    """
    manifest = read_manifest(archive)
    pages = stored_pages(open_array(archive), manifest)
    starts = [page["dataoffsets"][0] for page in manifest["pages"]]
    compared = 0
    with tifffile.TiffFile(tiff, _useframes=False) as opened:
        by_start = {page.dataoffsets[0]: page for page in _pages(opened) if page.dataoffsets}
        for number, (mine, start) in enumerate(zip(pages, starts, strict=True)):
            if start not in by_start:
                continue
            page = by_start[start]
            if min(len(page.dataoffsets), len(page.databytecounts)) < prod(page.chunked):
                compared += 1  # tifffile leaves pixels out where byte counts are missing
                continue
            theirs = page.asarray()
            if page.planarconfig == 2 and theirs.ndim == 3:
                theirs = np.moveaxis(theirs, 0, -1)
            compared += 1
            if not _equal(mine, theirs):
                return f"page {number} at byte {start} differs: {_words(mine)} for {_words(theirs)}"
        if compared < len(pages):
            whole = opened.series[0].asarray()
            mine = np.stack(pages)
            if mine.size != whole.size or not _equal(mine.reshape(whole.shape), whole):
                return f"only {compared} of {len(pages)} pages were found, and the series differs"
    return ""


def _pages(opened: tifffile.TiffFile) -> list[Any]:
    """Every page of the chain once, and those directly below them; chains of hostile files are loops."""
    found: dict[int, Any] = {}
    waiting = [opened.pages]
    while waiting:
        for page in waiting.pop():
            if page.offset in found:
                break
            found[page.offset] = page
            if page.pages is not None:
                waiting.append(page.pages)
    return list(found.values())


def _equal(mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> bool:
    if mine.dtype != theirs.dtype.newbyteorder("="):
        return False
    mine, theirs = mine.squeeze(), theirs.squeeze()
    return mine.shape == theirs.shape and mine.tobytes() == theirs.astype(mine.dtype).tobytes()


def _words(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype} {array.shape}"
