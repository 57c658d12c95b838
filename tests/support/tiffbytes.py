"""The bytes of TIFF headers, directories and segments, for the tests' TIFF writer."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .tiffspec import Ints, TiffSpec

__all__ = ["Image", "Tag", "header", "ifd", "ifd_size", "segment_bytes", "tags_of"]

Tag = tuple[int, int, int, bytes]
"""Code, type, count and value."""


@dataclass
class Image:
    """One directory and the segments it names."""

    pixels: npt.NDArray[Any]
    buffer: bytes
    starts: Ints
    counts: Ints
    tags: list[Tag]
    placed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    said: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    children: list[int] = field(default_factory=list)
    next: int | None = None
    offset: int = 0


def segment_bytes(spec: TiffSpec, block: npt.NDArray[Any]) -> bytes:
    """One segment as it lies in the file."""
    if spec.predictor == 2:
        block = np.diff(block, axis=1, prepend=np.zeros_like(block[:, :1]))
    if spec.bits:
        flat = block.reshape(block.shape[0], -1).astype(np.uint16)
        shifts = np.arange(spec.bits - 1, -1, -1, dtype=np.uint16)
        rows = (flat[:, :, None] >> shifts & 1).astype(np.uint8).reshape(flat.shape[0], -1)
        data = np.packbits(rows, axis=1).tobytes()
    else:
        data = block.astype(block.dtype.newbyteorder(spec.byteorder)).tobytes()
    if spec.deflate:
        data = zlib.compress(data, 1)
    if spec.fill_order == 2:
        reverse = np.packbits(
            np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1
        ).ravel()
        data = reverse[np.frombuffer(data, np.uint8)].tobytes()
    return data


def tags_of(
    spec: TiffSpec,
    height: int,
    width: int,
    samples: int,
    description: str | None,
    reduced: bool,
    random: np.random.Generator,
) -> list[Tag]:
    """All tags but the places of segments and children: (code, type, count, value)."""
    short, long = spec.byteorder + "H", spec.byteorder + "I"
    dtype = np.dtype(spec.dtype)
    depth = spec.bits or 8 * dtype.itemsize
    sample_format = {"u": 1, "i": 2, "f": 3, "c": 6}[dtype.kind]
    colour = 3 if samples >= 3 else 1
    photometric = 0 if spec.miniswhite else 2 if colour == 3 else 1

    def shorts(code: int, *values: int) -> Tag:
        return code, 3, len(values), b"".join(struct.pack(short, value) for value in values)

    def longs(code: int, value: int) -> Tag:
        return code, 4, 1, struct.pack(long, value)

    tags = [
        longs(254, int(reduced)),
        longs(256, width),
        longs(257, height),
        shorts(258, *[depth] * samples),
        shorts(259, 8 if spec.deflate else 1),
        shorts(262, photometric),
        shorts(277, samples),
        shorts(284, 2 if spec.planar and samples > 1 else 1),
        shorts(339, *[sample_format] * samples),
    ]
    if samples > colour:
        tags.append(shorts(338, *[0] * (samples - colour)))
    if spec.fill_order != 1:
        tags.append(shorts(266, spec.fill_order))
    if spec.predictor != 1:
        tags.append(shorts(317, spec.predictor))
    if spec.tile is not None:
        tags += [shorts(322, spec.tile[1]), shorts(323, spec.tile[0])]
    elif spec.rows_per_strip is not None:
        tags.append(longs(278, spec.rows_per_strip))
    if description is not None:
        text = description.encode("latin-1") + b"\0"
        tags.append((270, 2, len(text), text))
    for n in range(spec.private_tags):
        value = bytes(random.integers(0, 256, random.integers(1, 40), np.uint8))
        tags.append((50000 + 7 * n, 7, len(value), value))
    return tags


def header(spec: TiffSpec, first: int) -> bytes:
    mark = b"II" if spec.byteorder == "<" else b"MM"
    if spec.bigtiff:
        return mark + struct.pack(spec.byteorder + "HHHQ", 43, 8, 0, first)
    return mark + struct.pack(spec.byteorder + "HI", 42, first)


def _all_tags(spec: TiffSpec, images: list[Image] | None, image: Image) -> list[Tag]:
    """Return the tags with the places of segments; zeros stand for the places when ``images`` is None."""
    kind, form = (16, "u8") if spec.bigtiff else (4, "u4")
    where = image.placed if images is not None else image.starts * 0
    said = image.said if images is not None else image.starts * 0
    codes = (324, 325) if spec.tile is not None else (273, 279)
    tags = [
        *image.tags,
        (codes[0], kind, len(where), where.astype(spec.byteorder + form).tobytes()),
        (codes[1], kind, len(said), said.astype(spec.byteorder + form).tobytes()),
    ]
    if image.children:
        below = [images[child].offset if images is not None else 0 for child in image.children]
        tags.append((330, kind, len(below), np.array(below).astype(spec.byteorder + form).tobytes()))
    return tags


def ifd_size(spec: TiffSpec, image: Image) -> int:
    tags = _all_tags(spec, None, image)
    fixed, entry, room = (16, 20, 8) if spec.bigtiff else (6, 12, 4)
    return (
        fixed
        + entry * len(tags)
        + sum(len(value) + len(value) % 2 for *_, value in tags if len(value) > room)
    )


def ifd(spec: TiffSpec, images: list[Image], name: int, random: np.random.Generator) -> bytes:
    image = images[name]
    tags = sorted(_all_tags(spec, images, image))
    if not spec.sorted_tags:
        tags = [tags[n] for n in random.permutation(len(tags))]
    fixed, entry, room = (16, 20, 8) if spec.bigtiff else (6, 12, 4)
    word, head = ("Q", "HHQ") if spec.bigtiff else ("I", "HHI")
    values = b""
    start = image.offset + fixed + entry * len(tags)
    table = struct.pack(spec.byteorder + ("Q" if spec.bigtiff else "H"), len(tags))
    for code, kind, count, value in tags:
        table += struct.pack(spec.byteorder + head, code, kind, count)
        if len(value) <= room:
            table += value.ljust(room, b"\0")
        else:
            table += struct.pack(spec.byteorder + word, start + len(values))
            values += value + b"\0" * (len(value) % 2)
    following = images[image.next].offset if image.next is not None else 0
    return table + struct.pack(spec.byteorder + word, following) + values
