"""Named layouts that tests of whole archives go through one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .tiffspec import TiffSpec, WrittenTiff
from .tiffwriter import write_tiff

__all__ = ["SPECS", "the_tiff"]

_HYPERSTACK = "ImageJ=1.54f\nimages=12\nchannels=3\nslices=2\nframes=2\nhyperstack=true\n"

SPECS = {
    "plain": TiffSpec(),
    "strips": TiffSpec(pages=3, rows_per_strip=5, ifd="after", byteorder=">"),
    "scattered": TiffSpec(
        pages=4,
        rows_per_strip=5,
        gap=9,
        ifd="scattered",
        page_order="reverse",
        segment_order="shuffled",
        interleave=True,
        sorted_tags=False,
        private_tags=3,
        subifds=2,
        thumbnail=True,
        trailing=7,
    ),
    "tiles": TiffSpec(height=33, width=40, tile=(16, 16), samples=3, dtype="float32", excess=4),
    "planar-tiles": TiffSpec(
        pages=2, height=33, width=40, tile=(16, 32), samples=3, planar=True, byteorder=">", bigtiff=True
    ),
    "planar-strips": TiffSpec(dtype="uint8", samples=4, planar=True, rows_per_strip=1),
    "half-nan": TiffSpec(dtype="float16", values="bits", byteorder=">"),
    "double-nan": TiffSpec(dtype="float64", values="bits", byteorder=">", rows_per_strip=4),
    "complex": TiffSpec(dtype="complex64", byteorder=">"),
    "signed": TiffSpec(dtype="int64", samples=2, byteorder=">"),
    "imagej": TiffSpec(pages=5, imagej=True, byteorder=">"),
    "hyperstack": TiffSpec(pages=12, description=_HYPERSTACK, byteorder=">"),
    "compressed": TiffSpec(deflate=True),
    "twelve-bit": TiffSpec(bits=12),
}


def the_tiff(folder: Path, name: str, **changes: Any) -> WrittenTiff:
    """Write one of the layouts as ``NAME.tif``."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = TiffSpec(**{**SPECS[name].__dict__, **changes})
    return write_tiff(folder / f"{name}.tif", spec)
