"""Number the values that one part of file names takes, and name the files that are missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from napari_decant.archive._names import natural_key
from napari_decant.archive._patterns import Column

__all__ = ["MAX_LABELS", "NameAxis", "missing_names", "name_axis"]

MAX_LABELS = 64
"""More texts than that are no channels."""

_COUNTED = ("t", "z")
_SHOWN_LABELS = 8
_MAX_GRID = 1 << 22
_MAX_MISSING = 1000
_SPARSE = 10  # numbers that fill less than a tenth of their range are no count


@dataclass(slots=True)
class NameAxis:
    """A column that became an axis: the number of each of its texts."""

    name: str
    column: int
    texts: tuple[str, ...]
    numbers: list[int]
    labels: list[str]
    understood: str
    note: str = ""

    @property
    def extent(self) -> int:
        return max(self.numbers) + 1


def name_axis(name: str, at: int, column: Column, columns: Sequence[Column]) -> NameAxis:
    """Number the texts of one column.

    Parameters
    ----------
    name : str
        Of the axis.
    at : int
        Number of the column.
    column : Column
    columns : sequence of Column
        All of them: one beside a channel's number may name it.
    """
    if column.kind == "number":
        return _number_axis(name, at, column, columns)
    texts = column.texts
    if column.kind == "label":
        return _label_axis(name, at, texts)
    values = sorted(set(texts), key=natural_key)
    labels = [value.strip("_-. ") or value for value in values]
    rank = {value: i for i, value in enumerate(values)}
    numbers = [rank[text] for text in texts]
    return NameAxis(name, at, texts, numbers, labels, f"{name} {_listed(labels)}")


def _number_axis(name: str, at: int, column: Column, columns: Sequence[Column]) -> NameAxis:
    values = [int(text) for text in column.texts]
    distinct = sorted(set(values))
    low, high = distinct[0], distinct[-1]
    if name not in _COUNTED:
        labels = _labels_beside(at, column, columns) if name == "c" else []
        consecutive = high - low + 1 == len(distinct) > 1
        shown = _listed(labels) if labels else f"{low}-{high}" if consecutive else _listed(map(str, distinct))
        rank = {value: i for i, value in enumerate(distinct)}
        return NameAxis(name, at, column.texts, [rank[v] for v in values], labels, f"{name} {shown}")
    step = gcd(*(value - low for value in distinct)) or 1
    if len(distinct) > 2 and (high - low) // step + 1 > _SPARSE * len(distinct):
        rank = {value: i for i, value in enumerate(distinct)}
        note = f"the numbers of {name} ({low} to {high}) do not count on, so only their order was taken"
        understood = f"{name} {len(distinct)} values from {low} to {high}"
        return NameAxis(name, at, column.texts, [rank[v] for v in values], [], understood, note)
    numbers = [(value - low) // step for value in values]
    understood = (
        f"{name} {low}-{high}" + (f" step {step}" if step > 1 else "") if high > low else f"{name} {low}"
    )
    return NameAxis(name, at, column.texts, numbers, [], understood)


def _label_axis(name: str, at: int, texts: tuple[str, ...]) -> NameAxis:
    """Numbers with names behind them; a name that differs for one number is none."""
    parts = [re.match(r"([a-z]+)([0-9]+)(.*)", text, re.IGNORECASE) for text in texts]
    pairs = [(int(part[2]), part[3]) if part else (0, text) for part, text in zip(parts, texts, strict=True)]
    if max(number for number, _ in pairs) > 99:  # w1488nm: one digit counts, the rest is the name
        pairs = [(int(str(number)[0]), str(number)[1:] + label) for number, label in pairs]
    found: dict[int, str] = {}
    for number, label in pairs:
        found[number] = label if found.get(number, label) == label else ""
    order = sorted(found)
    labels = [found[number].strip("_-. ") for number in order]
    shown = [label or str(number) for number, label in zip(order, labels, strict=True)]
    rank = {number: i for i, number in enumerate(order)}
    numbers = [rank[number] for number, _ in pairs]
    return NameAxis(name, at, texts, numbers, labels if any(labels) else [], f"{name} {_listed(shown)}")


def _labels_beside(at: int, column: Column, columns: Sequence[Column]) -> list[str]:
    """Names of channels from a text that changes with their number: ``c1_DAPI``."""
    order = sorted({int(text) for text in column.texts})
    for other in columns:
        if other.kind != "text" or other.in_folder:
            continue
        pairs = set(zip((int(text) for text in column.texts), other.texts, strict=True))
        if len(pairs) == len(order) == len(set(other.texts)):
            names = dict(pairs)
            return [names[number].strip("_-. ") for number in order]
    return []


def _listed(labels: Collection[str] | map[str]) -> str:
    listed = [label or "(none)" for label in labels]
    tail = f" ... ({len(listed)})" if len(listed) > _SHOWN_LABELS else ""
    return " ".join(listed[:_SHOWN_LABELS]) + tail


def missing_names(
    columns: Sequence[Column], axes: Sequence[NameAxis], index: np.ndarray
) -> tuple[list[str], int]:
    """Name the files that would fill the grid.

    Parameters
    ----------
    columns : sequence of Column
    axes : sequence of NameAxis
    index : numpy.ndarray of int64
        Shape (files, axes).

    Returns
    -------
    names : list of str
        The first thousand; places where names have a part that cannot be told.
    count : int
        How many places are empty.
    """
    extents = [axis.extent for axis in axes]
    places = prod(extents)
    there = {tuple(row) for row in index.tolist()}
    count = places - len(there)
    if count <= 0 or places > _MAX_GRID:
        return [], max(0, count)
    texts = [_texts_by_number(axis, columns[axis.column]) for axis in axes]
    of_column = {axis.column: k for k, axis in enumerate(axes)}
    formable = all(i in of_column or len(set(column.texts)) == 1 for i, column in enumerate(columns))
    found: list[str] = []
    for place in product(*(range(extent) for extent in extents)):
        if place in there:
            continue
        parts = [
            texts[of_column[i]][place[of_column[i]]] if i in of_column else column.texts[0]
            for i, column in enumerate(columns)
        ]
        if formable:
            found.append("".join(parts))
        else:
            found.append(" ".join(f"{a.name}={texts[k][place[k]]}" for k, a in enumerate(axes)))
        if len(found) == _MAX_MISSING:
            break
    return found, count


def _texts_by_number(axis: NameAxis, column: Column) -> list[str]:
    """What stands in a name for each number of an axis; what no name has is spelled like the others."""
    seen = dict(zip(axis.numbers, axis.texts, strict=True))
    if len(seen) == axis.extent:
        return [seen[number] for number in range(axis.extent)]
    widths = {len(text) for text in axis.texts}
    first, last = min(seen), max(seen)
    low, high = int(seen[first]), int(seen[last])
    step = (high - low) // (last - first)
    width = widths.pop() if len(widths) == 1 else 0
    return [
        seen.get(number, str(low + step * (number - first)).zfill(width)) for number in range(axis.extent)
    ]
