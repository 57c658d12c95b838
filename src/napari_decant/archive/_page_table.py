"""The page records of a manifest as columns: a hundred thousand of them must not be as many objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, overload

import numpy as np

from napari_decant.archive._geometry import PageLayout

__all__ = [
    "MAX_CONTAINERS",
    "MAX_PLANES",
    "MAX_VALUES",
    "PageColumns",
    "PageKind",
    "PageTable",
    "is_listable",
    "read_columns",
]

MAX_VALUES: Final = 40_000_000
"""Of a manifest: a file of ten million strips has half as many; each costs some 40 bytes as JSON."""
MAX_CONTAINERS: Final = 8_000_000
"""Lists and objects of a manifest: a million files of one page have half as many."""
_OF_A_FILE: Final = (16, 4)  # values and containers, rounded up
_OF_A_PAGE: Final = (16, 4)
MAX_PLANES: Final = MAX_CONTAINERS // _OF_A_PAGE[1]

_KEYS: Final = (
    "dtype", "samplesperpixel", "planarconfig", "predictor", "rowsperstrip", "tilewidth", "tilelength",
)  # fmt: skip
_COLUMNS: Final = ("index", "dataoffsets", "databytecounts")


def is_listable(planes: int, segments: int, files: int = 1) -> bool:
    """Whether a manifest of so many planes in so many pieces stays within what is read."""
    values, containers = (
        file * files + page * planes for file, page in zip(_OF_A_FILE, _OF_A_PAGE, strict=True)
    )
    return values + 2 * segments <= MAX_VALUES and containers <= MAX_CONTAINERS


@dataclass(frozen=True, slots=True)
class PageKind:
    """What pages have in common; see `PageLayout`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    planarconfig: int
    rowsperstrip: int
    tilewidth: int
    tilelength: int

    @classmethod
    def of(cls, layout: PageLayout) -> PageKind:
        """The kind of a page."""
        return cls(
            layout.shape, layout.dtype, layout.planarconfig, layout.rowsperstrip, layout.tilewidth,
            layout.tilelength,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PageColumns:
    """Pages of all files of an archive, one behind the other; columns are int64.

    Attributes
    ----------
    kinds : sequence of PageKind
    kind, index : numpy.ndarray
        Which kind each page has, and its storage position in the pixel array.
    start : numpy.ndarray
        First segment of each page; one entry more than pages.
    offsets, counts : numpy.ndarray
        File ranges of all segments in serialisation order.
    """

    kinds: Sequence[PageKind]
    kind: np.ndarray
    index: np.ndarray
    start: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, pages: Sequence[tuple[int, PageLayout]]) -> PageColumns:
        """Columns of pages with their storage positions."""
        kinds: dict[PageKind, int] = {}
        kind = [kinds.setdefault(PageKind.of(layout), len(kinds)) for _, layout in pages]
        start = np.cumsum([0, *(len(layout.offsets) for _, layout in pages)])
        none = [np.zeros(0, np.int64)]
        return cls(
            tuple(kinds),
            np.array(kind, np.int64),
            np.array([index for index, _ in pages], np.int64),
            start,
            np.concatenate(none + [layout.offsets for _, layout in pages]),
            np.concatenate(none + [layout.counts for _, layout in pages]),
        )


class PageTable(Sequence[PageLayout]):
    """Pages of one file: a run of rows of `PageColumns`, each made into a `PageLayout` when it is asked for.

    Parameters
    ----------
    columns : PageColumns
    first, stop : int
        Rows.
    """

    __slots__ = ("columns", "first", "stop")

    def __init__(self, columns: PageColumns, first: int, stop: int) -> None:
        self.columns, self.first, self.stop = columns, first, stop

    def __len__(self) -> int:
        return self.stop - self.first

    @overload
    def __getitem__(self, item: int) -> PageLayout: ...
    @overload
    def __getitem__(self, item: slice) -> list[PageLayout]: ...
    def __getitem__(self, item: int | slice) -> PageLayout | list[PageLayout]:
        if isinstance(item, slice):
            return [self[i] for i in range(*item.indices(len(self)))]
        columns, row = self.columns, range(self.first, self.stop)[item]
        kind = columns.kinds[columns.kind[row]]
        segments = slice(int(columns.start[row]), int(columns.start[row + 1]))
        return PageLayout(
            kind.shape, kind.dtype, columns.offsets[segments], columns.counts[segments], kind.planarconfig,
            kind.rowsperstrip, kind.tilewidth, kind.tilelength,
        )  # fmt: skip

    def __iter__(self) -> Iterator[PageLayout]:
        return (self[i] for i in range(len(self)))

    @property
    def indices(self) -> np.ndarray:
        """Storage position of each page in the pixel array."""
        return self.columns.index[self.first : self.stop]

    @property
    def segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offset and length of each segment in serialisation order, and how many each page has."""
        start = self.columns.start[self.first : self.stop + 1]
        if len(start) < 2:
            none = np.zeros(0, np.int64)
            return none, none, none
        rows = slice(int(start[0]), int(start[-1]))
        return self.columns.offsets[rows], self.columns.counts[rows], np.diff(start)


def read_columns(lists: Sequence[list[Any]], check: Any) -> tuple[PageColumns, list[int]] | None:
    """Turn lists of page records, as JSON gives them, into columns.

    Parameters
    ----------
    lists : sequence of lists
        The records of each file.
    check : callable
        Turns one record into its `PageLayout`, or raises; asked once for each kind of page.

    Returns
    -------
    columns, starts : PageColumns, list of int
        ``starts`` is the first row of each list and the number of all rows. None where a record is not as
        most writers leave it: then each must be looked at alone, which also finds out what is wrong.
    """
    common, shape_of, columns_of = itemgetter(*_KEYS), itemgetter("shape"), itemgetter(*_COLUMNS)
    seen: dict[tuple[Any, ...], int] = {}
    kinds: list[PageKind] = []
    kind: list[int] = []
    index: list[int] = []
    sizes: list[int] = []
    offsets: list[int] = []
    counts: list[int] = []
    starts = [0]
    try:
        for records in lists:
            for record in records:
                key = (*shape_of(record), *common(record))
                number = seen.get(key)
                if number is None:
                    number = seen[key] = len(kinds)
                    kinds.append(PageKind.of(check(record)))
                kind.append(number)
                position, first, second = columns_of(record)
                if type(first) is not list or type(second) is not list or len(first) != len(second):
                    return None
                index.append(position)
                sizes.append(len(first))
                offsets += first
                counts += second
            starts.append(len(kind))
        if any(set(map(type, column)) - {int} for column in (index, offsets, counts)):
            return None
        found = [np.array(column or np.zeros(0, np.int64)) for column in (index, offsets, counts)]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if any(column.ndim != 1 or column.dtype != np.int64 or column.min(initial=0) < 0 for column in found):
        return None
    start = np.zeros(len(kind) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    columns = PageColumns(kinds, np.array(kind, np.int64), found[0], start, found[1], found[2])
    return (columns, starts) if _adds_up(columns) else None


def _adds_up(columns: PageColumns) -> bool:
    """Whether the segments of each page have as many bytes as its pixels."""
    if float(columns.counts.sum(dtype=np.float64)) >= 1 << 62:
        return False
    ends = np.concatenate([[0], np.cumsum(columns.counts)])
    sizes = [np.prod(kind.shape, dtype=object) * kind.dtype.itemsize for kind in columns.kinds]
    if max(sizes, default=0) >= 1 << 62:
        return False
    wanted = np.array([int(size) for size in sizes], np.int64)[columns.kind]
    return bool((np.diff(ends[columns.start]) == wanted).all())
