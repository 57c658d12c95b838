"""What an error at a chunk means: damaged, or changed since it was planned."""

from __future__ import annotations

import numpy as np

from napari_decant.engine._locate import chunk_key
from napari_decant.engine._metadata import StoreHolder
from napari_decant.engine._plan import Plan
from napari_decant.engine._shards import index_range, parse_shard_index
from napari_decant.errors import BudgetExceeded, Cancelled, DecantError, DeviceUnavailable, SourceChanged
from napari_decant.stores._base import Store

__all__ = ["explain"]


def explain(plan: Plan, chunk: int, error: DecantError, stores: StoreHolder) -> DecantError:
    """Return the error with the chunk's name, or `SourceChanged` if its bytes moved meanwhile.

    Looks at the store again, so it is only called after something went wrong.
    """
    if isinstance(error, Cancelled | DeviceUnavailable | BudgetExceeded):  # not the chunk's fault
        return error
    array = plan.arrays[int(plan.chunk_array[chunk])]
    index = plan.chunk_index[chunk, : array.meta.rank].tolist()
    name = f"chunk {'/'.join(map(str, index))} of {array.path or 'the array'} in {array.uri}"
    planned = int(plan.chunk_offset[chunk]), int(plan.chunk_length[chunk])
    try:
        found = _place(stores.store(array.uri), plan, chunk, index)
    except DecantError:
        found = planned  # it cannot be told, so the first error stands
    if planned[1] >= 0 and found != planned:
        return SourceChanged(f"{name} moved or changed while it was being read; open the image again")
    if str(error).startswith("chunk "):
        return error
    error.args = (f"{name}: {error}", *error.args[1:])
    return error


def _place(store: Store, plan: Plan, chunk: int, index: list[int]) -> tuple[int, int]:
    """Where the bytes of a chunk lie now."""
    array = plan.arrays[int(plan.chunk_array[chunk])]
    meta, key = array.meta, chunk_key(array, index)
    extent = store.extent(key)
    if extent is None:
        return -1, -1
    if meta.shard_shape is None:
        return extent.offset, extent.length
    start, size = index_range(meta, extent.length, key)
    raw = store.read_file(extent.file, extent.offset + start, size)
    found = parse_shard_index(meta, raw, extent.length, key)
    per = meta.chunks_per_shard
    at = int(np.ravel_multi_index([i % n for i, n in zip(index, per, strict=True)], per)) if per else 0
    return extent.offset + int(found.offsets[at]), int(found.lengths[at])
