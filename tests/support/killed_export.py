"""Run as a program: exports a slow source in small shards until somebody kills it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .ngff import ramp
from .writing import small_layout

__all__ = ["SHAPE", "Slow", "identity_of"]

SHAPE = (4, 1, 40, 40, 40)


def identity_of(name: str) -> str:
    return f"the source {name}"


class Slow:
    """A source that takes its time."""

    def __init__(self, data: np.ndarray, seconds: float) -> None:
        self.data, self.seconds = data, seconds
        self.shape, self.dtype, self.ndim, self.chunks = data.shape, data.dtype, data.ndim, (1, 1, 8, 40, 40)

    def __getitem__(self, key: Any) -> np.ndarray:
        time.sleep(self.seconds)
        return self.data[key]


def main(target: str) -> None:
    from napari_decant.images import ImageToWrite, write_ome_zarr

    with pytest.MonkeyPatch.context() as patch:
        small_layout(patch, times=1)
        image = ImageToWrite(Slow(ramp(SHAPE), 0.02), "tczyx", identity=identity_of("a"))
        write_ome_zarr(Path(target), image, workers=1)


if __name__ == "__main__":
    main(sys.argv[1])
