"""From chunks in a store to arrays: planner, plans, executors, batches.

Nothing here parses NGFF or picks a level.
"""

from __future__ import annotations

from napari_decant.engine._array import ZarrArray
from napari_decant.engine._batch import Batch
from napari_decant.engine._block import sample_block
from napari_decant.engine._codecs import ChunkDecoder
from napari_decant.engine._convert import convert_into
from napari_decant.engine._cpu import CpuExecutor
from napari_decant.engine._limits import BatchSpec, CpuLimits, PlanLimits, QueueLimits
from napari_decant.engine._metadata import MetadataCache, ZarrMetadata
from napari_decant.engine._pipeline import Pipeline
from napari_decant.engine._plan import CopyOutput, Plan, PlanArray, Summary, TiledOutput
from napari_decant.engine._planner import ChunkPlanner
from napari_decant.engine._reader import FileReader
from napari_decant.engine._stats import Stats

__all__ = [
    "Batch",
    "BatchSpec",
    "ChunkDecoder",
    "ChunkPlanner",
    "CopyOutput",
    "CpuExecutor",
    "CpuLimits",
    "FileReader",
    "MetadataCache",
    "Pipeline",
    "Plan",
    "PlanArray",
    "PlanLimits",
    "QueueLimits",
    "Stats",
    "Summary",
    "TiledOutput",
    "ZarrArray",
    "ZarrMetadata",
    "convert_into",
    "sample_block",
]
