"""The query for a small picture of what will be cut. No Qt here."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from napari_decant.errors import DecantError
from napari_decant.gui.crop._state import Cut, Snapshot
from napari_decant.images.crop import CropSource, Region, place
from napari_decant.spatial import Sampler, SizedQuery, SpatialQuery, SpatialResolution

__all__ = ["PREVIEW_PIXELS", "preview_of", "preview_share"]

PREVIEW_PIXELS: Final = 256
_MOST_BYTES: Final = 32 << 20  # read for one picture of a layer


def preview_share(snapshot: Snapshot, pixels: int = PREVIEW_PIXELS) -> float:
    """How much of the box's sides can be seen at once: 1, or less where layers have no coarse levels.

    A picture of a large plane of such a layer would read all of it.
    """
    share = 1.0
    for cut in snapshot.cuts:
        sized = preview_of(snapshot, cut, pixels)
        if sized is not None:
            cost = _bytes_read(cut.source, sized.resolve(cut.source))
            share = min(share, math.sqrt(_MOST_BYTES / max(1.0, cost)))
    return share


def _bytes_read(source: CropSource, resolution: SpatialResolution) -> float:
    """Bytes of the voxels that are read, whole chunks where they are read; none of what is in memory."""
    level = source.levels[resolution.level]
    if isinstance(level.data, np.ndarray):
        return 0.0
    if level.array is None:
        return float(source.slice_bytes(resolution.level, resolution.read_bounds_index))
    spans = zip(resolution.read_bounds_index, level.array.chunk_shape, strict=True)
    return float(math.prod((-(-b // c) - a // c) * c for (a, b), c in spans if b > a)) * source.dtype.itemsize


def preview_of(
    snapshot: Snapshot, cut: Cut, pixels: int = PREVIEW_PIXELS, share: float = 1.0
) -> SizedQuery | None:
    """The query for a small picture: the plane in the middle of the box, from a coarse level.

    Parameters
    ----------
    snapshot : Snapshot
    cut : Cut
        One of its cuts.
    pixels : int
        Of the picture's longer side, at most.
    share : float
        Of the box's sides, about the middle, see `preview_share`.
    """
    layer = cut.layer
    region = snapshot.region if snapshot.region is not None else layer.whole()
    if region is None:
        return None
    if region.rank == 3 and layer.rank == 2:
        region = Region(region.center[1:], region.size[1:], region.angles[:1])
    sides = [share * n for n in region.size[-2:]]
    step = max(sides) / pixels
    counts = [max(1, round(n / step)) for n in sides]
    thin = region.moved(size=tuple([step] * (region.rank - 2) + [n * step for n in counts]))
    index = dict(layer.fixed) | {name: (at, at + 1) for name, at in layer.shown.items()}
    for i, axis in enumerate(cut.source.axes):
        if i not in cut.source.spatial and axis.name not in index and not _is_color(cut.source, i):
            index[axis.name] = (0, 1)
    sampler = Sampler(cut.resolution.sampler.filter, "constant")
    try:
        made = place(thin, cut.source, cut.world, spacing=step, sampler=sampler, snap=False, index=index)
    except DecantError:
        return None  # what cannot be placed is a problem of the snapshot already
    return replace(made, query=_at_level(made.query, _level_for(cut.source, made.query)))


def _level_for(source: CropSource, query: SpatialQuery) -> int:
    """The coarsest level that has the picture's detail in the plane's finer direction.

    The other direction may be coarser: planes are often further apart than a picture's pixels.
    """
    spatial = list(source.spatial)
    linear = np.asarray(query.output_to_reference)[np.ix_(spatial, spatial)][:, -2:]
    for number in range(len(source.levels) - 1, 0, -1):
        ratio = np.asarray(source.levels[number].scale_to_reference)[spatial]
        if np.linalg.svd(linear / ratio[:, None], compute_uv=False)[0] >= 1 - 1e-9:
            return number
    return 0


def _at_level(query: SpatialQuery, level: int) -> SpatialQuery:
    """The same query at a level."""
    return SpatialQuery(query.output_to_reference, query.sampler, level)


def _is_color(source: CropSource, axis: int) -> bool:
    """Whether an axis holds the samples of a colour picture."""
    return axis == len(source.axes) - 1 and axis > max(source.spatial)
