"""Where the bytes of chunks lie: objects of their own, or ranges of shards."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.engine._metadata import ZarrMetadata
from napari_decant.engine._plan import PlanArray
from napari_decant.errors import BudgetExceeded, DecantError
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.stores import RemoteStore

__all__ = ["ABSENT", "FAILED", "Located", "chunk_key", "locate_chunks"]

ABSENT: Final = -1
FAILED: Final = -2
_FEW: Final = 16  # below this plain Python is faster than numpy


class Located:
    """Byte ranges of chunks.

    Attributes
    ----------
    file : int32 array
        Index into the plan's files, `ABSENT` or `FAILED`.
    offset, length : int64 arrays
        The length is -1 where only reading tells it.
    errors : dict
        Why, by chunk, for those that failed.
    """

    def __init__(self, count: int) -> None:
        self.file = np.full(count, ABSENT, np.int32)
        self.offset = np.zeros(count, np.int64)
        self.length = np.zeros(count, np.int64)
        self.errors: dict[int, DecantError] = {}

    def error_among(self, rows: NDArray[np.int64]) -> DecantError | None:
        """Return the first error of some chunks."""
        if not self.errors:
            return None
        return next((self.errors[row] for row in rows.tolist() if row in self.errors), None)

    def fail(self, rows: NDArray[np.int64], error: DecantError) -> None:
        """Note that chunks cannot be located."""
        self.file[rows] = FAILED
        self.errors.update(dict.fromkeys(rows.tolist(), error))


def chunk_key(array: PlanArray, index: list[int]) -> str:
    """Key of the object, within its store, that holds a chunk."""
    per = array.meta.chunks_per_shard
    key = array.meta.object_key([i // n for i, n in zip(index, per, strict=False)])
    return f"{array.path}/{key}" if array.path else key


def locate_chunks(
    metadata: ZarrMetadata,
    array: PlanArray,
    positions: NDArray[np.int64],
    files: dict[tuple[str, str], int],
    limits: PlanLimits,
) -> Located:
    """Find the byte range of every chunk.

    Parameters
    ----------
    positions : int64 array, shape (chunks, rank)
        Places in the grid of (inner) chunks.
    files : dict
        Files met so far; new ones are added.

    Raises
    ------
    BudgetExceeded
        More shard indexes would be read than ``limits`` allow.
    StorageError
        The store cannot be opened.
    """
    found = Located(len(positions))
    if not len(positions):
        return found
    if array.meta.shard_shape is not None:
        _in_shards(metadata, array, positions, files, limits, found)
        return found
    keys = [chunk_key(array, row) for row in positions.tolist()]
    if isinstance(metadata.store(array.uri), RemoteStore):
        # asking for each size would double the round trips, so reading tells
        found.length[:] = -1
        found.file[:] = [files.setdefault((array.uri, key), len(files)) for key in keys]
        return found
    for row, extent in enumerate(metadata.extents(array.uri, keys)):
        if isinstance(extent, DecantError):
            found.fail(np.array([row]), extent)
        elif extent is not None:
            found.file[row] = files.setdefault((array.uri, extent.file), len(files))
            found.offset[row], found.length[row] = extent.offset, extent.length
    return found


def _in_shards(
    metadata: ZarrMetadata,
    array: PlanArray,
    positions: NDArray[np.int64],
    files: dict[tuple[str, str], int],
    limits: PlanLimits,
    found: Located,
) -> None:
    meta = array.meta
    if len(positions) <= _FEW:
        _few_in_shards(metadata, array, positions.tolist(), files, limits, found)
        return
    per = np.asarray(meta.chunks_per_shard, np.int64)
    shard = positions // per
    inner = (
        np.ravel_multi_index(tuple((positions - shard * per).T), tuple(per))
        if meta.rank
        else np.zeros(1, int)
    )
    shards, which = _distinct_rows(shard)
    keys = [chunk_key(array, row) for row in (shards * per).tolist()]
    _check_budget(metadata, array.uri, meta, keys, limits)
    for at, located in enumerate(metadata.shards(array.uri, meta, keys)):
        rows = np.flatnonzero(which == at) if len(keys) > 1 else np.arange(len(positions))
        if isinstance(located, DecantError):
            found.fail(rows, located)
        elif located is not None:
            extent, index = located
            begin = index.offsets[inner[rows]]
            held = begin >= 0
            found.file[rows] = np.where(
                held, files.setdefault((array.uri, extent.file), len(files)) if held.any() else ABSENT, ABSENT
            )
            found.offset[rows] = extent.offset + np.maximum(begin, 0)
            found.length[rows] = index.lengths[inner[rows]]


def _few_in_shards(
    metadata: ZarrMetadata,
    array: PlanArray,
    positions: list[list[int]],
    files: dict[tuple[str, str], int],
    limits: PlanLimits,
    found: Located,
) -> None:
    meta = array.meta
    per = meta.chunks_per_shard
    members: dict[str, list[tuple[int, int]]] = {}
    for row, index in enumerate(positions):
        inner = 0
        for i, n in zip(index, per, strict=True):
            inner = inner * n + i % n
        members.setdefault(chunk_key(array, index), []).append((row, inner))
    keys = list(members)
    _check_budget(metadata, array.uri, meta, keys, limits)
    for key, located in zip(keys, metadata.shards(array.uri, meta, keys), strict=True):
        if isinstance(located, DecantError):
            found.fail(np.array([row for row, _ in members[key]]), located)
        elif located is not None:
            extent, shard = located
            for row, inner in members[key]:
                begin = int(shard.offsets[inner])
                if begin >= 0:
                    found.file[row] = files.setdefault((array.uri, extent.file), len(files))
                    found.offset[row] = extent.offset + begin
                    found.length[row] = shard.lengths[inner]


def _distinct_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not (rows != rows[0]).any():
        return rows[:1], np.zeros(len(rows), np.int64)
    low = rows.min(axis=0)
    dims = rows.max(axis=0) - low + 1
    if math.prod(float(n) for n in dims) < 2.0**62:
        _, pick, inverse = np.unique(
            np.ravel_multi_index(tuple((rows - low).T), tuple(dims)), return_index=True, return_inverse=True
        )
    else:
        _, pick, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return rows[pick], inverse.reshape(-1)


def _check_budget(
    metadata: ZarrMetadata, uri: str, meta: ArrayMeta, keys: list[str], limits: PlanLimits
) -> None:
    need = meta.index_nbytes * sum(metadata.cache.shard(uri, key) is None for key in keys)
    if need > limits.max_index_bytes:
        raise BudgetExceeded("max_index_bytes", need, limits.max_index_bytes, f"the shard indexes of {uri}")
