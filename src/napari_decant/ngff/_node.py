"""Zarr groups and arrays as their metadata documents say, for Zarr v2 and v3 alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from napari_decant.errors import FormatError
from napari_decant.ngff._zarr_json import load_json
from napari_decant.stores import FileMetadataReader, MetadataBudget, Store, join_key

__all__ = ["Node", "read_nodes"]

_NAMES = {2: (".zattrs", ".zarray", ".zgroup"), 3: ("zarr.json",)}
_ALL = _NAMES[3] + _NAMES[2]


@dataclass(frozen=True, slots=True)
class Node:
    """One Zarr group or array.

    Attributes
    ----------
    path : str
        Within the store.
    zarr_format : int
        2 or 3.
    attributes : dict
        All attributes.
    ome : dict
        Where the OME-NGFF keys stand: ``attributes["ome"]`` since 0.5, the attributes themselves before.
    array : dict or None
        The array's own document; None for a group.
    where : str
        Names the document in messages.
    not_finite : bool
        Whether a document had a bare NaN or Infinity, which JSON has not.
    """

    path: str
    zarr_format: int
    attributes: dict[str, Any]
    ome: dict[str, Any]
    array: dict[str, Any] | None
    where: str
    not_finite: bool


def _has_not_finite(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def _document(store: Store, key: str, raw: bytes) -> tuple[dict[str, Any], bool]:
    where = f"{key} in {store.uri}"
    value = load_json(raw, where)
    if not isinstance(value, dict):
        raise FormatError(f"{where} is not a JSON object; the file may be damaged")
    return value, (b"NaN" in raw or b"Infinity" in raw) and _has_not_finite(value)


def _sub(obj: dict[str, Any], key: str) -> dict[str, Any]:
    value = obj.get(key)
    return value if isinstance(value, dict) else {}


def read_nodes(
    store: Store,
    paths: Iterable[str],
    reader: FileMetadataReader,
    budget: MetadataBudget | None = None,
    zarr_format: int | None = None,
    perhaps: Iterable[str] = (),
) -> dict[str, Node]:
    """Read what stands at each path; paths without a Zarr document are left out.

    Parameters
    ----------
    store : Store
        Where from.
    paths : iterable of str
        Paths of groups or arrays within the store.
    reader : FileMetadataReader
        Reads all documents in one go.
    budget : MetadataBudget, optional
        Charged with their sizes.
    zarr_format : int, optional
        Look for documents of this format first, and for the other only where none is found.
    perhaps : iterable of str, optional
        More paths, which often hold nothing: both formats are asked for at once, since a second round of
        requests for what is not there would double the time to open an image over a network.

    Raises
    ------
    FormatError
        A document is no JSON object.
    UnsafeInput
        A document is nested too deeply or too large, or a path leaves the store.
    BudgetExceeded
        The documents exceed the budget.
    """
    names = _NAMES[zarr_format] if zarr_format else _ALL
    asked = {path.strip("/"): names for path in paths} | {path.strip("/"): _ALL for path in perhaps}
    keys = [join_key(path, name) for path, documents in asked.items() for name in documents]
    raw = reader.read_many(store, keys, budget)
    nodes = {path: node for path in asked if (node := _node(store, path, raw)) is not None}
    if rest := [path for path, documents in asked.items() if path not in nodes and documents != _ALL]:
        nodes |= read_nodes(store, rest, reader, budget)
    return {path: nodes[path] for path in asked if path in nodes}


def _node(store: Store, path: str, raw: dict[str, bytes]) -> Node | None:
    key = join_key(path, "zarr.json")
    if key in raw:
        document, odd = _document(store, key, raw[key])
        attributes = _sub(document, "attributes")
        array = document if document.get("node_type") == "array" else None
        ome = _sub(attributes, "ome") or attributes
        return Node(path, 3, attributes, ome, array, f"{key} in {store.uri}", odd)
    keys = {name: join_key(path, name) for name in _NAMES[2]}
    found = {name: _document(store, key, raw[key]) for name, key in keys.items() if key in raw}
    if not found:
        return None
    attributes, odd = found.get(".zattrs", ({}, False))
    array = found[".zarray"][0] if ".zarray" in found else None
    named = next(name for name in (".zarray", ".zattrs", ".zgroup") if name in found)
    ome = _sub(attributes, "ome") if "multiscales" not in attributes else attributes
    return Node(path, 2, attributes, ome or attributes, array, f"{keys[named]} in {store.uri}", odd)
