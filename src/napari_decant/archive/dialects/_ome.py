"""OME-TIFF: the OME-XML in the first page's description says which directory holds which plane."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from napari_decant.archive._axes import Places
from napari_decant.archive.dialects._ome_xml import OmeDocument, OmeImage, read_ome
from napari_decant.archive.dialects._reading import Channel, Reading, hex_color, told_colors
from napari_decant.archive.dialects._tags import TagReader
from napari_decant.archive.dialects._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds
from napari_decant.errors import FormatError

__all__ = ["read_ome_tiff"]

_DESCRIPTION = 270
_MODULO = {"tile": "p", "timelapse": "t", "other": "q"}
_NAMED_FILES = 3


def read_ome_tiff(tags: TagReader) -> Reading | None:
    """Read OME metadata; None if the file has none.

    Raises
    ------
    UnsafeInput, FormatError
        It has some, but that cannot be read.
    """
    tag = tags.tag(_DESCRIPTION)
    if tag is None or tag.count < 8 or tag.type not in (1, 2, 7):
        return None
    head = tags.read(tag.offset, min(tag.count, 4096))
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or b"OME" not in head:
        return None
    document = read_ome(
        lambda at, length: tags.read(tag.offset + at, length), tag.count, tags.name, tags.pages
    )
    return reading_of(document, tags) if document.is_ome else None


def reading_of(document: OmeDocument, tags: TagReader) -> Reading:
    """Facts of an OME document about the planes of one file."""
    reading = Reading("ome")
    if document.companion:
        reading.notes.append(
            f"its OME metadata is in {document.companion}, which is not part of this archive; "
            "its planes are kept in file order, pack the folder as a series to keep them together"
        )
        return reading
    if document.files:
        reading.notes.append(_set_note(document))
    images = document.images
    if not images:
        return reading
    placed = _Placed(images, tags)
    reading.places = placed.places()
    image = placed.main
    for axis in "XYZ":
        size, unit = image.steps.get(axis, (0.0, ""))
        reading.set_step(axis.lower(), micrometers(size, unit), LENGTH_UNIT)
    size, unit = image.steps.get("T", (0.0, ""))
    reading.set_step("t", seconds(size, unit), TIME_UNIT)
    reading.channels = _channels(image)
    reading.date = image.date
    named = [image] if len(placed.used) < 2 else [images[i] for i in placed.used]
    names = [each.position or each.name for each in named]
    # the name of the only image is no stage position
    reading.positions = names if len(names) > 1 or image.position else ()
    placed.add_times(reading)
    return reading


def _set_note(document: OmeDocument) -> str:
    names = [name for name in document.files.values() if name][:_NAMED_FILES]
    named = f" ({', '.join(names)}{', ...' if len(document.files) > len(names) else ''})" if names else ""
    return (
        f"this file is one of {len(document.files) + 1} of an OME-TIFF set{named}; "
        "pack the folder as a series to keep the set together"
    )


def _channels(image: OmeImage) -> list[Channel]:
    colors = told_colors("" if c.color is None else _color(c.color) for c in image.channels)
    return [Channel(channel.name, color) for channel, color in zip(image.channels, colors, strict=True)]


def _color(value: int) -> str:
    """Colour of a signed 32-bit integer: red, green, blue, alpha from the top."""
    return hex_color(value >> 24, value >> 16, value >> 8)


class _Placed:
    """Planes of one file laid out over the images of its OME-XML."""

    def __init__(self, images: Sequence[OmeImage], tags: TagReader) -> None:
        self._images, self._tags = images, tags
        self._image = np.full(tags.pages, -1, np.int64)
        self._linear = np.zeros(tags.pages, np.int64)
        self._samples = [_samples(image, tags.samples) for image in images]
        self._shapes = [_shape(image, s) for image, s in zip(images, self._samples, strict=True)]
        self._lay()
        self._of_plane = np.full(tags.planes, -1, np.int64)
        listed = tags.plane_of_page >= 0
        self._of_plane[tags.plane_of_page[listed]] = np.flatnonzero(listed)
        placed = self._image[self._of_plane] if not tags.is_stack else np.full(tags.planes, -1)
        self._known = (self._of_plane >= 0) & (placed >= 0)
        self.used = [int(i) for i in np.unique(placed[self._known])]
        self.main = images[self.used[0]] if self.used else images[0]

    def _lay(self) -> None:
        pages = self._tags.pages
        room = 4 * pages + 64  # honest files name each page once
        bare = not any(image.rows or image.elsewhere for image in self._images)
        following = 0
        for number, image in enumerate(self._images):
            dims, shape = image.order[2:], self._shapes[number]
            total = prod(shape)
            rows = image.rows
            if bare:  # no TiffData at all: the planes of all images one after the other
                self._assign(number, following, 0, min(total, pages - following))
                following = min(pages, following + total)
                continue
            for at in range(0, len(rows), 5):
                ifd, count, *first = rows[at : at + 5]
                by_axis = dict(zip("CZT", first, strict=True))
                if by_axis["C"] >= shape[dims.index("C")]:
                    by_axis["C"] //= self._samples[number]
                place = [by_axis[axis] for axis in dims]
                if any(index >= extent for index, extent in zip(place, shape, strict=True)):
                    continue
                linear = place[0] + shape[0] * (place[1] + shape[1] * place[2])
                planes = count if count >= 0 else 1 if ifd >= 0 else pages
                planes = min(planes, total - linear, pages - max(ifd, 0))
                room -= max(1, planes)
                if room < 0:
                    raise FormatError("its OME-XML names pages again and again")
                self._assign(number, max(ifd, 0), linear, planes)

    def _assign(self, image: int, page: int, linear: int, planes: int) -> None:
        if planes > 0:
            self._image[page : page + planes] = image
            self._linear[page : page + planes] = np.arange(linear, linear + planes)

    def places(self) -> Places | None:
        """Places along ``p`` (images) and the dimensions, slowest first."""
        if not self.used:
            return None
        known = self._known
        pages = np.where(known, self._of_plane, 0)
        image, linear = self._image[pages], self._linear[pages]
        index = np.zeros((self._tags.planes, 4), np.int64)
        index[:, 0] = np.searchsorted(self.used, image)
        column_of = {"T": 1, "C": 2, "Z": 3}
        for number in self.used:
            mine = image == number
            rest = linear[mine]
            for axis, extent in zip(self._images[number].order[2:], self._shapes[number], strict=True):
                index[mine, column_of[axis]] = rest % extent
                rest //= extent
        extents = [len(self.used)] + [
            max(self._shapes[n][self._images[n].order[2:].index(axis)] for n in self.used) for axis in "TCZ"
        ]
        declared = sum(max(0, prod(self._shapes[n]) - self._images[n].elsewhere) for n in self.used)
        names = ["p", "t", "c", "z"]
        columns: list[np.ndarray] = [index[:, i] for i in range(index.shape[1])]
        self._split(names, extents, columns)
        return Places(tuple(names), tuple(extents), np.stack(columns, axis=1), declared, known)

    def _split(self, names: list[str], extents: list[int], columns: list[np.ndarray]) -> None:
        """Take apart dimensions that hold a further one (lifetime, phase, angle, ...) as their fast part."""
        modulo = self.main.modulo
        if any(self._images[n].modulo != modulo for n in self.used):
            return
        for axis, (kind, extent) in sorted(modulo.items()):
            at = names.index(axis.lower())
            if extent < 2 or extents[at] % extent:
                continue
            names.insert(at + 1, _MODULO.get(kind) or (kind if kind.isidentifier() else "q"))
            extents[at : at + 1] = [extents[at] // extent, extent]
            columns[at : at + 1] = [columns[at] // extent, columns[at] % extent]

    def add_times(self, reading: Reading) -> None:
        """Exposures and times of planes."""
        wanted: dict[tuple[int, int], int] = {}
        for plane in np.flatnonzero(self._known).tolist():
            page = int(self._of_plane[plane])
            wanted[int(self._image[page]), int(self._linear[page])] = plane
        for number in self.used:
            image, shape = self._images[number], self._shapes[number]
            for facts in image.facts:
                by_axis = dict(zip("CZT", facts.place, strict=True))
                a, b, c = (by_axis[axis] for axis in image.order[2:])
                plane = wanted.get((number, a + shape[0] * (b + shape[1] * c)), -1)
                if plane < 0:
                    continue
                if facts.exposure and (exposure := seconds(*facts.exposure)) is not None:
                    reading.exposures[plane] = exposure
                if facts.delta:
                    delta, unit = facts.delta
                    time = 0.0 if delta == 0 else seconds(abs(delta), unit)
                    if time is not None:
                        reading.times[plane] = time if delta >= 0 else -time


def _samples(image: OmeImage, samples: int) -> int:
    """How many of the image's channels one plane holds: what the pages show, whatever is declared."""
    return samples if image.sizes.get("C", 1) % samples == 0 else 1


def _shape(image: OmeImage, samples: int) -> tuple[int, int, int]:
    """Extents of the image's planes, fastest first."""
    sizes = {axis: image.sizes.get(axis, 1) for axis in "CZT"}
    sizes["C"] //= samples
    a, b, c = (sizes[axis] for axis in image.order[2:])
    if a * b * c >= 1 << 62:
        raise FormatError("its OME-XML declares an impossible number of planes")
    return a, b, c
