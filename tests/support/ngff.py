"""OME-Zarr images as plain keys and bytes, written by hand so that every document can be wrong on purpose."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

AXES = {
    "t": {"name": "t", "type": "time", "unit": "second"},
    "c": {"name": "c", "type": "channel"},
    "z": {"name": "z", "type": "space", "unit": "micrometer"},
    "y": {"name": "y", "type": "space", "unit": "micrometer"},
    "x": {"name": "x", "type": "space", "unit": "micrometer"},
}


def ramp(shape: Sequence[int], dtype: str = "uint16") -> np.ndarray:
    """Pixels that are never zero and depend on their position."""
    top = 65535 if np.dtype(dtype).itemsize > 1 else 251
    return (1 + np.arange(int(np.prod(shape)), dtype=np.int64) % top).astype(dtype).reshape(shape)


def array_keys(
    path: str,
    data: np.ndarray,
    chunks: Sequence[int],
    zarr_format: int,
    *,
    separator: str | None = "/",
    dimension_names: Sequence[str] | None = None,
    fill_value: Any = 0,
    v2_keys: bool = False,
) -> dict[str, bytes]:
    """Uncompressed array of one level."""
    order = ">" if data.dtype.byteorder == ">" else "<"
    document: dict[str, Any] = {
        "zarr_format": zarr_format,
        "shape": list(data.shape),
        "fill_value": fill_value,
    }
    if zarr_format == 2:
        document |= {
            "chunks": list(chunks),
            "dtype": data.dtype.str,
            "order": "C",
            "filters": None,
            "compressor": None,
        }
        if separator is not None:
            document["dimension_separator"] = separator
        name = ".zarray"
    else:
        document |= {
            "node_type": "array",
            "data_type": data.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": {
                "name": "v2" if v2_keys else "default",
                "configuration": {"separator": separator or "/"},
            },
            "codecs": [{"name": "bytes", "configuration": {"endian": "big" if order == ">" else "little"}}],
        }
        if dimension_names is not None:
            document["dimension_names"] = list(dimension_names)
        name = "zarr.json"
    prefix = f"{path}/" if path else ""
    keys = {f"{prefix}{name}": json.dumps(document).encode()}
    grid = [range(-(-n // c)) for n, c in zip(data.shape, chunks, strict=True)]
    for index in itertools.product(*grid):
        block = np.full(chunks, fill_value or 0, data.dtype)
        part = data[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
        block[tuple(slice(0, n) for n in part.shape)] = part
        parts = [str(i) for i in index]
        if zarr_format == 3 and not v2_keys:
            parts.insert(0, "c")
        keys[prefix + ((separator or ".").join(parts) or "0")] = block.tobytes()
    return keys


def image_keys(
    levels: Sequence[np.ndarray],
    axes: str | Sequence[Any] = "zyx",
    *,
    version: str = "0.5",
    scales: Sequence[Sequence[Any]] | None = None,
    translations: Sequence[Sequence[Any] | None] | None = None,
    path: str = "",
    chunks: Sequence[int] | None = None,
    name: str | None = None,
    multiscale: dict[str, Any] | None = None,
    ome: dict[str, Any] | None = None,
    attributes: dict[str, Any] | None = None,
    **array: Any,
) -> dict[str, bytes]:
    """One image; anything of its documents can be replaced."""
    zarr_format = 3 if version.startswith("0.5") else 2
    described = [AXES.get(a, {"name": a}) if isinstance(a, str) else a for a in axes]
    datasets = []
    keys: dict[str, bytes] = {}
    names = [a.get("name", "") if isinstance(a, dict) else str(a) for a in described]
    for i, data in enumerate(levels):
        first = levels[0].shape
        scale = scales[i] if scales else [a / b for a, b in zip(first, data.shape, strict=True)]
        steps: list[dict[str, Any]] = [{"type": "scale", "scale": list(scale)}]
        if translations and translations[i] is not None:
            steps.append({"type": "translation", "translation": list(translations[i] or ())})
        datasets.append({"path": str(i), "coordinateTransformations": steps})
        where = f"{path}/{i}" if path else str(i)
        options = (
            {"dimension_names": names[: data.ndim]} if zarr_format == 3 and len(names) == data.ndim else {}
        )
        keys |= array_keys(where, data, chunks or data.shape, zarr_format, **(options | array))
    entry: dict[str, Any] = {"axes": described, "datasets": datasets}
    if name is not None:
        entry["name"] = name
    entry |= multiscale or {}
    content: dict[str, Any] = {"multiscales": [entry]} | (ome or {})
    keys |= group_keys(path, content, version, attributes)
    return keys


def group_keys(
    path: str, content: dict[str, Any], version: str = "0.5", attributes: dict[str, Any] | None = None
) -> dict[str, bytes]:
    """One group with OME attributes."""
    prefix = f"{path}/" if path else ""
    if version.startswith("0.5"):
        own = {"ome": {"version": version} | content} | (attributes or {})
        document = {"zarr_format": 3, "node_type": "group", "attributes": own}
        return {f"{prefix}zarr.json": json.dumps(document).encode()}
    for entry in content.get("multiscales", ()):
        if isinstance(entry, dict):
            entry.setdefault("version", version)
    return {
        f"{prefix}.zgroup": b'{"zarr_format": 2}',
        f"{prefix}.zattrs": json.dumps(content | (attributes or {})).encode(),
    }
