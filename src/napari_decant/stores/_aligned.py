"""Large writes at page boundaries."""

from __future__ import annotations

from typing import BinaryIO

__all__ = ["AlignedWriter"]


class AlignedWriter:
    """Passes a stream on in writes that begin and end at page boundaries.

    A write that ends within a page makes the next one touch that page again, which costs large
    files much of their speed.

    Parameters
    ----------
    file : BinaryIO
        Unbuffered, at a page boundary.

    Attributes
    ----------
    written : int
        Bytes that the file has.
    """

    PAGE = 4096

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._carry = bytearray()
        self.written = 0

    def write(self, data: memoryview) -> None:
        """Append bytes; the last ones may stay here until more come."""
        if self._carry:
            head = min(self.PAGE - len(self._carry), len(data))
            self._carry += data[:head]
            data = data[head:]
            if len(self._carry) == self.PAGE:
                self.finish()
        whole = len(data) - len(data) % self.PAGE
        if whole:
            self._put(data[:whole])
        self._carry += data[whole:]

    def finish(self) -> None:
        """Write what stayed here."""
        if self._carry:
            self._put(memoryview(bytes(self._carry)))
            self._carry.clear()

    def _put(self, data: memoryview) -> None:
        while len(data):
            done = self._file.write(data)  # a raw file may take less than all
            data = data[done:]
            self.written += done
