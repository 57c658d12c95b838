"""A zip file as a store: STORED entries read in place, DEFLATED ones inflated within bounds."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator

import numpy as np

from napari_decant.errors import FormatError, MissingKey, StorageError, UnsafeInput, UnsupportedOperation
from napari_decant.stores._base import Extent, Store
from napari_decant.stores._keys import check_key, check_prefix
from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._zip_directory import (
    DEFLATED,
    FLAG_DESCRIPTOR,
    FLAG_ENCRYPTED,
    FLAG_STRONG,
    LOCAL_HEADER_SIZE,
    STORED,
    ZipDirectory,
    ZipEntry,
    ZipLimits,
)
from napari_decant.stores._zip_headers import check_headers, compare_header
from napari_decant.stores._zip_inflate import InflatedEntries, inflate
from napari_decant.stores._zip_read import read_zip_directory

__all__ = ["ZipStore"]

_WHOLE = "zip"  # the file name of extents that lie in the archive itself
_ENTRY = "entry:"
_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "XZ", 98: "PPMd"}


class ZipStore(Store):
    """The entries of a zip file, on this machine or behind ranged reads.

    STORED entries are read at their place with positional reads and no lock. The local header of an entry
    is compared with the directory the first time its data are asked for. A DEFLATED entry is inflated
    whole, never past its declared size. Where a name occurs twice the last one counts, as in every zip
    tool, and `warnings` says so.

    Parameters
    ----------
    file : PositionalFile
        The zip file; the store owns it and closes it.
    limits : ZipLimits, optional
        Caps on what the file may ask for.
    strict : bool, optional
        Refuse duplicate names, for verifying and restoring.
    directory : ZipDirectory, optional
        Use this one instead of the file's own, for a file that has lost its end.

    Attributes
    ----------
    entries : ZipDirectory
        The directory as found: a sequence of `ZipEntry`.

    Raises
    ------
    FormatError
        The file is cut short or damaged; with ``strict`` also duplicate names.
    UnsafeInput
        Names that leave the root, links, overlapping entries, false sizes.
    """

    def __init__(
        self,
        file: PositionalFile,
        limits: ZipLimits | None = None,
        *,
        strict: bool = False,
        directory: ZipDirectory | None = None,
    ) -> None:
        self._file, self._limits, self._strict = file, limits or ZipLimits(), strict
        self.uri, self.remote = file.uri, file.remote
        try:
            self.entries: ZipDirectory = (
                read_zip_directory(file, self._limits) if directory is None else directory
            )
            self._refuse()
        except BaseException:
            file.close()
            raise
        found = self.entries
        # Lists answer ten times faster than arrays where one number is asked for.
        self._size: list[int] = found.size.tolist()
        self._compressed: list[int] = found.compressed.tolist()
        self._crc: list[int] = found.crc.tolist()
        self._header: list[int] = found.header.tolist()
        self._limit: list[int] = found.next_header.tolist()
        self._method: list[int] = found.method.tolist()
        self._flags: list[int] = found.flags.tolist()
        self._data_offset: list[int] = [-1] * len(found)
        self._inflated = InflatedEntries()
        self._lock = threading.Lock()  # guards the sorted names
        self._sorted: list[str] | None = None
        self._closed = False

    def __reduce__(self) -> tuple[object, tuple[str, ZipLimits, bool]]:
        from napari_decant.stores._open import open_zip

        return open_zip, (self.uri, self._limits, self._strict)

    def _refuse(self) -> None:
        directory = self.entries
        if directory.unsafe:
            shown = "; ".join(f"{name[:80]!r} {reason}" for name, reason in directory.unsafe[:5])
            more = f" and {len(directory.unsafe) - 5:,} more" if len(directory.unsafe) > 5 else ""
            raise UnsafeInput(f"{self.uri} has unsafe entry names: {shown}{more}; the file is not read")
        if self._strict and directory.duplicates:
            raise FormatError(
                f"{self.uri} has {len(directory.duplicates):,} names more than once"
                f" ({directory.duplicates[0]!r});"
                " it is not clear which entry is meant"
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `Store.warnings`."""
        names = self.entries.duplicates
        if not names:
            return ()
        return (
            f"{len(names):,} names occur more than once in the zip file ({names[0]!r}); the last entry"
            " counts",
        )

    @property
    def comment(self) -> bytes:
        """The archive comment."""
        return self.entries.comment

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self.uri} is closed")

    def _index(self, key: str) -> int | None:
        self._check_open()
        return self.entries.by_name.get(check_key(key, self.uri))

    def entry(self, key: str) -> ZipEntry:
        """Return the entry of a key; raise `MissingKey` if there is none."""
        index = self._index(key)
        if index is None:
            raise MissingKey(f"{self.uri} has no entry {key!r}")
        return self.entries[index]

    def crc(self, key: str) -> int:
        """CRC-32 of a key's contents as the directory states it; raise `MissingKey` if there is none."""
        index = self._index(key)
        if index is None:
            raise MissingKey(f"{self.uri} has no entry {key!r}")
        return self._crc[index]

    def data_offset(self, entry: ZipEntry | int) -> int:
        """Where the data of an entry begin, after comparing its local header with the directory.

        Parameters
        ----------
        entry : ZipEntry or int
            The entry or its index.

        Raises
        ------
        FormatError
            Header and directory disagree; the file is damaged.
        UnsupportedOperation
            The entry is encrypted or compressed with a method that is not read.
        """
        index = entry if isinstance(entry, int) else entry.index
        known = self._data_offset[index]
        if known >= 0:
            return known
        directory = self.entries
        self._check_method(index)
        header, raw = self._header[index], directory.raw_name(index)
        compressed, limit = self._compressed[index], self._limit[index]
        start = header + LOCAL_HEADER_SIZE + len(raw)
        exact = start + compressed == limit and not self._flags[index] & FLAG_DESCRIPTOR
        if not (self._file.remote and exact):
            # Over the network a header with no room for anything else is not worth a round trip.
            start = self._read_local_header(index, header, raw)
            if start + compressed > limit:
                raise FormatError(self._damaged(index, "runs into the next one"))
        self._data_offset[index] = start
        return start

    def check_local_header(self, entry: ZipEntry) -> int:
        """Read and compare an entry's local header in every case; return where the data begin."""
        index = entry.index
        header, raw = entry.header_offset, self.entries.raw_name(index)
        start = self._read_local_header(index, header, raw)
        if start + entry.compressed_size > self._limit[index]:
            raise FormatError(self._damaged(index, "runs into the next one"))
        return start

    def check_headers(self, step: Callable[[], None] = lambda: None) -> Iterator[tuple[str, str]]:
        """Compare all local headers with the directory; yield the name and the fault of each wrong entry.

        Parameters
        ----------
        step : callable
            Called now and then; may raise to stop.
        """
        self._check_open()
        for rows, starts, faults in check_headers(self._file, self.entries, step):
            readable = np.isin(self.entries.method[rows], (STORED, DEFLATED))
            readable &= (self.entries.flags[rows] & (FLAG_ENCRYPTED | FLAG_STRONG)) == 0
            readable[[index - rows.start for index, _ in faults]] = False
            self._data_offset[rows] = np.where(readable, starts, -1).tolist()
            for index, fault in faults:
                yield self.entries.names[index], self._damaged(index, fault)

    def _damaged_entry(self, index: int) -> str:
        return f"{self.uri} is damaged: entry {self.entries.names[index][:80]!r}"

    def _damaged(self, index: int, what: str) -> str:
        return f"{self._damaged_entry(index)} {what}"

    def _check_method(self, index: int) -> None:
        directory = self.entries
        name, method = directory.names[index], self._method[index]
        if self._flags[index] & (FLAG_ENCRYPTED | FLAG_STRONG):
            raise UnsupportedOperation(
                f"entry {name!r} of {self.uri} is encrypted; unpack it with its password first"
            )
        if method not in (STORED, DEFLATED):
            raise UnsupportedOperation(
                f"entry {name!r} of {self.uri} is compressed with"
                f" {_METHODS.get(method, f'zip method {method}')};"
                " only stored and deflated entries are read: unpack it and open the folder"
            )

    def _read_local_header(self, index: int, header: int, raw: bytes) -> int:
        block = self._read(header, LOCAL_HEADER_SIZE + len(raw))
        sizes = self._compressed[index], self._size[index], self._crc[index]
        start, fault = compare_header(block, header, raw, self._method[index], self._flags[index], sizes)
        if fault is not None:
            raise FormatError(self._damaged(index, fault))
        return start

    def _read(self, offset: int, length: int) -> bytes:
        self._check_open()
        at = offset - self.entries.tail_offset
        if at >= 0 and at + length <= len(self.entries.tail):
            return self.entries.tail[at : at + length]
        return self._file.read_at(offset, length)

    def extent(self, key: str) -> Extent | None:
        """See `Store.extent`."""
        index = self._index(key)
        if index is None:
            return None
        if self._method[index] == STORED:
            return Extent(_WHOLE, self.data_offset(index), self._size[index])
        self._check_method(index)
        return Extent(f"{_ENTRY}{key}", 0, self._size[index])

    def read_file(self, file: str, offset: int, length: int) -> bytes:
        """See `Store.read_file`."""
        if file == _WHOLE:
            if offset < 0 or offset + length > self._file.size:
                raise StorageError(f"{self.uri} has no {length:,} bytes at {offset:,}; it is cut short")
            return self._read(offset, length)
        data = self._inflate(file)
        if offset < 0 or offset + length > len(data):
            raise StorageError(f"{file!r} in {self.uri} has no {length:,} bytes at {offset:,}")
        return data[offset : offset + length]

    def read_file_into(self, file: str, offset: int, out: memoryview) -> None:
        """See `Store.read_file_into`."""
        if file == _WHOLE:
            self._check_open()
            self._file.read_into(offset, out)
        else:
            view = out.cast("B")
            view[:] = self.read_file(file, offset, view.nbytes)

    def _inflate(self, file: str) -> bytes:
        key = file.removeprefix(_ENTRY)
        index = self._index(key) if file.startswith(_ENTRY) else None
        if index is None:
            raise MissingKey(f"{self.uri} has no entry {key!r}")
        data = self._inflated.get(index)
        if data is not None:
            return data
        size, compressed = self._size[index], self._compressed[index]
        if size > self._limits.max_inflated_bytes:
            raise UnsafeInput(
                f"entry {key!r} of {self.uri} inflates to {size:,} bytes; more than"
                f" {self._limits.max_inflated_bytes:,} are not inflated: unpack the file and open the folder"
            )
        stream = self._read(self.data_offset(index), compressed)
        data = inflate(stream, size, self._crc[index], self._damaged_entry(index))
        self._inflated.put(index, data)
        return data

    def _names(self) -> list[str]:
        self._check_open()
        with self._lock:
            if self._sorted is None:
                self._sorted = sorted(self.entries.by_name)
            return self._sorted

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[str]]:
        """See `Store.list_dir`."""
        prefix = check_prefix(prefix, self.uri)
        names, groups, keys = self._names(), [], []
        at = bisect_left(names, prefix)
        while at < len(names) and names[at].startswith(prefix):
            head, slash, _ = names[at][len(prefix) :].partition("/")
            if slash:
                groups.append(head)
                at = bisect_left(names, f"{prefix}{head}0", at)  # "0" follows "/": skip the whole group
            else:
                if head:
                    keys.append(head)
                at += 1
        return sorted(groups), sorted(keys)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        prefix = check_prefix(prefix, self.uri)
        names = self._names()
        for at in range(bisect_left(names, prefix), len(names)):
            if not names[at].startswith(prefix):
                return
            if not names[at].endswith("/"):
                yield names[at]

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True
        self._file.close()
        self._inflated.clear()
