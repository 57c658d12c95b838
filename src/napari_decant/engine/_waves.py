"""Tiles whose decoded chunks fit into memory together."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._locate import ABSENT
from napari_decant.engine._plan import Plan, TiledOutput
from napari_decant.engine._sampling import TileSampler, pool_dtype

__all__ = ["Wave", "make_waves", "slot_size", "tile_need"]

_ALIGN: Final = 64
_NOTHING: Final = np.empty(0, np.int64)
Tile = tuple[int, int]  # (output, tile)


def slot_size(plan: Plan, targets: Sequence[np.dtype[Any] | None]) -> int:
    """Bytes to hold one decoded chunk of any array that a plan samples, for outputs of these types."""
    sizes = [0]
    for output, target in zip(plan.outputs, targets, strict=True):
        if isinstance(output, TiledOutput) and target is not None:
            meta = plan.arrays[output.array].meta
            item = pool_dtype(meta.native_dtype, output, target).itemsize
            sizes.append(math.prod(meta.chunk_shape) * item)
    return -(-max(sizes) // _ALIGN) * _ALIGN


def tile_need(plan: Plan) -> int:
    """Most chunks under one tile of a plan."""
    return max((int(counts.max(initial=0)) for counts in plan.tile_chunk_counts()), default=0)


class Wave:
    """What is decoded and sampled together.

    Attributes
    ----------
    read_chunks : int64 array
        Stored chunks to read.
    tiles, ready : list of (int, int)
        Tiles to sample, and those that need no stored chunk.
    slots, slot_bytes : int
        Decoded chunks held at once, and the bytes of each; 0 slots if there are only copies.
    begins : int64 array, shape (chunks,)
        Where each chunk of the plan is held; -1 where it is not. Absent chunks of an array share one slot.
    fills : dict
        Where the fill value of each array is held as if it were a chunk.
    dtypes : dict
        Element type in which chunks of each array are held.
    """

    def __init__(
        self,
        plan: Plan,
        tiles: list[Tile],
        copies: bool,
        samplers: Mapping[int, TileSampler],
        slot_bytes: int,
    ) -> None:
        self.tiles = tiles
        self.dtypes: dict[int, np.dtype[Any]] = {
            samplers[number].output.array: samplers[number].dtype for number, _ in tiles
        }
        self._lock = threading.Lock()
        self._waiting: dict[Tile, int] = {}
        self._tiles_of: dict[int, list[Tile]] = {}
        self.ready: list[Tile] = []
        self.slots = self.slot_bytes = 0
        self.begins = _NOTHING
        self.fills: dict[int, int] = {}
        stored = plan.chunk_file >= 0
        if not tiles:
            self.read_chunks = np.flatnonzero(stored)
            if len(plan.use_chunk) != len(stored):  # chunks of outputs that failed are not read
                self.read_chunks = np.intersect1d(self.read_chunks, plan.use_chunk)
            return
        held: list[NDArray[np.int64]] = []
        absent: list[NDArray[np.int64]] = []
        for tile in tiles:
            output = samplers[tile[0]].output
            chunks = output.tile_chunks[output.tile_first[tile[1]] : output.tile_first[tile[1] + 1]]
            absent.append(chunks[plan.chunk_file[chunks] == ABSENT])
            chunks = chunks[stored[chunks]]
            held.append(chunks)
            self._waiting[tile] = len(chunks)
            for chunk in chunks.tolist():
                self._tiles_of.setdefault(chunk, []).append(tile)
        self.ready = [tile for tile, count in self._waiting.items() if count == 0]
        distinct = np.unique(np.concatenate(held))
        missing = np.concatenate(absent)
        owners = np.unique(plan.chunk_array[missing]).tolist()
        self.slots = len(distinct) + len(owners)
        self.slot_bytes = slot_bytes if self.slots else 0
        self.fills = {owner: (len(distinct) + at) * self.slot_bytes for at, owner in enumerate(owners)}
        self.begins = np.full(len(plan.chunk_file), -1, np.int64)
        self.begins[distinct] = np.arange(len(distinct)) * self.slot_bytes
        for owner, begin in self.fills.items():
            self.begins[missing[plan.chunk_array[missing] == owner]] = begin
        wanted = np.zeros(len(plan.chunk_file), bool)
        wanted[distinct] = True
        if copies:
            wanted[plan.use_chunk] = True
        self.read_chunks = np.flatnonzero(wanted & stored)

    def chunk_done(self, chunk: int) -> Iterable[Tile]:
        """Count a chunk as decoded; return the tiles that now have all of theirs."""
        tiles = self._tiles_of.get(chunk)
        if tiles is None:
            return ()
        ready = []
        with self._lock:
            for tile in tiles:
                self._waiting[tile] -= 1
                if self._waiting[tile] == 0:
                    ready.append(tile)
        return ready


def make_waves(plan: Plan, samplers: Mapping[int, TileSampler], room_bytes: int) -> list[Wave]:
    """Group tiles, in order, so that the chunks of each group fit into ``room_bytes``.

    Copies belong to the first wave. Chunks that two waves need are decoded in both. A wave holds each
    array's chunks in one element type.
    """
    if not samplers:
        return [Wave(plan, [], True, samplers, 0)]
    targets = [samplers[i].out.dtype if i in samplers else None for i in range(len(plan.outputs))]
    size = slot_size(plan, targets)
    room = room_bytes // size if size else 0
    stored = plan.chunk_file >= 0
    groups: list[list[Tile]] = [[]]
    together: set[int] = set()
    types: dict[int, np.dtype[Any]] = {}
    for number, sampler in samplers.items():
        output = sampler.output
        for at in range(len(output.tile_start)):
            chunks = output.tile_chunks[output.tile_first[at] : output.tile_first[at + 1]]
            mine = set(chunks[stored[chunks]].tolist())
            if not stored[chunks].all():
                mine.add(-1 - output.array)  # the slot of the fill value
            other = types.get(output.array, sampler.dtype) != sampler.dtype
            if groups[-1] and (other or len(together | mine) > room):
                groups.append([])
                together, types = set(), {}
            groups[-1].append((number, at))
            together |= mine
            types[output.array] = sampler.dtype
    return [Wave(plan, group, at == 0, samplers, size) for at, group in enumerate(groups)]
