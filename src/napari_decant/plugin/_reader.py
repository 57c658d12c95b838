"""What napari calls for a path: a cheap yes or no, then the layers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from napari_decant.plugin._layers import LayerData

__all__ = ["SUFFIXES", "get_reader", "sample_data"]

SUFFIXES = (".zarr.zip", ".ozx")
_FOLDER_SIGNS = ("zarr.json", ".zgroup", ".zarray", ".zattrs", os.path.join(".decant", "manifest.json"))
_LOOKED_AT = 32  # entries of a folder; one with more is none around an image
_ADDRESSES = ("http", "https", "s3")

Reader = Callable[[str | Sequence[str]], Sequence[LayerData | tuple[None]]]


def get_reader(path: str | Sequence[str]) -> Reader | None:
    """Say whether a path is OME-Zarr or an archive; called on the GUI thread, also for any folder.

    Parameters
    ----------
    path : str or list of str
        A file, folder or address; a list where files are to be opened together.

    Returns
    -------
    callable or None
        Takes the same path and returns layers. None where the path is not ours; it never raises.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    return _read if paths and all(_is_ours(os.fspath(one)) for one in paths) else None


def _is_ours(path: str) -> bool:
    try:
        if "://" in path:
            parts = urlsplit(path)
            name = parts.path.rstrip("/").lower()
            return parts.scheme.lower() in _ADDRESSES and name.endswith((*SUFFIXES, ".zarr"))
        if os.path.isdir(path):
            return _is_zarr(path) or _holds_zarr(path)
        if not path.lower().endswith(SUFFIXES):
            return False
        with open(path, "rb") as file:
            return file.read(2) == b"PK"
    except (OSError, ValueError):  # names with a NUL are a ValueError
        return False


def _is_zarr(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, sign)) for sign in _FOLDER_SIGNS)


def _holds_zarr(folder: str) -> bool:
    """Whether OME-Zarr lies one folder down, as in what was unpacked with a folder around it."""
    with os.scandir(folder) as found:
        first = list(itertools.islice(found, _LOOKED_AT))
    return len(first) < _LOOKED_AT and any(
        entry.name.lower().endswith(".zarr") and _is_zarr(entry.path) for entry in first
    )


def _read(path: str | Sequence[str]) -> Sequence[LayerData | tuple[None]]:
    from napari_decant.plugin._open import read_for_napari

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    return read_for_napari([os.fspath(one) for one in paths])


def sample_data() -> list[Any]:
    """Return the packaged sample image as layers: what File > Open Sample shows."""
    from napari_decant._resources import sample_path
    from napari_decant.plugin._open import read_for_napari

    return list(read_for_napari([str(sample_path())]))
