"""What is kept of an OME-XML document."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

__all__ = ["OmeChannel", "OmeDocument", "OmeImage", "PlaneFacts", "SetRows"]

_MAX_FILE_NAME = 1024


@dataclass(slots=True)
class OmeChannel:
    """One ``Channel``: its name, its colour as a signed RGBA integer, how many samples it has."""

    name: str = ""
    color: int | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class PlaneFacts:
    """One ``Plane``: its place (c, z, t), seconds since the start, exposure in seconds."""

    place: tuple[int, int, int]
    delta: tuple[float, str] | None
    exposure: tuple[float, str] | None


@dataclass(slots=True)
class OmeImage:
    """One ``Image`` and its ``Pixels``.

    Attributes
    ----------
    order : str
        ``DimensionOrder``, fastest first: ``"XYCZT"``.
    sizes : dict of str to int
        ``SizeC``, ``SizeZ``, ``SizeT`` by their letter.
    steps : dict of str to (float, str)
        Physical sizes of ``X``, ``Y``, ``Z`` and the time increment ``T``, each with its unit.
    rows : array of int
        ``TiffData`` of this file, five numbers each: directory (-1 unless given), number of planes
        (-1 unless given), first C, Z, T.
    elsewhere : int
        Planes that lie in other files.
    modulo : dict of str to (str, int)
        Dimensions that hold a further one as their fast part: its type (``lifetime``, ``phase``, ...)
        and its extent.
    """

    name: str = ""
    position: str = ""
    date: str = ""
    order: str = "XYCZT"
    sizes: dict[str, int] = field(default_factory=dict)
    steps: dict[str, tuple[float, str]] = field(default_factory=dict)
    channels: list[OmeChannel] = field(default_factory=list)
    rows: array[int] = field(default_factory=lambda: array("q"))
    others: array[int] = field(default_factory=lambda: array("q"))
    elsewhere: int = 0
    facts: list[PlaneFacts] = field(default_factory=list)
    annotations: list[str] = field(default_factory=list)
    modulo: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class SetRows:
    """``TiffData`` of all files of a set.

    Attributes
    ----------
    rows : array of int
        Seven numbers each: file (-1 for the file that holds the document), image, directory, number of
        planes, first C, Z, T, as in ``OmeImage.rows``.
    names, uuids : list of str
        Of the files by their number; names as written, either may be empty. Nothing is opened.
    """

    rows: array[int] = field(default_factory=lambda: array("q"))
    names: list[str] = field(default_factory=list)
    uuids: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, uuid: str, image: int, row: tuple[int, int, int, int, int]) -> None:
        """Keep one row."""
        number = -1
        if key := name.casefold() or uuid:
            number = self._numbers.setdefault(key, len(self.names))
            if number == len(self.names):
                self.names.append(name[:_MAX_FILE_NAME])
                self.uuids.append(uuid)
        self.rows.extend((number, image, *row))


@dataclass(slots=True)
class OmeDocument:
    """One OME-XML.

    Attributes
    ----------
    is_ome : bool
        Whether the root element is that of OME-XML.
    recorded : str
        What this program has put into an annotation.
    images : list of OmeImage
    files : dict of str to str
        Other files that hold planes of the images, by UUID (names as written; nothing is opened).
    companion : str
        Name of the file that holds the metadata instead (``BinaryOnly``).
    uuid : str
        Of the file that holds the document.
    set_rows : SetRows
        Where the planes of all files are, if that was asked for.
    """

    is_ome: bool = False
    recorded: str = ""
    images: list[OmeImage] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    companion: str = ""
    uuid: str = ""
    set_rows: SetRows = field(default_factory=SetRows)
