"""Read the tags of a TIFF that hold metadata, within a budget.

The budget bounds the time as well, since all work on metadata is proportional to the bytes
read: about the cost of reading what an honest file holds, whatever a hostile one declares.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import BudgetExceeded, FormatError
from napari_decant.stores._positional import PositionalFile
from napari_decant.tiff._ifd import Ifd, Tag, read_first, read_ifd
from napari_decant.tiff._listing import Listing

__all__ = ["MAX_TEXT", "TagReader"]

MAX_TEXT = 64 << 20
"""Longest text of one tag: an OME-XML that names each of about 150,000 planes."""

_BUDGET = 128 << 20
_BUDGET_A_PLANE = 8 << 10
_MAX_INTEGERS = 1 << 16


class TagReader:
    """Tags of one file.

    Parameters
    ----------
    file : PositionalFile
        The file; nothing else is ever opened.
    layout : Listing
        Its listed planes.

    Attributes
    ----------
    name : str
        Name of the file.
    byteorder : {"<", ">"}
    planes : int
        Number of listed planes.
    samples : int
        Samples of a pixel.
    is_stack : bool
        Whether one page stands for all planes.
    """

    def __init__(self, file: PositionalFile, layout: Listing) -> None:
        self.name = PurePath(file.uri).name
        self._file, self._left = file, _BUDGET + _BUDGET_A_PLANE * len(layout.planes)
        self._layout = layout
        found = read_first(self.read, file.size)
        if found is None:
            raise FormatError("directory 0 of the file is cut short")
        self._directory, self._first = found
        self._page_of_offset: dict[int, int] = {}
        self.byteorder = self._directory.byteorder
        self.planes, self.samples = len(layout.planes), layout.planes[0].samples
        self._first_plane: dict[int, int] = {}
        for plane, offset in enumerate(layout.ifd_offsets):
            self._first_plane.setdefault(offset, plane)
        self.is_stack = len(self._first_plane) == 1 and self.planes > 1

    @property
    def pages(self) -> int:
        """Number of pages, listed or not."""
        return len(self._layout.page_offsets)

    @cached_property
    def plane_of_page(self) -> NDArray[np.int64]:
        """Listed plane of each page, -1 for pages that are not listed.

        Where one page stands for a stack of planes, the first of them.
        """
        return np.array([self._first_plane.get(o, -1) for o in self._layout.page_offsets], np.int64)

    @property
    def first_listed(self) -> int:
        """The first page whose planes are listed."""
        return 0 if self._first.offset in self._first_plane else int(np.argmax(self.plane_of_page >= 0))

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes there, fewer at the end of the file.

        Raises
        ------
        BudgetExceeded
            The metadata is larger than any honest file's.
        """
        length = max(0, min(length, self._file.size - offset))
        if offset < 0 or not length:
            return b""
        self._left -= length
        if self._left < 0:
            raise BudgetExceeded("the limit for metadata", length, length + self._left, "the metadata")
        return self._file.read_at(offset, length)

    def page_at(self, offset: int) -> int:
        """Number of the page whose directory lies there, -1 if there is none."""
        if not self._page_of_offset:
            self._page_of_offset = {offset: page for page, offset in enumerate(self._layout.page_offsets)}
        return self._page_of_offset.get(offset, -1)

    def tag(self, code: int, page: int = 0) -> Tag | None:
        """A tag of a page."""
        ifd = self._ifd(page) if page else self._first
        return ifd.tags.get(code)

    def data(self, code: int, page: int = 0, limit: int = MAX_TEXT) -> bytes:
        """Raw bytes of a text or byte tag, without trailing NULs; empty if it is absent or too large."""
        tag = self.tag(code, page)
        if tag is None or tag.type not in (1, 2, 7) or tag.count > limit:
            return b""
        return self.read(tag.offset, tag.count).rstrip(b"\0")

    def text(self, code: int, page: int = 0, limit: int = MAX_TEXT) -> str:
        """Text of a tag: UTF-8 where it is valid, else Latin-1."""
        return decode(self.data(code, page, limit))

    def integers(self, code: int, page: int = 0) -> list[int]:
        """Values of a tag of whole numbers; empty if it is absent, too long or of another type."""
        tag = self.tag(code, page)
        if tag is None or tag.count > _MAX_INTEGERS:
            return []
        values = self._directory.values(tag)
        return [] if values is None or values.dtype.kind not in "ui" else [int(v) for v in values.tolist()]

    def rational(self, code: int) -> Fraction | None:
        """Value of a tag of the first page that holds one positive fraction."""
        tag = self.tag(code)
        if tag is None or tag.count != 1:
            return None
        values = self._directory.values(tag)
        if values is None:
            return None
        if tag.type in (5, 10):
            top, bottom = (int(v) for v in values.tolist())
            return Fraction(top, bottom) if top > 0 and bottom > 0 else None
        value = float(values[0])
        return Fraction(value) if 0 < value < float("inf") else None

    def _ifd(self, page: int) -> Ifd:
        ifd = read_ifd(self._directory, self._layout.page_offsets[page])
        if ifd is None:
            raise FormatError(f"directory {page} of the file is cut short")
        return ifd


def decode(data: bytes) -> str:
    """Decode UTF-8 where it is valid, else Latin-1, which every byte string is."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
