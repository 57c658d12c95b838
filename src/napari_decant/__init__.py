"""Archive TIFFs as OME-Zarr and get every byte back; view, crop and export OME-Zarr."""

from __future__ import annotations

__version__ = "0.1.0"
