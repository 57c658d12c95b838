"""The directory of a zip file as columns of numpy arrays, and what such a file may ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt

from napari_decant.stores._zip_records import unsafe_names

__all__ = ["DEFLATED", "STORED", "ZipDirectory", "ZipEntry", "ZipLimits"]

STORED, DEFLATED = 0, 8
FLAG_ENCRYPTED, FLAG_DESCRIPTOR, FLAG_STRONG = 0x1, 0x8, 0x40
LOCAL_HEADER_SIZE = 30

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """What a zip file may ask for.

    Attributes
    ----------
    max_entries : int
        Directory entries.
    max_directory_bytes : int
        Size of the central directory.
    max_inflated_bytes : int
        Size of one DEFLATED entry, which must be inflated whole. STORED entries have no limit.
    """

    max_entries: int = 8_000_000
    max_directory_bytes: int = 1 << 30
    max_inflated_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """One entry as the central directory states it; sizes and offsets in bytes.

    Attributes
    ----------
    index : int
        Position in the directory.
    name : str
        As found; ends with ``/`` where the entry is a folder.
    method : int
        0 STORED, 8 DEFLATED, others are not read.
    flags, crc : int
        General purpose flags and CRC-32 of the contents.
    compressed_size, size : int
        Length in the file and length of the contents.
    header_offset : int
        Where the local header lies; `ZipStore.data_offset` gives where the data lie.
    is_link : bool
        Whether the entry claims to be a symbolic link.
    """

    index: int
    name: str
    method: int
    flags: int
    crc: int
    compressed_size: int
    size: int
    header_offset: int
    is_link: bool

    @property
    def is_dir(self) -> bool:
        """Whether the entry only states that a folder exists."""
        return self.name.endswith("/")

    @property
    def encrypted(self) -> bool:
        """Whether the data need a password."""
        return bool(self.flags & (FLAG_ENCRYPTED | FLAG_STRONG))


@dataclass(slots=True)
class ZipDirectory(Sequence[ZipEntry]):
    """The entries of a zip file in directory order, kept as columns.

    Attributes
    ----------
    uri : str
        The file.
    names : list of str
        Entry names as found.
    comment : bytes
        The archive comment.
    offset : int
        Where the central directory begins; every entry's data end before it.
    duplicates : tuple of str
        Names that occur more than once.
    unsafe : tuple of (str, str)
        Names that are never read, each with the reason.
    name_bytes, name_start, name_length : bytes, array, array
        Where the name of each entry stands as it does in the file; see `raw_name`.
    tail, tail_offset : bytes, int
        The end of the file, read in one piece.
    """

    uri: str
    names: list[str]
    comment: bytes
    offset: int
    flags: Column
    method: Column
    crc: Column
    compressed: Column
    size: Column
    header: Column
    links: npt.NDArray[np.bool_]
    next_header: Column
    name_bytes: bytes
    name_start: Column
    name_length: Column
    tail: bytes
    tail_offset: int
    duplicates: tuple[str, ...] = field(init=False, default=())
    unsafe: tuple[tuple[str, str], ...] = field(init=False)
    by_name: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {name: i for i, name in enumerate(self.names)}
        if len(self.by_name) != len(self.names):
            seen: set[str] = set()
            twice = (n for n in self.names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
            self.duplicates = tuple(dict.fromkeys(twice))
        unsafe = unsafe_names(self.names)
        unsafe += [(self.names[i], "is a link") for i in np.flatnonzero(self.links).tolist()]
        self.unsafe = tuple(unsafe)

    def __len__(self) -> int:
        return len(self.names)

    def raw_name(self, index: int) -> bytes:
        """The name of an entry as it stands in the file."""
        start = int(self.name_start[index])
        return self.name_bytes[start : start + int(self.name_length[index])]

    @overload
    def __getitem__(self, index: int) -> ZipEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[ZipEntry]: ...
    def __getitem__(self, index: int | slice) -> ZipEntry | list[ZipEntry]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        return ZipEntry(
            i,
            self.names[i],
            int(self.method[i]),
            int(self.flags[i]),
            int(self.crc[i]),
            int(self.compressed[i]),
            int(self.size[i]),
            int(self.header[i]),
            bool(self.links[i]),
        )

    def __iter__(self) -> Iterator[ZipEntry]:
        return (self[i] for i in range(len(self)))
