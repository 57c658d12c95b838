"""Place a series by OME-XML: a companion file, or the one in a member that speaks of the others."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from napari_decant.archive._pages import Reason
from napari_decant.archive._place_facts import HOLDER, Image, named_few, read_tags
from napari_decant.archive._source import Source
from napari_decant.errors import DecantError
from napari_decant.tiff.dialects import (
    OmeDocument,
    Reading,
    SetDocument,
    TagReader,
    clean,
    ome_text,
    read_ome_set,
    reading_of_set,
)

if TYPE_CHECKING:
    from napari_decant.archive._series import SeriesMember

__all__ = ["COMPANIONS", "place_by_ome", "root_uuid"]

COMPANIONS = (".ome", ".ome.xml")
"""How the names of companion files end."""

_ALONE = 2  # so many files that speak only of themselves, and no set is expected
_HEAD = 4096
_ROOT = re.compile(
    rb"<(?:\w+:)?OME\b[^>]*?\bUUID\s*=\s*[\"'](?:urn:uuid:)?([^\"']{1,64})[\"']", re.IGNORECASE
)


def place_by_ome(
    members: Sequence[SeriesMember], images: Sequence[Image], notes: list[str]
) -> Reading | None:
    """Place the planes of the images; None if no OME-XML speaks of several of them.

    Parameters
    ----------
    members : sequence of SeriesMember
        Nothing but these is read.
    images : sequence of Image
        Those with planes.
    notes : list of str
        Gets what the user should know.
    """
    search = _Search(members, images, notes)
    documents = search.documents()
    if not documents:
        return None
    try:
        layouts = [image.member.layout for image in images]
        samples = images[0].member.layout.planes[0].samples
        reading = reading_of_set(documents, layouts, samples, HOLDER)
    except DecantError as error:
        notes.append(f"the OME metadata of {documents[0].source} could not be used: {clean(str(error))}")
        return None
    if reading.places is None:
        return None
    lost = [image.member.relpath for i, image in enumerate(images) if i not in search.covered]
    if lost:
        notes.append(f"the OME metadata does not speak of {named_few(lost)}")
    for document in documents:
        _note_missing(document, search, notes)
    return reading


def _note_missing(document: SetDocument, search: _Search, notes: list[str]) -> None:
    missing = [clean(name) for name in document.missing if name.casefold() not in search.here]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        notes.append(f"{named_few(missing)} {verb} missing: the OME metadata of {document.source} names it")


class _Search:
    """Finds the OME documents of a series; a file that one speaks of already is not read for its own."""

    def __init__(self, members: Sequence[SeriesMember], images: Sequence[Image], notes: list[str]) -> None:
        self.members, self.covered = members, set[int]()
        self._images, self._notes = images, notes
        self._pages = sum(len(image.member.layout.page_offsets) for image in images)
        self._by_name = {(image.folder, image.name.casefold()): i for i, image in enumerate(images)}
        self._members = {member.relpath.casefold() for member in members}
        self.here = {name.rpartition("/")[2] for name in self._members}
        self._by_uuid: dict[str, int] | None = None
        self._documents: list[SetDocument] = []

    def documents(self) -> list[SetDocument]:
        """Documents that speak of several files."""
        for member in self.members:
            if not member.layout.planes and member.relpath.lower().endswith(COMPANIONS):
                self._add_companion(member)
        alone = 0
        absent: dict[str, list[str]] = {}
        pending = deque(range(len(self._images)))
        done: set[int] = set()
        while pending:
            i = pending.popleft()
            if i in self.covered or i in done:
                continue
            done.add(i)
            document = read_tags(self._images[i], self._read)
            if document is None or not document.is_ome:
                alone += 1
            elif document.companion:
                master = self._find(self._images[i].folder, document.companion)
                if master >= 0:
                    pending.appendleft(master)
                elif not self._is_member(self._images[i].folder, document.companion):
                    absent.setdefault(document.companion, []).append(self._images[i].member.relpath)
            elif len(document.set_rows.names) > 1:
                self._add(SetDocument(document, self._images[i].member.relpath, i), self._images[i].folder)
            else:
                alone += 1
            if alone >= _ALONE and not self._documents and not absent:
                break
        for name, files in absent.items():
            if not self._documents:
                self._notes.append(f"{name} is missing: the OME metadata of {named_few(files)} is in it")
        return self._documents

    def _read(self, tags: TagReader) -> OmeDocument | None:
        text = ome_text(tags)
        return None if text is None else read_ome_set(*text, self._pages)

    def _add_companion(self, member: SeriesMember) -> None:
        if member.reason not in (Reason.NOT_TIFF, Reason.EMPTY):
            return
        try:
            with Source(Path(member.path)) as source:
                document = read_ome_set(source.read_at, source.size, self._pages)
        except DecantError as error:
            self._notes.append(f"{member.relpath} could not be read: {clean(str(error))}")
            return
        if document.is_ome and len(document.set_rows.names):
            self._add(SetDocument(document, member.relpath), member.relpath.rpartition("/")[0])

    def _add(self, found: SetDocument, folder: str) -> None:
        found.resolve(lambda name, uuid: self._find(folder, name, uuid))
        if found.covered:
            self.covered |= found.covered
            self._documents.append(found)

    def _find(self, folder: str, name: str, uuid: str = "") -> int:
        """The image of a name; by its UUID if it was renamed."""
        found = self._by_name.get((folder, name.casefold()), -1)
        if found >= 0 or not uuid:
            return found
        if self._by_uuid is None:
            self._by_uuid = {}
            for i, image in enumerate(self._images):
                own = read_tags(image, root_uuid)
                if own:
                    self._by_uuid.setdefault(own, i)
        return self._by_uuid.get(uuid, -1)

    def _is_member(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}" if folder else name
        return path.casefold() in self._members


def root_uuid(tags: TagReader) -> str:
    """Return the UUID of a file's OME-XML, from its first kilobytes; empty if there is none."""
    text = ome_text(tags)
    if text is None:
        return ""
    read, size = text
    found = _ROOT.search(read(0, min(size, _HEAD)))
    return found[1].decode("ascii", "replace").casefold() if found else ""
