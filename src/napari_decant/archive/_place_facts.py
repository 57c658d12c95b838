"""What the members of a series say of themselves, gathered one file at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from napari_decant.archive._source import Source
from napari_decant.tiff._places import Places
from napari_decant.tiff.dialects import Channel, Reading, TagReader, clean, read_dialects

if TYPE_CHECKING:
    from napari_decant.archive._series import SeriesMember

__all__ = ["HOLDER", "Facts", "Image", "channels_named", "gather", "named_few", "read_tags", "shifted"]

logger = logging.getLogger(__name__)

HOLDER = "this series"
"""What `Places` are of, in notes."""

_PHOTOMETRIC = 262
_MIN_IS_WHITE, _RGB = 0, 2
_MAX_FACTS = 10_000
_NAMED = 6
_SAME = 1e-3  # of a pixel size: programs round differently


@dataclass(frozen=True, slots=True)
class Image:
    """A member with planes: its number among the members, and its first plane's among all planes."""

    number: int
    start: int
    member: SeriesMember

    @property
    def planes(self) -> int:
        """Number of its planes."""
        return len(self.member.layout.planes)

    @property
    def folder(self) -> str:
        """Folder below the series' own, as POSIX path."""
        return self.member.relpath.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Name without its folder."""
        return self.member.relpath.rpartition("/")[2]


@dataclass(slots=True)
class Facts:
    """What all members say together.

    Attributes
    ----------
    reading : Reading
        Steps, channels, date and colours of the first member that states them; times, exposures and labels
        of planes counted through the series.
    places : list of Places or None
        Of each image, in its own numbers.
    axes_rows : dict of int to dict
        Of NDTiff: axes by plane of the series.
    dialects : list of str
        Of each image.
    positions : list of sequence of str
        Names of the stage positions in each image.
    channels : list of sequence of Channel
        Of each image.
    inverted : bool
        Of the first image: min-is-white.
    """

    reading: Reading
    places: list[Places | None] = field(default_factory=list)
    axes_rows: dict[int, dict[str, int | str]] = field(default_factory=dict)
    dialects: list[str] = field(default_factory=list)
    positions: list[Sequence[str]] = field(default_factory=list)
    channels: list[Sequence[Channel]] = field(default_factory=list)
    inverted: bool = False


def named_few(names: Sequence[str]) -> str:
    """A list of names that stays short."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown}, ... ({len(names)} in all)"


def read_tags[T](image: Image, read: Callable[[TagReader], T]) -> T | None:
    """Read the tags of one image; None, and a line in the log, if they cannot be read."""
    try:
        with Source(Path(image.member.path)) as source:
            return read(TagReader(source.file, image.member.layout))
    except Exception as error:  # noqa: BLE001 - any fault of foreign metadata; the bytes are safe without it
        logger.warning("the metadata of %s could not be read: %s", image.member.path, clean(str(error)))
        return None


def gather(images: Sequence[Image], only_first: bool = False) -> Facts:
    """Read what each image says of itself; one file is open at a time.

    Parameters
    ----------
    images : sequence of Image
        At least one.
    only_first : bool
        The first one is enough: something else says where the planes are.
    """
    facts = Facts(Reading(""))
    unreadable: list[str] = []
    differing: list[str] = []
    notes: dict[str, list[str]] = {}
    for image in images[:1] if only_first else images:
        found = read_tags(image, _read_image)
        if found is None:
            unreadable.append(image.member.relpath)
            found = (Reading(""), [])
        reading, photometric = found
        if image is images[0]:
            facts.inverted = photometric == [_MIN_IS_WHITE]
            facts.reading.rgb = photometric == [_RGB] if reading.rgb is None else reading.rgb
        elif _differ(facts.reading, reading):
            differing.append(image.member.relpath)
        for note in reading.notes:
            if len(notes) < _NAMED or note in notes:
                notes.setdefault(note, []).append(image.member.relpath)
        _take(facts, reading, image)
    if differing:
        facts.reading.notes.append(
            f"pixel sizes differ between files; those of {images[0].member.relpath} are kept, not those of "
            + named_few(differing)
        )
    if unreadable:
        facts.reading.notes.append(f"the metadata of {named_few(unreadable)} could not be read")
    facts.reading.notes += [f"{named_few(names)}: {note}" for note, names in notes.items()]
    return facts


def _read_image(tags: TagReader) -> tuple[Reading, list[int]]:
    return read_dialects(tags), tags.integers(_PHOTOMETRIC, tags.first_listed)


def _differ(first: Reading, other: Reading) -> bool:
    """Whether two files state pixel sizes that contradict each other."""
    for axis in first.steps.keys() & other.steps.keys():
        (size, unit), (size_, unit_) = first.steps[axis], other.steps[axis]
        if unit != unit_ or not isclose(size, size_, rel_tol=_SAME):
            return True
    return False


def _take(facts: Facts, reading: Reading, image: Image) -> None:
    facts.places.append(reading.places)
    facts.dialects.append(reading.dialect)
    facts.positions.append(reading.positions)
    facts.channels.append(reading.channels)
    for plane, row in reading.axes_rows.items():
        facts.axes_rows[image.start + plane] = row
    whole = facts.reading
    whole.dialect = whole.dialect or reading.dialect
    whole.steps = reading.steps | whole.steps
    whole.date = whole.date or reading.date
    if not any(channel.label or channel.color for channel in whole.channels):
        whole.channels = reading.channels
    for name in ("exposures", "times", "labels"):
        kept = getattr(whole, name)
        if len(kept) < _MAX_FACTS:
            kept.update({image.start + plane: value for plane, value in getattr(reading, name).items()})


def channels_named(labels: Sequence[str], known: Sequence[Channel]) -> list[Channel]:
    """Channels in the order of their labels, with colours and windows where the files have some."""
    by_label = {channel.label.casefold(): channel for channel in known if channel.label}
    return [by_label.get(label.casefold()) or Channel(label) for label in labels]


def shifted(places: Sequence[Places | None], images: Sequence[Image], planes: int) -> Places | None:
    """Places of all images in one table, for numbers that count through the series; None without any.

    Images that have no place leave their planes unknown.
    """
    names = list(dict.fromkeys(name for each in places if each for name in each.names))
    if not names:
        return None
    index = np.zeros((planes, len(names)), np.int64)
    known = np.zeros(planes, bool)
    for each, image in zip(places, images, strict=True):
        if each is None:
            continue
        rows = slice(image.start, image.start + image.planes)
        for column, name in enumerate(each.names):
            index[rows, names.index(name)] = each.index[:, column]
        known[rows] = True if each.known is None else each.known
    listed = [dict(zip(each.names, each.extents, strict=True)) for each in places if each]
    extents = [max(each.get(name, 1) for each in listed) for name in names]
    if known.any():
        found = index[known].max(axis=0) + 1
        extents = [max(extent, int(high)) for extent, high in zip(extents, found, strict=True)]
    return Places(tuple(names), tuple(extents), index, None, known, HOLDER)
