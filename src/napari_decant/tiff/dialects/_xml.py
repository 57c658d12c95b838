"""Read XML from an untrusted file: streamed, bounded, without document types, entities or links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from xml.parsers import expat

from napari_decant.errors import FormatError, UnsafeInput

__all__ = ["MAX_XML", "XmlHandler", "read_xml"]

MAX_XML = 64 << 20
_MAX_ELEMENTS = 1_000_000
_MAX_DEPTH = 64
_MAX_NAMES = 1000
_MAX_TEXT = 1 << 20  # of one element; what is longer is no value that is looked for
_BLOCK = 1 << 20
_BEFORE = b"\xef\xbb\xbf \t\r\n"  # byte order mark and white space, where XML allows none


class XmlHandler(Protocol):
    """Gets the elements of a document in their order; names come without namespace prefix."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""

    def end(self, name: str, text: str) -> None:
        """End an element; ``text`` is what stood in it behind its last child, cut to a MB."""


def read_xml[H: XmlHandler](read: Callable[[int, int], bytes], size: int, make: Callable[[], H]) -> H:
    """Parse a document.

    Parameters
    ----------
    read : callable
        ``read(position, length)`` within the document.
    size : int
        Its length in bytes; trailing NULs are no matter.
    make : callable
        Makes the handler; called again if the document is not UTF-8 and is read as Latin-1.

    Returns
    -------
    The handler.

    Raises
    ------
    UnsafeInput
        It has a document type (and so may have entities), or is too large, long or deep.
    FormatError
        It is not well-formed.
    """
    if size > MAX_XML:
        raise UnsafeInput(f"its XML has {size:,} bytes; more than {MAX_XML:,} are not read")
    # The encoding is given, never taken from the document: UTF-8, or Latin-1, which cannot fail.
    for encoding in ("utf-8", "iso-8859-1"):
        document = _Document(make(), encoding)
        try:
            for position in range(0, size, _BLOCK):
                data = read(position, min(_BLOCK, size - position))
                if document.feed(data if position else data.lstrip(_BEFORE)):
                    return document.handler
            document.feed(b"", final=True)  # the parser may hold back the last bytes until it is told
        except expat.ExpatError as error:
            if encoding == "utf-8" and error.code == _INVALID_TOKEN:
                continue
            raise FormatError(f"its XML is damaged ({error})") from error
        return document.handler
    raise AssertionError("Latin-1 has no invalid bytes")  # pragma: no cover


_INVALID_TOKEN = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]


class _Document[H: XmlHandler]:
    def __init__(self, handler: H, encoding: str) -> None:
        self.handler = handler
        self._parser = expat.ParserCreate(encoding)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._names: dict[str, str] = {}
        self._text: list[str] = []
        self._length = self._depth = self._elements = 0
        self._done = False

    def feed(self, data: bytes, final: bool = False) -> bool:
        """Parse some more; True once the root element has ended."""
        try:
            self._parser.Parse(data, final)
        except expat.ExpatError:
            if not self._done:  # padding behind the document is no fault
                raise
        return self._done

    def _doctype(self, *_: object) -> None:
        raise UnsafeInput("its XML has a document type (DOCTYPE), which is never read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        self._depth += 1
        if self._elements > _MAX_ELEMENTS or self._depth > _MAX_DEPTH:
            raise UnsafeInput("its XML has too many elements or is nested too deeply")
        self._text.clear()
        self._length = 0
        local = self._names.get(name)
        if local is None:
            local = name.rpartition(":")[2]
            if len(self._names) < _MAX_NAMES:
                self._names[name] = local
        self.handler.start(local, attributes)

    def _add_text(self, data: str) -> None:
        if self._length < _MAX_TEXT:
            self._text.append(data[: _MAX_TEXT - self._length])
            self._length += len(data)

    def _end(self, name: str) -> None:
        self.handler.end(self._names.get(name) or name.rpartition(":")[2], "".join(self._text))
        self._text.clear()
        self._length = 0
        self._depth -= 1
        self._done = not self._depth
