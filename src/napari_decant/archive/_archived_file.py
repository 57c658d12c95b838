"""One original file as its archive holds it: where its bytes and its pages are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from napari_decant.archive._geometry import ByteOrder, PageLayout
from napari_decant.archive._layout import Regions, regions_of
from napari_decant.engine import ZarrArray
from napari_decant.tiff._axes import canonical_permutation

__all__ = ["ArchivedFile"]


@dataclass(frozen=True, eq=False)
class ArchivedFile:
    """One original file inside an archive and what is needed to rebuild it.

    A file kept verbatim is one whose husk is the whole file.

    Attributes
    ----------
    name : str
        POSIX path of the file below the folder that it is restored into.
    size, sha256 : int, str
        Of the original.
    byteorder : {"<", ">"}
        Of its pixels.
    husk : ZarrArray or None
        None if the husk is empty.
    husk_size : int
        Bytes.
    pixels : ZarrArray or None
        None if no page is listed.
    pages : sequence of PageLayout
    indices : sequence or array of int
        Storage position of each page in the pixel array.
    plane_order : sequence of str
    """

    name: str
    size: int
    sha256: str
    byteorder: ByteOrder
    husk: ZarrArray | None
    husk_size: int
    pixels: ZarrArray | None = None
    pages: Sequence[PageLayout] = ()
    indices: Sequence[int] | np.ndarray = ()
    plane_order: Sequence[str] = ()

    @cached_property
    def regions(self) -> Regions:
        """Pixel regions of the file in offset order."""
        return regions_of(self.pages)

    def coordinate(self, page: int) -> tuple[int, ...]:
        """Leading array coordinate of a page (section 5, ``read_page``)."""
        assert self.pixels is not None
        leading = self.pixels.shape[: len(self.pixels.shape) - len(self.pages[page].shape)]
        if not self.plane_order:
            return tuple(int(i) for i in np.unravel_index(self.indices[page], leading))
        perm = canonical_permutation(self.plane_order)
        storage_shape = [leading[perm.index(i)] for i in range(len(perm))]
        position = np.unravel_index(self.indices[page], storage_shape)
        return tuple(int(position[axis]) for axis in perm)
