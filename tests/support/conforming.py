"""An image that follows the array standard, written by zarr-python, whose documents can then be spoiled."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import zarr
import zarr.storage
from zarr.codecs import ZstdCodec

from .ngff import ramp

__all__ = ["conforming", "edit", "halve", "keys_of"]

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


def halve(data: np.ndarray, how: str = "mean") -> np.ndarray:
    """The next level of a t, c, z, y, x array: blocks of two along z, y, x, those at the edge as they are."""
    for axis in (2, 3, 4):
        if data.shape[axis] % 2 and data.shape[axis] > 1:
            last = np.take(data, [-1], axis)
            data = np.concatenate([data, last], axis)
    t, c, z, y, x = data.shape
    f = tuple(2 if n > 1 else 1 for n in (z, y, x))
    blocks = data.reshape(t, c, z // f[0], f[0], y // f[1], f[1], x // f[2], f[2])
    if how == "max":
        return blocks.max(axis=(3, 5, 7))
    mean = blocks.astype(np.float64).mean(axis=(3, 5, 7))
    return (np.rint(mean) if data.dtype.kind in "iu" else mean).astype(data.dtype)


def keys_of(store: zarr.storage.MemoryStore) -> dict[str, bytes]:
    """What a memory store of zarr-python holds."""
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def conforming(
    shape: Sequence[int] = (1, 1, 20, 40, 48),
    dtype: str = "uint16",
    *,
    levels: int = 3,
    how: str = "mean",
    label: bool = False,
    data: Sequence[np.ndarray] | None = None,
    path: str = "",
    chunk: Sequence[int] | None = None,
    shard: Sequence[int] | None = None,
    compressors: Sequence[Any] = (ZstdCodec(level=1),),
) -> dict[str, bytes]:
    """Keys of an image smaller than 512 KB: one chunk in one shard a level."""
    store = zarr.storage.MemoryStore()
    arrays = list(data) if data is not None else [ramp(shape, dtype)]
    while len(arrays) < levels:
        arrays.append(halve(arrays[-1], how))
    datasets = []
    scale, shift = [1.0, 1.0, 1.0, 0.5, 0.5], [0.0] * 5
    for i, array in enumerate(arrays):
        made = zarr.create_array(
            store=store,
            name=f"{path}/{i}" if path else str(i),
            shape=array.shape,
            dtype=array.dtype,
            chunks=tuple(chunk or array.shape),
            shards=tuple(shard or chunk or array.shape),
            compressors=list(compressors),
            fill_value=0,
            dimension_names=list("tczyx"),
        )
        made[...] = array
        steps: list[dict[str, Any]] = [{"type": "scale", "scale": list(scale)}]
        steps.append({"type": "translation", "translation": list(shift)})
        datasets.append({"path": str(i), "coordinateTransformations": steps})
        for axis in (2, 3, 4):
            if array.shape[axis] > 1:
                shift[axis] += scale[axis] / 2
                scale[axis] *= 2
    axes = [
        {"name": n, "type": k} | ({"unit": "micrometer"} if k == "space" else {}) for n, k in TYPES.items()
    ]
    axes[0]["unit"] = "second"
    ome: dict[str, Any] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    if label:
        ome["image-label"] = {"source": {"image": "../../"}}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    # groups above the image are the caller's
    keys = {key: value for key, value in keys_of(store).items() if key.startswith(f"{path}/" if path else "")}
    keys[f"{path}/zarr.json" if path else "zarr.json"] = json.dumps(group).encode()
    return keys


def edit(keys: dict[str, bytes], key: str, change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    """Change one JSON document of a store."""
    document = json.loads(keys[key])
    change(document)
    return keys | {key: json.dumps(document).encode()}
