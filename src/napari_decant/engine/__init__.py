"""From chunks in a store to arrays: planner, plans, executors, batches.

Nothing here parses NGFF or picks a level.
"""

from __future__ import annotations

from napari_decant.engine._array import ZarrArray
from napari_decant.engine._codecs import ChunkDecoder

__all__ = ["ChunkDecoder", "ZarrArray"]
