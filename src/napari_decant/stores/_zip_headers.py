"""Compare the local headers of a zip file with its directory, all of them, in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._zip_directory import (
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    LOCAL_HEADER_SIZE,
    ZipDirectory,
)

__all__ = ["check_headers"]

_LOCAL = np.dtype(
    [
        ("signature", "<u4"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"), ("time", "<u4"),
        ("crc", "<u4"), ("compressed", "<u4"), ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"),
    ]
)  # fmt: skip
_SIGNATURE = 0x04034B50
_FULL = 0xFFFFFFFF  # the number stands in the ZIP64 extra field
_TOGETHER = 4096


def check_headers(
    file: PositionalFile, directory: ZipDirectory, step: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, str]]:
    """Read every local header and yield the name and the fault of each entry whose header is wrong.

    Parameters
    ----------
    file : PositionalFile
        The zip file of this machine.
    directory : ZipDirectory
        Its directory, as `read_zip_directory` gives it: every header lies inside the file.
    step : callable
        Called now and then; may raise to stop.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    for first in range(0, len(directory), _TOGETHER):
        step()
        yield from _check(file, directory, slice(first, min(first + _TOGETHER, len(directory))))


def _check(file: PositionalFile, directory: ZipDirectory, rows: slice) -> Iterator[tuple[str, str]]:
    offsets, raw = directory.header[rows].tolist(), directory.raw_names[rows]
    blocks = [
        file.read_at(offset, LOCAL_HEADER_SIZE + len(name)) for offset, name in zip(offsets, raw, strict=True)
    ]
    found = np.frombuffer(b"".join(block[:LOCAL_HEADER_SIZE] for block in blocks), _LOCAL)
    lengths = np.array([len(name) for name in raw], np.int64)
    names_differ = np.array(
        [block[LOCAL_HEADER_SIZE:] != name for block, name in zip(blocks, raw, strict=True)], np.bool_
    )
    flags, listed_flags = found["flags"].astype(np.int64), directory.flags[rows]
    later = (flags & FLAG_DESCRIPTOR) != 0  # sizes and CRC follow the data
    differ = np.zeros(len(found), np.bool_)
    for field in ("compressed", "size", "crc"):
        own = found[field].astype(np.int64)
        differ |= (own != getattr(directory, field)[rows]) & (own != _FULL)
    start = directory.header[rows] + LOCAL_HEADER_SIZE + found["name"] + found["extra"]
    faults = {
        "has no header where the directory says": found["signature"] != _SIGNATURE,
        "has another name in its own header": (found["name"] != lengths) | names_differ,
        "has another method in its own header": (found["method"] != directory.method[rows])
        | (((flags ^ listed_flags) & FLAG_ENCRYPTED) != 0),
        "has other sizes or another CRC in its own header": differ & ~later,
        "runs into the next one": start + directory.compressed[rows] > directory.next_header[rows],
    }
    told = np.zeros(len(found), np.bool_)
    for fault, wrong in faults.items():
        for i in np.flatnonzero(wrong & ~told).tolist():
            name = directory.names[rows.start + i]
            yield name, f"{directory.uri} is damaged: entry {name[:80]!r} {fault}"
        told |= wrong
