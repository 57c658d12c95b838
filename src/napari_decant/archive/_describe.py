"""What the file's own metadata says of its planes: their order, axes, sizes, channels.

tifffile knows the dialects (OME, ImageJ, Micro-Manager, STK, LSM, ...). Whatever it cannot
read, or reads in contradiction to the page layout, is left out: metadata never stops packing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from napari_decant.archive._axes import Axes, axes_of_letters, flat_axes
from napari_decant.archive._layout import FileLayout
from napari_decant.stores._positional import PositionalFile
from napari_decant.stores._stream import PositionalStream

__all__ = ["Channel", "Description", "describe"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Channel:
    """How one channel is called and shown."""

    label: str = ""
    color: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """Where planes belong and what they measure.

    Attributes
    ----------
    axes : Axes
        Leading axes.
    order : sequence of int
        For each storage position, which plane of the layout lies there.
    spacing : dict
        Physical size of a pixel along ``x``, ``y``, ``z`` and of a step in ``t``.
    units : dict
        NGFF unit of each of them.
    channels : tuple of Channel
        In the order of the channel axis.
    dialect : str
        ``"ome"``, ``"imagej"``, ...
    inverted : bool
        Min-is-white: a matter of display, the values stay.
    notes : tuple of str
        What was not understood, for the report.
    """

    axes: Axes
    order: Sequence[int]
    spacing: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    dialect: str = ""
    inverted: bool = False
    notes: tuple[str, ...] = ()


def describe(file: PositionalFile, layout: FileLayout) -> Description:
    """Read the metadata of a file whose planes are listed in ``layout``."""
    import tifffile

    from napari_decant.archive._physical import physical_facts

    plain = Description(flat_axes(len(layout.planes)), range(len(layout.planes)))
    try:
        # A file object, and no following of links to other files: only this file is read.
        with (
            PositionalStream(file) as stream,
            tifffile.TiffFile(stream, name="input.tif", _multifile=False) as tif,
        ):
            described = _place(tif, layout) or plain
            return replace(described, **physical_facts(tif, described.axes, layout.planes[0].samples))
    except Exception as error:  # noqa: BLE001 - any fault of foreign metadata; the bytes are safe without it
        logger.warning(
            "the metadata of %s could not be read (%s); its planes are packed in file order", file.uri, error
        )
        return replace(plain, notes=(f"the file's metadata could not be read: {error}",))


def _place(tif: Any, layout: FileLayout) -> Description | None:
    """Axes from the series that holds exactly the listed planes; None if there is none."""
    index: dict[int, int] = {}
    for i, offset in enumerate(layout.ifd_offsets):
        index.setdefault(offset, i)
    stack = len(index) == 1 and len(layout.planes) > 1
    parts: list[tuple[str, tuple[int, ...], list[int]]] = []
    for series in tif.series:
        order = (
            list(range(len(layout.planes)))
            if stack
            else [index.get(_offset(page), -1) for page in series.pages]
        )
        if not order or -1 in order:
            continue
        leading = [
            (letter, extent)
            for letter, extent in zip(series.axes, series.shape, strict=True)
            if letter not in "YXS"
        ]
        shape = tuple(int(extent) for _, extent in leading)
        if prod(shape) == len(order):
            parts.append(("".join(letter for letter, _ in leading), shape, order))
    if not parts:
        return None
    letters, shape, order = parts[0]
    if len(parts) > 1 and all(part[:2] == parts[0][:2] for part in parts):
        # several images of one kind, such as the positions of a stage
        letters, shape = "P" + letters, (len(parts), *shape)
        order = [i for part in parts for i in part[2]]
    if sorted(order) != list(range(len(layout.planes))):
        return None
    axes: Axes = axes_of_letters(letters, shape, samples=layout.planes[0].samples > 1)
    return Description(axes, order)


def _offset(page: Any) -> int:
    return int(page.offset) if page is not None else -1
