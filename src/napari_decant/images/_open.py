"""`open_image`, the one way from a location to an image, and the registry of what can be opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Protocol
from urllib.parse import unquote, urlsplit

import napari_decant
from napari_decant.errors import UnsupportedOperation
from napari_decant.images._cache import ChunkCache
from napari_decant.images._image import Image
from napari_decant.images._lazy import ArrayLimits
from napari_decant.images._zarr import image_from_ngff
from napari_decant.ngff import ImageEntry, NgffImage
from napari_decant.ngff import list_images as list_ngff
from napari_decant.stores import (
    ZIP_SUFFIXES,
    PositionalFile,
    Store,
    local_path,
    open_positional,
    open_store,
)

__all__ = [
    "TIFF_SUFFIXES",
    "ImageSource",
    "Location",
    "Opener",
    "list_images",
    "open_image",
    "register_opener",
]

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
TIFF_SUFFIXES = (
    ".tif",
    ".tiff",
    ".btf",
    ".tf2",
    ".tf8",
    ".ptif",
    ".ptiff",
    ".lsm",
    ".stk",
    ".flex",
    ".svs",
    ".ndpi",
    ".scn",
    ".bif",
    ".qptiff",
    ".pcoraw",
)
"""Names of TIFFs; what a folder is searched for. A file that is named itself may be called anything."""


class Location:
    """Something to open, looked at by each opener in turn; the store or file behind it is opened once.

    Attributes
    ----------
    where : str, path or Store
        As given.
    text : str
        For messages.
    """

    def __init__(self, where: str | os.PathLike[str] | Store) -> None:
        self.where = where
        self.text = where.uri if isinstance(where, Store) else os.fspath(where)

    @property
    def name(self) -> str:
        """Last component, the file's or folder's name."""
        last = self.text.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return unquote(last) if "://" in self.text else last

    @cached_property
    def store(self) -> Store | None:
        """The store, which becomes the image's; None if the location is a file of another kind."""
        if isinstance(self.where, Store):
            return self.where
        path = local_path(self.where)
        if path is None and self._remote_tiff:
            return None
        zipped = self.head[:2] == b"PK" or self.text.lower().endswith(ZIP_SUFFIXES)
        if path is not None and path.is_file() and not zipped:
            return None
        return open_store(self.where)

    @property
    def _remote_tiff(self) -> bool:
        return urlsplit(self.text).path.lower().endswith(TIFF_SUFFIXES)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a local file; empty for anything else."""
        path = None if isinstance(self.where, Store) else local_path(self.where)
        if path is None or not path.is_file():
            return b""
        with self.open_file() as file:
            return file.read_at(0, min(16, file.size))

    def open_file(self) -> PositionalFile:
        """Open the location as one file; closing it is the caller's."""
        if isinstance(self.where, Store):
            raise UnsupportedOperation(f"{self.text} is a store, not a file")
        return open_positional(self.where)

    def close(self) -> None:
        """Release the store if it was opened for this location and nothing took it over."""
        store = self.__dict__.get("store")
        if store is not None and store is not self.where:
            store.close()


class ImageSource(Protocol):
    """What an opener returns: the images of one location."""

    def list_images(self) -> list[ImageEntry]:
        """Say what there is, without reading pixels."""

    def open(self, image: str | None) -> Image:
        """Open one by its entry's path, or the only one; raise `ChoiceNeeded` if there are several."""

    def close(self) -> None:
        """Release everything; called where no image was opened."""


Opener = Callable[[Location, ChunkCache | None, ArrayLimits | None], ImageSource | None]
"""Returns None for a location that is not its own. It must be cheap and must not raise for foreign ones."""

_openers: dict[str, Opener] = {}


def register_opener(name: str, opener: Opener) -> None:
    """Add an opener; later ones are asked first, and the same name replaces.

    Parameters
    ----------
    name : str
        What it opens.
    opener : callable
        See `Opener`.
    """
    _openers.pop(name, None)
    _openers[name] = opener


class _ZarrImages:
    def __init__(
        self, location: Location, store: Store, cache: ChunkCache | None, limits: ArrayLimits | None
    ) -> None:
        self.location, self.store, self.cache, self.limits = location, store, cache, limits

    def list_images(self) -> list[ImageEntry]:
        return list_ngff(self.store)

    def open(self, image: str | None) -> Image:
        path, index = _split_index(image or "")
        ngff = NgffImage(self.store, path=path, multiscale_index=index)
        owned = self.store is not self.location.where
        return image_from_ngff(ngff, self.store, self.cache, self.limits, owned=owned)

    def close(self) -> None:
        self.location.close()


def _split_index(image: str) -> tuple[str, int]:
    """``PATH#2`` is the third multiscales entry at ``PATH``."""
    path, mark, number = image.rpartition("#")
    return (path, int(number)) if mark and number.isdigit() else (image, 0)


def open_zarr(location: Location, cache: ChunkCache | None, limits: ArrayLimits | None) -> ImageSource | None:
    """Open OME-Zarr and plain Zarr arrays in folders, zip files and behind addresses."""
    store = location.store
    return None if store is None else _ZarrImages(location, store, cache, limits)


def open_tiff(location: Location, cache: ChunkCache | None, limits: ArrayLimits | None) -> ImageSource | None:
    """Open TIFF files, local or remote."""
    if isinstance(location.where, Store):
        return None
    if location.head[:4] in _TIFF_MAGIC or (local_path(location.where) is None and location._remote_tiff):
        from napari_decant.images._tiff import TiffImages

        return TiffImages(location.open_file(), location.name, cache=cache, limits=limits)
    return None


register_opener("zarr", open_zarr)
register_opener("tiff", open_tiff)


def _import_openers(location: Location) -> None:
    """Import what registers an opener for a file or folder of this machine that has its mark."""
    path = None if isinstance(location.where, Store) else local_path(location.where)
    if path is None or not path.exists() or location.store is None:
        return
    for mark, package in napari_decant.OPENERS.items():
        if location.store.exists(mark):
            import_module(f"napari_decant.{package}")


def _source(location: Location, cache: ChunkCache | None, limits: ArrayLimits | None) -> ImageSource:
    _import_openers(location)
    for opener in reversed(list(_openers.values())):
        source = opener(location, cache, limits)
        if source is not None:
            return source
    raise UnsupportedOperation(
        f"{location.text} is neither OME-Zarr (a folder, .zarr.zip, .ozx), nor TIFF, nor an archive of"
        " this program"
    )


def open_image(
    location: str | os.PathLike[str] | Store,
    *,
    image: str | ImageEntry | None = None,
    cache: ChunkCache | None = None,
    limits: ArrayLimits | None = None,
) -> Image:
    """Open one image for viewing: OME-Zarr of every version, TIFF, and our archives, all lazily.

    Parameters
    ----------
    location : str, path or Store
        A folder, a zip file, a TIFF file, or an address (``http(s)://``, ``s3://``).
    image : str or ImageEntry, optional
        Which of several images, by the path that `list_images` gives; ``PATH#N`` for the N-th multiscales
        of a group.
    cache : ChunkCache, optional
        Where decoded chunks are kept; all images share one unless told otherwise.
    limits : ArrayLimits, optional
        How much memory one read may take.

    Returns
    -------
    Image
        Its arrays keep the file open for as long as they live.

    Raises
    ------
    ChoiceNeeded
        There are several images and ``image`` names none; ``choices`` lists them.
    UnsupportedOperation
        Nothing here opens it.
    FormatError, UnsafeInput, StorageError, BudgetExceeded
        It is damaged, unsafe, cannot be read, or asks for too much.
    """
    if isinstance(image, ImageEntry):
        image = f"{image.path}#{image.multiscale_index}" if image.multiscale_index else image.path
    place = Location(location)
    source = None
    try:
        source = _source(place, cache, limits)
        return source.open(image)
    except BaseException:
        if source is not None:
            source.close()
        place.close()
        raise


def list_images(location: str | os.PathLike[str] | Store) -> list[ImageEntry]:
    """List every image at a location without reading pixels; see `open_image` for the locations."""
    place = Location(location)
    try:
        source = _source(place, None, None)
    except BaseException:
        place.close()
        raise
    try:
        return source.list_images()
    finally:
        source.close()
