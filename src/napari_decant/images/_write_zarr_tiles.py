"""In what order an image is read and its levels are built, so that each level holds one tile at a time.

A tile is a box of the same number of voxels at every level, a whole number of chunks. A tile of level k + 1
is made of up to eight of level k, so the tiles are visited children first; at any time there is one tile in
memory for each level.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from napari_decant.images._write_zarr_layout import ArrayLayout

__all__ = ["Region", "Step", "TileGrid"]

Region = tuple[tuple[int, int], ...]
"""First and end index along t, c, z, y, x."""

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One tile that is ready to be filled, or complete.

    Attributes
    ----------
    level : int
    index : tuple of int
        Of the tile in the grid of its level.
    origin : {"source", "children", "stored"}
        Where its voxels come from: read from the source, halved from the tiles before, or read back from
        shards that are finished already.
    write : bool
        Whether it has chunks to write.
    feeds : bool
        Whether the tile above needs its voxels.
    """

    level: int
    index: Index
    origin: str
    write: bool
    feeds: bool


class TileGrid:
    """The tiles of a region, from one level to another.

    Parameters
    ----------
    layout : ArrayLayout
    tile : sequence of int
        Extents of a tile; a multiple of the chunk, or the whole axis.
    region : Region
        In indices of level ``base``; it begins on tile borders of every level.
    base, top : int
        First and last level.
    """

    def __init__(self, layout: ArrayLayout, tile: Sequence[int], region: Region, base: int, top: int) -> None:
        self.layout, self.tile, self.base, self.top = layout, tuple(tile), base, top
        self.regions = {base: region}
        for level in range(base, top):
            factors = layout.factors[level]
            below = self.regions[level]
            self.regions[level + 1] = tuple(
                (lo // f, -(-hi // f)) for (lo, hi), f in zip(below, factors, strict=True)
            )
        self.grids = {
            level: tuple(-(-(hi - lo) // b) for (lo, hi), b in zip(reg, self.tile, strict=True))
            for level, reg in self.regions.items()
        }

    def box(self, level: int, index: Index) -> Region:
        """Voxels of a tile in indices of its level."""
        return tuple(
            (lo + i * b, min(lo + (i + 1) * b, hi))
            for (lo, hi), i, b in zip(self.regions[level], index, self.tile, strict=True)
        )

    def children(self, level: int, index: Index) -> Iterator[Index]:
        """Tiles of the level below that a tile is made of."""
        below = self.grids[level - 1]
        ranges = [
            range(i * f, min(i * f + f, n))
            for i, f, n in zip(index, self.layout.factors[level - 1], below, strict=True)
        ]
        return itertools.product(*ranges)

    def count(self) -> int:
        """Tiles of the base level."""
        return math.prod(self.grids[self.base])

    def steps(self, unfinished: Callable[[int, Region], bool]) -> Iterator[Step]:
        """Visit the tiles, children first; t is slowest, then c.

        Parameters
        ----------
        unfinished : callable
            Whether a box of a level still has chunks to write.
        """

        def open_below(level: int, index: Index) -> bool:
            if unfinished(level, self.box(level, index)):
                return True
            return level > self.base and any(
                open_below(level - 1, child) for child in self.children(level, index)
            )

        def visit(level: int, index: Index, needed: bool) -> Iterator[Step]:
            pending = unfinished(level, self.box(level, index))
            if level == self.base:
                if needed or pending:
                    yield Step(level, index, "source" if pending else "stored", pending, needed)
                return
            for child in self.children(level, index):
                if pending or open_below(level - 1, child):
                    yield from visit(level - 1, child, pending)
            if pending:
                yield Step(level, index, "children", True, needed)
            elif needed:
                yield Step(level, index, "stored", False, True)

        for index in itertools.product(*(range(n) for n in self.grids[self.top])):
            yield from visit(self.top, index, False)
