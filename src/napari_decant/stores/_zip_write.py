"""Write a STORED zip whose bytes depend on nothing but its entries.

Times are fixed, names are ASCII or marked as UTF-8, sizes are known before an entry is written (so
there are no data descriptors), and ZIP64 fields appear only where a number does not fit: the same
entries give the same file on every machine.
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import BinaryIO

from napari_decant.stores._zip_records import FLAG_UTF8

__all__ = ["StoredZipWriter"]

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_DATE_1980 = 0x21  # 1980-01-01, the earliest a zip can say
_FIT16 = 0xFFFF
_FIT32 = 0xFFFFFFFF
_COPY_BYTES = 4 << 20


def _stored_name(name: str) -> tuple[bytes, int]:
    """A name as it is written, and the flag that says how."""
    return (name.encode("ascii"), 0) if name.isascii() else (name.encode(), FLAG_UTF8)


class StoredZipWriter:
    """Appends entries to a file and writes the directory at the end.

    Parameters
    ----------
    file : BinaryIO
        Open for writing at the archive's first byte.
    comment : bytes, optional
        Archive comment.
    zip64 : bool, optional
        Write 64-bit sizes and offsets everywhere, also where they would fit into 32 bits.
    """

    def __init__(self, file: BinaryIO, comment: bytes = b"", *, zip64: bool = False) -> None:
        self._file = file
        self._comment = comment
        self._least64 = 0 if zip64 else _FIT32  # numbers from here on are written with 64 bits
        self._offset = 0
        self._entries: dict[str, tuple[int, int, int]] = {}

    @property
    def names(self) -> list[str]:
        """Names of the entries in the order in which they were written."""
        return list(self._entries)

    @property
    def bytes_written(self) -> int:
        """Size of the file so far."""
        return self._offset

    def write(self, name: str, data: bytes | memoryview, crc: int | None = None) -> None:
        """Append one entry.

        Parameters
        ----------
        name : str
            Unique.
        data : bytes-like
            The entry's bytes.
        crc : int, optional
            CRC-32 of ``data``, if the caller has it already.
        """
        size = len(data)
        crc = zlib.crc32(data) if crc is None else crc
        header = self._local(name, size, crc)
        self._entries[name] = (self._offset, size, crc)
        self._file.write(header)
        self._file.write(data)
        self._offset += len(header) + size

    def copy(self, name: str, source: BinaryIO, size: int) -> None:
        """Append one entry from a file, piece by piece.

        Parameters
        ----------
        name : str
            Unique.
        source : BinaryIO
            Read from its position on.
        size : int
            Bytes to copy. The zip file must be seekable, since the checksum is known only afterwards.

        Raises
        ------
        OSError
            The source has fewer bytes, or reading or writing failed.
        """
        start, crc, left = self._offset, 0, size
        self._file.write(self._local(name, size, 0))
        while left:
            piece = source.read(min(left, _COPY_BYTES))
            if not piece:
                raise OSError(errno.EIO, f"{left:,} bytes of {name!r} are missing")
            crc = zlib.crc32(piece, crc)
            self._file.write(piece)
            left -= len(piece)
        header = self._local(name, size, crc)
        self._entries[name] = (start, size, crc)
        self._offset = start + len(header) + size
        end = self._file.tell()
        self._file.seek(end - (self._offset - start))
        self._file.write(header)
        self._file.seek(end)

    def _local(self, name: str, size: int, crc: int) -> bytes:
        """Header of an entry that is about to be written."""
        if name in self._entries:
            raise ValueError(f"entry {name!r} is already written")
        raw_name, flag = _stored_name(name)
        extra, size_field = (
            (struct.pack("<HHQQ", 1, 16, size, size), _FIT32) if size >= self._least64 else (b"", size)
        )
        version = 45 if extra else 20
        header = _LOCAL.pack(
            b"PK\3\4", version, flag, 0, 0, _DATE_1980, crc, size_field, size_field,
            len(raw_name), len(extra),
        )  # fmt: skip
        return header + raw_name + extra

    def finish(self, first: Sequence[str] = ()) -> None:
        """Write the central directory, which lists ``first`` before the other entries."""
        start = self._offset
        leading = dict.fromkeys(first)
        self._put(self._central(name) for name in leading)
        self._put(self._central(name) for name in self._entries if name not in leading)
        length, count = self._offset - start, len(self._entries)
        if count >= _FIT16 or max(start, length) >= self._least64:
            end64 = _END64.pack(b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, length, start)
            self._put([end64 + _LOCATOR.pack(b"PK\6\7", 0, start + length, 1)])
        self._put(
            [
                _END.pack(
                    b"PK\5\6", 0, 0, min(count, _FIT16), min(count, _FIT16), min(length, _FIT32),
                    min(start, _FIT32), len(self._comment),
                ),
                self._comment,
            ]
        )  # fmt: skip

    def _put(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self._file.write(part)
            self._offset += len(part)

    def _central(self, name: str) -> bytes:
        offset, size, crc = self._entries[name]
        raw_name, flag = _stored_name(name)
        wide = [size, size] if size >= self._least64 else []
        wide += [offset] if offset >= self._least64 else []
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        version = 45 if extra else 20
        size_field = _FIT32 if size >= self._least64 else size
        offset_field = _FIT32 if offset >= self._least64 else offset
        return (
            _CENTRAL.pack(
                b"PK\1\2", (3 << 8) | version, version, flag, 0, 0, _DATE_1980, crc, size_field, size_field,
                len(raw_name), len(extra), 0, 0, 0, 0o100644 << 16, offset_field,
            )
            + raw_name + extra
        )  # fmt: skip
