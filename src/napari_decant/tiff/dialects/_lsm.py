"""Zeiss LSM: one binary record in tag 34412; every second page is a thumbnail, which is not listed."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

import numpy as np

from napari_decant.tiff._places import Places
from napari_decant.tiff._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds
from napari_decant.tiff.dialects._reading import MAX_LISTED, Channel, Reading, clean, hex_color, number
from napari_decant.tiff.dialects._tags import TagReader, decode

__all__ = ["read_lsm"]

_LSM_INFO = 34412
_MAGIC = (50350412, 67127628)
_MAX_RECORD = 4096
_MAX_CHANNELS = 4096
_MAX_NAMES = 1 << 20
# Byte offsets in the record.
_DIMENSIONS = struct.Struct("<5i")  # x, y, z, channels, time, at 8
_VOXEL = struct.Struct("<3d")  # at 40, in metres
_ROWS = {1: "z", 4: "z", 8: "z", 9: "z", 2: "t", 5: "t", 10: "t"}
"""What the rows of a page are, by the type of scan: lines at several depths or times have no y."""
_POSITIONS = 264  # two integers: stage positions, tiles of a mosaic


@dataclass(frozen=True, slots=True)
class _Record:
    scan: int
    z: int
    channels: int
    time: int
    positions: int
    tiles: int
    voxel: tuple[float, float, float]
    interval: float
    colors_at: int
    stamps_at: int


def read_lsm(tags: TagReader) -> Reading | None:
    """Read LSM metadata; None if the file has none."""
    tag = tags.tag(_LSM_INFO)
    if tag is None:
        return None
    data = tags.read(tag.offset, min(tag.count, _MAX_RECORD))
    if len(data) < 136 or struct.unpack_from("<I", data)[0] not in _MAGIC:
        return None
    record = _record(data)
    reading = Reading("lsm", rgb=False)
    rows = _ROWS.get(record.scan, "y")
    for axis, size in zip("xyz", record.voxel, strict=True):
        reading.set_step(axis, micrometers(number(size) or 0.0, "m"), LENGTH_UNIT)
    if rows != "y":
        reading.steps.pop("y", None)
    if rows == "z" and "z" in reading.steps:
        reading.steps["y"] = reading.steps["z"]
    reading.set_step("t", seconds(number(record.interval) or 0.0, "s"), TIME_UNIT)
    reading.places = _places(record, tags)
    reading.channels = _channels(tags, record)
    _times(tags, record, reading)
    return reading


def _record(data: bytes) -> _Record:
    _, _, z, channels, time = _DIMENSIONS.unpack_from(data, 8)
    positions, tiles = struct.unpack_from("<2i", data, _POSITIONS) if len(data) >= _POSITIONS + 8 else (0, 0)
    # Fields that older versions of the record do not have are zero.
    size = max(0, min(len(data), struct.unpack_from("<i", data, 4)[0]))
    if size < _POSITIONS + 8:
        positions = tiles = 0
    return _Record(
        struct.unpack_from("<H", data, 88)[0],
        max(1, z), max(1, channels), max(1, time), max(1, positions), max(1, tiles),
        _VOXEL.unpack_from(data, 40), struct.unpack_from("<d", data, 112)[0],
        struct.unpack_from("<I", data, 108)[0], struct.unpack_from("<I", data, 132)[0],
    )  # fmt: skip


def _places(record: _Record, tags: TagReader) -> Places:
    """Tiles and positions are the slowest; channels are samples of a page, or the fastest pages."""
    paged = record.channels if tags.samples == 1 else 1
    rows = _ROWS.get(record.scan, "y")
    time, z = 1 if rows == "t" else record.time, 1 if rows == "z" else record.z
    extents = (record.tiles, record.positions, time, z, paged)
    if prod(extents) != tags.planes and prod(extents[:4]) == tags.planes:
        extents = (*extents[:4], 1)
    return Places.grid(("tile", "p", "t", "z", "c"), extents, tags.planes)


def _channels(tags: TagReader, record: _Record) -> list[Channel]:
    """Names and colours, from a block of its own."""
    head = tags.read(record.colors_at, 24) if record.colors_at >= 8 else b""
    if len(head) < 24:
        return []
    size, colors, names, colors_at, names_at = struct.unpack_from("<5I", head)
    if colors != names or not 0 < colors <= _MAX_CHANNELS or not 24 <= names_at < size:
        return []
    table = tags.read(record.colors_at + colors_at, 4 * colors)
    text = tags.read(record.colors_at + names_at, min(size - names_at, _MAX_NAMES))
    found: list[str] = []
    at = 0
    while at + 4 <= len(text) and len(found) < names:
        length = struct.unpack_from("<I", text, at)[0]
        found.append(clean(decode(text[at + 4 : at + 4 + min(length, 256)].split(b"\0")[0])))
        at += 4 + length
    found += [""] * (colors - len(found))
    rows = [table[i : i + 3] for i in range(0, len(table) // 4 * 4, 4)]
    return [Channel(name, hex_color(*row)) for name, row in zip(found, rows, strict=False)]


def _times(tags: TagReader, record: _Record, reading: Reading) -> None:
    """Time stamps: one a time point, in seconds."""
    head = tags.read(record.stamps_at, 8) if record.stamps_at >= 8 else b""
    if len(head) < 8 or reading.places is None:
        return
    size, count = struct.unpack("<2i", head)
    if size != 8 + 8 * count or not 0 < count <= record.time or tags.planes > MAX_LISTED:
        return
    stamps = np.frombuffer(tags.read(record.stamps_at + 8, 8 * count), "<f8")
    column = reading.places.names.index("t")
    for plane, time in enumerate(reading.places.index[:, column].tolist()):
        if time < len(stamps) and np.isfinite(stamps[time]):
            reading.times[plane] = float(stamps[time] - stamps[0])
