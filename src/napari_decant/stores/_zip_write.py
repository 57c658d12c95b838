"""Write a STORED zip whose bytes depend on nothing but its entries.

Times are fixed, names are ASCII, sizes are known before an entry is written (so there are no
data descriptors), and ZIP64 fields appear only where a number does not fit: the same entries
give the same file on every machine.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import BinaryIO

__all__ = ["StoredZipWriter"]

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_DATE_1980 = 0x21  # 1980-01-01, the earliest a zip can say
_FIT16 = 0xFFFF
_FIT32 = 0xFFFFFFFF


class StoredZipWriter:
    """Appends entries to a file and writes the directory at the end.

    Parameters
    ----------
    file : BinaryIO
        Open for writing at the archive's first byte.
    comment : bytes, optional
        Archive comment.
    """

    def __init__(self, file: BinaryIO, comment: bytes = b"") -> None:
        self._file = file
        self._comment = comment
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
            ASCII, unique.
        data : bytes-like
            The entry's bytes.
        crc : int, optional
            CRC-32 of ``data``, if the caller has it already.
        """
        if name in self._entries:
            raise ValueError(f"entry {name!r} is already written")
        raw_name = name.encode("ascii")
        size = len(data)
        crc = zlib.crc32(data) if crc is None else crc
        extra, size_field = (
            (struct.pack("<HHQQ", 1, 16, size, size), _FIT32) if size >= _FIT32 else (b"", size)
        )
        version = 45 if extra else 20
        header = _LOCAL.pack(
            b"PK\3\4", version, 0, 0, 0, _DATE_1980, crc, size_field, size_field, len(raw_name), len(extra)
        )
        self._entries[name] = (self._offset, size, crc)
        self._file.write(header + raw_name + extra)
        self._file.write(data)
        self._offset += len(header) + len(raw_name) + len(extra) + size

    def finish(self, first: Sequence[str] = ()) -> None:
        """Write the central directory, which lists ``first`` before the other entries."""
        start = self._offset
        leading = dict.fromkeys(first)
        self._put(self._central(name) for name in leading)
        self._put(self._central(name) for name in self._entries if name not in leading)
        length, count = self._offset - start, len(self._entries)
        if count >= _FIT16 or start >= _FIT32 or length >= _FIT32:
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
        raw_name = name.encode("ascii")
        wide = [size, size] if size >= _FIT32 else []
        wide += [offset] if offset >= _FIT32 else []
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        version = 45 if extra else 20
        size_field = min(size, _FIT32)
        return (
            _CENTRAL.pack(
                b"PK\1\2", (3 << 8) | version, version, 0, 0, 0, _DATE_1980, crc, size_field, size_field,
                len(raw_name), len(extra), 0, 0, 0, 0o100644 << 16, min(offset, _FIT32),
            )
            + raw_name + extra
        )  # fmt: skip
