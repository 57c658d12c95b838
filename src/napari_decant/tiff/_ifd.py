"""Read the directories (IFDs) of a TIFF: tags and where their values lie.

Only what the page layout needs is read, every value is bounded by the bytes that the file
really has, and what is broken ends the walk instead of the program: the pages before it
still count, everything else of the file is kept as bytes anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from napari_decant.errors import FormatError

__all__ = [
    "Ifd",
    "NotTiff",
    "Tag",
    "TiffDirectory",
    "list_pages",
    "read_directory",
    "read_first",
    "read_ifd",
]

ReadAt = Callable[[int, int], bytes]
"""``read(offset, length)``: the bytes there, fewer at the end of the file."""

_TYPES = {
    1: "u1", 2: "u1", 3: "u2", 4: "u4", 5: "u4", 6: "i1", 7: "u1", 8: "i2", 9: "i4", 10: "i4",
    11: "f4", 12: "f8", 13: "u4", 16: "u8", 17: "i8", 18: "u8",
}  # fmt: skip
_RATIONALS = (5, 10)
_SUBIFDS = 330
_MAX_SUBIFD_DEPTH = 4
_MAX_DIRECTORIES = 4_000_000  # empty ones have six bytes and cost two hundred


class NotTiff(FormatError):
    """The bytes do not start like a TIFF."""


@dataclass(frozen=True, slots=True)
class Tag:
    """One directory entry: TIFF type, number of values, where the values lie."""

    type: int
    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class Ifd:
    """One image file directory."""

    offset: int
    tags: dict[int, Tag]
    subifds: tuple[Ifd, ...] = ()


@dataclass(slots=True)
class TiffDirectory:
    """All directories of a TIFF.

    Attributes
    ----------
    byteorder : {"<", ">"}
        Of the file.
    bigtiff : bool
        64-bit offsets.
    pages : list of Ifd
        The main chain, in the order of the file's links.
    anomaly : str or None
        Why the walk ended early, if it did.
    """

    byteorder: Literal["<", ">"]
    bigtiff: bool
    size: int
    read: ReadAt
    pages: list[Ifd] = field(default_factory=list)
    anomaly: str | None = None

    def values(self, tag: Tag) -> np.ndarray | None:
        """Values of a tag as a 1-D array in native byte order; None if they lie outside the file.

        Rationals come as pairs of integers.
        """
        kind = _TYPES.get(tag.type)
        if kind is None:
            return None
        dtype = np.dtype(kind).newbyteorder(self.byteorder)
        count = tag.count * (2 if tag.type in _RATIONALS else 1)
        nbytes = count * dtype.itemsize
        if tag.offset + nbytes > self.size:
            return None
        data = self.read(tag.offset, nbytes)
        if len(data) != nbytes:
            return None
        return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))

    def text(self, tag: Tag, limit: int = 1 << 20) -> bytes:
        """Raw bytes of an ASCII or byte tag, without trailing NULs, cut at ``limit``."""
        return self.read(tag.offset, min(tag.count, limit, max(0, self.size - tag.offset))).rstrip(b"\0")


def read_directory(read: ReadAt, size: int) -> TiffDirectory:
    """Walk the directories of a TIFF.

    Parameters
    ----------
    read : callable
        ``read(offset, length)``.
    size : int
        File size in bytes.

    Raises
    ------
    NotTiff
        The header is not that of a classic TIFF or a BigTIFF.
    """
    directory, first = _read_header(read, size)
    walker = _Walker(directory)
    directory.pages = walker.chain(first, depth=0)
    directory.anomaly = walker.anomaly
    return directory


def read_ifd(directory: TiffDirectory, offset: int) -> Ifd | None:
    """Read one directory again, without those below it; None if it is cut short."""
    parsed = _Walker(directory).one(offset)
    return parsed[0] if parsed else None


def list_pages(read: ReadAt, size: int) -> list[int]:
    """Follow the links from page to page: where each directory of the main chain lies, and nothing more.

    Raises
    ------
    NotTiff
        The header is not that of a classic TIFF or a BigTIFF.
    """
    directory, offset = _read_header(read, size)
    walker = _Walker(directory)
    offsets: dict[int, None] = {}
    while offset and offset not in offsets:
        following = walker.link(offset)
        if following is None:
            break
        offsets[offset] = None
        offset = following
    return list(offsets)


def read_first(read: ReadAt, size: int) -> tuple[TiffDirectory, Ifd] | None:
    """Read the header and the first directory of a TIFF, without those below it; None if it is cut short.

    No other page is walked: `read_ifd` gets those that are wanted.

    Raises
    ------
    NotTiff
        As `list_pages`.
    """
    directory, first = _read_header(read, size)
    parsed = _Walker(directory).one(first) if first else None
    return (directory, parsed[0]) if parsed else None


def _read_header(read: ReadAt, size: int) -> tuple[TiffDirectory, int]:
    head = read(0, 16)
    order: Literal["<", ">"]
    if head[:2] == b"II":
        order = "<"
    elif head[:2] == b"MM":
        order = ">"
    else:
        raise NotTiff("the file does not start with a TIFF header")
    version = struct.unpack_from(order + "H", head, 2)[0] if len(head) >= 4 else 0
    if version == 42 and len(head) >= 8:
        bigtiff, first = False, struct.unpack_from(order + "I", head, 4)[0]
    elif version == 43 and len(head) == 16 and struct.unpack_from(order + "HH", head, 4) == (8, 0):
        bigtiff, first = True, struct.unpack_from(order + "Q", head, 8)[0]
    else:
        raise NotTiff("the file does not start with a TIFF header")
    return TiffDirectory(order, bigtiff, size, read), first


class _Walker:
    """Follows links once each and never reads more directory bytes than an honest file holds."""

    def __init__(self, directory: TiffDirectory) -> None:
        self.directory = directory
        self.anomaly: str | None = None
        self._seen: set[int] = set()
        # Directories of an honest file do not overlap; a hostile one re-reads its bytes without end.
        self._budget = 2 * directory.size + 65536
        order = directory.byteorder
        if directory.bigtiff:
            self._count = struct.Struct(order + "Q")
            self._next = struct.Struct(order + "Q")
            self._entry = struct.Struct(order + "HHQ8s")
            self._inline = 8
        else:
            self._count = struct.Struct(order + "H")
            self._next = struct.Struct(order + "I")
            self._entry = struct.Struct(order + "HHI4s")
            self._inline = 4

    def chain(self, offset: int, depth: int) -> list[Ifd]:
        pages: list[Ifd] = []
        while offset:
            if offset in self._seen:
                self._note("directory links form a loop")
                break
            if len(self._seen) >= _MAX_DIRECTORIES:
                self._note("there are more directories than any real file has")
                break
            self._seen.add(offset)
            parsed = self.one(offset, depth)
            if parsed is None:
                break
            page, offset = parsed
            pages.append(page)
        return pages

    def _note(self, anomaly: str) -> None:
        self.anomaly = self.anomaly or anomaly

    def one(self, offset: int, depth: int = _MAX_SUBIFD_DEPTH) -> tuple[Ifd, int] | None:
        directory = self.directory
        # One read usually gets the whole directory: honest ones have some tens of entries.
        data = directory.read(offset, self._count.size + 40 * self._entry.size)
        need = self._need(offset, data)
        if need is None:
            return None
        if len(data) < need + self._next.size:
            data = directory.read(offset, need + self._next.size)
        tags: dict[int, Tag] = {}
        entry_offset = offset + self._count.size
        for code, kind, count, value in self._entry.iter_unpack(data[self._count.size : need]):
            if code not in tags:
                tags[code] = self._tag(kind, count, value, entry_offset)
            entry_offset += self._entry.size
        following = data[need : need + self._next.size]
        if len(following) < self._next.size:
            self._note("the link to the next directory is cut off")
        subifds = self._subifds(tags.get(_SUBIFDS), depth)
        link: int = self._next.unpack(following)[0] if len(following) == self._next.size else 0
        return Ifd(offset, tags, subifds), link

    def _need(self, offset: int, head: bytes) -> int | None:
        """Bytes of a directory up to its link, counted against the budget; None if it is cut short."""
        if len(head) < self._count.size:
            self._note("a directory lies beyond the end of the file")
            return None
        entries: int = self._count.unpack_from(head)[0]
        need = self._count.size + entries * self._entry.size
        self._budget -= need
        if offset + need > self.directory.size or self._budget < 0:
            self._note("a directory is cut short")
            return None
        return need

    def link(self, offset: int) -> int | None:
        """Where the directory after this one lies, 0 after the last; None if this one is cut short."""
        need = self._need(offset, self.directory.read(offset, self._count.size))
        if need is None:
            return None
        following = self.directory.read(offset + need, self._next.size)
        return int(self._next.unpack(following)[0]) if len(following) == self._next.size else 0

    def _tag(self, kind: int, count: int, value: bytes, entry_offset: int) -> Tag:
        width = np.dtype(_TYPES[kind]).itemsize * (2 if kind in _RATIONALS else 1) if kind in _TYPES else 1
        if width * count <= self._inline:
            return Tag(kind, count, entry_offset + self._entry.size - self._inline)
        return Tag(kind, count, self._next.unpack(value)[0])

    def _subifds(self, tag: Tag | None, depth: int) -> tuple[Ifd, ...]:
        if tag is None or depth >= _MAX_SUBIFD_DEPTH:
            return ()
        offsets = self.directory.values(tag)
        if offsets is None:
            return ()
        found: list[Ifd] = []
        for offset in offsets.tolist():
            found += self.chain(offset, depth + 1)
        return tuple(found)
