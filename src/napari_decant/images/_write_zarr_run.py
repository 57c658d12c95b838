"""The one pass over an image: tiles are read, cut into chunks that go to their shards, and halved."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine import ZarrArray
from napari_decant.images._pyramid import downsample
from napari_decant.images._write_zarr_encode import ImageTarget, ShardEncoder
from napari_decant.images._write_zarr_source import Box, VolumeSource
from napari_decant.images._write_zarr_tile_choice import TileChoice
from napari_decant.images._write_zarr_tiles import Region, Step, TileGrid
from napari_decant.progress import CancelToken
from napari_decant.stores import FolderStore

__all__ = ["RegionRun"]

_READ_BYTES = 2 << 20  # of one task that reads


class RegionRun:
    """Writes the shards of a region of one image, from level ``base`` to level ``top``.

    Parameters
    ----------
    target : ImageTarget
    source : VolumeSource or None
        Level 0; None where ``base`` is read back from finished shards.
    choice : TileChoice
    region : Region
        In indices of level ``base``.
    base, top : int
    done : list of set of tuple
        Shards of each level that are finished already.
    workers : int
        Threads.
    advance : callable
        Told the bytes that were written or checked since the last call; called in this thread only.
    cancel : CancelToken
    """

    def __init__(
        self,
        target: ImageTarget,
        source: VolumeSource | None,
        choice: TileChoice,
        region: Region,
        base: int,
        top: int,
        *,
        done: list[set[tuple[int, ...]]],
        workers: int,
        advance: Callable[[int], None],
        cancel: CancelToken,
        stored_base: bool = False,
    ) -> None:
        self.target, self.source, self.choice = target, source, choice
        self.layout = target.layout
        self.grid = TileGrid(self.layout, choice.tile, region, base, top)
        self.base, self.top, self.done = base, top, done
        self.stored_base = stored_base
        self.workers, self.advance, self.cancel = workers, advance, cancel
        self._buffers: dict[tuple[int, int], NDArray[Any]] = {}
        self._busy: dict[tuple[int, int], list[Future[None]]] = {}
        self._parents: dict[int, tuple[int, ...] | None] = {}
        self._feeding: dict[int, list[Future[None]]] = {}

    def run(self) -> None:
        """Write everything that is not finished.

        Raises
        ------
        Cancelled
            The token was set.
        DecantError
            Reading, writing or checking failed.
        """
        self.pool = ThreadPoolExecutor(self.workers, thread_name_prefix="write")
        self._encoder = ShardEncoder(self.target, self.pool, self.cancel)
        try:
            self._steps()
            for futures in list(self._busy.values()):
                self._wait(futures)
            while self._encoder.checks:
                self._wait([self._encoder.checks.popleft()])
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self._encoder.close()

    # Steps in order, with the next tile of the base level read ahead.

    def _steps(self) -> None:
        steps = self.grid.steps(self._unfinished)
        ahead: deque[Step] = deque()
        reads: dict[Step, tuple[int, list[Future[None]]]] = {}
        slots = 2 if self.choice.ahead else 1
        taken = 0

        def start_read(step: Step) -> None:
            nonlocal taken
            slot = taken % slots
            taken += 1
            reads[step] = slot, self._read(step, slot)

        while True:
            self.cancel.check()
            step = ahead.popleft() if ahead else next(steps, None)
            if step is None:
                return
            slot = 0
            if step.level == self.base:
                if step not in reads:
                    start_read(step)
                slot, futures = reads.pop(step)
                self._wait(futures)
                if slots == 2:
                    upcoming = self._next_base(steps, ahead)
                    self._process(step, slot)
                    if upcoming is not None and upcoming not in reads:
                        start_read(upcoming)
                    continue
            elif step.origin == "stored":
                self._free((step.level, 0))
                self._wait(self._read(step, 0))
            else:
                self._wait(self._feeding.pop(step.level, []))
            self._process(step, slot)

    def _next_base(self, steps: Iterator[Step], ahead: deque[Step]) -> Step | None:
        """The next tile of the base level, looking past the tiles above it that come before."""
        for step in ahead:
            if step.level == self.base:
                return step
        for step in steps:
            ahead.append(step)
            if step.level == self.base:
                return step
        return None

    def _wait(self, futures: list[Future[None]]) -> None:
        """Wait, pass errors on, and report progress meanwhile."""
        while futures:
            finished, rest = wait(futures, timeout=0.2, return_when="FIRST_EXCEPTION")
            for future in finished:
                future.result()
            self.cancel.check()
            futures = list(rest)
            self._report()
        self._report()
        while self._encoder.checks and self._encoder.checks[0].done():
            self._encoder.checks.popleft().result()

    def _report(self) -> None:
        amount = self._encoder.progress()
        if amount:
            self.advance(amount)

    def _unfinished(self, level: int, box: Region) -> bool:
        done = self.done[level]
        if not done:
            return True
        shard = self.layout.levels[level].shard
        ranges = [range(lo // s, -(-hi // s)) for (lo, hi), s in zip(box, shard, strict=True)]
        grid = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(-1, len(ranges))
        return any(tuple(map(int, index)) not in done for index in grid)

    # One tile: where its voxels are, and what is made of them.

    def _tile(self, level: int, slot: int, box: Region) -> NDArray[Any]:
        """The memory of a tile, the same for all tiles of a level."""
        shape = tuple(hi - lo for lo, hi in box)
        key = level, slot
        if key not in self._buffers:
            extents = self.layout.levels[level].shape
            most = math.prod(min(b, n) for b, n in zip(self.choice.tile, extents, strict=True))
            self._buffers[key] = np.empty(most, self.target.dtype)
        return self._buffers[key][: math.prod(shape)].reshape(shape)

    def _free(self, key: tuple[int, int]) -> None:
        """Wait until nothing uses a tile's memory any more."""
        self._wait(self._busy.pop(key, []))

    def _read(self, step: Step, slot: int) -> list[Future[None]]:
        key = step.level, slot
        self._free(key)
        box = self.grid.box(step.level, step.index)
        tile = self._tile(step.level, slot, box)
        where: Box = tuple(slice(lo, hi) for lo, hi in box)  # type: ignore[assignment]
        if step.origin == "stored" or self.stored_base:
            return [self.pool.submit(self._read_back, step.level, where, tile)]
        assert self.source is not None
        tasks: list[Future[None]] = []
        batch: list[Box] = []
        size = 0
        for piece in self.source.pieces(where):
            batch.append(piece)
            size += math.prod(s.stop - s.start for s in piece) * self.source.source_dtype.itemsize
            if size >= _READ_BYTES:
                tasks.append(self.pool.submit(self._read_pieces, batch, where, tile))
                batch, size = [], 0
        if batch:
            tasks.append(self.pool.submit(self._read_pieces, batch, where, tile))
        return tasks

    def _read_pieces(self, pieces: list[Box], where: Box, tile: NDArray[Any]) -> None:
        assert self.source is not None
        for piece in pieces:
            self.cancel.check()
            inside = tuple(
                slice(p.start - w.start, p.stop - w.start) for p, w in zip(piece, where, strict=True)
            )
            self.source.read(piece, tile[inside])

    def _read_back(self, level: int, where: Box, tile: NDArray[Any]) -> None:
        with FolderStore(self.target.stage.folder) as store:
            ZarrArray(store, self.target.metas[level], self.target.array(level)).read(where, tile)

    def _process(self, step: Step, slot: int) -> None:
        """Encode the chunks of a tile and halve them into the tile above."""
        box = self.grid.box(step.level, step.index)
        tile = self._tile(step.level, slot, box)
        parent = self._parent(step) if step.feeds else None
        chunk = self.layout.levels[step.level].chunk
        counts = [-(-(hi - lo) // c) for (lo, hi), c in zip(box, chunk, strict=True)]
        tasks = [
            self.pool.submit(self._chunk, step, box, tile, parent, tuple(map(int, index)))
            for index in np.ndindex(*counts)
        ]
        self._busy[(step.level, slot)] = tasks
        if parent is not None:
            self._feeding.setdefault(step.level + 1, []).extend(tasks)

    def _parent(self, step: Step) -> tuple[NDArray[Any], Region]:
        """The tile above, emptied before the first of its children is halved into it."""
        level = step.level + 1
        factors = self.layout.factors[step.level]
        index = tuple(i // f for i, f in zip(step.index, factors, strict=True))
        if self._parents.get(level) != index:
            self._free((level, 0))
            self._parents[level] = index
        box = self.grid.box(level, index)
        return self._tile(level, 0, box), box

    def _chunk(
        self,
        step: Step,
        box: Region,
        tile: NDArray[Any],
        parent: tuple[NDArray[Any], Region] | None,
        index: tuple[int, ...],
    ) -> None:
        """One chunk of a tile: into its shard, and halved into the tile above."""
        self.cancel.check()
        level = self.layout.levels[step.level]
        inside = tuple(
            slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, level.chunk, tile.shape, strict=True)
        )
        voxels = tile[inside]
        first = tuple(lo + s.start for (lo, _), s in zip(box, inside, strict=True))
        place = tuple(o // c for o, c in zip(first, level.chunk, strict=True))
        shard = tuple(p // n for p, n in zip(place, level.chunks_per_shard, strict=True))
        if step.write and shard not in self.done[step.level]:
            voxels = self._encoder.write(step.level, shard, place, voxels)
        if parent is not None:
            above, area = parent
            factors = self.layout.factors[step.level]
            goes = tuple(
                slice(o // f - lo, -(-(o + n) // f) - lo)
                for o, n, f, (lo, _) in zip(first, voxels.shape, factors, area, strict=True)
            )
            downsample(voxels, factors, self.target.method, above[goes])
