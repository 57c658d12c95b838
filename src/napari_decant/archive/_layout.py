"""Plan one file: which planes are listed, which bytes are husk, or why it is kept verbatim."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from napari_decant.archive._geometry import ByteOrder, PageLayout
from napari_decant.archive._page_table import MAX_PLANES, PageTable, is_listable
from napari_decant.archive._pages import Page, Reason, read_page
from napari_decant.tiff._ifd import Ifd, NotTiff, ReadAt, TiffDirectory, read_directory

__all__ = ["FileLayout", "Regions", "plan_file", "regions_of"]

_IMAGE_DESCRIPTION = 270
_STK_PLANES = 33629  # UIC2: its count is the number of planes behind the one directory
_IMAGEJ_IMAGES = re.compile(rb"^images=(\d{1,9})\s*$", re.MULTILINE)
_IMAGEJ_CHANNELS = re.compile(rb"^channels=(\d{1,9})\s*$", re.MULTILINE)
_SHAPED = re.compile(rb'^\{"shape": \[([\d, ]{1,400})\]')


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What will be listed of one file.

    Attributes
    ----------
    size : int
        File size in bytes.
    byteorder : {"<", ">"}
        Of the pixels in the file.
    planes : list of PageLayout
        Listed planes of one shape and dtype in file order; empty means verbatim.
    ifd_offsets : list of int
        Directory of each plane (several planes share it where one directory stands for a stack).
    reason : str or None
        Why the file is kept verbatim (a code of `Reason`).
    anomaly : str or None
        Why the walk through the directories ended early.
    page_offsets : list of int
        Directory of every page of the file in the order of its links, listed or not.
    left_out : str or None
        How many pages the image lacks, and why.
    """

    size: int
    byteorder: ByteOrder = "<"
    planes: Sequence[PageLayout] = ()
    ifd_offsets: Sequence[int] = ()
    reason: str | None = None
    anomaly: str | None = None
    page_offsets: Sequence[int] = ()
    left_out: str | None = None

    @property
    def pixel_bytes(self) -> int:
        """Bytes of all listed planes."""
        return sum(plane.nbytes for plane in self.planes)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The pixel regions of a file in ascending offset order (section 5), as int64 columns.

    Attributes
    ----------
    offset, length : numpy.ndarray
        File range.
    page : numpy.ndarray
        Which of the given layouts it belongs to.
    position : numpy.ndarray
        Where it starts in that page's serialised bytes.
    """

    offset: np.ndarray
    length: np.ndarray
    page: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.offset)

    def gaps(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and lengths of the husk's pieces: what lies between the regions (section 4)."""
        starts = np.concatenate([[0], self.offset + self.length])
        stops = np.concatenate([self.offset, [size]])
        some = stops > starts
        return starts[some], (stops - starts)[some]


def regions_of(planes: Sequence[PageLayout]) -> Regions:
    """Sort the segments of all planes by file offset."""
    if not len(planes):
        none = np.zeros(0, np.int64)
        return Regions(none, none, none, none)
    if isinstance(planes, PageTable):
        offset, length, segments = planes.segments
    else:
        offset = np.concatenate([plane.offsets for plane in planes])
        length = np.concatenate([plane.counts for plane in planes])
        segments = np.array([len(plane.offsets) for plane in planes])
    page = np.repeat(np.arange(len(planes)), segments)
    end = np.cumsum(length)
    page_start = np.concatenate([[0], end[np.cumsum(segments) - 1][:-1]])
    position = end - length - np.repeat(page_start, segments)
    if bool((offset[1:] >= offset[:-1]).all()):  # as most writers leave it
        return Regions(offset, length, page, position)
    order = np.argsort(offset, kind="stable")
    return Regions(offset[order], length[order], page[order], position[order])


def plan_file(read: ReadAt, size: int) -> FileLayout:
    """Decide what becomes of one file; never raises for what the file holds.

    Parameters
    ----------
    read : callable
        ``read(offset, length)``.
    size : int
        File size in bytes.
    """
    if size == 0:
        return FileLayout(size, reason=Reason.EMPTY)
    try:
        directory = read_directory(read, size)
    except NotTiff:
        return FileLayout(size, reason=Reason.NOT_TIFF)
    pages = [read_page(directory, ifd) for ifd in directory.pages]
    if not pages:
        return FileLayout(size, reason=Reason.NO_PAGES, anomaly=directory.anomaly)
    planes = _expand(directory, pages)
    if planes is None:
        return FileLayout(size, directory.byteorder, reason=Reason.TOO_MANY, anomaly=directory.anomaly)
    chosen, overlap = _largest_group(planes)
    listed = sum(plane.nbytes for plane, _ in chosen)
    found = sum(page.image_bytes for page in pages) + sum(plane.nbytes for plane, _ in planes)
    found -= sum(page.layout.nbytes for page in pages if page.layout is not None)
    if not chosen or found - listed > listed:
        reason = _dominant_reason(pages, bool(chosen), overlap)
        return FileLayout(size, directory.byteorder, reason=reason, anomaly=directory.anomaly)
    if not is_listable(len(chosen), sum(len(plane.offsets) for plane, _ in chosen)):
        return FileLayout(size, directory.byteorder, reason=Reason.TOO_MANY, anomaly=directory.anomaly)
    return FileLayout(
        size,
        directory.byteorder,
        [plane for plane, _ in chosen],
        [offset for _, offset in chosen],
        anomaly=directory.anomaly,
        page_offsets=[ifd.offset for ifd in directory.pages],
        left_out=_left_out(pages, chosen[0][0], len(chosen)),
    )


def _left_out(pages: Sequence[Page], first: PageLayout, listed: int) -> str | None:
    """Say how many pages the image lacks: those that cannot be listed, other than thumbnails and the like."""
    reasons = [page.reason for page in pages if page.reason is not None]
    alike = [page.layout for page in pages if page.layout is not None]
    shared = sum(each.shape == first.shape and each.dtype == first.dtype for each in alike) - listed
    reasons += [Reason.OVERLAP] * shared
    if not reasons:
        return None
    what = "1 page is" if len(reasons) == 1 else f"{len(reasons):,} pages are"
    why = ", ".join(dict.fromkeys(reasons))
    return f"{what} not part of the image ({why}), and restored all the same"


_Plane = tuple[PageLayout, int]


def _expand(directory: TiffDirectory, pages: Sequence[Page]) -> list[_Plane] | None:
    """List planes: one a page, or many where a single directory stands for a contiguous stack.

    None for a stack of more planes than can be listed.
    """
    listable = [(page.layout, page.ifd.offset) for page in pages if page.layout is not None]
    if len(pages) != 1 or len(listable) != 1:
        return listable
    layout, ifd_offset = listable[0]
    count = _planes_behind(directory, pages[0].ifd, layout)
    if count > MAX_PLANES:
        return None  # before as many objects are made
    return [
        (replace(layout, offsets=layout.offsets + i * layout.nbytes) if i else layout, ifd_offset)
        for i in range(count)
    ]


def _planes_behind(directory: TiffDirectory, ifd: Ifd, layout: PageLayout) -> int:
    """Number of planes that follow each other from the page's first byte (ImageJ, STK, tifffile's own).

    More than 4 GB of ImageJ planes have only one directory; so have STK files and the stacks
    that tifffile writes contiguously.
    """
    if len(layout.offsets) != 1 or layout.tilewidth:
        return 1
    count = 1
    stk = ifd.tags.get(_STK_PLANES)
    tag = ifd.tags.get(_IMAGE_DESCRIPTION)
    text = directory.text(tag, 1 << 16) if tag else b""
    if stk is not None:
        count = stk.count
    elif text.startswith(b"ImageJ="):
        count = _imagej_images(text, layout.samples)
    elif shaped := _SHAPED.match(text):
        extents = [int(n) for n in shaped[1].split(b",") if n.strip()]
        pixels = 1
        for extent in extents:
            pixels *= extent
        count, rest = divmod(pixels * layout.dtype.itemsize, layout.nbytes)
        count = count if rest == 0 else 1
    fit = (directory.size - int(layout.offsets[0])) // layout.nbytes
    if count > fit and all(tag.offset < int(layout.offsets[0]) for tag in ifd.tags.values()):
        return max(1, fit)  # a stack that was cut short: nothing but planes lies behind the first one
    return count if 0 < count <= fit else 1


def _imagej_images(text: bytes, samples: int) -> int:
    """Number of pages that an ImageJ description speaks of."""
    match = _IMAGEJ_IMAGES.search(text)
    channels = _IMAGEJ_CHANNELS.search(text)
    images = int(match[1]) if match else 1
    # The samples of a planar composite count as images, and one page holds them all.
    planar = samples > 1 and channels is not None and int(channels[1]) == samples
    return max(1, images // samples) if planar else images


def _largest_group(planes: Sequence[_Plane]) -> tuple[list[_Plane], bool]:
    """The planes of one shape and dtype with the most bytes, and whether overlaps cost any."""
    overlap = False
    while True:
        groups: dict[tuple[tuple[int, ...], str], list[_Plane]] = {}
        for plane in planes:
            groups.setdefault((plane[0].shape, plane[0].dtype.str), []).append(plane)
        if not groups:
            return [], overlap
        best = max(groups.values(), key=lambda group: group[0][0].nbytes * len(group))
        shared = _overlapping([plane for plane, _ in best])
        if not shared:
            return best, overlap
        overlap = True
        drop = {id(best[i]) for i in shared}
        planes = [plane for plane in planes if id(plane) not in drop]


def _overlapping(planes: Sequence[PageLayout]) -> set[int]:
    """Planes that share bytes with another one, or with themselves."""
    regions = regions_of(planes)
    if len(regions) < 2:
        return set()
    ends = regions.offset + regions.length
    reach = np.maximum.accumulate(ends)
    clash = np.flatnonzero(regions.offset[1:] < reach[:-1]) + 1
    if not len(clash):
        return set()
    # the region that reaches furthest before each clash is the other party
    furthest = np.maximum.accumulate(np.where(ends == reach, np.arange(len(ends)), 0))
    return set(regions.page[clash].tolist()) | set(regions.page[furthest[clash - 1]].tolist())


def _dominant_reason(pages: Sequence[Page], some_listed: bool, overlap: bool) -> str:
    """The reason that holds for most of the image data that cannot be listed."""
    weight: dict[str, int] = {}
    for page in pages:
        if page.reason is not None:
            weight[page.reason] = weight.get(page.reason, 0) + page.image_bytes
    if overlap and not some_listed:
        return Reason.OVERLAP
    if not weight:
        return Reason.OVERLAP if overlap else Reason.MIXED
    return max(weight, key=lambda reason: weight[reason])
