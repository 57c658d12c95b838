"""Where a crop lies in the world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_decant.images._affine import Placement, placed
from napari_decant.images.crop._region import WorldMap
from napari_decant.images.crop._source import CropSource
from napari_decant.spatial import SpatialResolution

__all__ = ["index_map", "placement_of"]


def index_map(
    source: CropSource, resolution: SpatialResolution
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The map from an index of the crop to an index of level 0, of centres: linear part and offset.

    Parameters
    ----------
    source : CropSource
    resolution : SpatialResolution
        Whole, or a part.
    """
    level = source.levels[resolution.level]
    ratio, origin = np.asarray(level.scale_to_reference), np.asarray(level.origin_reference_index)
    linear = np.asarray(resolution.output_to_source.linear) * ratio[:, None]
    offset = np.asarray(resolution.output_to_source.offset) * ratio + origin
    corner = np.asarray(resolution.grid_start, np.float64) + 0.5
    return linear, offset + linear @ corner - 0.5


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
    linear, offset = index_map(source, resolution)
    rank, spatial = len(source.axes), list(source.spatial)
    to_world, shift = np.eye(rank), np.zeros(rank)
    for i in range(rank):
        if i not in spatial:
            to_world[i, i], shift[i] = source.levels[0].scale[i], source.levels[0].translation[i]
    to_world[np.ix_(spatial, spatial)] = world.linear
    shift[spatial] = world.offset
    return placed(to_world @ linear, to_world @ offset + shift, resolution.shape)
