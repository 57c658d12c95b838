"""Pixel sizes, units and channels that a TIFF's own metadata state, in micrometers and seconds."""

from __future__ import annotations

import logging
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from napari_decant.errors import FormatError
from napari_decant.images._units import in_micrometers, in_seconds, unit_name
from napari_decant.ngff import Channel
from napari_decant.ngff._zarr_json import load_json

__all__ = ["ANNOTATION", "TiffFacts", "has_doctype", "tiff_facts"]

logger = logging.getLogger(__name__)
ANNOTATION = "napari-decant"
_MAX_XML = 64 << 20
_MAX_ANNOTATION = 1 << 20
_CENTIMETER = 3


@dataclass(slots=True)
class TiffFacts:
    """What the metadata say; only what they do say.

    Attributes
    ----------
    spacing : dict of str to float
        Of ``x``, ``y``, ``z`` in micrometers and ``t`` in seconds.
    units : dict of str to str
        ``"micrometer"`` and ``"second"`` for the same names.
    channels : tuple of Channel
        In the order of the channel axis.
    name : str or None
        Of the image.
    inverted : bool
        Low values are bright.
    dialect : str
        ``"ome"``, ``"imagej"``, ``"lsm"``, ``"micromanager"`` or ``""``.
    decant : dict
        What this program has recorded in a file that it wrote.
    """

    spacing: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    name: str | None = None
    inverted: bool = False
    dialect: str = ""
    decant: dict[str, Any] = field(default_factory=dict)

    def length(self, axis: str, value: Any, unit: str | None) -> None:
        """Keep a pixel size if it is a positive length in a known unit."""
        size = _positive(value)
        named = unit_name(unit)
        converted = in_micrometers(size, named) if size is not None and named is not None else None
        if converted is not None:
            self.spacing[axis], self.units[axis] = converted, "micrometer"

    def duration(self, value: Any, unit: str | None) -> None:
        """Keep a time step if it is a positive duration in a known unit."""
        step = _positive(value)
        named = unit_name(unit)
        converted = in_seconds(step, named) if step is not None and named is not None else None
        if converted is not None:
            self.spacing["t"], self.units["t"] = converted, "second"


def _positive(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def has_doctype(text: str) -> bool:
    """Whether XML defines entities, which is how a few bytes ask for gigabytes; such text is never parsed."""
    return "<!DOCTYPE" in text or "<!ENTITY" in text


def tiff_facts(tif: Any, series: int = 0) -> TiffFacts:
    """Read the facts of one series of an open TIFF.

    Parameters
    ----------
    tif : tifffile.TiffFile
        The file.
    series : int, optional
        Which image of OME-XML.

    Returns
    -------
    TiffFacts
        Empty where nothing is stated. Metadata that contradict themselves raise what their reader raises.
    """
    page = tif.pages.first
    facts = TiffFacts(inverted=int(page.photometric) == 0)
    readers: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("ome", lambda: bool(tif.is_ome) and _from_ome(tif, series, facts)),
        ("imagej", lambda: bool(tif.is_imagej) and _from_imagej(tif, page, facts)),
        ("lsm", lambda: bool(tif.is_lsm) and _from_lsm(tif, facts)),
        ("micromanager", lambda: bool(tif.is_micromanager) and _from_micromanager(tif, facts)),
    )
    for dialect, read in readers:
        if read():
            facts.dialect = dialect
            return facts
    _from_tags(page, facts)
    return facts


def _resolution(page: Any, tag: int) -> float | None:
    """Pixel size in the resolution's unit."""
    value = page.tags.valueof(tag)
    if not isinstance(value, tuple) or len(value) < 2:
        return None
    per_unit, count = _positive(value[0]), _positive(value[1])
    return count / per_unit if per_unit is not None and count is not None else None


def _from_tags(page: Any, facts: TiffFacts) -> None:
    """Resolution in centimeters is meant; inches are what every drawing program writes without knowing."""
    if page.tags.valueof(296) == _CENTIMETER:
        facts.length("x", _resolution(page, 282), "cm")
        facts.length("y", _resolution(page, 283), "cm")


def _from_imagej(tif: Any, page: Any, facts: TiffFacts) -> bool:
    meta = tif.imagej_metadata or {}
    unit = str(meta.get("unit", "")) or None
    facts.length("x", _resolution(page, 282), unit)
    facts.length("y", _resolution(page, 283), unit)
    facts.length("z", meta.get("spacing"), unit)
    interval = _positive(meta.get("finterval"))
    rate = _positive(meta.get("fps"))
    if interval is None and rate is not None:
        interval = 1 / rate
    facts.duration(interval, str(meta.get("tunit", "")) or "sec")
    ranges = meta.get("Ranges")
    luts = meta.get("LUTs") or ()
    channels = int(meta.get("channels", 1))
    pairs = list(zip(ranges[::2], ranges[1::2], strict=False)) if isinstance(ranges, tuple) else []
    if channels == 1 and not pairs and "min" in meta and "max" in meta:
        pairs = [(meta["min"], meta["max"])]
    facts.channels = tuple(
        Channel(
            window=_window(pairs[i]) if i < len(pairs) else None,
            color=_lut_color(luts[i]) if channels > 1 and i < len(luts) else None,
        )
        for i in range(min(channels, 10_000))
    )
    return True


def _window(pair: tuple[Any, Any]) -> tuple[float, float] | None:
    try:
        low, high = float(pair[0]), float(pair[1])
    except (TypeError, ValueError):
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _lut_color(lut: Any) -> str | None:
    """The colour of full intensity, if the table runs from black to it."""
    shape = getattr(lut, "shape", None)
    if shape != (3, 256) or any(int(lut[i, 0]) for i in range(3)):
        return None
    return "".join(f"{int(lut[i, 255]):02X}" for i in range(3))


def _from_lsm(tif: Any, facts: TiffFacts) -> bool:
    meta = tif.lsm_metadata or {}
    for axis in "xyz":
        facts.length(axis, meta.get(f"VoxelSize{axis.upper()}"), "m")
    facts.duration(meta.get("TimeIntervall", meta.get("TimeInterval")), "s")
    return True


def _from_micromanager(tif: Any, facts: TiffFacts) -> bool:
    meta = (tif.micromanager_metadata or {}).get("Summary") or {}
    for axis in "xy":
        facts.length(axis, meta.get("PixelSize_um"), "um")
    facts.length("z", meta.get("z-step_um"), "um")
    facts.duration(meta.get("Interval_ms"), "ms")
    names = meta.get("ChNames")
    if isinstance(names, list):
        facts.channels = tuple(Channel(label=str(name)[:1000]) for name in names[:10_000])
    return True


def _from_ome(tif: Any, series: int, facts: TiffFacts) -> bool:
    text = tif.ome_metadata or ""
    if len(text) > _MAX_XML or has_doctype(text):
        return False
    root = ET.fromstring(text)
    images = [element for element in root if _tag(element) == "Image"]
    if len(images) == 1:
        facts.decant = _recorded(root)
    if series >= len(images):
        return True
    image = images[series]
    facts.name = image.get("Name") or None
    pixels = next((element for element in image if _tag(element) == "Pixels"), None)
    if pixels is None:
        return True
    for axis in "xyz":
        size = f"PhysicalSize{axis.upper()}"
        facts.length(axis, pixels.get(size), pixels.get(f"{size}Unit", "um"))
    facts.duration(pixels.get("TimeIncrement"), pixels.get("TimeIncrementUnit", "s"))
    facts.channels = tuple(
        Channel(label=element.get("Name") or None, color=_ome_color(element.get("Color")))
        for element in pixels
        if _tag(element) == "Channel"
    )[:10_000]
    return True


def _recorded(root: ET.Element) -> dict[str, Any]:
    """What `write_ome_tiff` has put into an annotation."""
    for element in root.iter():
        if _tag(element) == "CommentAnnotation" and element.get("Namespace") == ANNOTATION:
            value = next((child.text or "" for child in element if _tag(child) == "Value"), "")
            try:
                found = load_json(value.encode(), "the annotation", max_bytes=_MAX_ANNOTATION)
            except FormatError as error:
                logger.warning("what napari-decant has recorded in the file is not used: %s", error)
                return {}
            return found if isinstance(found, dict) else {}
    return {}


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _ome_color(value: str | None) -> str | None:
    """A signed 32-bit RGBA number as RRGGBB."""
    try:
        number = int(value) if value is not None else None
    except ValueError:
        return None
    return f"{(number & 0xFFFFFFFF) >> 8:06X}" if number is not None else None
