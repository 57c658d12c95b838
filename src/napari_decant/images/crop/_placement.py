"""Where a crop lies in the world."""

from __future__ import annotations

import numpy as np

from napari_decant.images._affine import Placement, placed
from napari_decant.images.crop._region import WorldMap
from napari_decant.images.crop._source import CropSource
from napari_decant.spatial import SpatialResolution

__all__ = ["placement_of"]


def placement_of(source: CropSource, resolution: SpatialResolution, world: WorldMap) -> Placement:
    """Where a crop lies in the world.

    Parameters
    ----------
    source : CropSource
    resolution : SpatialResolution
        Whole, or a part.
    world : WorldMap
        Of the source.
    """
    level = source.levels[resolution.level]
    rank, spatial = len(source.axes), list(source.spatial)
    ratio, origin = np.asarray(level.scale_to_reference), np.asarray(level.origin_reference_index)
    linear = np.asarray(resolution.output_to_source.linear) * ratio[:, None]
    offset = np.asarray(resolution.output_to_source.offset) * ratio + origin
    corner = np.asarray(resolution.grid_start, np.float64) + 0.5
    offset = offset + linear @ corner - 0.5  # index of an element's centre to index of a voxel's centre
    to_world, shift = np.eye(rank), np.zeros(rank)
    for i in range(rank):
        if i not in spatial:
            to_world[i, i], shift[i] = source.levels[0].scale[i], source.levels[0].translation[i]
    to_world[np.ix_(spatial, spatial)] = world.linear
    shift[spatial] = world.offset
    return placed(to_world @ linear, to_world @ offset + shift, resolution.shape)
