"""What a file of the tests' TIFF writer looks like, and what an archive of it must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["Ints", "Mode", "Order", "Page", "TiffSpec", "WrittenTiff", "expectation", "ramp", "reduced_shape"]

Order = Literal["forward", "reverse", "shuffled"]
Mode = Literal["byte-exact", "verbatim", "either"]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TiffSpec:
    """What a file looks like; the defaults are a plain single-page file."""

    pages: int = 1
    height: int = 12
    width: int = 17
    samples: int = 1
    dtype: str = "uint16"
    planar: bool = False
    values: Literal["ramp", "bits"] = "ramp"
    byteorder: Literal["<", ">"] = "<"
    bigtiff: bool = False
    rows_per_strip: int | None = None
    """None: one strip, and no RowsPerStrip tag."""
    tile: tuple[int, int] | None = None
    """Rows and columns of a tile; edge tiles are filled up with noise."""
    page_order: Order = "forward"
    segment_order: Order = "forward"
    interleave: bool = False
    """The first segments of all pages come before the second segments."""
    gap: int = 0
    """Up to that many bytes of noise before each segment and directory."""
    ifd: Literal["before", "after", "scattered"] = "before"
    sorted_tags: bool = True
    private_tags: int = 0
    trailing: int = 0
    thumbnail: bool = False
    """One more page, of a quarter of the size."""
    subifds: int = 0
    """Reduced images below each page, in a SubIFDs tag."""
    excess: int = 0
    """The byte counts say so much more than the geometry needs."""
    fault: Literal["", "short", "shared", "overlap", "sparse", "past-end"] = ""
    miniswhite: bool = False
    fill_order: int = 1
    predictor: int = 1
    deflate: bool = False
    bits: int | None = None
    """Depth of packed samples, 1 or 12, for unsigned integers."""
    imagej: bool = False
    """One directory; the planes follow one another, and their number is in the description."""
    description: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Page:
    """Where the pixels of a page lie, as the archive format's page record has it."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    dataoffsets: Ints
    databytecounts: Ints
    samplesperpixel: int
    planarconfig: int
    rowsperstrip: int
    tilewidth: int
    tilelength: int


@dataclass(frozen=True)
class WrittenTiff:
    """The file, what its listed pages show, and which mode an archive of it must have."""

    path: Path
    spec: TiffSpec
    array: npt.NDArray[Any]
    """Shape (pages, Y, X) or (pages, Y, X, S), native byte order."""
    pages: tuple[Page, ...]
    mode: Mode
    why: str
    """What rules out mode byte-exact, in a word; empty where nothing does."""
    listed: tuple[int, ...] = ()
    """Which pages an archive lists, if it is byte-exact."""
    known: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    """Planes of a sparse file that are not zero; ``array`` is empty then."""


def ramp(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Pixels that are never zero and differ from their neighbours: ``1 + linear index mod m``."""
    kind = np.dtype(dtype)
    if kind.kind == "c":
        part = ramp(shape, np.float32 if kind.itemsize == 8 else np.float64)
        whole = np.empty(shape, kind)
        whole.real, whole.imag = part, -part
        return whole
    top = {"u": 2 ** (8 * kind.itemsize) - 1, "i": 2 ** (8 * kind.itemsize - 1) - 1, "f": 2000}[kind.kind]
    index = np.arange(int(np.prod(shape)), dtype=np.uint64) % np.uint64(min(top, 65535)) + np.uint64(1)
    values = index.astype(kind)
    if kind.kind in "ui" and kind.itemsize > 2:
        values |= np.asarray(0x0102 << (8 * (kind.itemsize - 2)), kind)  # a number in every byte
    return values.reshape(shape)


def expectation(spec: TiffSpec) -> tuple[Mode, str, tuple[int, ...]]:
    """Return the mode that an archive has by the design, why, and which pages it lists.

    Pages that cannot be listed stay in the husk, and so do reduced images; the file is verbatim if they
    weigh more than the pages that are listed. Where that is a close call, the mode is "either".
    """
    for trouble, why in (
        (spec.deflate, "compressed"),
        (spec.predictor != 1, "predictor"),
        (spec.fill_order != 1, "fill order"),
        (spec.bits is not None or np.dtype(spec.dtype).itemsize > 8, "depth"),
    ):
        if trouble:
            return "verbatim", why, ()
    directories = 1 if spec.imagej else spec.pages
    page, small = spec.height * spec.width, int(np.prod(reduced_shape(spec)))
    faulty: tuple[int, ...] = ()
    if spec.fault in ("short", "sparse", "past-end") or (spec.fault and _segment_count(spec) > 1):
        faulty = (0,)
    elif spec.fault and directories > 1:
        faulty = (0, 1)
    if spec.fault == "overlap" and directories > 1:
        return "either", "the overlap may reach into any other page", ()
    if spec.fault and not faulty and (spec.thumbnail or spec.subifds):
        return "either", "a page shares bytes with a reduced image", ()
    good = tuple(n for n in range(spec.pages) if n not in faulty and not (spec.imagej and faulty))
    listed, reduced = len(good) * page, (spec.thumbnail + spec.subifds * directories) * small
    if spec.thumbnail and (small == page or small >= listed or spec.imagej):
        return "either", "the thumbnail may be what is listed", ()
    segment = spec.tile[0] * spec.tile[1] if spec.tile else page
    unlisted = (spec.pages - len(good)) * (segment * spec.samples + spec.excess) * _segment_count(spec)
    if not good or reduced > listed:
        return "verbatim", spec.fault, ()
    if reduced + unlisted >= listed:
        return "either", "what is not listed may weigh more", good
    return "byte-exact", "", good


def reduced_shape(spec: TiffSpec) -> tuple[int, int]:
    return max(1, spec.height // 4), max(1, spec.width // 4)


def _segment_count(spec: TiffSpec) -> int:
    planes = spec.samples if spec.planar else 1
    if spec.tile is not None:
        return planes * -(-spec.height // spec.tile[0]) * -(-spec.width // spec.tile[1])
    return planes * -(-spec.height // (spec.rows_per_strip or spec.height))
