"""Micro-Manager: multi-page stacks (MMStack) and NDTiff.

Both keep a summary in JSON behind the TIFF header and one JSON a page in tag 51123. An MMStack
has a map of its planes as well; NDTiff's index is another file, so the pages' own JSON is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from napari_decant.tiff._places import Places
from napari_decant.tiff._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds
from napari_decant.tiff.dialects._ndtiff import axes_row, places_of_rows
from napari_decant.tiff.dialects._reading import (
    MAX_LISTED,
    Channel,
    Reading,
    clean,
    hex_color,
    number,
    told_colors,
    whole,
)
from napari_decant.tiff.dialects._tags import TagReader, decode

__all__ = [
    "DECLARED",
    "INDICES",
    "channels_of",
    "json_object",
    "plane_seconds",
    "read_micromanager",
    "state_sizes",
    "trim",
]

_PAGE_JSON = 51123
_MAX_JSON = 4 << 20
_INDEX_MAP, _MAP_HEADER = 54773648, 3453623
_SUMMARY = 2355492
_NDTIFF = 483729
INDICES = {
    "p": ("PositionIndex",),
    "t": ("FrameIndex", "Frame"),
    "z": ("SliceIndex", "Slice"),
    "c": ("ChannelIndex",),
}
DECLARED = {"t": "Frames", "z": "Slices", "c": "Channels"}


def read_micromanager(tags: TagReader) -> Reading | None:
    """Read Micro-Manager metadata; None if the file has none."""
    kind, summary, place_map = _header(tags)
    first = _page_json(tags, 0)
    if not kind and not first:
        return None
    reading = Reading("ndtiff" if kind == "ndtiff" or "Axes" in first else "micro-manager")
    if not summary and isinstance(first.get("Summary"), dict):
        summary = first["Summary"]
    pages = _pages(tags, all_of_them=reading.dialect == "ndtiff" or place_map is None)
    if place_map is not None:
        reading.places = _mapped_places(tags, place_map, summary)
    elif reading.dialect == "ndtiff":
        rows = {
            plane: row for plane, page in pages.items() if (row := axes_row(page.get("Axes"))) is not None
        }
        reading.places, names = places_of_rows(rows, tags.planes)
        reading.axes_rows = rows
        reading.channels = [Channel(name) for name in names.get("c", [])]
        reading.positions = names.get("p", [])
    else:
        reading.places = _numbered_places(tags, pages, summary)
    state_sizes(summary, first, reading)
    _facts(pages, reading)
    if not any(channel.label for channel in reading.channels):
        reading.channels = channels_of(summary, pages)
    if not reading.positions:
        reading.positions = _positions(pages, reading.places)
    return reading


def _header(tags: TagReader) -> tuple[str, dict[str, Any], np.ndarray | None]:
    """Kind of file (empty if it is none of Micro-Manager's), summary, map of an MMStack."""
    head = tags.read(0, 40)
    if len(head) < 40:
        return "", {}, None
    words = struct.unpack(f"{tags.byteorder}8I", head[8:40])
    if words[0] == _NDTIFF:
        # version 2 has the summary's mark at once, version 3 a minor version before it
        at = 16 if words[2] == _SUMMARY else 20 if words[3] == _SUMMARY else 0
        return "ndtiff", _summary(tags, at + 4) if at else {}, None
    if words[6] != _SUMMARY:
        return "", {}, None
    place_map = _index_map(tags, words[1]) if words[0] == _INDEX_MAP else None
    return "micro-manager", _summary(tags, 36), place_map


def _summary(tags: TagReader, at: int) -> dict[str, Any]:
    length = struct.unpack(f"{tags.byteorder}I", tags.read(at, 4))[0]
    return json_object(tags.read(at + 4, length)) if length <= _MAX_JSON else {}


def json_object(
    data: bytes, keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Parse a JSON object; empty for anything else, which costs only what it would have told."""
    try:
        value = json.loads(decode(data.rstrip(b"\0")), object_hook=keep)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _index_map(tags: TagReader, offset: int) -> np.ndarray | None:
    """Rows of channel, slice, frame, position, directory offset."""
    head = tags.read(offset, 8)
    if len(head) < 8:
        return None
    mark, count = struct.unpack(f"{tags.byteorder}2I", head)
    if mark != _MAP_HEADER or not 0 < count <= 4 * tags.pages + 64:
        return None
    data = tags.read(offset + 8, 20 * count)
    rows = np.frombuffer(data[: len(data) // 20 * 20], f"{tags.byteorder}u4").reshape(-1, 5).astype(np.int64)
    return rows if len(rows) else None


def _page_json(tags: TagReader, page: int) -> dict[str, Any]:
    data = tags.data(_PAGE_JSON, page, _MAX_JSON)
    return json_object(data) if data else {}


def _pages(tags: TagReader, *, all_of_them: bool) -> dict[int, dict[str, Any]]:
    """JSON of each plane's page: of every plane, or of as many as single facts are kept for."""
    if tags.is_stack or tags.tag(_PAGE_JSON) is None:
        return {}
    wanted = np.flatnonzero(tags.plane_of_page >= 0)
    pages = wanted if all_of_them else wanted[:MAX_LISTED]
    return {int(tags.plane_of_page[page]): trim(_page_json(tags, page)) for page in pages.tolist()}


_KEPT = frozenset(
    [
        *(key for keys in INDICES.values() for key in keys),
        *("Axes", "Exposure-ms", "Exposure", "ElapsedTime-ms", "PositionName", "Channel", "PixelSizeUm"),
        *("PixelSize_um", "Time", "ReceivedTime"),
    ]
)


def trim(page: dict[str, Any]) -> dict[str, Any]:
    """Keep what is used: hundreds of device properties a plane would fill the memory."""
    return {key: value for key, value in page.items() if key in _KEPT}


def _mapped_places(tags: TagReader, rows: np.ndarray, summary: dict[str, Any]) -> Places | None:
    index = np.zeros((tags.planes, 4), np.int64)
    known = np.zeros(tags.planes, bool)
    for channel, z, time, position, offset in rows.tolist():
        page = tags.page_at(offset)
        plane = int(tags.plane_of_page[page]) if page >= 0 else -1
        if plane >= 0:
            index[plane] = position, time, z, channel
            known[plane] = True
    return _declared_places(index, known, summary)


def _numbered_places(
    tags: TagReader, pages: dict[int, dict[str, Any]], summary: dict[str, Any]
) -> Places | None:
    """Places from the numbers in the pages' JSON, for files whose map was never written."""
    index = np.zeros((tags.planes, 4), np.int64)
    known = np.zeros(tags.planes, bool)
    for plane, page in pages.items():
        for column, axis in enumerate("ptzc"):
            value = next((whole(page[key]) for key in INDICES[axis] if key in page), None)
            if value is not None:
                index[plane, column] = value
                known[plane] = True
    return _declared_places(index, known, summary) if known.any() else None


def _declared_places(index: np.ndarray, known: np.ndarray, summary: dict[str, Any]) -> Places:
    found = index[known].max(axis=0, initial=0) + 1
    declared = {axis: whole(summary.get(key), 1, 1 << 31) or 1 for axis, key in DECLARED.items()}
    extents = [int(found[0])]
    extents += [max(int(found[i]), declared[axis]) for i, axis in enumerate("tzc", 1)]
    # Positions usually have a file each, so only those that are here are counted.
    positions = len(np.unique(index[known][:, 0])) or 1
    return Places(("p", "t", "z", "c"), tuple(extents), index, positions * int(np.prod(extents[1:])), known)


def state_sizes(summary: dict[str, Any], first: dict[str, Any], reading: Reading) -> None:
    """State pixel sizes and steps from the summary and the first plane's JSON."""
    pixel = number(first.get("PixelSizeUm")) or number(first.get("PixelSize_um"))
    pixel = pixel or number(summary.get("PixelSize_um"))
    for axis in "xy":
        reading.set_step(axis, micrometers(pixel or 0.0, "um"), LENGTH_UNIT)
    step = number(summary.get("z-step_um"))
    reading.set_step("z", micrometers(abs(step or 0.0), "um"), LENGTH_UNIT)
    reading.set_step("t", seconds(number(summary.get("Interval_ms")) or 0.0, "ms"), TIME_UNIT)
    reading.date = next((clean(summary[k]) for k in ("StartTime", "DateAndTime", "Time") if k in summary), "")


def _facts(pages: dict[int, dict[str, Any]], reading: Reading) -> None:
    for plane, page in pages.items():
        if len(reading.times) >= MAX_LISTED:
            break
        exposure, time = plane_seconds(page)
        if exposure is not None:
            reading.exposures[plane] = exposure
        if time is not None:
            reading.times[plane] = time


def plane_seconds(page: dict[str, Any]) -> tuple[float | None, float | None]:
    """Exposure and elapsed time of a plane in seconds, as far as its JSON states them."""
    exposure, time = number(page.get("Exposure-ms", page.get("Exposure"))), number(page.get("ElapsedTime-ms"))
    return (
        exposure / 1000 if exposure is not None and exposure > 0 else None,
        time / 1000 if time is not None else None,
    )


def channels_of(summary: dict[str, Any], pages: dict[int, dict[str, Any]]) -> list[Channel]:
    """Channels from the summary, or from the names that the planes' JSON has."""
    names = [clean(name) for name in _list(summary.get("ChNames"))]
    if not any(names):
        found: dict[int, str] = {}
        for page in pages.values():
            number_ = whole(page.get("ChannelIndex"), 0, 4096)
            if number_ is not None and clean(page.get("Channel")):
                found.setdefault(number_, clean(page.get("Channel")))
        names = [found.get(i, "") for i in range(max(found, default=-1) + 1)]
    colors = [whole(color, -(1 << 31), (1 << 32) - 1) for color in _list(summary.get("ChColors"))]
    lows = [number(value) for value in _list(summary.get("ChContrastMin"))]
    highs = [number(value) for value in _list(summary.get("ChContrastMax"))]
    hexes = told_colors("" if c is None else hex_color(c >> 16, c >> 8, c) for c in colors)
    channels = []
    for i, name in enumerate(names):
        low, high = (values[i] if i < len(values) else None for values in (lows, highs))
        window = None if low is None or high is None else (low, high)
        channels.append(Channel(name, hexes[i] if i < len(hexes) else "", window))
    return channels


def _list(value: Any) -> list[Any]:
    """Return a list, which older versions wrote as JSON in a string."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value[:_MAX_LISTED_TEXT])
        except (ValueError, RecursionError):
            return []
    return value[:4096] if isinstance(value, list) else []


_MAX_LISTED_TEXT = 1 << 20


def _positions(pages: dict[int, dict[str, Any]], places: Places | None) -> list[str]:
    """Names of the positions, by their number."""
    names: dict[int, str] = {}
    column = places.names.index("p") if places is not None and "p" in places.names else -1
    for plane, page in pages.items():
        position = int(places.index[plane, column]) if places is not None and column >= 0 else 0
        name = clean(page.get("PositionName"))
        if name:
            names.setdefault(position, name)
    return [names[position] for position in sorted(names)]
