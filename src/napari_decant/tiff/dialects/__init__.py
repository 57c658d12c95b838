"""Dialects of TIFF metadata: who wrote the file says where its planes belong and what they measure.

Each reader gets the tags of one file and nothing else: no reader follows a link to another file,
allocates what a number in the file asks for, or reads more than a budget proportional to the planes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from napari_decant.tiff._units import micrometers, seconds
from napari_decant.tiff.dialects._imagej import read_imagej
from napari_decant.tiff.dialects._lsm import read_lsm
from napari_decant.tiff.dialects._metamorph import read_metaseries, read_stk
from napari_decant.tiff.dialects._micromanager import read_micromanager
from napari_decant.tiff.dialects._mm_folder import FolderMetadata, read_metadata
from napari_decant.tiff.dialects._ndtiff import places_of_rows, read_index
from napari_decant.tiff.dialects._ome import ome_text, ome_text_of, read_ome_tiff, reading_of
from napari_decant.tiff.dialects._ome_model import OmeDocument, OmeImage
from napari_decant.tiff.dialects._ome_set import SetDocument, reading_of_set
from napari_decant.tiff.dialects._ome_xml import ANNOTATION, read_ome, read_ome_set
from napari_decant.tiff.dialects._plain import read_resolution, read_shaped
from napari_decant.tiff.dialects._reading import Channel, Reading, clean
from napari_decant.tiff.dialects._tags import TagReader

__all__ = [
    "ANNOTATION",
    "Channel",
    "FolderMetadata",
    "OmeDocument",
    "OmeImage",
    "Reading",
    "SetDocument",
    "TagReader",
    "clean",
    "micrometers",
    "ome_text",
    "ome_text_of",
    "places_of_rows",
    "read_dialects",
    "read_index",
    "read_metadata",
    "read_ome",
    "read_ome_set",
    "reading_of",
    "reading_of_set",
    "seconds",
]

logger = logging.getLogger(__name__)

# What an earlier one states stands; a later one fills in the rest.
_READERS: tuple[tuple[str, Callable[[TagReader], Reading | None]], ...] = (
    ("Micro-Manager", read_micromanager),
    ("LSM", read_lsm),
    ("MetaMorph", read_stk),
    ("OME", read_ome_tiff),
    ("MetaSeries", read_metaseries),
    ("ImageJ", read_imagej),
    ("tifffile", read_shaped),
    ("resolution", read_resolution),
)


def read_dialects(tags: TagReader) -> Reading:
    """Everything that the metadata of one file states.

    A dialect that cannot be read becomes a note; the others are still read.
    """
    reading = Reading("")
    for name, read in _READERS:
        try:
            found = read(tags)
        except Exception as error:  # noqa: BLE001 - any fault of foreign metadata; the bytes are safe without it
            logger.warning("the %s metadata of %s could not be read: %s", name, tags.name, error)
            reading.notes.append(f"its {name} metadata could not be read: {clean(str(error))}")
            continue
        if found is not None:
            reading.complete(found)
    return reading
