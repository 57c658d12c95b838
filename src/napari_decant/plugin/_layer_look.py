"""How a layer looks, in the words of OME-Zarr: a colour, a window, colours of labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from napari_decant.images import Channel, LabelInfo

__all__ = ["channel_of", "label_of"]

_MAX_COLORS = 10_000
_STEP = 1.5 / 255  # colours that close are the same on the screen


def channel_of(state: Mapping[str, Any], label: str | None, notes: list[str]) -> Channel:
    """A channel that is shown as an image layer is.

    Parameters
    ----------
    state : mapping
        Of a layer data tuple.
    label : str or None
        Name of the channel.
    notes : list of str
        Gets what cannot be said.
    """
    window = None
    limits = state.get("contrast_limits")
    if limits is not None and not state.get("auto_contrast"):
        low, high = (float(limit) for limit in limits)
        window = (low, high) if low < high else None
    color, inverted = _color(state.get("colormap"))
    if color is None:
        notes.append(
            f"the colours of {state.get('name', 'a layer')} are written as grey: OME-Zarr has one a channel"
        )
    return Channel(
        label=label,
        color=color or "FFFFFF",
        window=window,
        active=bool(state.get("visible", True)),
        inverted=inverted,
    )


def _color(colormap: Any) -> tuple[str | None, bool]:
    """The colour of full intensity, and whether it runs to black instead; None for other maps."""
    from napari.utils.colormaps import ensure_colormap

    if colormap is None:
        return "FFFFFF", False
    start, middle, end = ensure_colormap(colormap).map(np.array([0.0, 0.5, 1.0]))[:, :3]
    inverted = bool(end.max() <= _STEP < start.max())
    dark, full = (end, start) if inverted else (start, end)
    if dark.max() > _STEP or np.abs(middle - full / 2).max() > _STEP:
        return None, False
    return "".join(f"{round(255 * float(part)):02X}" for part in full), inverted


def label_of(state: Mapping[str, Any]) -> LabelInfo:
    """What a labels layer says of its labels: the colours that it was given, none of napari's own cycle."""
    given = getattr(state.get("colormap"), "color_dict", {})
    colors: dict[int, tuple[int, int, int, int]] = {}
    for value, color in given.items():
        if value is None or len(colors) >= _MAX_COLORS:
            continue
        red, green, blue, alpha = (min(255, max(0, round(255 * float(part)))) for part in color)
        colors[int(value)] = (red, green, blue, alpha)
    if set(colors) == {0} and not colors[0][3]:  # the transparent background that every map has
        colors = {}
    return LabelInfo(colors)
