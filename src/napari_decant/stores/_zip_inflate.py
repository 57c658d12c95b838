"""DEFLATED entries of zip files: inflated within bounds, and kept for a while."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict

from napari_decant.errors import FormatError

__all__ = ["InflatedEntries", "inflate"]

_CACHE_BYTES = 64 << 20


def inflate(stream: bytes, size: int, crc: int, where: str) -> bytes:
    """Inflate an entry, never past its declared size.

    Parameters
    ----------
    stream : bytes
        Its data as they are in the file.
    size, crc : int
        Length in bytes and CRC-32 of its contents, as the directory states them.
    where : str
        Begins messages, which go on with what the entry does.

    Raises
    ------
    FormatError
        It does not inflate to what is declared.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = inflater.decompress(stream, size + 1)
    except zlib.error as error:
        raise FormatError(f"{where} does not inflate ({error})") from error
    if len(data) != size:
        found = f"more than the {size:,}" if len(data) > size else f"{len(data):,} instead of {size:,}"
        raise FormatError(f"{where} inflates to {found} bytes that it declares")
    if zlib.crc32(data) != crc:
        raise FormatError(f"{where} does not match its CRC")
    return data


class InflatedEntries:
    """The contents of the entries used last, by index; may be used by any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # never held while reading
        self._data: OrderedDict[int, bytes] = OrderedDict()

    def get(self, index: int) -> bytes | None:
        """Contents of an entry, or None where they are not kept."""
        with self._lock:
            data = self._data.get(index)
            if data is not None:
                self._data.move_to_end(index)
            return data

    def put(self, index: int, data: bytes) -> None:
        """Keep the contents of an entry, and let go of others where they are too many bytes."""
        with self._lock:
            self._data[index] = data
            while sum(map(len, self._data.values())) > _CACHE_BYTES:
                self._data.popitem(last=False)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._data.clear()
