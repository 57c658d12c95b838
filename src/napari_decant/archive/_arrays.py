"""Opening the arrays of an archive; those that are alike share their metadata."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from napari_decant.engine import ZarrArray
from napari_decant.errors import FormatError, MissingKey
from napari_decant.ngff import ArrayMeta, load_array_meta
from napari_decant.stores import Store

__all__ = ["ArchiveArrays"]

_MAX_DOCUMENT = 1 << 20  # of an array; larger ones are refused by whoever parses them
_KEPT_METAS = 64


class ArchiveArrays:
    """The arrays of one archive.

    Parameters
    ----------
    store : Store
        Of the archive.
    path : Path
        Of the archive, for messages.

    Raises
    ------
    FormatError
        From every method: the array is not there, or is another one than the manifest says.
    """

    def __init__(self, store: Store, path: Path) -> None:
        self._store, self._path = store, path
        self._pixels: ZarrArray | None = None
        self._metas: dict[bytes, ArrayMeta] = {}

    def _array(self, name: str) -> ZarrArray:
        key = f"{name}/.zarray"
        try:
            # a hundred thousand husks have few kinds of documents among them
            document = self._store.read(key, limit=_MAX_DOCUMENT) if self._store.exists(key) else b""
            meta = self._metas.get(document)
            if meta is None:
                meta = load_array_meta(self._store, name)
                if document and len(self._metas) < _KEPT_METAS:
                    self._metas[document] = meta
            return ZarrArray(self._store, meta, name)
        except MissingKey:
            raise FormatError(
                f"{self._path} lacks the array {name!r}; the archive is damaged or incomplete"
            ) from None

    def pixels(self) -> ZarrArray:
        """The array of all pixels."""
        if self._pixels is None:
            self._pixels = self._array("0")
        return self._pixels

    def bytes_of(self, name: str, size: int) -> ZarrArray | None:
        """The array of bytes of that name and length; None if there are none."""
        if size == 0:
            return None
        array = self._array(name)
        if len(array.shape) != 1 or array.dtype != np.uint8 or array.shape[0] != size:
            raise FormatError(
                f"array {name!r} of {self._path} does not hold {size:,} bytes; the archive is damaged"
            )
        return array
