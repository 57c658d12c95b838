"""The query for a small picture of what will be cut. No Qt here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from napari_decant.errors import DecantError
from napari_decant.gui.crop._state import Cut, Snapshot
from napari_decant.images.crop import CropSource, Region, place
from napari_decant.spatial import Sampler, SizedQuery, SpatialQuery

__all__ = ["PREVIEW_PIXELS", "preview_of"]

PREVIEW_PIXELS: Final = 256


def preview_of(snapshot: Snapshot, cut: Cut, pixels: int = PREVIEW_PIXELS) -> SizedQuery | None:
    """The query for a small picture: the plane in the middle of the box, from a coarse level.

    Parameters
    ----------
    snapshot : Snapshot
    cut : Cut
        One of its cuts.
    pixels : int
        Of the picture's longer side, at most.
    """
    layer = cut.layer
    region = snapshot.region if snapshot.region is not None else layer.whole()
    if region is None:
        return None
    if region.rank == 3 and layer.rank == 2:
        region = Region(region.center[1:], region.size[1:], region.angles[:1])
    step = max(region.size[-2:]) / pixels
    counts = [max(1, round(n / step)) for n in region.size[-2:]]
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
