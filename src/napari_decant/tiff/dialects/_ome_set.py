"""OME-TIFF in several files: one OME-XML, in one of them or beside them, speaks of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from napari_decant.tiff._listing import Listing
from napari_decant.tiff.dialects._ome import state
from napari_decant.tiff.dialects._ome_model import OmeDocument
from napari_decant.tiff.dialects._ome_places import OmePlaces
from napari_decant.tiff.dialects._reading import Reading

__all__ = ["LayoutPages", "SetDocument", "reading_of_set"]

_ROW = 7


class LayoutPages:
    """What the layout of a file says of its pages; see `PageMap`."""

    def __init__(self, layout: Listing) -> None:
        self.pages, self.planes = len(layout.page_offsets), len(layout.planes)
        first_plane: dict[int, int] = {}
        for plane, offset in enumerate(layout.ifd_offsets):
            first_plane.setdefault(offset, plane)
        self.plane_of_page = np.array([first_plane.get(o, -1) for o in layout.page_offsets], np.int64)
        self.is_stack = len(first_plane) == 1 and self.planes > 1


@dataclass(slots=True)
class SetDocument:
    """An OME-XML and which of the given files its file names mean.

    Attributes
    ----------
    document : OmeDocument
        From `read_ome_set`.
    source : str
        Name of the file that holds it.
    own : int
        Number of that file among the given ones; -1 if it is a companion.
    files : list of int
        Number of each file that the document names, -1 for those that are not given.
    """

    document: OmeDocument
    source: str
    own: int = -1
    files: list[int] = field(default_factory=list)

    def resolve(self, find: Callable[[str, str], int]) -> None:
        """Find the named files: ``find(name, uuid)`` gives a number, or -1."""
        named = self.document.set_rows
        own_uuid = self.document.uuid
        self.files = [
            self.own if not name and uuid == own_uuid else find(_basename(name), uuid)
            for name, uuid in zip(named.names, named.uuids, strict=True)
        ]

    @property
    def covered(self) -> set[int]:
        """Numbers of the files that it places planes of."""
        given = {number for number in self.files if number >= 0}
        rows = np.array(self.document.set_rows.rows, np.int64).reshape(-1, _ROW)
        return given | {self.own} if self.own >= 0 and bool((rows[:, 0] < 0).any()) else given

    @property
    def missing(self) -> list[str]:
        """Names of files that were not found."""
        named = self.document.set_rows
        pairs = zip(self.files, named.names, named.uuids, strict=True)
        return [_basename(name) or f"a file with the UUID {uuid}" for n, name, uuid in pairs if n < 0]


def reading_of_set(
    documents: Sequence[SetDocument], layouts: Sequence[Listing], samples: int, holder: str
) -> Reading:
    """Facts of OME documents about the planes of several files.

    Parameters
    ----------
    documents : sequence of SetDocument
        Their images are positions one after the other.
    layouts : sequence of Listing
        The files; planes are counted through all of them.
    samples : int
        Samples of a pixel.
    holder : str
        What holds the planes, for notes.

    Raises
    ------
    FormatError
        A document contradicts itself.
    """
    images = [image for each in documents for image in each.document.images]
    starts = np.concatenate([[0], np.cumsum([len(layout.planes) for layout in layouts])]).tolist()
    placed = OmePlaces(images, samples, starts[-1], together=True)
    rows = _rows_by_file(documents)
    if len(rows):
        bounds = [0, *(np.flatnonzero(np.diff(rows[:, 0])) + 1).tolist(), len(rows)]
        for begin, end in pairwise(bounds):
            number = int(rows[begin, 0])
            mine = ((int(row[1]), row[2:].tolist()) for row in rows[begin:end])
            placed.lay(LayoutPages(layouts[number]), starts[number], mine)
    reading = Reading("ome")
    state(reading, placed, images)
    if reading.places is not None:
        reading.places = replace(reading.places, holder=holder)
    if any(images[n].steps != placed.main.steps for n in placed.used):
        reading.notes.append("its images have different pixel sizes; those of the first are kept")
    return reading


def _rows_by_file(documents: Sequence[SetDocument]) -> np.ndarray:
    """File, image and numbers of all ``TiffData``, sorted by file; without the files that are not given."""
    shift, tables = 0, []
    for each in documents:
        rows = np.array(each.document.set_rows.rows, np.int64).reshape(-1, _ROW)
        files = np.array([*each.files, each.own], np.int64)  # a row of file -1 means the document's own
        rows[:, 0] = files[rows[:, 0]]
        rows[:, 1] += shift
        shift += len(each.document.images)
        tables.append(rows[rows[:, 0] >= 0])
    table = np.concatenate(tables) if tables else np.zeros((0, _ROW), np.int64)
    return table[np.argsort(table[:, 0], kind="stable")]


def _basename(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]
