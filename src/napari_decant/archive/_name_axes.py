"""Make axes of the parts of file names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from napari_decant.archive._name_values import MAX_LABELS, missing_names, name_axis
from napari_decant.archive._patterns import AXIS_WORDS, Column

__all__ = ["NameAxes", "axes_of_columns"]

_WELL = re.compile(r"[A-P][0-9]{1,2}")
_OPERA = {"r": "row", "c": "column", "f": "p", "p": "z", "ch": "c", "sk": "t"}
_CHANNELS = frozenset(
    [
        *(
            "dapi",
            "hoechst",
            "gfp",
            "egfp",
            "yfp",
            "cfp",
            "bfp",
            "rfp",
            "mcherry",
            "tdtomato",
            "fitc",
            "tritc",
        ),
        *("texasred", "txred", "pi", "bf", "brightfield", "phase", "dic", "trans", "tl", "fluo"),
        *("red", "green", "blue"),
    ]
)
_DATE_DIGITS = 6
_ORDERS = {"z": ("z", "t", "p"), "t": ("p", "z")}


@dataclass(frozen=True, slots=True, eq=False)
class NameAxes:
    """Where names put their files.

    Attributes
    ----------
    names : tuple of str
        Axes in the order in which the names have them.
    extents : tuple of int
    index : numpy.ndarray of int64
        Shape (files, axes).
    labels : dict of str to list of str
        What the indices along an axis are called, where that is more than a count.
    understood : str
        ``"t 1-12, c DAPI GFP, z 0-27"``.
    missing : list of str
        Names of the files that empty places would have (or their places), the first thousand.
    missing_count : int
        How many places are empty.
    notes : list of str
        What the user should know.
    """

    names: tuple[str, ...]
    extents: tuple[int, ...]
    index: np.ndarray
    labels: dict[str, list[str]] = field(default_factory=dict)
    understood: str = ""
    missing: list[str] = field(default_factory=list)
    missing_count: int = 0
    notes: list[str] = field(default_factory=list)


def axes_of_columns(
    columns: Sequence[Column], *, inside: Collection[str] = (), given: bool = False
) -> NameAxes | None:
    """Make axes of the columns of names.

    Parameters
    ----------
    columns : sequence of Column
        From `split_names` or `match_pattern`.
    inside : collection of str
        Axes that the files have themselves.
    given : bool
        The user named the axes: each varying column is one.

    Returns
    -------
    NameAxes or None
        None if the names tell no axis.
    """
    named = _given(columns) if given else _chosen(columns, inside)
    if not named:
        return None
    axes = [name_axis(name, i, columns[i], columns) for i, name in named]
    count = len(axes[0].numbers)
    index = np.array([axis.numbers for axis in axes], np.int64).T.reshape(count, len(axes))
    missing, missing_count = missing_names(columns, axes, index)
    return NameAxes(
        tuple(axis.name for axis in axes),
        tuple(axis.extent for axis in axes),
        index,
        {axis.name: axis.labels for axis in axes if axis.labels},
        ", ".join(axis.understood for axis in axes),
        missing,
        missing_count,
        [axis.note for axis in axes if axis.note],
    )


def _given(columns: Sequence[Column]) -> list[tuple[int, str]]:
    varying = [(i, c.key) for i, c in enumerate(columns) if c.key and len(set(c.texts)) > 1]
    return varying or [(i, c.key) for i, c in enumerate(columns) if c.key][:1]


def _chosen(columns: Sequence[Column], inside: Collection[str]) -> list[tuple[int, str]]:
    """Columns that tell files apart, with their axes, in the order of the names."""
    varying = [i for i, column in enumerate(columns) if column.kind in ("number", "label", "text")]
    count = len(columns[0].texts)
    named = _named(columns, varying)
    # a date in front of the time point would do as well, but is none
    chosen = _needed(columns, sorted(named, key=lambda i: (_is_date(columns[i]), i)), count)
    rest = [i for i in varying if i not in named]
    # what has few values groups the files, what has many (dates, identifiers) only repeats the rest
    rest.sort(key=lambda i: len(set(columns[i].texts)))
    chosen = _needed(columns, rest, count, chosen)
    if not chosen:
        return []
    taken = {named[i] for i in chosen if i in named} | set(inside)
    order = _ORDERS["t" if "t" in inside and "z" not in inside else "z"]
    for i in sorted((i for i in chosen if i not in named), reverse=True):
        column = columns[i]
        if column.kind == "text":
            several = len(set(column.texts))
            if several > MAX_LABELS or not _is_part(columns, i):
                return []
            place = column.in_folder or all(_WELL.fullmatch(text) for text in column.texts)
            wanted: Sequence[str] = ("p", "c") if place else ("c", "p")
        else:
            wanted = order
        named[i] = next((axis for axis in wanted if axis not in taken), "q")
        taken.add(named[i])
    return _distinct_names([(i, named[i]) for i in sorted(chosen)], columns)


def _is_date(column: Column) -> bool:
    return column.kind == "number" and max(len(text.lstrip("0")) for text in column.texts) >= _DATE_DIGITS


def _is_part(columns: Sequence[Column], at: int) -> bool:
    """Whether a text is a part of names that belong together: unrelated pictures are no channels."""
    others = any(text.strip("./_- ") for i, c in enumerate(columns[:-1]) if i != at for text in c.texts[:1])
    return others or all(text.casefold() in _CHANNELS for text in columns[at].texts)


def _named(columns: Sequence[Column], varying: Sequence[int]) -> dict[int, str]:
    """Axes of the columns whose word tells what they count."""
    keys = {column.key for column in columns if column.kind != "text"}
    for column in columns:
        if column.kind == "fixed":
            keys |= set(re.findall(r"[a-z]+", column.texts[0]))
    words = _OPERA if set("rcfp") | {"ch"} <= keys else {}
    named: dict[int, str] = {}
    several = [i for i in varying if columns[i].kind != "text"]
    explicit = any(columns[i].key in ("c", "ch", "chan", "channel", "channels") for i in several)
    for i in several:
        key = columns[i].key
        axis = words.get(key) or AXIS_WORDS.get(key)
        if axis is None:
            continue
        # beside a channel, W is the well
        named[i] = "p" if key == "w" and explicit and columns[i].kind == "number" else axis
    return named


def _distinct_names(named: list[tuple[int, str]], columns: Sequence[Column]) -> list[tuple[int, str]]:
    """Give a second column of the same axis a name of its own."""
    result: list[tuple[int, str]] = []
    used: set[str] = set()
    for i, axis in named:
        if axis in used:
            key = re.sub(r"[^a-z0-9_]", "", columns[i].key)[:32]
            axis = (
                key if len(key) > 1 and key not in used else f"{axis}{sum(a[0] == axis[0] for a in used) + 1}"
            )
        used.add(axis)
        result.append((i, axis))
    return result


def _needed(
    columns: Sequence[Column], candidates: Sequence[int], count: int, chosen: Sequence[int] = ()
) -> list[int]:
    """Columns that tell apart what those before them do not."""
    kept = list(chosen)
    groups = np.zeros(count, np.int64)
    for i in kept:
        groups = _refine(groups, columns[i])
    distinct = len(np.unique(groups))
    for i in candidates:
        if distinct == count:
            break
        finer = _refine(groups, columns[i])
        found = len(np.unique(finer))
        if found > distinct:
            groups, distinct = finer, found
            kept.append(i)
    return kept


def _refine(groups: np.ndarray, column: Column) -> np.ndarray:
    values = np.unique(np.array(column.texts, dtype=object).astype(str), return_inverse=True)[1]
    return np.unique(groups * (int(values.max()) + 1) + values, return_inverse=True)[1]
