"""What any TIFF may say: resolution tags, and the shape that tifffile writes into the description."""

from __future__ import annotations

import json
from fractions import Fraction

from napari_decant.tiff._places import Places
from napari_decant.tiff._units import LENGTH_UNIT, micrometers
from napari_decant.tiff.dialects._reading import Reading, whole
from napari_decant.tiff.dialects._tags import TagReader

__all__ = ["read_resolution", "read_shaped"]

_DESCRIPTION = 270
_RESOLUTION = {"x": 282, "y": 283}
_RESOLUTION_UNIT = 296
_UNITS = {2: "inch", 3: "cm"}
_INCH = 2
_SCREEN = Fraction(72)
_MAX_DESCRIPTION = 1 << 16
_NAMES = {"T": "t", "Z": "z", "C": "c", "P": "p", "R": "p"}


def read_resolution(tags: TagReader) -> Reading:
    """Read the pixel size from the resolution tags, if they have a unit."""
    reading = Reading("")
    units = tags.integers(_RESOLUTION_UNIT)
    unit = units[0] if len(units) == 1 else _INCH  # the default of TIFF 6.0
    resolutions = {axis: tags.rational(code) for axis, code in _RESOLUTION.items()}
    if unit == _INCH and set(resolutions.values()) <= {_SCREEN, None}:
        return reading  # 72 dpi is what writers put for "none", as ImageJ takes it, too
    if unit in _UNITS:
        for axis, resolution in resolutions.items():
            if resolution is not None:
                reading.set_step(axis, micrometers(1 / resolution, _UNITS[unit]), LENGTH_UNIT)
    return reading


def read_shaped(tags: TagReader) -> Reading | None:
    """Read the shape and axes of a stack written by tifffile; None if the file has none."""
    text = tags.text(_DESCRIPTION, limit=_MAX_DESCRIPTION)
    if not text.startswith('{"'):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    shape = value.get("shape") if isinstance(value, dict) else None
    if not isinstance(shape, list) or not 2 < len(shape) <= 32:
        return None
    extents = [whole(extent, 1, 1 << 31) for extent in shape]
    if None in extents:
        return None
    letters = value.get("axes")
    page = 3 if tags.samples > 1 else 2
    if not isinstance(letters, str) or len(letters) != len(shape):
        letters = "Q" * (len(shape) - page) + ("YXS" if page == 3 else "YX")
    if letters[-page:] not in ("YXS", "YX", "SYX"):
        return None
    leading = [
        (_NAMES.get(letter, letter.lower()), extent or 1)
        for letter, extent in zip(letters[:-page], extents, strict=False)
    ]
    names, sizes = [name for name, _ in leading], [size for _, size in leading]
    return Reading("tifffile", Places.grid(names, sizes, tags.planes)) if names else None
