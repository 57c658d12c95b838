"""Take file names apart: which parts stay the same, which count something, and what they count.

Nothing here knows what the files hold; `_name_axes` makes axes of the parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from napari_decant.errors import UsageError

__all__ = ["AXIS_WORDS", "Column", "match_pattern", "split_names"]

AXIS_WORDS: dict[str, str] = {
    **dict.fromkeys(("t", "time", "tp", "timepoint", "timepoints", "frame", "tidx", "tt"), "t"),
    **dict.fromkeys(("z", "slice", "plane", "focus", "depth", "zplane", "zslice", "zpos", "sl"), "z"),
    **dict.fromkeys(("c", "ch", "chan", "channel", "channels", "w", "wave", "wavelength"), "c"),
    **dict.fromkeys(("p", "pos", "position", "s", "site", "stage", "f", "field", "fov", "xy"), "p"),
    **dict.fromkeys(("xypos", "series", "m", "scene", "tile", "point", "well"), "p"),
}
"""Words that stand before a number in a name, and the axis that it counts."""

Kind = Literal["fixed", "number", "label", "text", "noise"]

_EXTENSION = re.compile(r"(?:\.ome)?\.[a-z][a-z0-9]{0,9}$", re.IGNORECASE)
_GUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_SPLIT = re.compile(rf"({_GUID}|[_\-\s.,;/()\[\]{{}}+=#@&]+)")
_IS_GUID = re.compile(_GUID)
_RUNS = re.compile(r"[0-9]+|[^0-9]+")
_LABELLED = re.compile(r"(w|c|ch|chan|channel)([0-9]+)([^0-9].*)", re.IGNORECASE)
_DYES = frozenset({"cy", "alexa", "alexafluor", "af", "atto", "dylight", "ex", "em", "irdye", "cf"})
_ROW_OF_WELLS = re.compile(r"[ABDEG-LNO][0-9][0-9]")
_LAST_WORD = re.compile(r"[^\W\d_]+$")

_PATTERN_PARTS = re.compile(r"\{([^{}]*)\}|(\*)|([^{}*]+)")
_AXIS_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MAX_TEXTS = 4  # a part that may be any text can be cut in many ways
_MAX_PARTS = 40
_MAX_NAME = 1024


@dataclass(frozen=True, slots=True)
class Column:
    """One part of all names; the parts of a name one after the other are the name.

    Attributes
    ----------
    texts : tuple of str
        The part of each name.
    kind : {"fixed", "number", "label", "text", "noise"}
        The same in all names; digits; a number with a name behind it (``w1DAPI``); any text; or what
        tells nothing (identifiers, endings).
    key : str
        Lower-case word before the number; the axis itself if the user gave a pattern.
    in_folder : bool
        Whether it belongs to the name of a folder.
    """

    texts: tuple[str, ...]
    kind: Kind
    key: str = ""
    in_folder: bool = False


def split_names(names: Sequence[str]) -> list[Column] | None:
    """Find the parts of names; None if they have nothing in common.

    Parameters
    ----------
    names : sequence of str
        Names or POSIX relative paths, in natural order.
    """
    endings = [match[0] if (match := _EXTENSION.search(name)) else "" for name in names]
    stems = [name[: len(name) - len(ending)] for name, ending in zip(names, endings, strict=True)]
    rows = [_SPLIT.split(stem) for stem in stems]
    columns = _aligned(rows) or _around_a_text(rows)
    if columns is None:
        return None
    if len(set(endings)) == 1:
        return [*columns, Column(tuple(endings), "fixed")]
    return [*columns, Column(tuple(endings), "noise")]


def _aligned(rows: Sequence[Sequence[str]]) -> list[Column] | None:
    """Columns of names that have the same number of fields between the same separators."""
    if len({len(row) for row in rows}) != 1:
        return None
    columns: list[Column] = []
    folders = _last_slash(rows[0])
    word = ""
    for i, texts in enumerate(zip(*rows, strict=True)):
        same = len(set(texts)) == 1
        if i % 2 and not same:
            if not all(_IS_GUID.fullmatch(text) for text in texts):
                return None
            columns.append(Column(texts, "noise"))
        elif same:
            columns.append(Column(texts, "fixed"))
        else:
            columns += _field(texts, word, i < folders)
        if not i % 2:
            word = texts[0].casefold() if same else ""
    return columns


def _last_slash(row: Sequence[str]) -> int:
    return max((i for i, part in enumerate(row) if i % 2 and "/" in part), default=-1)


def _around_a_text(rows: Sequence[Sequence[str]]) -> list[Column] | None:
    """Columns of names whose one text (a channel with separators in it) is not split alike everywhere."""
    least = min(len(row) for row in rows)
    front = 0
    while front < least and _alike([row[front] for row in rows]):
        front += 1
    back = 0
    while back < least - front and _alike([row[len(row) - 1 - back] for row in rows]):
        back += 1
    if not front and not back:
        return None
    texts = ["".join(row[front : len(row) - back]) for row in rows]
    if any("/" in text for text in texts):
        return None  # folders of another depth
    # fields and separators take turns, so where a field meets the text an empty separator goes between
    before, after = [""] * (front % 2), [""] * (back % 2)
    return _aligned(
        [
            [*row[:front], *before, text, *after, *row[len(row) - back :]]
            for row, text in zip(rows, texts, strict=True)
        ]
    )


def _alike(texts: Sequence[str]) -> bool:
    """Whether parts are the same but for the numbers in them."""
    return (
        len({tuple("0" if run[0] in "0123456789" else run for run in _RUNS.findall(text)) for text in texts})
        == 1
    )


def _field(texts: tuple[str, ...], word: str, in_folder: bool) -> list[Column]:
    """Columns of one field whose text differs from name to name."""
    runs = [_RUNS.findall(text) for text in texts]
    if _alike(texts):
        pieces = list(zip(*runs, strict=True))
        before = [_word(pieces[i - 1][0]) if i else word for i in range(len(pieces))]
        after = [pieces[i + 1][0] if i + 1 < len(pieces) else "" for i in range(len(pieces))]
        dyes = any(key in _DYES for key in before) or any(text.casefold() == "nm" for text in after)
        if not dyes and not all(_ROW_OF_WELLS.fullmatch(text) for text in texts):
            return [
                Column(piece, "fixed" if len(set(piece)) == 1 else "number", key, in_folder)
                for piece, key in zip(pieces, before, strict=True)
            ]
    if all(_LABELLED.fullmatch(text) for text in texts):
        return [Column(texts, "label", "w" if texts[0][0] in "wW" else "c", in_folder)]
    return [Column(texts, "text", word, in_folder)]


def _word(text: str) -> str:
    """The last word of a text: what a number behind it counts."""
    found = _LAST_WORD.search(text)
    return found[0].casefold() if found else ""


def match_pattern(names: Sequence[str], pattern: str) -> tuple[list[Column], list[int]]:
    """Take names apart as a pattern says.

    Parameters
    ----------
    names : sequence of str
        POSIX relative paths; only their last part counts unless the pattern has a ``/``.
    pattern : str
        Braces hold axis names (``t``, ``c``, ``z``, ``p``, or any other), a star stands for any text:
        ``img_t{t}_z{z}_c{c}.tif``. ``t`` and ``z`` are numbers, others numbers or text. Upper and lower
        case are the same.

    Returns
    -------
    columns : list of Column
        Of the names that match.
    unmatched : list of int
        Which names do not match.

    Raises
    ------
    UsageError
        The pattern cannot be understood.
    """
    expression, keys = _compile(pattern)
    matches, unmatched = [], []
    for number, name in enumerate(names):
        text = name if "/" in pattern else name.rpartition("/")[2]
        match = expression.fullmatch(text) if len(text) <= _MAX_NAME else None
        if match is None:
            unmatched.append(number)
        else:
            matches.append(match.groups())
    columns = []
    for texts, key in zip(zip(*matches, strict=True), keys, strict=True) if matches else ():
        kind: Kind = "text"
        if key in ("", "*"):
            kind = "noise" if key and len(set(texts)) > 1 else "fixed"
            key = ""
        elif all(text.isdecimal() and text.isascii() for text in texts):
            kind = "number"
        columns.append(Column(texts, kind, key))
    return columns, unmatched


def _compile(pattern: str) -> tuple[re.Pattern[str], list[str]]:
    """Regular expression of a pattern, and the axis of each of its groups (none for fixed text)."""
    expression, keys, taken = "", [], 0
    for match in _PATTERN_PARTS.finditer(pattern):
        braces, star, fixed = match.groups()
        if match.start() != taken:
            break
        taken = match.end()
        if fixed:
            expression += f"({re.escape(fixed)})"
            keys.append("")
            continue
        if keys and keys[-1]:
            raise UsageError(
                f"the pattern {pattern!r} has no text between two parts; names can be read both ways"
            )
        axis = "*" if star else _axis_of(braces, pattern)
        if axis in keys and axis != "*":
            raise UsageError(f"the pattern {pattern!r} names the axis {axis!r} twice; give each its own name")
        expression += r"(\d+)" if axis in ("t", "z") else r"([^/]+?)"
        keys.append(axis)
    if taken != len(pattern) or not any(key not in ("", "*") for key in keys):
        raise UsageError(
            f"the pattern {pattern!r} cannot be read; "
            "put axis names in braces, as in img_t{t}_z{z}_c{c}.tif"
        )
    if sum(key not in ("", "t", "z") for key in keys) > _MAX_TEXTS or len(keys) > _MAX_PARTS:
        raise UsageError(f"the pattern {pattern!r} has too many open parts; leave some out")
    return re.compile(expression, re.IGNORECASE | re.ASCII), keys


def _axis_of(text: str, pattern: str) -> str:
    name = text.strip().casefold()
    axis = AXIS_WORDS.get(name, name) if len(name) > 1 else name
    if axis in ("x", "y") or not _AXIS_NAME.fullmatch(axis):
        raise UsageError(
            f"the pattern {pattern!r} has {{{text}}}, which is no name of an axis; use t, c, z, p or a word"
        )
    return axis
