"""Where in a store the images begin."""

from __future__ import annotations

from napari_decant.errors import AccessRefused, UnsafeInput
from napari_decant.stores._base import Store
from napari_decant.stores._keys import join_key

__all__ = ["ZARR_METADATA", "find_roots"]

ZARR_METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs")
_MAX_DEPTH, _MAX_FOLDERS = 4, 10_000
_NOISE = ("__MACOSX",)


def find_roots(store: Store) -> list[str]:
    """Find the outermost Zarr nodes of a store.

    Zipping a folder instead of its contents puts one folder around everything; this finds it.

    Parameters
    ----------
    store : Store
        Any store. One that cannot be listed (http) is only looked at directly.

    Returns
    -------
    list of str
        ``[""]`` where the store itself is a Zarr node, else the paths of the outermost nodes below,
        sorted. Several are several candidates: the choice is the caller's. ``__MACOSX/`` and hidden
        folders are left out.

    Raises
    ------
    UnsafeInput
        The store has too many folders to look through.
    """
    if _is_node(store):
        return [""]
    if not store.listable:
        return []
    found: list[str] = []
    level, looked_at = [""], 0
    for _ in range(_MAX_DEPTH):
        below: list[str] = []
        for path in level:
            looked_at += 1
            if looked_at > _MAX_FOLDERS:
                raise UnsafeInput(
                    f"{store.uri} has more than {_MAX_FOLDERS:,} folders and no Zarr node at its root"
                )
            groups, keys = store.list_dir(path)
            if path and any(name in keys for name in ZARR_METADATA):
                found.append(path)
                continue
            below += [join_key(path, g) for g in groups if g not in _NOISE and not g.startswith(".")]
        level = below
    return sorted(found)


def _is_node(store: Store) -> bool:
    """Whether a Zarr node is at the root; a server may refuse what is not there."""
    refused: AccessRefused | None = None
    for name in ZARR_METADATA:
        try:
            if store.exists(name):
                return True
        except AccessRefused as error:
            refused = error
    if refused is not None:
        raise refused
    return False
