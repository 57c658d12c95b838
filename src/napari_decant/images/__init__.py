"""Images to look at: one opener for OME-Zarr, TIFF and archives, and the lazy arrays that layers hold."""

from napari_decant.images._cache import ChunkCache, default_cache
from napari_decant.images._chunks import ChunkCount, count_chunks
from napari_decant.images._contrast import full_range, sample_contrast
from napari_decant.images._image import Image, ImageLayer
from napari_decant.images._lazy import ArrayLimits, ChunkSource, LazyArray, ZarrSource
from napari_decant.images._open import (
    TIFF_SUFFIXES,
    ImageSource,
    Location,
    Opener,
    list_images,
    open_image,
    register_opener,
)
from napari_decant.images._pyramid import PyramidBuilder, downsample, level_factors, level_scales
from napari_decant.images._tiff import TiffImages
from napari_decant.images._tiff_facts import TiffFacts
from napari_decant.images._write_image import ImageToWrite
from napari_decant.images._write_ometiff import OmeTiffReport, write_ome_tiff
from napari_decant.images._write_zarr import WriteReport, write_ome_zarr
from napari_decant.images._write_zarr_plan import WritePlan, plan_ome_zarr
from napari_decant.images._zarr import image_from_ngff, misnamed_chunks
from napari_decant.ngff import Axis, Channel, ImageEntry, LabelInfo
from napari_decant.tiff._units import in_micrometers, in_seconds, unit_name

__all__ = [
    "TIFF_SUFFIXES",
    "ArrayLimits",
    "Axis",
    "Channel",
    "ChunkCache",
    "ChunkCount",
    "ChunkSource",
    "Image",
    "ImageEntry",
    "ImageLayer",
    "ImageSource",
    "ImageToWrite",
    "LabelInfo",
    "LazyArray",
    "Location",
    "OmeTiffReport",
    "Opener",
    "PyramidBuilder",
    "TiffFacts",
    "TiffImages",
    "WritePlan",
    "WriteReport",
    "ZarrSource",
    "count_chunks",
    "default_cache",
    "downsample",
    "full_range",
    "image_from_ngff",
    "in_micrometers",
    "in_seconds",
    "level_factors",
    "level_scales",
    "list_images",
    "misnamed_chunks",
    "open_image",
    "plan_ome_zarr",
    "register_opener",
    "sample_contrast",
    "unit_name",
    "write_ome_tiff",
    "write_ome_zarr",
]
