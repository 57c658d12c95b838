"""TIFF files as images, page by page and never following a link to another file."""

from __future__ import annotations

import logging
import math
import re
import threading
from typing import Any

from napari_decant.errors import ChoiceNeeded, DecantError, FormatError, UsageError
from napari_decant.images._affine import placed, recorded_affine
from napari_decant.images._cache import ChunkCache
from napari_decant.images._image import Image
from napari_decant.images._lazy import ArrayLimits, ChunkSource, LazyArray
from napari_decant.images._tiff_axes import Regrouped, named_axes, stack_grid
from napari_decant.images._tiff_facts import TiffFacts, has_doctype, tiff_facts
from napari_decant.images._tiff_source import PageSource, RawSource, WithAxis
from napari_decant.images._tiff_structure import StructureStream, declared_planes
from napari_decant.ngff import Axis, ImageEntry, LabelInfo
from napari_decant.stores import PositionalFile

__all__ = ["TiffImages"]

logger = logging.getLogger(__name__)
_DOMINANT = (
    0.75  # one series with this share of all pixels is the image; the rest are thumbnails, labels, masks
)
_MAX_SERIES = 100_000
_MAX_PLANES = 10_000_000  # as many are listed if the metadata speak of them, in the file or not
_IMAGEJ_COUNT = re.compile(r"ImageJ=[^\n]*\n(?:.*\n)*?images=(\d{1,12})\b")


class TiffImages:
    """The series of one TIFF file.

    Parameters
    ----------
    file : PositionalFile
        The file; local, remote, or an original inside an archive. It is closed with the last array that
        reads from it.
    name : str
        File name, for people and for telling dialects apart.
    uri : str, optional
        What images call their origin.
    cache, limits : optional
        See `LazyArray`.

    Raises
    ------
    FormatError
        It is no TIFF, or its structure is damaged.
    """

    def __init__(
        self,
        file: PositionalFile,
        name: str,
        *,
        uri: str | None = None,
        cache: ChunkCache | None = None,
        limits: ArrayLimits | None = None,
    ) -> None:
        self._file, self._name, self._uri = file, name, uri or file.uri
        self._cache, self._limits = cache, limits
        self._lock = threading.Lock()
        self._warnings: list[str] = []
        try:
            self._tif = self._open()
            self._series = self._read_series()
        except BaseException:
            file.close()
            raise

    def _open(self, **flags: Any) -> Any:
        import tifffile

        self._stream = StructureStream(self._file)
        stream: Any = self._stream
        try:
            # A file object, and _multifile off: nothing but this file is opened, whatever its metadata name.
            return tifffile.TiffFile(stream, name=self._name, _multifile=False, **flags)
        except (DecantError, MemoryError):
            raise
        except Exception as error:
            raise FormatError(f"{self._uri} is no TIFF file that can be read: {str(error)[:200]}") from error

    def _read_series(self) -> list[Any]:
        try:
            text = self._tif.pages.first.description or ""
            if has_doctype(text):
                self._warnings.append("the XML of the file defines entities, so it is not looked at")
                self._tif = self._open(is_ome=False)
            elif (planes := declared_planes(text)) > _MAX_PLANES:
                self._warnings.append(f"its OME metadata speaks of {planes:,} planes, so it is not looked at")
                self._tif = self._open(is_ome=False)
            series = list(self._tif.series)[:_MAX_SERIES]
            absent = sum(page is None for s in series for page in s.pages)
            if absent:
                total = sum(len(s.pages) for s in series)
                self._warnings.append(
                    f"{absent:,} of {total:,} declared planes are not in this file; its planes are shown"
                    " as stored"
                )
                self._tif = self._open(is_ome=False)
                series = list(self._tif.series)[:_MAX_SERIES]
            series = [s for s in series if all(isinstance(n, int) and n > 0 for n in s.shape)]
            self._check_declared(series)
        except (DecantError, MemoryError):
            raise
        except Exception as error:
            raise FormatError(f"the pages of {self._uri} cannot be read: {str(error)[:200]}") from error
        if not series:
            raise FormatError(f"{self._uri} holds no image")
        self._stream.released()
        return series

    def _check_declared(self, series: list[Any]) -> None:
        """Say so where ImageJ's description counts more planes than the file has."""
        match = _IMAGEJ_COUNT.match(self._tif.pages.first.description or "")
        declared = int(match.group(1)) if match is not None else 0
        shown = sum(math.prod(s.shape) // max(1, math.prod(s.keyframe.shape)) for s in series)
        if declared > shown:
            self._warnings.append(
                f"the file declares {declared:,} planes and holds {shown:,}; it may have been cut short"
            )

    def list_images(self) -> list[ImageEntry]:
        """See `ImageSource.list_images`."""
        return [
            ImageEntry(
                name=f"{i} - {s.name}" if s.name else str(i),
                path=str(i),
                shape=tuple(int(n) for n in s.shape),
                dtype=str(s.dtype),
                axes=str(s.axes).lower(),
                levels=len(s.levels),
            )
            for i, s in enumerate(self._series)
        ]

    def open(self, image: str | None) -> Image:
        """See `ImageSource.open`."""
        index = self._choose(image)
        series = self._series[index]
        warnings = list(self._warnings)
        try:
            facts = tiff_facts(self._file, series)
            warnings += facts.notes
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001
            warnings.append(
                f"the metadata of the file cannot be read ({str(error)[:200]}); pixel sizes are unknown"
            )
            facts = TiffFacts()
        if image is None and len(self._series) > 1:
            warnings.append(f"the file holds {len(self._series)} images; the largest is shown")
        for text in warnings:
            logger.warning("%s: %s", self._uri, text)
        return self._image(index, series, facts, warnings)

    def close(self) -> None:
        """See `ImageSource.close`."""
        self._file.close()

    def _choose(self, image: str | None) -> int:
        if image is not None:
            if image.isdigit() and int(image) < len(self._series):
                return int(image)
            raise UsageError(
                f"{self._uri} has no image {image!r}; there are {len(self._series)}, numbered from 0"
            )
        sizes = [math.prod(s.shape) * s.dtype.itemsize for s in self._series]
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        if sizes[largest] < _DOMINANT * sum(sizes):
            raise ChoiceNeeded(
                f"{self._uri} holds {len(self._series):,} images; name one of them by its number",
                tuple(self.list_images()),
            )
        return largest

    def _image(self, index: int, series: Any, facts: TiffFacts, warnings: list[str]) -> Image:
        told = letters = str(series.axes)
        flat = letters.find("Y") if _lacks_depth(facts, letters) else None
        grid = None if flat is not None else stack_grid(facts, letters, series.shape)
        levels: list[LazyArray] = []
        for level in series.levels:
            try:
                source = self._source(level)
                whole: ChunkSource = source if flat is None else WithAxis(source, flat)
                if grid is not None:
                    whole = Regrouped(source, grid)
                array = LazyArray(whole, self._cache, self._limits)
            except (FormatError, ValueError) as error:
                if not levels:
                    raise
                warnings.append(f"a smaller level is left out: {error}")
                continue
            if str(level.axes) == told and array.dtype == series.dtype.newbyteorder("="):
                levels.append(array)
        letters = letters if flat is None else f"{letters[:flat]}Z{letters[flat:]}"
        letters = letters if grid is None else f"{grid.letters}YX"
        axes = named_axes(letters, facts, grid)
        rgb, channel_axis, order = _colour(letters, levels[0].shape)
        if order is not None:
            levels = [level.transpose(order) for level in levels]
            axes = tuple(axes[i] for i in order)
        base, start = _place(axes, levels[0].shape, facts)
        scales = [
            tuple(
                s * a / b if b and a != b else s
                for s, a, b in zip(base, levels[0].shape, level.shape, strict=True)
            )
            for level in levels
        ]
        # Levels made by averaging: the centre of a coarse pixel lies between those that it was made of.
        shifts = [
            tuple(t + (a - s) / 2 for t, a, s in zip(start, scale, base, strict=True)) for scale in scales
        ]
        labels = facts.decant.get("labels") is True and levels[0].dtype.kind in "iu"
        name = facts.name or self._name
        return Image(
            name=name if len(self._series) == 1 or facts.name else f"{self._name} [{index}]",
            uri=self._uri,
            path=str(index),
            axes=axes,
            levels=tuple(levels),
            scales=tuple(scales),
            translations=tuple(shifts),
            channels=_channels(facts, channel_axis),
            channel_axis=channel_axis,
            is_rgb=rgb,
            label=LabelInfo() if labels else None,
            warnings=tuple(warnings),
            decant=facts.decant,
            _close=self._file.close,
        )

    def _source(self, level: Any) -> RawSource | PageSource:
        page = level.keyframe
        if level.dataoffset is not None and page.compression == 1 and page.fillorder == 1:
            whole = page.bitspersample in (8, 16, 32, 64) and page.sampleformat in (1, 2, 3, None)
            if whole and not page.is_tiled and page.dtype == level.dtype:
                dtype = level.dtype.newbyteorder(self._tif.byteorder)
                frame = min(len(page.shape), len(level.shape))
                return RawSource(self._file, int(level.dataoffset), level.shape, dtype, frame)
        return PageSource(self._file, level, self._lock)


def _lacks_depth(facts: TiffFacts, letters: str) -> bool:
    """Whether a single plane lies somewhere in a volume, which takes an axis that TIFF readers drop."""
    record = facts.decant.get("affine")
    named = record.get("axes") if isinstance(record, dict) else None
    return isinstance(named, list) and "z" in named and "Z" not in letters and letters.endswith(("YX", "YXS"))


def _place(
    axes: tuple[Axis, ...], shape: tuple[int, ...], facts: TiffFacts
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Scale and translation of level 0; where the file records the place of a crop, those of that."""
    base, start = [facts.spacing.get(axis.name, 1.0) for axis in axes], [0.0] * len(axes)
    record = recorded_affine(facts.decant, [axis.name for axis in axes])
    if record is not None:
        at, matrix = record["axes"], record["matrix"]
        where = placed(matrix[:, :-1], matrix[:, -1], [shape[i] for i in at])
        for i, scale, shift in zip(at, where.scale, where.translation, strict=True):
            base[i], start[i] = scale, shift
    return tuple(base), tuple(start)


def _colour(letters: str, shape: tuple[int, ...]) -> tuple[bool, int | None, list[int] | None]:
    """Whether it is a colour picture, where the channels are, and the order that puts colour last."""
    samples = letters.find("S")
    if samples >= 0 and shape[samples] in (3, 4):
        order = [i for i in range(len(letters)) if i != samples] + [samples]
        return True, len(letters) - 1, order if order != sorted(order) else None
    channel = letters.find("C")
    if channel < 0:
        channel = samples
    return False, channel if channel >= 0 else None, None


def _channels(facts: TiffFacts, channel_axis: int | None) -> tuple[Any, ...]:
    from dataclasses import replace

    from napari_decant.ngff import Channel

    channels = facts.channels or (Channel(),)
    if channel_axis is None and len(channels) > 1:
        channels = (Channel(),)  # no single one of them is what all planes show
    return tuple(replace(each, inverted=each.inverted or facts.inverted) for each in channels)
