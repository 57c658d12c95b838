"""Place a series by the names of its files, and by what each file says of its own planes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from napari_decant.archive._name_axes import NameAxes, axes_of_columns
from napari_decant.archive._patterns import match_pattern, split_names
from napari_decant.archive._place_facts import HOLDER, Facts, Image, channels_named, named_few
from napari_decant.tiff._places import Places
from napari_decant.tiff.dialects import Channel, Reading

if TYPE_CHECKING:
    from napari_decant.archive._series import SeriesMember

__all__ = ["place_by_names"]

_INSIDE = "_in_file"


def place_by_names(
    members: Sequence[SeriesMember],
    images: Sequence[Image],
    facts: Facts,
    pattern: str | None,
    notes: list[str],
) -> Reading | None:
    """Place the planes of the images; None if the names tell nothing.

    Parameters
    ----------
    members : sequence of SeriesMember
        All files, so that one which is there without planes is not called missing.
    images : sequence of Image
        Those with planes.
    facts : Facts
        What the images say of themselves.
    pattern : str or None
        How names give axes; None to find out.
    notes : list of str
        Gets what the user should know.

    Raises
    ------
    UsageError
        The pattern cannot be understood.
    """
    inner = _inner(images, facts, notes)
    names = [image.member.relpath for image in images]
    if pattern is not None:
        columns, unmatched = match_pattern(names, pattern)
        if unmatched:
            listed = named_few([names[i] for i in unmatched])
            notes.append(
                f"{listed} does not match the pattern {pattern!r}, so no plane got a place by its name"
            )
            return None
        axes = axes_of_columns(columns, given=True)
    elif len(images) == 1:
        axes = NameAxes((), (), np.zeros((1, 0), np.int64))
    else:
        split = split_names(names)
        inside = [name for name, _ in _spans(inner)]
        axes = None if split is None else axes_of_columns(split, inside=inside)
    if axes is None:
        notes.append("the file names tell no axes, so the planes are in the natural order of the names")
        return None
    if axes.understood:
        notes.append(f"read from file names: {axes.understood}")
    notes += axes.notes
    _note_missing(axes, members, notes)
    axes = _in_known_order(axes, facts.reading.channels)
    reading = Reading(facts.reading.dialect or "names", _combine(axes, images, inner))
    reading.channels = _channels(axes, facts)
    reading.positions = _positions(axes, facts)
    return reading


def _inner(images: Sequence[Image], facts: Facts, notes: list[str]) -> list[Places]:
    """Places inside each file; along z where a stack does not say what it is."""
    found: list[Places] = []
    for image, places in zip(images, facts.places, strict=True):
        if image.planes == 1:
            places = Places((), (), np.zeros((1, 0), np.int64))
        elif places is None or (places.known is not None and not places.known.all()):
            places = Places.grid(("z",), (image.planes,), image.planes)
        else:
            declared = prod(places.extents) if places.declared is None else places.declared
            if declared > image.planes:
                absent = declared - image.planes
                notes.append(f"{image.member.relpath}: {absent} of {declared} declared frames absent")
        found.append(places)
    return found


def _spans(inner: Sequence[Places]) -> list[tuple[str, bool]]:
    """Axes along which some file has several planes."""
    varying: dict[str, bool] = {}
    for places in inner:
        if len(places.index) > 1:
            spread = np.ptp(places.index, axis=0)
            varying |= {name: True for name, span in zip(places.names, spread.tolist(), strict=True) if span}
    return list(varying.items())


def _combine(axes: NameAxes, images: Sequence[Image], inner: Sequence[Places]) -> Places:
    """Axes of the names around those inside the files."""
    inside = [name for name, _ in _spans(inner)]
    called = [name + _INSIDE if name in axes.names else name for name in inside]
    planes = images[-1].start + images[-1].planes
    index = np.zeros((planes, len(axes.names) + len(inside)), np.int64)
    for row, image, places in zip(axes.index, images, inner, strict=True):
        mine = slice(image.start, image.start + image.planes)
        index[mine, : len(row)] = row
        for column, name in enumerate(inside, len(row)):
            if name in places.names:
                index[mine, column] = places.index[:, places.names.index(name)]
    extents = (*axes.extents, *(int(n) + 1 for n in index[:, len(axes.names) :].max(axis=0)))
    # Nothing is declared: what is missing is told by name.
    return Places((*axes.names, *called), extents, index, 0, None, HOLDER)


def _note_missing(axes: NameAxes, members: Sequence[SeriesMember], notes: list[str]) -> None:
    """Name the files that would fill the gaps; those that are there without planes are told elsewhere."""
    if not axes.missing_count:
        return
    here = {member.relpath for member in members if not member.layout.planes}
    here |= {name.rpartition("/")[2] for name in here}
    missing = [name for name in axes.missing if name not in here]
    count = axes.missing_count - (len(axes.missing) - len(missing))
    if count == 1 and missing:
        notes.append(f"{missing[0]} is missing")
    elif count:
        notes.append(f"{count} files are missing: {named_few(missing)}")


def _in_known_order(axes: NameAxes, known: Sequence[Channel]) -> NameAxes:
    """Put channels into the order that the metadata has them, where it names them all."""
    labels = axes.labels.get("c", [])
    order = [channel.label.casefold() for channel in known]
    if not labels or not {label.casefold() for label in labels} <= set(order):
        return axes
    ranked = sorted(range(len(labels)), key=lambda i: order.index(labels[i].casefold()))
    column = axes.names.index("c")
    index = axes.index.copy()
    index[:, column] = np.argsort(ranked)[index[:, column]]
    return NameAxes(axes.names, axes.extents, index, {**axes.labels, "c": [labels[i] for i in ranked]})


def _positions(axes: NameAxes, facts: Facts) -> Sequence[str]:
    """Names of stage positions: from file names, else from files that hold one position each."""
    if "p" in axes.labels:
        return axes.labels["p"]
    if len(facts.positions) == 1:
        return facts.positions[0]
    if "p" not in axes.names:
        return []
    numbers = axes.index[:, axes.names.index("p")].tolist()
    found: dict[int, str] = {}
    for number, names in zip(numbers, facts.positions, strict=True):
        if len(names) == 1:
            found.setdefault(number, names[0])
    listed = [found.get(number, "") for number in range(max(numbers) + 1)]
    return listed if all(listed) and len(set(listed)) == len(listed) else []


def _channels(axes: NameAxes, facts: Facts) -> Sequence[Channel]:
    labels: Collection[str] = axes.labels.get("c", [])
    known = facts.reading.channels
    if labels:
        return channels_named(list(labels), known)
    if "c" not in axes.names:
        return known
    # each file may name the one channel that it holds
    column = axes.names.index("c")
    found: dict[int, Channel] = {}
    for number, channels in zip(axes.index[:, column].tolist(), facts.channels, strict=True):
        if len(channels) == 1:
            found.setdefault(number, channels[0])
    if len(found) == axes.extents[column] and len({channel.label for channel in found.values()}) > 1:
        return [found[number] for number in sorted(found)]
    return known if len(known) == axes.extents[column] else []
