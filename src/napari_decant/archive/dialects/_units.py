"""Units as the images layer knows them: one table of spellings and sizes for everything that reads a TIFF."""

from __future__ import annotations

from napari_decant.images._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds

__all__ = ["LENGTH_UNIT", "TIME_UNIT", "micrometers", "seconds"]
