"""What a worker with limited memory runs: it writes an image larger than its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from napari_decant.images import ImageToWrite, write_ome_zarr

__all__ = ["PlaneByPlane", "write_planes"]


class PlaneByPlane:
    """Planes that are computed when they are asked for."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(np.uint16)
        self.chunks = (1,) * (len(shape) - 2) + shape[-2:]

    def __getitem__(self, key: Any) -> np.ndarray:
        counts = [key_part.stop - key_part.start for key_part in key]
        block = np.empty(counts, np.uint16)
        y, x = np.ogrid[key[-2], key[-1]]
        plane = (1 + 7 * y + x) % 4093
        for index in np.ndindex(*counts[:-2]):
            block[index] = plane + sum(part.start + i for part, i in zip(key, index, strict=False))
        return block


def write_planes(target: str, shape: list[int], memory: int) -> dict[str, float]:
    source = PlaneByPlane(tuple(shape))
    report = write_ome_zarr(Path(target), ImageToWrite(source, "zyx"), memory=memory, workers=2)
    return {"passes": report.passes, "planned": report.memory, "raw": report.raw_bytes}
