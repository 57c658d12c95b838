"""Place a series by Micro-Manager's metadata: stacks, NDTiff, and folders of single planes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from napari_decant.archive._place_facts import HOLDER, Facts, Image, channels_named, shifted
from napari_decant.archive._source import Source
from napari_decant.errors import DecantError
from napari_decant.tiff._places import Places
from napari_decant.tiff.dialects import (
    FolderMetadata,
    Reading,
    clean,
    places_of_rows,
    read_index,
    read_metadata,
)

if TYPE_CHECKING:
    from napari_decant.archive._series import SeriesMember

__all__ = ["INDEX_NAME", "METADATA_NAME", "place_by_micromanager"]

INDEX_NAME = "NDTiff.index"
METADATA_NAME = "metadata.txt"
_AXES = ("p", "t", "z", "c")


def place_by_micromanager(
    members: Sequence[SeriesMember], images: Sequence[Image], facts: Facts, notes: list[str]
) -> Reading | None:
    """Place the planes of the images; None if not all of them are Micro-Manager's, or two share a place.

    Parameters
    ----------
    members : sequence of SeriesMember
        Nothing but these is read.
    images : sequence of Image
        Those with planes.
    facts : Facts
        What the images say of themselves.
    notes : list of str
        Gets what the user should know.
    """
    reading = _ndtiff(members, images, facts, notes)
    reading = reading or _single_planes(members, images, facts, notes) or _stacks(images, facts)
    if reading is None or reading.places is None:
        return None
    known, index = reading.places.known, reading.places.index
    complete = known is None or bool(known.all())
    if complete and len(np.unique(index, axis=0)) < len(index):
        return None  # old versions count each position from 0; the names tell them apart
    return reading if complete else None


def _planes(images: Sequence[Image]) -> int:
    return images[-1].start + images[-1].planes


def _ndtiff(
    members: Sequence[SeriesMember], images: Sequence[Image], facts: Facts, notes: list[str]
) -> Reading | None:
    rows = dict(facts.axes_rows)
    for member in members:
        folder, _, name = member.relpath.rpartition("/")
        if name != INDEX_NAME:
            continue
        here = {image.name: image for image in images if image.folder == folder}
        offsets = {
            (name, int(plane.offsets[0])): image.start + i
            for name, image in here.items()
            for i, plane in enumerate(image.member.layout.planes)
        }
        try:
            with Source(Path(member.path)) as source:
                for row, file, offset in read_index(source.read_at, source.size):
                    plane = offsets.get((file, offset), -1)
                    if plane >= 0:
                        rows[plane] = row
        except DecantError as error:
            notes.append(f"{member.relpath} could not be read: {clean(str(error))}")
    if not rows:
        return None
    ordered = {plane: rows[plane] for plane in sorted(rows)}
    places, texts = places_of_rows(ordered, _planes(images), HOLDER)
    reading = Reading("ndtiff", places)
    if texts.get("c"):
        reading.channels = channels_named(texts["c"], facts.reading.channels)
    reading.positions = texts.get("p", [])
    return reading


def _single_planes(
    members: Sequence[SeriesMember], images: Sequence[Image], facts: Facts, notes: list[str]
) -> Reading | None:
    """Read the ``metadata.txt`` of each folder."""
    folders: dict[str, FolderMetadata] = {}
    for member in members:
        folder, _, name = member.relpath.rpartition("/")
        if name != METADATA_NAME or member.layout.planes:
            continue
        try:
            with Source(Path(member.path)) as source:
                found = read_metadata(source.read_at, source.size)
        except DecantError as error:
            notes.append(f"{member.relpath} could not be read: {clean(str(error))}")
            continue
        if found is not None:
            folders[folder] = found
    if not folders or any(image.planes > 1 for image in images):
        return None
    facts.reading.complete(next(iter(folders.values())).reading)
    reading = Reading("micro-manager")
    index = np.zeros((len(images), 4), np.int64)
    known = np.zeros(len(images), bool)
    names: dict[int, str] = {}
    for row, image in enumerate(images):
        folder_says = folders.get(image.folder)
        if folder_says is None:
            continue
        names |= folder_says.position_names
        place = folder_says.places.get(image.name)
        if place is not None:
            index[row] = [place.get(axis, 0) for axis in _AXES]
            known[row] = True
        for kept, said in (
            (reading.exposures, folder_says.exposures),
            (reading.times, folder_says.times),
        ):
            if image.name in said:
                kept[image.start] = said[image.name]
    if known.any():
        reading.places = _declared(index, known, [each.declared for each in folders.values()])
        reading.positions = _position_names(index[:, 0], names.get)
    return reading


def _stacks(images: Sequence[Image], facts: Facts) -> Reading | None:
    """Numbers in the files' own maps and pages, which count through all files of an acquisition."""
    if any(dialect != "micro-manager" for dialect in facts.dialects):
        return None
    places = shifted(facts.places, images, _planes(images))
    if places is None or set(places.names) != set(_AXES) or places.known is None:
        return None
    index = places.index[:, [places.names.index(axis) for axis in _AXES]]
    declared = [dict(zip(each.names, each.extents, strict=True)) for each in facts.places if each]
    names: dict[int, str] = {}
    for each, listed in zip(facts.places, facts.positions, strict=True):
        if each is not None:
            here = np.unique(each.index[:, each.names.index("p")])
            names |= dict(zip(here.tolist(), listed, strict=False))
    reading = Reading("micro-manager", _declared(index, places.known, declared))
    reading.positions = _position_names(index[:, 0], names.get)
    return reading


def _declared(index: np.ndarray, known: np.ndarray, declared: Sequence[Mapping[str, int]]) -> Places:
    """Places with the extents that the acquisition was planned with, for the positions that are here."""
    found = index[known].max(axis=0) + 1
    extents = [int(found[0])]
    extents += [
        max([int(found[i]), *(each.get(axis, 1) for each in declared)]) for i, axis in enumerate("tzc", 1)
    ]
    positions = len(np.unique(index[known][:, 0]))
    return Places(_AXES, tuple(extents), index, positions * prod(extents[1:]), known, HOLDER)


def _position_names(numbers: np.ndarray, name: Callable[[int], str | None]) -> list[str]:
    listed = [name(number) or "" for number in np.unique(numbers).tolist()]
    return listed if any(listed) else []
