"""How large a tile is: what a budget allows, and how often source chunks are then decoded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from napari_decant.errors import BudgetExceeded
from napari_decant.images._write_zarr_layout import ArrayLayout
from napari_decant.images._write_zarr_source import VolumeSource

__all__ = ["BASE_MEMORY", "DEFAULT_MEMORY", "TileChoice", "choose_tile"]

BASE_MEMORY = 192 << 20
"""Resident bytes of the program itself."""
DEFAULT_MEMORY = 2 << 30
_CLOSE = 1.04  # decoding that much more is worth less memory
_PARTS = 1.02  # decoding by parts reads a block twice here and there


@dataclass(frozen=True, slots=True)
class TileChoice:
    """A tile and what it costs.

    Attributes
    ----------
    tile : tuple of int
        t, c, z, y, x.
    ahead : bool
        Whether the next tile is read while this one is encoded.
    cache_bytes : int
        Decoded source chunks kept from one tile to the next.
    memory : int
        Resident bytes of the whole program at most.
    passes : float
        How often each byte of the source is decoded, on average.
    """

    tile: tuple[int, ...]
    ahead: bool
    cache_bytes: int
    memory: int
    passes: float


def _steps(chunk: int, extent: int) -> list[int]:
    """Multiples of a chunk by powers of two, and the whole axis."""
    sizes = []
    size = chunk
    while size < extent:
        sizes.append(size)
        size *= 2
    return [*sizes, -(-extent // chunk) * chunk]


def _with_source(chunk: int, source: int, extent: int) -> list[int]:
    """One chunk, or as many as make whole source chunks."""
    both = min(math.lcm(chunk, source), -(-extent // chunk) * chunk)
    return sorted({min(chunk, both), both})


def _touched(tile: int, source: int, extent: int) -> float:
    """Voxels of the source chunks that all tiles touch along an axis, relative to the axis."""
    first = np.arange(0, extent, tile)
    last = np.minimum(first + tile, extent)
    spans = np.minimum(-(-last // source) * source, extent) - first // source * source
    return float(spans.sum()) / extent


def choose_tile(layout: ArrayLayout, source: VolumeSource, *, workers: int, memory: int | None) -> TileChoice:
    """Choose the tile that decodes the source least, and of equal ones the smallest.

    Parameters
    ----------
    layout : ArrayLayout
    source : VolumeSource
    workers : int
        Threads.
    memory : int or None
        Resident bytes of the whole program; 2 GiB by default.

    Raises
    ------
    BudgetExceeded
        Not even one row of chunks fits.
    """
    limit = DEFAULT_MEMORY if memory is None else memory
    base = layout.levels[0]
    src = source.unit
    partial = next((a for a in range(5) if src[a] > 1), None) if source.partial else None
    options = [
        _with_source(base.chunk[0], src[0], base.shape[0]),
        _with_source(base.chunk[1], src[1], base.shape[1]),
        *(_steps(base.chunk[a], base.shape[a]) for a in (2, 3, 4)),
    ]
    rates = [{b: _touched(b, src[a], base.shape[a]) for b in options[a]} for a in range(5)]
    if partial is not None:
        rates[partial] = {b: min(r, _PARTS) for b, r in rates[partial].items()}
    fixed = BASE_MEMORY + _scratch(layout, source, workers)
    choices: list[TileChoice] = []
    least = None
    for tile in itertools.product(*options):
        passes = math.prod(rates[a][b] for a, b in enumerate(tile))
        cache = 0
        whole_planes = all(tile[a] >= base.shape[a] for a in (3, 4))
        if rates[2][tile[2]] > 1 and whole_planes and partial != 2 and source.keeps_chunks:
            cache = _row_bytes(base.shape, src, source.source_dtype.itemsize, workers)
        sizes = _tile_bytes(layout, tile)
        for ahead in (True, False):
            for kept in {0, cache}:
                need = fixed + sum(sizes) + (sizes[0] if ahead else 0) + kept
                least = need if least is None else min(least, need)
                if need <= limit:
                    rate = passes / rates[2][tile[2]] if kept else passes
                    choices.append(TileChoice(tile, ahead, kept, need, rate))
    if not choices:
        raise BudgetExceeded("memory", least or 0, limit, "writing this image")
    return _best(choices, base.chunk, workers)


def _best(choices: Sequence[TileChoice], chunk: Sequence[int], workers: int) -> TileChoice:
    def chunks(choice: TileChoice) -> int:
        return math.prod([t // c for t, c in zip(choice.tile, chunk, strict=True)])

    # decoding once is worth most, then reading while encoding, then work for every thread, then less memory
    fewest = min(c.passes for c in choices)
    close = [c for c in choices if c.passes <= fewest * _CLOSE]
    close = [c for c in close if c.ahead] or close
    enough = min(4 * workers, max(map(chunks, close)))
    return min((c for c in close if chunks(c) >= enough), key=lambda c: (c.memory, c.passes))


def _tile_bytes(layout: ArrayLayout, tile: Sequence[int]) -> list[int]:
    """Bytes of one tile of each level."""
    return [
        math.prod(min(b, n) for b, n in zip(tile, level.shape, strict=True)) * layout.itemsize
        for level in layout.levels
    ]


def _scratch(layout: ArrayLayout, source: VolumeSource, workers: int) -> int:
    """Bytes that each thread works with: one chunk, encoded and read back, and one source chunk."""
    chunk = math.prod(layout.levels[0].chunk) * layout.itemsize
    piece = math.prod(source.chunk) * int(source.source_dtype.itemsize)
    return workers * (4 * chunk + 3 * piece)


def _row_bytes(shape: Sequence[int], src: Sequence[int], itemsize: int, workers: int) -> int:
    """Bytes of one layer of source chunks along z, with those that are in flight."""
    y, x = (-(-shape[a] // src[a]) * src[a] for a in (3, 4))
    layer = y * x * src[0] * src[1] * src[2]
    return (layer + (workers + 2) * math.prod(src)) * itemsize
