"""Compares where an archive puts planes with where tifffile puts them, for `tests.support.limits` workers."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile
from tests.support.pixels import open_array

from napari_decant.archive import pack

__all__ = ["compare_axes"]

_LETTERS = {"t": "T", "z": "Z", "c": "C", "y": "Y", "x": "X", "ch": "C"}


def compare_axes(path: str, work: str) -> dict[str, Any]:
    """Pack a file and compare array 0, laid out as tifffile's largest series, with what tifffile decodes."""
    folder = Path(work)
    folder.mkdir(parents=True)
    try:
        report = pack(path, folder, workers=1)
        if report.mode != "byte-exact":
            return {"mode": report.mode}
        with zipfile.ZipFile(report.archive) as opened:
            decant = json.loads(opened.read(".zattrs"))["decant"]
        array = open_array(report.archive)
        with warnings.catch_warnings(), tifffile.TiffFile(path) as tif:
            warnings.simplefilter("ignore")
            series = max(tif.series, key=lambda found: found.size)
            letters, decoded = series.axes, series.asarray()
        found = _compare(array, report.axes, decant, letters, decoded)
        return {
            "mode": report.mode,
            "axes": list(report.axes),
            "tifffile": letters,
            "equal": found,
            "true_axes": decant.get("true_axes", []),
            "notes": list(report.notes),
        }
    finally:
        shutil.rmtree(folder)


def _compare(
    array: npt.NDArray[Any],
    axes: tuple[str, ...],
    decant: dict[str, Any],
    letters: str,
    decoded: npt.NDArray[Any],
) -> str:
    """``axes``: equal along named axes; ``order``: equal in file order; else what differs."""
    samples = decant["samples"] > 1
    names = [_LETTERS.get(axis, axis) for axis in axes]
    if samples:
        names[-1] = "S"
    if len(names) == len(letters) + 1 and array.shape[0] == 1:
        names, array = names[1:], array[0]  # a single page has no leading axis in tifffile
    if sorted(names) == sorted(letters):
        laid = array.transpose([names.index(letter) for letter in letters])
        return "axes" if np.array_equal(laid, decoded) else "the planes lie elsewhere"
    true_axes = decant.get("true_axes", [])
    if true_axes and prod(extent for _, extent in true_axes) != array.shape[0]:
        return _gaps(array, decoded)
    if array.size != decoded.size:
        known = {plane.tobytes() for plane in array}
        return "subset" if decoded.tobytes() in known or _all_in(decoded, known, array) else "other planes"
    return "order" if np.array_equal(array.reshape(decoded.shape), decoded) else "other order"


def _gaps(array: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> str:
    """Each plane is one of tifffile's, and what tifffile has more are zeros that it made up."""
    planes = {plane.tobytes() for plane in array}
    stack = decoded.reshape(-1, *array.shape[1:])
    invented = [plane for plane in stack if plane.tobytes() not in planes]
    there = {plane.tobytes() for plane in stack}
    if any(plane.any() for plane in invented):
        return "tifffile has planes that the archive lacks"
    return "gaps" if len(planes & there) >= min(len(planes), len(stack) - len(invented)) else "other planes"


def _all_in(decoded: npt.NDArray[Any], known: set[bytes], array: npt.NDArray[Any]) -> bool:
    return all(plane.tobytes() in known for plane in decoded.reshape(-1, *array.shape[1:]))
