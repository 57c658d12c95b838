"""Let the structure of a TIFF be read, whatever it claims: no endless links, no lists as long as a number."""

from __future__ import annotations

import math
import re
from typing import Final

from napari_decant.errors import FormatError
from napari_decant.stores import PositionalFile
from napari_decant.stores._stream import PositionalStream

__all__ = ["StructureStream", "declared_planes"]

_READS: Final = 8  # times the file; an honest reader reads each directory once or twice
_LEAST: Final = 4 << 20
_OME_PARTS: Final = re.compile(r"<(?:\w+:)?(?:Pixels|TiffData)\b[^<>]*")
_OME_COUNTS: Final = re.compile(r"\b(?:Size[CTZ]|PlaneCount|NumPlanes)\s*=\s*[\"'](\d+)")


class StructureStream(PositionalStream):
    """A stream that gives no more bytes than reading all directories takes, until it is `released`.

    Parameters
    ----------
    file : PositionalFile
        What to read.
    """

    def __init__(self, file: PositionalFile) -> None:
        super().__init__(file)
        self._uri = file.uri
        self._allowance: float = _READS * file.size + _LEAST

    def released(self) -> None:
        """The structure is known: from now on anything may be read any number of times."""
        self._allowance = math.inf

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        """See `PositionalStream.readinto`.

        Raises
        ------
        FormatError
            The same bytes are asked for again and again.
        """
        if self._allowance <= 0:
            raise FormatError(f"the links between the pages of {self._uri} have no end; it is damaged")
        length = super().readinto(buffer)
        self._allowance -= length
        return length


def declared_planes(text: str) -> int:
    """The largest number of planes that any part of OME-XML speaks of; 0 where it is none."""
    if "<OME" not in text and ":OME" not in text:
        return 0
    parts = (_OME_COUNTS.findall(part) for part in _OME_PARTS.findall(text))
    return max((math.prod(int(count[:20]) for count in counts) for counts in parts), default=0)
