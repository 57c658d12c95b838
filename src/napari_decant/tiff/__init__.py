"""What TIFF files say of themselves: directories, and the dialects of their metadata.

Used by `archive`, which packs files, and by `images`, which shows them: both get the same facts.
"""

from napari_decant.tiff._ifd import list_pages
from napari_decant.tiff._listing import Listing, PlaneListing, PlaneSamples
from napari_decant.tiff._places import Places
from napari_decant.tiff._units import in_micrometers, in_seconds, micrometers, seconds, unit_name

__all__ = [
    "Listing",
    "Places",
    "PlaneListing",
    "PlaneSamples",
    "in_micrometers",
    "in_seconds",
    "list_pages",
    "micrometers",
    "seconds",
    "unit_name",
]
