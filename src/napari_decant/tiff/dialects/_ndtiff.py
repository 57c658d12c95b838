"""NDTiff: named axes of each plane, in the pages' own JSON and in the index beside the files."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from napari_decant.errors import FormatError
from napari_decant.tiff._places import Places
from napari_decant.tiff.dialects._reading import clean, whole

__all__ = ["MAX_INDEX", "AxesRow", "axes_row", "places_of_rows", "read_index"]

MAX_INDEX = 256 << 20
"""Longest index that is read; about 150 bytes a plane."""

AxesRow = dict[str, int | str]
"""Where one plane belongs: a number or a text along each axis."""

_AXES = {"time": "t", "channel": "c", "z": "z", "position": "p"}
_MAX_AXES = 16
_MAX_PART = 1 << 16
_NUMBERS = struct.Struct("<8I")
_NOT_A_NAME = re.compile(r"[^a-z0-9_]+")


def axes_row(value: Any) -> AxesRow | None:
    """Read the axes of a plane from its JSON; None if that is no such thing."""
    if not isinstance(value, dict) or len(value) > _MAX_AXES:
        return None
    row: AxesRow = {}
    for key, place in value.items():
        text = clean(place) if isinstance(place, str) else whole(place, -(1 << 31), 1 << 31) or 0
        row[_axis_name(key)] = text
    return row


def places_of_rows(
    rows: Mapping[int, AxesRow], planes: int, holder: str = "this file"
) -> tuple[Places | None, dict[str, list[str]]]:
    """Number the places of planes.

    Parameters
    ----------
    rows : mapping of int to AxesRow
        By plane.
    planes : int
        Number of planes.
    holder : str
        See `Places`.

    Returns
    -------
    places : Places or None
        None without any row.
    texts : dict of str to list of str
        Texts along an axis, numbered in the order in which they appear.
    """
    names: list[str] = []
    texts: dict[str, dict[str, int]] = {}
    numbered: dict[int, dict[str, int]] = {}
    for plane, row in rows.items():
        numbers = numbered.setdefault(plane, {})
        for axis, place in row.items():
            if axis not in names:
                names.append(axis)
            if isinstance(place, str):
                found = texts.setdefault(axis, {})
                place = found.setdefault(place, len(found))
            numbers[axis] = place
    if not rows or len(names) > _MAX_AXES:
        return None, {}
    index = np.zeros((planes, len(names)), np.int64)
    known = np.zeros(planes, bool)
    for plane, numbers in numbered.items():
        index[plane] = [numbers.get(axis, 0) for axis in names]
        known[plane] = True
    spans = index[known].max(axis=0) - index[known].min(axis=0) + 1
    places = Places(tuple(names), tuple(int(n) for n in spans), index, 0, known, holder)
    return places, {axis: list(found) for axis, found in texts.items()}


def read_index(read: Callable[[int, int], bytes], size: int) -> Iterator[tuple[AxesRow, str, int]]:
    """Read ``NDTiff.index``: axes, name of the file, and offset of the pixels of each plane.

    Parameters
    ----------
    read : callable
        ``read(position, length)`` within the index.
    size : int
        Its length in bytes.

    Raises
    ------
    FormatError
        It is no such index, or cut short.
    """
    if size > MAX_INDEX:
        raise FormatError(f"its index has {size:,} bytes; more than {MAX_INDEX:,} are not read")
    data = read(0, size)
    at = 0
    while at < len(data):
        text, at = _part(data, at)
        name, at = _part(data, at)
        if at + _NUMBERS.size > len(data):
            raise FormatError("its index is cut short")
        offset = _NUMBERS.unpack_from(data, at)[0]
        at += _NUMBERS.size
        try:
            row = axes_row(json.loads(text))
        except (ValueError, RecursionError):
            row = None
        if row is None:
            raise FormatError("its index is damaged")
        yield row, name.decode("utf-8", "replace"), offset


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    length = int.from_bytes(data[at : at + 4], "little")
    end = at + 4 + length
    if length > _MAX_PART or end > len(data):
        raise FormatError("its index is cut short or damaged")
    return data[at + 4 : end], end


def _axis_name(key: str) -> str:
    name = _NOT_A_NAME.sub("_", str(key)[:32].casefold()).strip("_")
    return _AXES.get(name, name) or "q"
