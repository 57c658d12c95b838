"""Rendering hints: channels under ``omero``, and colours of labels under ``image-label``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from napari_decant.ngff._findings import Findings, finite, objects

__all__ = ["Channel", "LabelInfo", "labels_place", "parse_channels", "parse_label"]

_COLOR = re.compile(r"#?([0-9A-Fa-f]{6})(?:[0-9A-Fa-f]{2})?")
_MAX_CHANNELS, _MAX_LABELS = 100_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Channel:
    """How one channel is shown.

    Attributes
    ----------
    label : str or None
        Its name.
    color : str or None
        ``RRGGBB`` in upper case.
    window : tuple of float, or None
        Contrast limits ``(start, end)``, ``start < end``.
    limits : tuple of float, or None
        The whole range ``(min, max)``.
    active, inverted : bool
        Whether it is visible, and shown with its colours reversed.
    """

    label: str | None = None
    color: str | None = None
    window: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None
    active: bool = True
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class LabelInfo:
    """That an image holds labels, and how they are shown.

    Attributes
    ----------
    colors : dict of int to tuple
        Label value to ``(red, green, blue, alpha)``, each 0 to 255.
    properties : tuple of dict
        One dict per label value, with the key ``label-value``.
    source : str or None
        Path of the labelled image as declared; it is never opened by itself.
    """

    colors: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    properties: tuple[dict[str, Any], ...] = ()
    source: str | None = None


def _pair(obj: dict[str, Any], low: str, high: str) -> tuple[float, float] | None:
    first, last = finite(obj.get(low)), finite(obj.get(high))
    return (first, last) if first is not None and last is not None and first < last else None


def _channel(item: Any, i: int, where: str, findings: Findings) -> Channel:
    if not isinstance(item, dict):
        findings.warn(f"channel {i} of {where} is no object and is ignored")
        return Channel()
    color = item.get("color")
    match = _COLOR.fullmatch(color.strip()) if isinstance(color, str) else None
    if color is not None and match is None:
        findings.warn(f"the colour of channel {i} of {where} is not RRGGBB and is ignored")
    window = item.get("window")
    if window is not None and not isinstance(window, dict):
        findings.warn(f"the window of channel {i} of {where} is no object and is ignored")
        window = None
    shown = _pair(window, "start", "end") if window else None
    if window and shown is None and ("start" in window or "end" in window):
        findings.warn(f"the window of channel {i} of {where} has no start below its end and is ignored")
    label = item.get("label")
    return Channel(
        label=str(label)[:1000] if isinstance(label, str | int | float) else None,
        color=match.group(1).upper() if match else None,
        window=shown,
        limits=_pair(window, "min", "max") if window else None,
        active=item.get("active") is not False,
        inverted=item.get("inverted") is True,
    )


def parse_channels(omero: Any, where: str, findings: Findings) -> tuple[Channel, ...]:
    """Read ``omero.channels``; what is malformed is left out and noted."""
    if omero is None:
        return ()
    channels = omero.get("channels") if isinstance(omero, dict) else None
    if not isinstance(channels, list):
        findings.warn(f"omero of {where} has no list of channels and is ignored")
        return ()
    return tuple(_channel(item, i, where, findings) for i, item in enumerate(channels[:_MAX_CHANNELS]))


def parse_label(value: Any, where: str, findings: Findings) -> LabelInfo:
    """Read ``image-label``; what is malformed is left out and noted."""
    if not isinstance(value, dict):
        findings.warn(f"image-label of {where} is no object and is ignored")
        return LabelInfo()
    colors: dict[int, tuple[int, int, int, int]] = {}
    wrong = 0
    for item in objects(value.get("colors"))[:_MAX_LABELS]:
        label, rgba = _whole(item.get("label-value")), item.get("rgba")
        if label is None:
            wrong += 1
        elif (
            isinstance(rgba, list)
            and len(rgba) == 4
            and all(isinstance(v, int) and 0 <= v <= 255 for v in rgba)
        ):
            colors[label] = (rgba[0], rgba[1], rgba[2], rgba[3])
        elif rgba is not None:
            wrong += 1
    if wrong:
        findings.warn(f"{wrong:,} label colours of {where} are malformed and are ignored")
    properties = tuple(
        item
        for item in objects(value.get("properties"))[:_MAX_LABELS]
        if _whole(item.get("label-value")) is not None
    )
    source = value.get("source")
    image = source.get("image") if isinstance(source, dict) else None
    return LabelInfo(colors, properties, image if isinstance(image, str) else None)


def labels_place(path: str) -> tuple[str, str] | None:
    """The group of labels that a path lies in, and its name there; None for a path outside of one."""
    above, mark, name = f"/{path}".partition("/labels/")
    return (f"{above}/labels".lstrip("/"), name) if mark else None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if finite(value) is not None and value == int(value) else None
