"""TIFFs with the metadata of one instrument or program, laid down byte by byte.

tifffile writes neither STK nor LSM nor Micro-Manager files, and what is tested must not come from the
library that the results are compared with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Tags", "ascii_tag", "numbers_tag", "planes_of", "write_metatiff"]

Tag = tuple[int, int, bytes]
"""Type, count and value in the file's byte order."""
Tags = Mapping[int, Tag]

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 12: 8}


def planes_of(shape: Sequence[int], dtype: npt.DTypeLike = np.uint16) -> npt.NDArray[Any]:
    """Return pixels that are never zero and depend on their place."""
    return (np.arange(int(np.prod(shape))) % 60000 + 1).reshape(shape).astype(dtype)


def ascii_tag(text: str | bytes) -> Tag:
    """Return the value of a text tag."""
    data = (text.encode() if isinstance(text, str) else text) + b"\0"
    return 2, len(data), data


def numbers_tag(kind: int, *values: float, byteorder: str = "<", count: int | None = None) -> Tag:
    """Return the value of a tag of numbers of a TIFF type."""
    letter = {1: "B", 3: "H", 4: "I", 5: "I", 12: "d"}[kind]
    data = struct.pack(f"{byteorder}{len(values)}{letter}", *values)
    return kind, len(data) // _SIZES[kind] if count is None else count, data


@dataclass
class _File:
    order: str
    body: bytearray = field(default_factory=bytearray)

    def put(self, data: bytes) -> int:
        self.body += b"\0" * (len(self.body) % 2)
        start = len(self.body)
        self.body += data
        return start


def write_metatiff(
    path: Path,
    pages: npt.NDArray[Any],
    tags: Tags | Callable[[int], Tags] = {},  # noqa: B006 - never changed
    *,
    byteorder: str = "<",
    planar: bool = False,
    photometric: int | None = None,
    stack: bool = False,
    head: bytes = b"",
    tail: Callable[[Sequence[int]], tuple[int, bytes]] | None = None,
    thumbnails: bool = False,
) -> list[int]:
    """Write pages of one strip each, and return where their directories lie.

    Parameters
    ----------
    pages : array
        Shape (pages, Y, X) or (pages, Y, X, S).
    tags : mapping or callable
        More tags of each page, or of page ``i``.
    stack : bool
        One directory in front of all planes.
    head : bytes
        Behind the header; the first directory comes after it.
    tail : callable
        From the offsets of the directories, a place in the head and the bytes behind the last
        page, whose offset is put there.
    thumbnails : bool
        Each page is followed by a smaller one, marked as reduced.
    """
    file = _File(byteorder, bytearray(8 + len(head)))
    file.body[8:] = head
    page_tags = tags if callable(tags) else (lambda _: tags)
    offsets: list[int] = []
    links: list[int] = [4]
    listed = [pages[0]] if stack else list(pages)
    for i, page in enumerate(listed):
        for image in (page, page[::4, ::4]) if thumbnails else (page,):
            reduced = image is not page
            entries = _entries(file, image, page_tags(i) if not reduced else {}, planar, photometric, reduced)
            size = 2 + 12 * len(entries) + 4
            start = file.put(bytes(size))
            if not reduced:
                offsets.append(start)
            data = pages if stack else image[None]
            place = file.put(_bytes(data, byteorder, planar))
            _set_strips(file, entries, place, data[0].nbytes)
            table = struct.pack(byteorder + "H", len(entries))
            for code, (kind, count, value) in sorted(entries.items()):
                table += struct.pack(byteorder + "HHI", code, kind, count) + value.ljust(4, b"\0")
            file.body[start : start + len(table)] = table
            file.body[links[-1] : links[-1] + 4] = struct.pack(byteorder + "I", start)
            links.append(start + len(table))
    file.body[:4] = (b"II" if byteorder == "<" else b"MM") + struct.pack(byteorder + "H", 42)
    if tail is not None:
        at, data = tail(offsets)
        file.body[at : at + 4] = struct.pack(byteorder + "I", file.put(data))
    path.write_bytes(file.body)
    return offsets


def _bytes(pages: npt.NDArray[Any], byteorder: str, planar: bool) -> bytes:
    if planar and pages.ndim == 4:
        pages = pages.transpose(0, 3, 1, 2)
    return pages.astype(pages.dtype.newbyteorder(byteorder)).tobytes()


def _entries(
    file: _File, page: npt.NDArray[Any], more: Tags, planar: bool, photometric: int | None, reduced: bool
) -> dict[int, Tag]:
    samples = page.shape[2] if page.ndim == 3 else 1
    itemsize, order = page.dtype.itemsize, file.order
    colour = photometric if photometric is not None else 2 if samples >= 3 and not planar else 1
    plain: dict[int, Tag] = {
        254: numbers_tag(4, int(reduced), byteorder=order),
        256: numbers_tag(4, page.shape[1], byteorder=order),
        257: numbers_tag(4, page.shape[0], byteorder=order),
        258: numbers_tag(3, *[8 * itemsize] * samples, byteorder=order),
        259: numbers_tag(3, 1, byteorder=order),
        262: numbers_tag(3, colour, byteorder=order),
        273: numbers_tag(4, 0, byteorder=order),
        277: numbers_tag(3, samples, byteorder=order),
        278: numbers_tag(4, page.shape[0], byteorder=order),
        279: numbers_tag(4, page.nbytes, byteorder=order),
        284: numbers_tag(3, 2 if planar else 1, byteorder=order),
        339: numbers_tag(3, *[{"u": 1, "i": 2, "f": 3}[page.dtype.kind]] * samples, byteorder=order),
        **more,
    }
    if planar and samples > 1:
        plain[273] = numbers_tag(4, *[0] * samples, byteorder=order)
        plain[279] = numbers_tag(4, *[page.nbytes // samples] * samples, byteorder=order)
    entries: dict[int, Tag] = {}
    for code, (kind, count, value) in plain.items():
        if len(value) > 4:
            value = struct.pack(order + "I", file.put(value))
        entries[code] = (kind, count, value)
    return entries


def _set_strips(file: _File, entries: dict[int, Tag], place: int, nbytes: int) -> None:
    """Say where the strips of a page are: one, or one a sample."""
    kind, count, value = entries[273]
    strips = struct.pack(f"{file.order}{count}I", *(place + n * nbytes // count for n in range(count)))
    if count == 1:
        entries[273] = (kind, count, strips)
        return
    at = struct.unpack(file.order + "I", value)[0]
    file.body[at : at + len(strips)] = strips
