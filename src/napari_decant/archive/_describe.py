"""What the file's own metadata says of its planes: their order, axes, sizes, channels.

The dialects (OME, ImageJ, Micro-Manager, MetaMorph, LSM, ...) are read by `tiff.dialects`.
Whatever cannot be read, or contradicts the page layout, is left out: metadata never stops packing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from napari_decant.archive._layout import FileLayout
from napari_decant.stores._positional import PositionalFile
from napari_decant.tiff._axes import Arrangement, Axes, arrange, flat_axes
from napari_decant.tiff.dialects import Channel, Reading, TagReader, read_dialects

__all__ = ["Channel", "Description", "describe", "describe_reading"]

logger = logging.getLogger(__name__)

_PHOTOMETRIC = 262
_MIN_IS_WHITE, _RGB = 0, 2


@dataclass(frozen=True, slots=True)
class Description:
    """Where planes belong and what they measure.

    Attributes
    ----------
    axes : Axes
        Leading axes.
    order : sequence of int
        For each storage position, which plane of the layout lies there.
    spacing : dict
        Physical size of a pixel along ``x``, ``y``, ``z`` and of a step in ``t``.
    units : dict
        NGFF unit of each of them.
    channels : tuple of Channel
        In the order of the channel axis.
    dialect : str
        ``"ome"``, ``"imagej"``, ...
    inverted : bool
        Min-is-white: a matter of display, the values stay.
    rgb : bool
        Whether the samples of a pixel are red, green, blue (and alpha).
    acquisition : dict
        What ``.zattrs`` says of the acquisition under ``decant``: JSON values.
    notes : tuple of str
        What was not understood, for the report.
    """

    axes: Axes
    order: Sequence[int]
    spacing: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    dialect: str = ""
    inverted: bool = False
    rgb: bool = False
    acquisition: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def describe(file: PositionalFile, layout: FileLayout) -> Description:
    """Read the metadata of a file whose planes are listed in ``layout``; only this file is read."""
    try:
        tags = TagReader(file, layout)
        photometric = tags.integers(_PHOTOMETRIC, tags.first_listed)
        reading = read_dialects(tags)
        if reading.rgb is None:
            reading.rgb = photometric == [_RGB]
        return describe_reading(
            reading, len(layout.planes), tags.samples, inverted=photometric == [_MIN_IS_WHITE]
        )
    except Exception as error:  # noqa: BLE001 - any fault of foreign metadata; the bytes are safe without it
        logger.warning(
            "the metadata of %s could not be read (%s); its planes are packed in file order", file.uri, error
        )
        note = f"the file's metadata could not be read: {error}"
        return Description(flat_axes(len(layout.planes)), range(len(layout.planes)), notes=(note,))


def describe_reading(reading: Reading, planes: int, samples: int, *, inverted: bool = False) -> Description:
    """Make a description of what the metadata of a file (or of a series) states.

    Parameters
    ----------
    reading : Reading
        Facts by plane.
    planes, samples : int
        Number of planes, samples of a pixel.
    inverted : bool
        Min-is-white.
    """
    arrangement = arrange(reading.places, planes, samples=samples > 1)
    axes = arrangement.axes
    # A flat z axis is no depth: its planes are not a z step apart.
    depth = planes == 1 or ("z" in axes.plane_order and not axes.true_axes and reading.places is not None)
    steps = {axis: step for axis, step in reading.steps.items() if axis != "z" or depth}
    return Description(
        axes,
        arrangement.order,
        {axis: size for axis, (size, _) in steps.items()},
        {axis: unit for axis, (_, unit) in steps.items()},
        _channels_of_axis(reading, arrangement, samples),
        reading.dialect,
        inverted,
        bool(reading.rgb) and samples in (3, 4),
        _acquisition(reading, arrangement, planes),
        (*reading.notes, *reading.alone, *arrangement.notes),
    )


def _channels_of_axis(reading: Reading, arrangement: Arrangement, samples: int) -> tuple[Channel, ...]:
    """Channels along the channel axis, or the only channel there is."""
    channels = tuple(reading.channels)
    axes = arrangement.axes
    if samples > 1:
        return channels if len(channels) == samples else ()
    # Of a file that holds some channels of a set, the first one need not be channel 0.
    here = channels[arrangement.origin.get("c", 0) :]
    if "c" in axes.plane_order:
        return here
    placed = reading.places is not None and "c" in reading.places.names and not axes.true_axes
    return here[:1] if placed or len(channels) == 1 else ()


def _acquisition(reading: Reading, arrangement: Arrangement, planes: int) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if reading.steps:
        facts["steps"] = {axis: {"size": s, "unit": u} for axis, (s, u) in sorted(reading.steps.items())}
    names = [channel.label for channel in reading.channels]
    if any(names):
        facts["channels"] = names
    if any(reading.positions):
        facts["positions"] = list(reading.positions)
    if reading.date:
        facts["date"] = reading.date
    if arrangement.origin:
        facts["first_index"] = dict(arrangement.origin)
    if arrangement.absent:
        facts["absent"] = list(arrangement.absent)
    if arrangement.axes.true_axes and reading.places is not None and not _is_grid(arrangement):
        facts["places"] = reading.places.index[:_MAX_PLACES].tolist()
        facts["place_axes"] = list(reading.places.names)
    for name, values in (
        ("exposure_seconds", reading.exposures),
        ("plane_times_seconds", reading.times),
        ("plane_labels", reading.labels),
    ):
        if values:
            listed = [values.get(plane) for plane in arrangement.order]
            same = name == "exposure_seconds" and len(set(listed)) == 1
            facts[name] = listed[0] if same else listed
    return facts


_MAX_PLACES = 10_000


def _is_grid(arrangement: Arrangement) -> bool:
    """Whether the true axes of flattened planes say where each of them belongs."""
    count = 1
    for _, extent in arrangement.axes.true_axes:
        count *= extent
    return count == arrangement.axes.planes
