"""Archive TIFFs as OME-Zarr and get every byte back; view, crop and export OME-Zarr."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from napari_decant.archive import info, pack, restore, verify
    from napari_decant.engine import (
        Batch,
        BatchSpec,
        ChunkPlanner,
        CpuExecutor,
        CpuLimits,
        FileReader,
        MetadataCache,
        Pipeline,
        PlanLimits,
        QueueLimits,
        ZarrMetadata,
    )
    from napari_decant.engine.cuda import CudaExecutor, CudaLimits
    from napari_decant.images.crop import crop
    from napari_decant.ngff import NgffImage, NgffLimits
    from napari_decant.spatial import IndexQuery, Sampler, SpatialQuery
    from napari_decant.standard import check, export
    from napari_decant.stores import FileMetadataReader

# Public names and where they live: imported on first use, so that `import napari_decant` stays quick.
_HOMES = {
    "Batch": "engine",
    "BatchSpec": "engine",
    "ChunkPlanner": "engine",
    "CpuExecutor": "engine",
    "CpuLimits": "engine",
    "CudaExecutor": "engine.cuda",
    "CudaLimits": "engine.cuda",
    "FileReader": "engine",
    "MetadataCache": "engine",
    "Pipeline": "engine",
    "PlanLimits": "engine",
    "QueueLimits": "engine",
    "ZarrMetadata": "engine",
    "crop": "images.crop",
    "NgffImage": "ngff",
    "NgffLimits": "ngff",
    "IndexQuery": "spatial",
    "Sampler": "spatial",
    "SpatialQuery": "spatial",
    "check": "standard",
    "export": "standard",
    "FileMetadataReader": "stores",
    "info": "archive",
    "pack": "archive",
    "restore": "archive",
    "verify": "archive",
}

OPENERS = {".decant/manifest.json": "archive"}
"""Packages that `open_image` learns from, by the key that a store of theirs has; imported when one is met."""

__all__ = [
    "Batch",
    "BatchSpec",
    "ChunkPlanner",
    "CpuExecutor",
    "CpuLimits",
    "CudaExecutor",
    "CudaLimits",
    "FileMetadataReader",
    "FileReader",
    "IndexQuery",
    "MetadataCache",
    "NgffImage",
    "NgffLimits",
    "Pipeline",
    "PlanLimits",
    "QueueLimits",
    "Sampler",
    "SpatialQuery",
    "ZarrMetadata",
    "__version__",
    "check",
    "crop",
    "export",
    "info",
    "pack",
    "restore",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
