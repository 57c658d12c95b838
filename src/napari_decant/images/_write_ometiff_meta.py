"""What OME-XML says of an image that is written as OME-TIFF, in the words of tifffile."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from napari_decant.images._affine import affine_record, recorded_affine
from napari_decant.images._write_image import ImageToWrite, place_axes
from napari_decant.ngff import Axis
from napari_decant.tiff._units import in_micrometers, in_seconds, unit_name
from napari_decant.tiff.dialects import ANNOTATION

__all__ = ["ome_metadata"]

_MOST_POSITIONS: Final = 10_000
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def ome_metadata(
    image: ImageToWrite, axes: Sequence[Axis], counts: tuple[int, int, int], samples: int
) -> dict[str, Any]:
    """Sizes of voxels, positions, channels and our annotation, as ``TiffWriter.write`` takes them.

    Parameters
    ----------
    image : ImageToWrite
    axes : sequence of Axis
        Of its array.
    counts : tuple of int
        Planes along t, c and z.
    samples : int
        Of a pixel; more than 1 are the colours of a picture.
    """
    planes = math.prod(counts)
    scale, translation, units = place_axes(image, axes)
    found: dict[str, Any] = {"axes": "TCZYXS" if samples > 1 else "TCZYX", "Name": _text(image.name)}
    positions: dict[str, Any] = {}
    for role, letter in ((4, "X"), (3, "Y"), (2, "Z")):
        unit = unit_name(units[role])
        size = in_micrometers(scale[role], unit) if unit else None
        if size is None:
            continue
        found[f"PhysicalSize{letter}"], found[f"PhysicalSize{letter}Unit"] = size, "µm"
        begin = in_micrometers(translation[role], unit) if unit else None
        if begin and planes <= _MOST_POSITIONS:
            positions[f"Position{letter}"] = [begin] * planes
            positions[f"Position{letter}Unit"] = ["µm"] * planes
    step = in_seconds(scale[0], unit_name(units[0]) or "")
    if step is not None and counts[0] > 1:
        found["TimeIncrement"], found["TimeIncrementUnit"] = step, "s"
    if positions:
        found["Plane"] = positions
    channels = list(image.channels)
    if samples == 1 and len(channels) == counts[1]:
        names, colors = [_text(c.label or "") for c in channels], [c.color for c in channels]
        known: dict[str, Any] = {}
        if any(names):  # one without a name is called by its number, as viewers do
            known = {"Name": [name or str(i) for i, name in enumerate(names)]}
        if any(colors):
            known |= {"Color": [_signed(color or "FFFFFF") for color in colors]}
        if known:
            found["Channel"] = known
    decant = _recorded(image, units)
    if decant:
        found["CommentAnnotation"] = {"Namespace": ANNOTATION, "Value": json.dumps(decant)}
    return found


def _recorded(image: ImageToWrite, units: Sequence[str | None]) -> dict[str, Any]:
    """What ``decant`` says, in the units that this file has."""
    given = image.attributes.get("decant")
    if not isinstance(given, Mapping):
        return {}
    decant = dict(given)
    if image.label is not None:
        decant["labels"] = True
    record = recorded_affine(decant, list("tczyx"))
    if record is not None:
        factors = []
        for role in record["axes"]:
            unit = unit_name(units[role])
            factors.append((in_micrometers(1.0, unit) if unit else None) or 1.0)
        matrix = record["matrix"] * np.asarray(factors)[:, None]
        decant["affine"] = affine_record(matrix, ["tczyx"[role] for role in record["axes"]])
    return decant


def _text(name: str) -> str:
    """A name without the characters that XML cannot hold."""
    return _NO_XML.sub(" ", name).strip()


def _signed(color: str) -> int:
    """RRGGBB as OME's signed 32-bit RGBA."""
    number = int(color, 16) << 8 | 0xFF
    return number - (1 << 32) if number >= 1 << 31 else number
