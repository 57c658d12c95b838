"""What one dialect of TIFF metadata says of a file, and how to read loose values without trusting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from napari_decant.tiff._places import Places

__all__ = ["MAX_LISTED", "Channel", "Reading", "clean", "hex_color", "number", "told_colors", "whole"]

MAX_LISTED = 10_000
"""Facts of single planes (times, exposures, labels) are kept for so many planes at most."""

_MAX_TEXT = 256


@dataclass(frozen=True, slots=True)
class Channel:
    """How one channel is called and shown.

    Attributes
    ----------
    label : str
    color : str
        Six hexadecimal digits, or empty.
    window : (float, float), optional
        Display range, in pixel values.
    inverted : bool
        Whether low values are shown bright.
    """

    label: str = ""
    color: str = ""
    window: tuple[float, float] | None = None
    inverted: bool = False


@dataclass(slots=True)
class Reading:
    """Facts that a dialect states; whatever it does not state stays empty.

    Attributes
    ----------
    dialect : str
        ``"ome"``, ``"imagej"``, ``"micro-manager"``, ...
    name : str
        Of the image.
    recorded : str
        What this program has put into an annotation of a file that it wrote (JSON, not parsed).
    places : Places, optional
        Where the planes belong.
    steps : dict of str to (float, str)
        Pixel size along ``x``, ``y``, ``z`` and step in ``t``, each with its NGFF unit.
    channels : list of Channel
        In the order of the channel axis.
    rgb : bool, optional
        Whether the samples of a pixel are red, green and blue; None to go by the TIFF tags.
    positions : list of str
        Names of stage positions (or of the images of a file with several).
    exposures, times : dict of int to float
        Seconds, by plane of the layout; times count from the start of the acquisition.
    labels : dict of int to str
        Label of a plane.
    date : str
        When it was acquired, as the file spells it.
    notes : list of str
        What the user should know.
    alone : list of str
        What the user should know if the file is packed without the others of its set.
    axes_rows : dict of int to dict
        Of NDTiff: axes of each plane as they stand there, so that several files number their texts alike.
    """

    dialect: str
    places: Places | None = None
    steps: dict[str, tuple[float, str]] = field(default_factory=dict)
    channels: Sequence[Channel] = ()
    rgb: bool | None = None
    positions: Sequence[str] = ()
    exposures: dict[int, float] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    date: str = ""
    notes: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    axes_rows: dict[int, dict[str, int | str]] = field(default_factory=dict)
    name: str = ""
    recorded: str = ""

    def complete(self, other: Reading) -> None:
        """Take over what only ``other`` states."""
        for name in ("places", "rgb"):
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))
        for name in (
            "channels",
            "positions",
            "exposures",
            "times",
            "labels",
            "date",
            "axes_rows",
            "name",
            "recorded",
        ):
            if not getattr(self, name):
                setattr(self, name, getattr(other, name))
        self.dialect = self.dialect or other.dialect
        self.steps = other.steps | self.steps
        self.notes += other.notes
        self.alone += other.alone

    def set_step(self, axis: str, size: float | None, unit: str) -> None:
        """Note a pixel size if there is one."""
        if size is not None:
            self.steps[axis] = (size, unit)


def number(value: Any) -> float | None:
    """Read a finite number from JSON, XML or text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value) if not isinstance(value, str) else float(value[:64])
    except (ValueError, OverflowError):
        return None
    return result if isfinite(result) else None


def whole(value: Any, least: int = 0, most: int = 1 << 40) -> int | None:
    """Read an integer within bounds; None for anything else."""
    result = number(value)
    if result is None or not result.is_integer() or not least <= result <= most:
        return None
    return int(result)


def clean(value: Any) -> str:
    """Reduce a name to one short printable line; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    # The cut comes first, so that a name of many megabytes costs nothing.
    return "".join(c if c.isprintable() else " " for c in value[: 4 * _MAX_TEXT]).strip()[:_MAX_TEXT]


def hex_color(red: int, green: int, blue: int) -> str:
    """Six hexadecimal digits of a colour."""
    return f"{red & 255:02X}{green & 255:02X}{blue & 255:02X}"


def told_colors(colors: Iterable[str]) -> list[str]:
    """Colours of channels, emptied where all are white: that is what writers put for "none chosen"."""
    listed = list(colors)
    return [""] * len(listed) if len(listed) > 1 and set(listed) == {"FFFFFF"} else listed
