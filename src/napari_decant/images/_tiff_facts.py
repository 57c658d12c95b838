"""Pixel sizes, units and channels that a TIFF's own metadata state, as they are read for packing, too."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Any

from napari_decant.errors import FormatError
from napari_decant.ngff import Channel
from napari_decant.ngff._zarr_json import load_json
from napari_decant.stores import PositionalFile
from napari_decant.tiff import Places, PlaneListing, PlaneSamples, list_pages
from napari_decant.tiff.dialects import Reading, TagReader, read_dialects

__all__ = ["TiffFacts", "has_doctype", "tiff_facts"]

logger = logging.getLogger(__name__)
_MAX_ANNOTATION = 1 << 20
_PHOTOMETRIC = 262
_MAX_PLANES = 1 << 22  # of a stack that is only declared


@dataclass(slots=True)
class TiffFacts:
    """What the metadata say; only what they do say.

    Attributes
    ----------
    spacing : dict of str to float
        Of ``x``, ``y``, ``z`` in micrometers and ``t`` in seconds.
    units : dict of str to str
        ``"micrometer"`` and ``"second"`` for the same names.
    channels : tuple of Channel
        In the order of the channel axis.
    name : str or None
        Of the image.
    inverted : bool
        Low values are bright.
    dialect : str
        As `Reading.dialect`.
    decant : dict
        What this program has recorded in a file that it wrote.
    notes : tuple of str
        What could not be read, for the user.
    places : Places, optional
        Where the planes belong.
    """

    spacing: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    name: str | None = None
    inverted: bool = False
    dialect: str = ""
    decant: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    places: Places | None = None


def has_doctype(text: str) -> bool:
    """Whether XML defines entities, which is how a few bytes ask for gigabytes; such text is never parsed."""
    return "<!DOCTYPE" in text or "<!ENTITY" in text


def tiff_facts(file: PositionalFile, series: Any) -> TiffFacts:
    """Read the facts of one series of a TIFF.

    Parameters
    ----------
    file : PositionalFile
        The file; nothing else is opened.
    series : tifffile.TiffPageSeries
        Tells which pages are meant.

    Returns
    -------
    TiffFacts
        Empty where nothing is stated.

    Raises
    ------
    FormatError, BudgetExceeded
        A directory is cut short, or the metadata are larger than those of any honest file.
    """
    tags = TagReader(file, _listing(file, series))
    reading = read_dialects(tags)
    return TiffFacts(
        {axis: size for axis, (size, _) in reading.steps.items()},
        {axis: unit for axis, (_, unit) in reading.steps.items()},
        _channels(reading, tags.samples),
        reading.name or None,
        tags.integers(_PHOTOMETRIC, tags.first_listed) == [0] and tags.samples == 1,
        reading.dialect,
        _recorded(reading),
        tuple(reading.notes),
        reading.places,
    )


def _listing(file: PositionalFile, series: Any) -> PlaneListing:
    page = series.keyframe
    offsets = [int(page.offset) for page in series.pages if page is not None]
    if len(offsets) == 1:
        # one directory stands for a stack
        count = math.prod(series.shape) // max(1, math.prod(page.shape))
        offsets *= max(1, min(count, file.size // max(1, page.nbytes), _MAX_PLANES))

    def read(offset: int, length: int) -> bytes:
        return file.read_at(offset, min(length, file.size - offset)) if 0 <= offset < file.size else b""

    planes = [PlaneSamples(int(page.samplesperpixel))] * len(offsets)
    return PlaneListing(planes, offsets, lambda: list_pages(read, file.size))


def _channels(reading: Reading, samples: int) -> tuple[Channel, ...]:
    """Channels of the planes that are here, without those that lie in other files of a set."""
    here = slice(None)
    places = reading.places
    if samples == 1 and places is not None and "c" in places.names:
        numbers = places.index[:, places.names.index("c")]
        here = slice(int(numbers.min()), int(numbers.max()) + 1)
    return tuple(
        Channel(each.label or None, each.color or None, _window(each.window), inverted=each.inverted)
        for each in reading.channels[here]
    )


def _window(window: tuple[float, float] | None) -> tuple[float, float] | None:
    if window is None or not all(map(math.isfinite, window)) or window[0] >= window[1]:
        return None
    return window


def _recorded(reading: Reading) -> dict[str, Any]:
    """What `write_ome_tiff` has put into an annotation."""
    if not reading.recorded:
        return {}
    try:
        found = load_json(reading.recorded.encode(), "the annotation", max_bytes=_MAX_ANNOTATION)
    except FormatError as error:
        logger.warning("what napari-decant has recorded in the file is not used: %s", error)
        return {}
    return found if isinstance(found, dict) else {}
