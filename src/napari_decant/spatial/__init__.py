"""Spatial and index queries, and what they resolve to. Pure: no input or output, everything pickles."""

from __future__ import annotations

from napari_decant.spatial._build import (
    level_crop,
    oblique_plane,
    physical_crop,
    reference_crop,
    rotated_crop,
    rotation_matrix,
)
from napari_decant.spatial._frame import SizedQuery
from napari_decant.spatial._image import AxisLike, ImageLike, LevelLike
from napari_decant.spatial._index_query import IndexQuery
from napari_decant.spatial._parts import part_of
from napari_decant.spatial._query import MAX_COORDINATE, SpatialQuery, pick_level
from napari_decant.spatial._resolution import Affine, AxisIndices, IndexResolution, SpatialResolution
from napari_decant.spatial._sampler import BOUNDARIES, FILTERS, Boundary, Filter, Sampler

__all__ = [
    "BOUNDARIES",
    "FILTERS",
    "MAX_COORDINATE",
    "Affine",
    "AxisIndices",
    "AxisLike",
    "Boundary",
    "Filter",
    "ImageLike",
    "IndexQuery",
    "IndexResolution",
    "LevelLike",
    "Sampler",
    "SizedQuery",
    "SpatialQuery",
    "SpatialResolution",
    "level_crop",
    "oblique_plane",
    "part_of",
    "physical_crop",
    "pick_level",
    "reference_crop",
    "rotated_crop",
    "rotation_matrix",
]
