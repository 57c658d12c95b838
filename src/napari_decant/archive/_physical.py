"""Pixel sizes, units, channels and display facts from a file's metadata."""

from __future__ import annotations

from typing import Any

from napari_decant.archive._axes import Axes

__all__ = ["physical_facts"]


def physical_facts(tif: Any, axes: Axes, samples: int) -> dict[str, Any]:
    """Fields of a `Description` that tifffile's view of the file can fill.

    Parameters
    ----------
    tif : tifffile.TiffFile
        The open file.
    axes : Axes
        Where the planes were placed.
    samples : int
        Samples of a pixel.
    """
    page = tif.pages.first
    facts: dict[str, Any] = {"inverted": int(page.photometric) == 0}
    if tif.is_imagej:
        facts["dialect"] = "imagej"
    elif tif.is_ome:
        facts["dialect"] = "ome"
    return facts
