"""ImageJ: ``key=value`` lines in the first page's description, and some tags of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from napari_decant.tiff._places import Places
from napari_decant.tiff._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds
from napari_decant.tiff.dialects._imagej_tags import lut_color, read_imagej_extras
from napari_decant.tiff.dialects._reading import Channel, Reading, clean, number, whole
from napari_decant.tiff.dialects._tags import TagReader

__all__ = ["read_imagej"]

_DESCRIPTION, _PHOTOMETRIC, _COLORMAP = 270, 262, 320
_X_RESOLUTION, _Y_RESOLUTION, _PLANAR_CONFIG = 282, 283, 284
_MAX_DESCRIPTION = 1 << 20
_MAX_LINES = 1000
_COUNTS = {"c": "channels", "z": "slices", "t": "frames"}
_ORDERS = frozenset(("czt", "ctz", "zct", "ztc", "tcz", "tzc"))
_SCIFIO_AXES = {"Channel": "c", "Z": "z", "Slice": "z", "Time": "t", "Unknown": "q"}
_NO_UNIT = frozenset(("", "null", "pixel", "pixels"))
_PLACE_IN_STACK = re.compile(r"^(?:[czt]:\d+/\d+ )+- ")
_PALETTE = 3


def read_imagej(tags: TagReader) -> Reading | None:
    """Read ImageJ (or ImageJ2's SCIFIO) metadata; None if the file has none."""
    text = tags.text(_DESCRIPTION, limit=_MAX_DESCRIPTION)
    if not text.startswith(("ImageJ=", "SCIFIO=")):
        return None
    lines = (line.partition("=") for line in text.splitlines()[:_MAX_LINES])
    values = {key.strip(): value.strip() for key, _, value in lines}
    reading = Reading("imagej")
    counts = {axis: whole(values.get(key, "1"), 1, 1 << 31) or 1 for axis, key in _COUNTS.items()}
    images = whole(values.get("images", "1"), 1, 1 << 31) or 1
    if tags.samples > 1 and counts["c"] == tags.samples:
        # The samples of one page are the channels, and a planar page is how ImageJ keeps a composite.
        images = max(1, images // counts["c"])
        counts["c"] = 1
        if tags.integers(_PLANAR_CONFIG) == [2]:
            reading.rgb = False
    reading.places = _places(values, counts, images, tags.planes)
    _sizes(values, tags, reading)
    _channels(values, tags, reading)
    return reading


def _places(values: dict[str, str], counts: dict[str, int], images: int, planes: int) -> Places:
    order = values.get("order", "czt").lower()
    order = order if order in _ORDERS else "czt"  # "default" is czt, too
    names, extents = list(reversed(order)), [counts[axis] for axis in reversed(order)]
    if prod(extents) == 1 and (scifio := _scifio_axes(values)):
        names, extents = scifio
    if prod(extents) == 1:
        names, extents = ["z"], [max(images, planes)]  # a plain stack is one of slices
    return Places.grid(names, extents, planes)


def _scifio_axes(values: dict[str, str]) -> tuple[list[str], list[int]] | None:
    """Axes and lengths that ImageJ2 writes, fastest first, beside the old keys."""
    axes = values.get("axes", "").split(",")
    lengths = [whole(length, 1, 1 << 31) for length in values.get("lengths", "").split(",")]
    if len(axes) != len(lengths) or None in lengths:
        return None
    leading = [
        (_SCIFIO_AXES.get(axis.strip(), "q"), length or 1)
        for axis, length in zip(axes, lengths, strict=True)
        if axis.strip() not in ("X", "Y")
    ]
    leading.reverse()
    return ([name for name, _ in leading], [length for _, length in leading]) if leading else None


def _sizes(values: dict[str, str], tags: TagReader, reading: Reading) -> None:
    unit = values.get("unit", "")
    if unit.casefold() not in _NO_UNIT:
        for axis, code in (("x", _X_RESOLUTION), ("y", _Y_RESOLUTION)):
            resolution = tags.rational(code)
            if resolution is not None:
                own = values.get(f"{axis}unit", unit)
                reading.set_step(axis, micrometers(1 / resolution, own), LENGTH_UNIT)
        # ImageJ leaves the spacing out where it is 1
        spacing = number(values.get("spacing", "1"))
        if spacing is not None:
            reading.set_step("z", micrometers(abs(spacing), values.get("zunit", unit)), LENGTH_UNIT)
    interval = number(values.get("finterval"))
    if not interval and (rate := number(values.get("fps"))):
        interval = 1 / rate
    if interval:
        reading.set_step("t", seconds(interval, values.get("tunit", "sec")), TIME_UNIT)


def _channels(values: dict[str, str], tags: TagReader, reading: Reading) -> None:
    extras = read_imagej_extras(tags)
    count = whole(values.get("channels", "1"), 1, 4096) or 1
    names = _channel_names(extras.labels, reading.places, count)
    if not names:
        labels = enumerate(extras.labels[: tags.planes])
        reading.labels = {plane: label for plane, label in labels if label}
    windows = list(extras.ranges)
    low, high = number(values.get("min")), number(values.get("max"))
    if not windows and low is not None and high is not None:
        windows = [(low, high)] * count
    luts = list(extras.luts) or _palette(tags)
    grey = values.get("mode", "").casefold() in ("grayscale", "greyscale")
    if windows or luts or names or grey:
        reading.channels = [_channel(i, names, windows, luts, grey) for i in range(count)]


def _channel(
    i: int,
    names: Sequence[str],
    windows: Sequence[tuple[float, float]],
    luts: Sequence[bytes],
    grey: bool,
) -> Channel:
    color, inverted = lut_color(luts[i]) if i < len(luts) else ("FFFFFF" if grey else "", False)
    label = names[i] if i < len(names) else ""
    return Channel(label, color, windows[i] if i < len(windows) else None, inverted)


def _palette(tags: TagReader) -> list[bytes]:
    """Lookup table of an image of one channel, from the standard tag."""
    if tags.integers(_PHOTOMETRIC) != [_PALETTE]:
        return []
    table = tags.integers(_COLORMAP)
    return [bytes(value >> 8 & 255 for value in table)] if len(table) == 768 else []


def _channel_names(labels: Sequence[str], places: Places | None, count: int) -> list[str]:
    """Names of channels where all slices of a channel share one label."""
    plain = [clean(_PLACE_IN_STACK.sub("", label)) for label in labels]
    if count < 2 or places is None or "c" not in places.names:
        return []
    if len(plain) == count:
        return plain if len(set(plain)) > 1 else []
    if len(plain) != len(places.index):
        return []
    channel = places.index[:, places.names.index("c")]
    names = []
    for i in range(count):
        found = {plain[plane] for plane in np.flatnonzero(channel == i).tolist()}
        names.append(found.pop() if len(found) == 1 else "")
    return names if len(set(names)) > 1 else []
