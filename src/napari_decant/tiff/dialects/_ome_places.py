"""Lay the planes of one file, or of a set of files, over the images of an OME-XML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Protocol

import numpy as np

from napari_decant.errors import FormatError
from napari_decant.tiff._places import Places
from napari_decant.tiff._units import seconds
from napari_decant.tiff.dialects._ome_model import OmeImage
from napari_decant.tiff.dialects._reading import Reading

__all__ = ["OmePlaces", "PageMap"]

_MODULO = {"tile": "p", "timelapse": "t", "other": "q"}


class PageMap(Protocol):
    """Which pages of a file are planes: a `TagReader`, or what a layout says without its file.

    Attributes
    ----------
    planes : int
        Number of listed planes.
    is_stack : bool
        One page stands for all planes.
    """

    planes: int
    is_stack: bool

    @property
    def pages(self) -> int:
        """Number of pages."""

    @property
    def plane_of_page(self) -> np.ndarray:
        """Plane of each page, -1 for pages that are not listed."""


class OmePlaces:
    """Places of planes by the images of an OME-XML.

    Parameters
    ----------
    images : sequence of OmeImage
    samples : int
        Samples of a pixel.
    planes : int
        Number of planes of all files.
    together : bool
        Whether all files of the set are meant, so that no declared plane is excused by lying in another.

    Attributes
    ----------
    used : list of int
        Images that have planes here.
    main : OmeImage
        The first of them.
    """

    def __init__(
        self, images: Sequence[OmeImage], samples: int, planes: int, *, together: bool = False
    ) -> None:
        self._images, self._together = images, together
        self._samples = [_samples(image, samples) for image in images]
        self._shapes = [_shape(image, s) for image, s in zip(images, self._samples, strict=True)]
        self._image = np.full(planes, -1, np.int64)
        self._linear = np.zeros(planes, np.int64)
        self.used: list[int] = []
        self.main = images[0]

    @property
    def known(self) -> np.ndarray:
        """Which planes have a place."""
        return self._image >= 0

    def lay(self, pages: PageMap, start: int, rows: Iterable[tuple[int, Sequence[int]]] | None) -> None:
        """Lay the planes of one file.

        Parameters
        ----------
        pages : PageMap
            Its pages.
        start : int
            Number of its first plane.
        rows : iterable of (int, sequence of int)
            Image, and its ``TiffData``, five numbers each; None to lay all images one after the other,
            as a document without any ``TiffData`` has it.

        Raises
        ------
        FormatError
            The document names pages again and again.
        """
        image = np.full(pages.pages, -1, np.int64)
        linear = np.zeros(pages.pages, np.int64)
        following = 0
        room = 4 * pages.pages + 64  # honest files name each page once
        if rows is None:
            for number, shape in enumerate(self._shapes):
                count = min(prod(shape), pages.pages - following)
                image[following : following + count] = number
                linear[following : following + count] = np.arange(count)
                following += count
        else:
            for number, numbers in rows:
                room = self._lay_rows(image, linear, number, numbers, room)
        if pages.is_stack:
            return
        listed = pages.plane_of_page >= 0
        planes = start + pages.plane_of_page[listed]
        self._image[planes], self._linear[planes] = image[listed], linear[listed]

    def finish(self) -> None:
        """Count the images once all files are laid."""
        self.used = [int(i) for i in np.unique(self._image[self.known])]
        self.main = self._images[self.used[0]] if self.used else self._images[0]

    def _lay_rows(
        self, image: np.ndarray, linear: np.ndarray, number: int, rows: Sequence[int], room: int
    ) -> int:
        dims, shape = self._images[number].order[2:], self._shapes[number]
        total, pages = prod(shape), len(image)
        for at in range(0, len(rows), 5):
            ifd, count, *first = rows[at : at + 5]
            by_axis = dict(zip("CZT", first, strict=True))
            if by_axis["C"] >= shape[dims.index("C")]:
                by_axis["C"] //= self._samples[number]
            place = [by_axis[axis] for axis in dims]
            if any(index >= extent for index, extent in zip(place, shape, strict=True)):
                continue
            begin = place[0] + shape[0] * (place[1] + shape[1] * place[2])
            planes = count if count >= 0 else 1 if ifd >= 0 else pages
            planes = min(planes, total - begin, pages - max(ifd, 0))
            room -= max(1, planes)
            if room < 0:
                raise FormatError("its OME-XML names pages again and again")
            if planes > 0:
                page = max(ifd, 0)
                image[page : page + planes] = number
                linear[page : page + planes] = np.arange(begin, begin + planes)
        return room

    def places(self) -> Places | None:
        """Places along ``p`` (images) and the dimensions, slowest first."""
        if not self.used:
            return None
        known = self.known
        image, linear = np.where(known, self._image, self.used[0]), np.where(known, self._linear, 0)
        index = np.zeros((len(image), 4), np.int64)
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
        names = ["p", "t", "c", "z"]
        columns: list[np.ndarray] = [index[:, i] for i in range(index.shape[1])]
        self._split(names, extents, columns)
        places = np.stack(columns, axis=1)
        return Places(tuple(names), tuple(extents), places, self._declared(), known)

    def _declared(self) -> int:
        """Planes that the used images promise."""
        elsewhere = [0 if self._together else self._images[n].elsewhere for n in self.used]
        return sum(max(0, prod(self._shapes[n]) - e) for n, e in zip(self.used, elsewhere, strict=True))

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
        if not any(self._images[number].facts for number in self.used):
            return
        wanted: dict[tuple[int, int], int] = {}
        for plane in np.flatnonzero(self.known).tolist():
            wanted[int(self._image[plane]), int(self._linear[plane])] = plane
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
