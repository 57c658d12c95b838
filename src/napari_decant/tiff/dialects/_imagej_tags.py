"""Read ImageJ's own TIFF tags: slice labels, display ranges and lookup tables of the channels.

Tag 50838 holds byte counts, tag 50839 a header of (type, number) pairs and then the values.
Regions of interest and overlays are left where they are: they come back with the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from napari_decant.tiff.dialects._reading import MAX_LISTED, clean, hex_color
from napari_decant.tiff.dialects._tags import TagReader

__all__ = ["ImageJExtras", "lut_color", "read_imagej_extras"]

_COUNTS, _DATA = 50838, 50839
_MAX_VALUE = 1 << 20
_LUT = 768


@dataclass(slots=True)
class ImageJExtras:
    """What the tags hold: one label a slice, one (low, high) and one colour table a channel."""

    labels: list[str] = field(default_factory=list)
    ranges: list[tuple[float, float]] = field(default_factory=list)
    luts: list[bytes] = field(default_factory=list)


def read_imagej_extras(tags: TagReader) -> ImageJExtras:
    """Read the tags as far as they make sense."""
    extras = ImageJExtras()
    counts = tags.integers(_COUNTS)
    tag = tags.tag(_DATA)
    if not counts or tag is None:
        return extras
    header = tags.read(tag.offset, min(counts[0], 4096))
    if header[:4] not in (b"IJIJ", b"JIJI"):
        return extras
    position, sizes = counts[0], iter(counts[1:])
    pairs = header[4 : 4 + (len(header) - 4) // 8 * 8]
    for kind, number in struct.iter_unpack(tags.byteorder + "4sI", pairs):
        name = kind if tags.byteorder == ">" else kind[::-1]
        for _, size in zip(range(number), sizes, strict=False):
            if name in _WANTED and position + size <= tag.count and size <= _MAX_VALUE:
                _take(extras, name, tags.read(tag.offset + position, size), tags.byteorder)
            position += size
    return extras


_WANTED = (b"labl", b"rang", b"luts")


def _take(extras: ImageJExtras, name: bytes, value: bytes, byteorder: str) -> None:
    if name == b"labl" and len(extras.labels) < MAX_LISTED:
        extras.labels.append(clean(value.decode("utf-16" + ("be" if byteorder == ">" else "le"), "replace")))
    elif name == b"rang":
        values = struct.unpack(f"{byteorder}{len(value) // 16 * 2}d", value[: len(value) // 16 * 16])
        extras.ranges += list(zip(values[::2], values[1::2], strict=True))
    elif name == b"luts" and len(value) == _LUT:
        extras.luts.append(value)


def lut_color(lut: bytes) -> tuple[str, bool]:
    """Colour of a lookup table (256 reds, greens, blues), and whether it is bright at the low end."""
    low, high = ((lut[i], lut[256 + i], lut[512 + i]) for i in (0, 255))
    inverted = sum(low) > sum(high)
    return hex_color(*(low if inverted else high)), inverted
