"""Crops: a region of any image, straight or turned, as an array or a file, within a memory limit."""

from __future__ import annotations

from napari_decant.images._affine import (
    CONVENTION,
    Placement,
    affine_of,
    affine_record,
    placed,
    recorded_affine,
)
from napari_decant.images.crop._array import CropArray
from napari_decant.images.crop._cutter import DEFAULT_MEMORY, Cutter
from napari_decant.images.crop._device import DEVICES, Device, gpu_problem
from napari_decant.images.crop._facts import CropFacts, Pace, measure_crop
from napari_decant.images.crop._placement import index_map, placement_of
from napari_decant.images.crop._region import Region, Spacing, WorldMap, angles_of, place, spacing_for
from napari_decant.images.crop._run import CropReport, channels_of, crop, plan_crop
from napari_decant.images.crop._saved import SavedQuery
from napari_decant.images.crop._source import CropSource, SourceLevel, source_of_arrays, source_of_image
from napari_decant.images.crop._write import TARGET_SUFFIXES, Written, check_target, write_crop

__all__ = [
    "CONVENTION",
    "DEFAULT_MEMORY",
    "DEVICES",
    "TARGET_SUFFIXES",
    "CropArray",
    "CropFacts",
    "CropReport",
    "CropSource",
    "Cutter",
    "Device",
    "Pace",
    "Placement",
    "Region",
    "SavedQuery",
    "SourceLevel",
    "Spacing",
    "WorldMap",
    "Written",
    "affine_of",
    "affine_record",
    "angles_of",
    "channels_of",
    "check_target",
    "crop",
    "gpu_problem",
    "index_map",
    "measure_crop",
    "place",
    "placed",
    "placement_of",
    "plan_crop",
    "recorded_affine",
    "source_of_arrays",
    "source_of_image",
    "spacing_for",
    "write_crop",
]
