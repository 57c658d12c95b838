"""A positional file as the seekable binary stream that other libraries ask for."""

from __future__ import annotations

import io
import os

from napari_decant.stores._positional import PositionalFile

__all__ = ["PositionalStream"]


class PositionalStream(io.RawIOBase):
    """Reads a `PositionalFile` from a position of its own; the file itself stays open on close.

    Parameters
    ----------
    file : PositionalFile
        What to read.
    """

    def __init__(self, file: PositionalFile) -> None:
        super().__init__()
        self._file, self._position = file, 0

    @property
    def name(self) -> str:
        """Location of the file, for messages."""
        return self._file.uri

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; beyond the end is allowed and reads nothing there."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the start")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        """Fill as much of ``buffer`` as the file has."""
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._file.size - self._position))
        if length:
            self._file.read_into(self._position, view[:length])
            self._position += length
        return length

    def readall(self) -> bytes:
        """Everything from the position on."""
        return self.read(max(0, self._file.size - self._position)) or b""
