"""Find the axes of a series: from OME-XML, Micro-Manager's metadata, or the names of its files."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from napari_decant.archive._describe import Description, describe_reading
from napari_decant.archive._place_facts import Facts, Image, gather
from napari_decant.archive._place_micromanager import place_by_micromanager
from napari_decant.archive._place_names import place_by_names
from napari_decant.archive._place_ome import place_by_ome
from napari_decant.tiff.dialects import Reading, clean

if TYPE_CHECKING:
    from napari_decant.archive._series import SeriesMember

__all__ = ["place_series"]

logger = logging.getLogger(__name__)

_SOURCES = {"ome": "OME metadata", "micro-manager": "Micro-Manager metadata", "ndtiff": "NDTiff metadata"}
_SHOWN = 8


def place_series(members: Sequence[SeriesMember], pattern: str | None = None) -> Description:
    """Place the planes of all members.

    Each source is tried in turn: OME-XML of a companion file or a member, Micro-Manager's metadata, file
    names. A pattern that the user gives comes before all of them. Only the members' own bytes are read.

    Parameters
    ----------
    members : sequence of SeriesMember
        In natural order of their names; at least one has planes.
    pattern : str, optional
        How names give axes, see `match_pattern`.

    Returns
    -------
    Description
        ``order`` counts the planes of all members one behind the other. Where planes are missing, the
        axes are flat, and the notes list the gaps.

    Raises
    ------
    UsageError
        The pattern cannot be understood.
    """
    images, start = [], 0
    for number, member in enumerate(members):
        if member.layout.planes:
            images.append(Image(number, start, member))
            start += len(member.layout.planes)
    samples = images[0].member.layout.planes[0].samples
    notes: list[str] = []
    reading, facts, by_metadata = _read(members, images, pattern, notes)
    reading.complete(facts.reading)
    described = describe_reading(reading, start, samples, inverted=facts.inverted)
    understood = [_understood(described, reading)] if by_metadata and len(images) > 1 else []
    told = (*understood, *notes, *described.notes, *_flat_note(described))
    return replace(described, notes=tuple(dict.fromkeys(told)))


def _read(
    members: Sequence[SeriesMember], images: Sequence[Image], pattern: str | None, notes: list[str]
) -> tuple[Reading, Facts, bool]:
    """Read the first source that knows; the last value says whether it is metadata."""
    facts = None
    if pattern is None:
        try:
            if reading := place_by_ome(members, images, notes):
                return reading, gather(images, only_first=True), True
            facts = gather(images)
            if reading := place_by_micromanager(members, images, facts, notes):
                return reading, facts, True
            if reading := place_by_names(members, images, facts, None, notes):
                return reading, facts, False
            return Reading(facts.reading.dialect), facts, False
        except Exception as error:  # noqa: BLE001 - any fault of foreign metadata; the bytes are safe without it
            logger.warning("the metadata of the series could not be read: %s", error)
            notes.append(f"the metadata of the series could not be read: {clean(str(error))}")
    facts = facts or gather(images)
    named = place_by_names(members, images, facts, pattern, notes) if pattern is not None else None
    return named or Reading(facts.reading.dialect), facts, False


def _understood(described: Description, reading: Reading) -> str:
    """What the metadata says, in the words of the note about file names."""
    axes = described.axes
    extents = axes.true_axes or tuple(zip(axes.plane_order, axes.storage_shape, strict=True))
    parts = []
    for name, extent in extents:
        labels = [channel.label for channel in reading.channels] if name == "c" else []
        labels = list(reading.positions) if name == "p" else labels
        if len(labels) == extent and all(labels):
            tail = f" ... ({extent})" if extent > _SHOWN else ""
            text = " ".join(labels[:_SHOWN]) + tail
            parts.append(f"{extent} positions: {text}" if name == "p" else f"{name} {text}")
        else:
            parts.append(f"{extent} positions" if name == "p" else f"{name} {extent}")
    return f"read from {_SOURCES.get(reading.dialect, 'metadata')}: {', '.join(parts)}"


def _flat_note(described: Description) -> list[str]:
    """Say why axes that are known were put into one."""
    true_axes = described.axes.true_axes
    if not true_axes or prod(extent for _, extent in true_axes) != described.axes.planes:
        return []
    names = " ".join(name for name, _ in true_axes)
    return [f"the axes {names} are more than an OME-Zarr image may have, so all planes lie along z"]
