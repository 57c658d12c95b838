"""OME-Zarr as an `Image`."""

from __future__ import annotations

import logging
import math
import re

from napari_decant.engine import ZarrArray
from napari_decant.images._cache import ChunkCache
from napari_decant.images._image import Image, looks_like_rgb
from napari_decant.images._lazy import ArrayLimits, LazyArray, ZarrSource
from napari_decant.ngff import NgffImage, NgffLevel
from napari_decant.stores import Store, join_key

__all__ = ["image_from_ngff", "misnamed_chunks"]

logger = logging.getLogger(__name__)
_DOTTED = re.compile(r"\d+(\.\d+)+")


def image_from_ngff(
    ngff: NgffImage,
    store: Store,
    cache: ChunkCache | None = None,
    limits: ArrayLimits | None = None,
    *,
    owned: bool = True,
) -> Image:
    """Open the levels of a described image.

    Parameters
    ----------
    ngff : NgffImage
        The description.
    store : Store
        Where its chunks are; the arrays keep it.
    cache : ChunkCache, optional
        See `LazyArray`.
    limits : ArrayLimits, optional
        See `LazyArray`.
    owned : bool, optional
        Whether `Image.close` closes the store.
    """
    warnings = list(ngff.warnings)
    levels = _viewable(ngff, warnings)
    note = misnamed_chunks(store, levels[0])
    if note is not None:
        warnings.append(note)
    for text in warnings:
        logger.warning("%s: %s", ngff.uri, text)
    arrays = []
    for level in levels:
        array = LazyArray(ZarrSource(ZarrArray(store, level.array, level.path)), cache, limits)
        arrays.append(array if array.dtype == levels[0].dtype else array.astype(levels[0].dtype))
    axes = ngff.axes
    scales = [level.scale for level in levels]
    shifts = [level.translation for level in levels]
    axis = next((i for i, a in enumerate(axes) if a.type == "channel"), None)
    label = ngff.label
    if label is not None and levels[0].dtype.kind not in "iub":
        warnings.append(f"the labels are of type {levels[0].dtype}; they are shown as an image")
        label = None
    rgb = False if label is not None or axis is None else _is_rgb(ngff, levels[0], axis)
    if rgb and axis is not None and axis != len(axes) - 1:
        order = [i for i in range(len(axes)) if i != axis] + [axis]
        arrays = [array.transpose(order) for array in arrays]
        axes = tuple(axes[i] for i in order)
        scales = [tuple(s[i] for i in order) for s in scales]
        shifts = [tuple(s[i] for i in order) for s in shifts]
        axis = len(axes) - 1
    return Image(
        name=ngff.name,
        uri=ngff.uri,
        path=ngff.path,
        axes=axes,
        levels=tuple(arrays),
        scales=tuple(scales),
        translations=tuple(shifts),
        channels=ngff.channels,
        channel_axis=axis,
        is_rgb=rgb,
        label=label,
        labels=ngff.labels,
        ngff=ngff,
        warnings=tuple(warnings),
        default_t=ngff.default_t,
        default_z=ngff.default_z,
        decant=ngff.decant,
        _close=store.close if owned else (lambda: None),
    )


def _viewable(ngff: NgffImage, warnings: list[str]) -> list[NgffLevel]:
    """Levels that a viewer can show together, finest first."""
    levels = sorted(ngff.levels, key=lambda level: -math.prod(level.shape))
    if levels[0].index != 0 and levels[0].shape != ngff.levels[0].shape:
        warnings.append("the levels are not listed finest first; they are shown in order of their size")
    channel = next((i for i, axis in enumerate(ngff.axes) if axis.type == "channel"), None)
    kept: list[NgffLevel] = []
    for level in levels:
        if kept and channel is not None and level.shape[channel] != kept[0].shape[channel]:
            warnings.append(
                f"level {level.name!r} has {level.shape[channel]:,} channels where the finest has"
                f" {kept[0].shape[channel]:,}, and is not shown"
            )
        elif kept and 0 in level.shape and 0 not in kept[0].shape:
            warnings.append(f"level {level.name!r} is empty and is not shown")
        elif not kept or all(a <= b for a, b in zip(level.shape, kept[-1].shape, strict=True)):
            kept.append(level)
        else:
            warnings.append(
                f"level {level.name!r} is larger along some axis than a finer one and is not shown"
            )
    return kept


def _is_rgb(ngff: NgffImage, level: NgffLevel, axis: int) -> bool:
    count = level.shape[axis]
    last = axis == level.array.rank - 1
    if count in (3, 4) and ngff.decant.get("samples") == count:
        # we record the samples of a pixel, and whether they are colours
        colours = ngff.decant.get("rgb", last)
        if last or colours is True:
            return bool(colours)
    if looks_like_rgb(ngff.channels, count, level.dtype):
        return True
    return last and count in (3, 4) and level.dtype.name == "uint8" and not ngff.channels


def misnamed_chunks(store: Store, level: NgffLevel) -> str | None:
    """Say so if chunks lie under other names than the metadata say, so that they would silently read as fill.

    Checks one chunk, and lists the array's folder only if that one is absent.
    """
    meta = level.array
    first = meta.object_key([0] * meta.rank)
    if not store.listable or meta.rank < 2 or store.exists(join_key(level.path, first)):
        return None
    groups, keys = store.list_dir(level.path)
    dotted = any(_DOTTED.fullmatch(key.removeprefix("c.")) for key in keys)
    nested = any(group.isdigit() or group == "c" for group in groups)
    if meta.separator == "/" and dotted and not nested:
        return (
            f"the metadata of {level.path!r} place chunks under names with '/', but the files there have"
            " names with '.';"
            " the image is shown as empty: its metadata must be corrected"
        )
    if meta.separator == "." and nested and not dotted:
        return (
            f"the metadata of {level.path!r} place chunks under names with '.', but the files there have"
            " names with '/';"
            " the image is shown as empty: its metadata must be corrected"
        )
    return None
