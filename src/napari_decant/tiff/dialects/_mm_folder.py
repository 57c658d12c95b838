"""Micro-Manager's folders of single planes: ``metadata.txt`` says which file is which plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from napari_decant.errors import FormatError
from napari_decant.tiff.dialects._micromanager import (
    DECLARED,
    INDICES,
    channels_of,
    json_object,
    plane_seconds,
    state_sizes,
    trim,
)
from napari_decant.tiff.dialects._reading import Reading, clean, whole

__all__ = ["MAX_METADATA", "FolderMetadata", "read_metadata"]

MAX_METADATA = 64 << 20
"""Longest ``metadata.txt`` that is read."""

_KEPT = frozenset(
    [
        *("Summary", "FileName", "PositionIndex", "PositionName", "Frames", "Slices", "Channels", "ChNames"),
        *("ChColors", "ChContrastMin", "ChContrastMax", "z-step_um", "Interval_ms", "StartTime"),
        *("DateAndTime", "position", "stagePosition", "time", "z", "channel"),
    ]
)
_AXIS_NAMES = {"position": "p", "stagePosition": "p", "time": "t", "z": "z", "channel": "c"}


@dataclass(slots=True)
class FolderMetadata:
    """What the file says.

    Attributes
    ----------
    reading : Reading
        Sizes, channels, date.
    places : dict of str to dict of str to int
        Numbers along ``p``, ``t``, ``z``, ``c`` of the plane in each file, by its name.
    exposures, times : dict of str to float
        Seconds, by name of the file.
    position_names : dict of int to str
    declared : dict of str to int
        Extents that the acquisition was planned with.
    """

    reading: Reading
    places: dict[str, dict[str, int]] = field(default_factory=dict)
    exposures: dict[str, float] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    position_names: dict[int, str] = field(default_factory=dict)
    declared: dict[str, int] = field(default_factory=dict)


def read_metadata(read: Callable[[int, int], bytes], size: int) -> FolderMetadata | None:
    """Read ``metadata.txt``; None if it is none of Micro-Manager's.

    Parameters
    ----------
    read : callable
        ``read(position, length)`` within the file.
    size : int
        Its length in bytes.

    Raises
    ------
    FormatError
        It is too long to be read.
    """
    if size > MAX_METADATA:
        raise FormatError(f"its metadata has {size:,} bytes; more than {MAX_METADATA:,} are not read")
    data = read(0, size).strip()
    # an acquisition that was broken off leaves the last brace out
    found = json_object(data, _keep) or json_object(data.rstrip(b", \r\n") + b"}", _keep)
    summary = found.get("Summary")
    if not isinstance(summary, dict):
        return None
    folder = FolderMetadata(Reading("micro-manager"))
    first: dict[str, Any] = {}
    pages: dict[int, dict[str, Any]] = {}
    for key, value in found.items():
        if not isinstance(value, dict) or key == "Summary":
            continue
        kind, _, rest = key.partition("-")
        name = clean(value.get("FileName", "")) if kind == "FrameKey" else rest
        name = name.replace("\\", "/").rpartition("/")[2]
        if name and kind in ("FrameKey", "Coords"):
            _place(folder, name, value)
        if name and kind in ("FrameKey", "Metadata"):
            first = first or value
            pages[len(pages)] = trim(value)
            _facts(folder, name, value)
    state_sizes(summary, first, folder.reading)
    folder.reading.channels = channels_of(summary, pages)
    folder.declared = {axis: whole(summary.get(key), 1, 1 << 31) or 1 for axis, key in DECLARED.items()}
    return folder


def _keep(value: dict[str, Any]) -> dict[str, Any]:
    """Keep what is used of each object: hundreds of device properties a plane would fill the memory."""
    kept = trim(value)
    for key, item in value.items():
        if key in _KEPT or key.startswith(("FrameKey-", "Coords-", "Metadata-")):
            kept[key] = item
    return kept


def _place(folder: FolderMetadata, name: str, value: dict[str, Any]) -> None:
    place: dict[str, int] = {}
    for axis, keys in INDICES.items():
        found = next((whole(value[key]) for key in keys if key in value), None)
        if found is not None:
            place[axis] = found
    for key, axis in _AXIS_NAMES.items():
        found = whole(value.get(key))
        if found is not None:
            place.setdefault(axis, found)
    if place:
        folder.places[name] = place


def _facts(folder: FolderMetadata, name: str, value: dict[str, Any]) -> None:
    exposure, time = plane_seconds(value)
    if exposure is not None:
        folder.exposures[name] = exposure
    if time is not None:
        folder.times[name] = time
    position = clean(value.get("PositionName"))
    if position:
        folder.position_names.setdefault(whole(value.get("PositionIndex")) or 0, position)
