"""How many of an image's chunks are there; an absent one reads as the fill value."""

from __future__ import annotations

import math
from dataclasses import dataclass

from napari_decant.engine import ZarrArray
from napari_decant.images._image import Image
from napari_decant.images._lazy import ZarrSource

__all__ = ["ChunkCount", "count_chunks"]


@dataclass(frozen=True, slots=True)
class ChunkCount:
    """Stored objects (chunks, or shards) of one level.

    Attributes
    ----------
    level : str
        Path of its array within the store.
    present, expected : int
        How many there are, and how many cover the array.
    """

    level: str
    present: int
    expected: int

    @property
    def absent(self) -> int:
        """How many are missing; in an archive that may be loss."""
        return self.expected - self.present

    def __str__(self) -> str:
        return f"{self.absent:,} of {self.expected:,} chunks absent"


def count_chunks(image: Image) -> tuple[ChunkCount, ...]:
    """Count the stored chunks of each level by listing names; reads no pixels.

    Parameters
    ----------
    image : Image
        An open OME-Zarr image; of others there is nothing to count.

    Returns
    -------
    tuple of ChunkCount
        One per level, finest first; empty where the store cannot be listed (http).

    Raises
    ------
    StorageError
        The store cannot be listed, or was closed.
    """
    counts = []
    for level in image.levels:
        if not isinstance(level.source, ZarrSource) or not level.source.array.store.listable:
            return ()
        counts.append(_count(level.source.array))
    return tuple(counts)


def _count(array: ZarrArray) -> ChunkCount:
    meta = array.meta
    grid = tuple(-(-n // c) for n, c in zip(meta.shape, meta.object_shape, strict=True))
    skip = len(array.path) + 1 if array.path else 0
    present = sum(
        _index(key[skip:], meta.key_encoding, meta.separator, grid) for key in array.store.keys(array.path)
    )
    return ChunkCount(array.path, present, math.prod(grid))


def _index(name: str, encoding: str, separator: str, grid: tuple[int, ...]) -> bool:
    """Whether a name is that of a chunk on the grid."""
    parts = name.split(separator)
    if encoding == "default":
        if parts.pop(0) != "c":
            return False
    elif not grid:
        return name == "0"
    return len(parts) == len(grid) and all(
        part.isascii() and part.isdigit() and str(int(part)) == part and int(part) < n
        for part, n in zip(parts, grid, strict=True)
    )
