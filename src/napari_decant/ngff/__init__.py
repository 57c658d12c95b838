"""OME-Zarr metadata as immutable descriptions: 0.5 on Zarr v3, 0.4 on v2, earlier ones to look at.

Metadata only: no chunk is read here.
"""

from napari_decant.ngff._axes import Axis
from napari_decant.ngff._image import NgffImage, list_images
from napari_decant.ngff._level import NgffLevel
from napari_decant.ngff._listing import ImageEntry, ListLimits
from napari_decant.ngff._load import NgffLimits
from napari_decant.ngff._omero import Channel, LabelInfo, labels_place
from napari_decant.ngff._zarr import ArrayMeta, load_array_meta, parse_array_meta

__all__ = [
    "ArrayMeta",
    "Axis",
    "Channel",
    "ImageEntry",
    "LabelInfo",
    "ListLimits",
    "NgffImage",
    "NgffLevel",
    "NgffLimits",
    "labels_place",
    "list_images",
    "load_array_meta",
    "parse_array_meta",
]
