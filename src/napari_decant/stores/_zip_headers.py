"""Compare the local headers of a zip file with its directory: one, or all of them in columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._ranges import copy_ranges, read_ranges
from napari_decant.stores._zip_directory import (
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    LOCAL_HEADER_SIZE,
    ZipDirectory,
)

__all__ = ["check_headers", "compare_header"]

_LOCAL_FIELDS = struct.Struct("<4s5H3L2H")
_LOCAL = np.dtype(
    [
        ("signature", "<u4"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"), ("time", "<u4"),
        ("crc", "<u4"), ("compressed", "<u4"), ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"),
    ]
)  # fmt: skip
_SIGNATURE = 0x04034B50
_FULL = 0xFFFFFFFF  # the number stands in the ZIP64 extra field
_TOGETHER = 4096


def compare_header(
    block: bytes, at: int, raw_name: bytes, method: int, flags: int, sizes: tuple[int, int, int]
) -> tuple[int, str | None]:
    """Compare one local header with what the directory says.

    Parameters
    ----------
    block : bytes
        The header with as many bytes behind it as the name has.
    at : int
        Where it lies in the file.
    raw_name, method, flags
        As the directory has them.
    sizes : tuple of int
        Compressed size, size and CRC-32 as the directory has them.

    Returns
    -------
    start : int
        Where the data begin.
    fault : str or None
        What is wrong, if anything is; then ``start`` means nothing.
    """
    signature, _, own_flags, own_method, _, _, crc, compressed, size, name, extra = _LOCAL_FIELDS.unpack_from(
        block
    )
    start = at + LOCAL_HEADER_SIZE + name + extra
    if signature != b"PK\3\4":
        return start, f"has no header at {at:,}"
    if name != len(raw_name) or block[LOCAL_HEADER_SIZE:] != raw_name:
        return start, "has another name in its own header"
    if own_method != method or (own_flags ^ flags) & FLAG_ENCRYPTED:
        return start, "has another method in its own header"
    if not own_flags & FLAG_DESCRIPTOR:
        for own, listed in zip((compressed, size, crc), sizes, strict=True):
            if own not in (listed, _FULL):
                return start, "has other sizes or another CRC in its own header"
    return start, None


def check_headers(
    file: PositionalFile, directory: ZipDirectory, step: Callable[[], None] = lambda: None
) -> Iterator[tuple[slice, npt.NDArray[np.int64], list[tuple[int, str]]]]:
    """Read every local header and find the entries whose header is wrong.

    Parameters
    ----------
    file : PositionalFile
        The zip file of this machine.
    directory : ZipDirectory
        Its directory, as `read_zip_directory` gives it: every header lies inside the file.
    step : callable
        Called now and then; may raise to stop.

    Yields
    ------
    rows : slice
        Some entries, one behind the other.
    starts : numpy.ndarray of int64
        Where their data begin by their own headers.
    faults : list of (int, str)
        Index of each wrong one, and what is wrong.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    for first in range(0, len(directory), _TOGETHER):
        step()
        rows = slice(first, min(first + _TOGETHER, len(directory)))
        yield rows, *_check(file, directory, rows)


def _check(
    file: PositionalFile, directory: ZipDirectory, rows: slice
) -> tuple[npt.NDArray[np.int64], list[tuple[int, str]]]:
    offsets, lengths = directory.header[rows], directory.name_length[rows]
    order = np.argsort(offsets, kind="stable")
    sizes = lengths[order] + LOCAL_HEADER_SIZE
    blocks = np.empty(int(sizes.sum()), np.uint8)
    read_ranges(file, offsets[order], sizes, blocks)
    starts = np.empty_like(sizes)
    starts[order] = np.cumsum(sizes) - sizes
    windows = np.lib.stride_tricks.sliding_window_view(blocks, LOCAL_HEADER_SIZE)
    found = np.ascontiguousarray(windows[starts]).view(_LOCAL)[:, 0]
    flags, listed_flags = found["flags"].astype(np.int64), directory.flags[rows]
    later = (flags & FLAG_DESCRIPTOR) != 0  # sizes and CRC follow the data
    differ = np.zeros(len(found), np.bool_)
    for field in ("compressed", "size", "crc"):
        own = found[field].astype(np.int64)
        differ |= (own != getattr(directory, field)[rows]) & (own != _FULL)
    start = offsets + LOCAL_HEADER_SIZE + found["name"] + found["extra"]
    faults = {
        "has no header where the directory says": found["signature"] != _SIGNATURE,
        "has another name in its own header": (found["name"] != lengths)
        | _names_differ(directory, rows, blocks, starts + LOCAL_HEADER_SIZE),
        "has another method in its own header": (found["method"] != directory.method[rows])
        | (((flags ^ listed_flags) & FLAG_ENCRYPTED) != 0),
        "has other sizes or another CRC in its own header": differ & ~later,
        "runs into the next one": start + directory.compressed[rows] > directory.next_header[rows],
    }
    first: dict[int, str] = {}
    for fault, wrong in faults.items():
        for i in np.flatnonzero(wrong).tolist():
            first.setdefault(rows.start + i, fault)
    return start, list(first.items())


def _names_differ(
    directory: ZipDirectory, rows: slice, blocks: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which names in the headers' bytes are not those of the directory."""
    lengths = directory.name_length[rows]
    ends = np.cumsum(lengths)
    own, listed = np.empty(int(lengths.sum()), np.uint8), np.empty(int(lengths.sum()), np.uint8)
    copy_ranges(own, ends - lengths, blocks, starts, lengths)
    whole = np.frombuffer(directory.name_bytes, np.uint8)
    copy_ranges(listed, ends - lengths, whole, directory.name_start[rows], lengths)
    wrong = np.zeros(len(lengths), np.bool_)
    wrong[np.searchsorted(ends, np.flatnonzero(own != listed), side="right")] = True
    return wrong
