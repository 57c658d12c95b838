"""Archives for `open_image`: what has no pixel array at its root shows through the archived TIFF.

A byte-exact archive is an OME-Zarr image and needs nothing of this. A file kept verbatim opens as a file
inside the archive, and its pages are read from there; a nested series lists the images of its members.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from napari_decant.archive._manifest import MANIFEST_KEY
from napari_decant.archive._original import original_file
from napari_decant.archive._reader import Archive
from napari_decant.errors import ChoiceNeeded, DecantError, FormatError, UnsupportedOperation, UsageError
from napari_decant.images import (
    ArrayLimits,
    ChunkCache,
    Image,
    ImageEntry,
    ImageSource,
    Location,
    list_images,
    open_image,
    register_opener,
)
from napari_decant.images._tiff import TiffImages
from napari_decant.stores import Store, local_path

__all__ = ["open_archive"]

_ZARR = ("zarr.json", ".zarray", ".zgroup")
_MAX_LISTED: Final = 1000  # members whose images are looked at for a list


def open_archive(
    location: Location, cache: ChunkCache | None, limits: ArrayLimits | None
) -> ImageSource | None:
    """Open an archive whose pixels are not an array; None for anything else.

    Parameters
    ----------
    location : Location
        What to open.
    cache, limits : optional
        See `open_image`.

    Raises
    ------
    FormatError, UnsafeInput, UnsupportedOperation
        The archive is damaged or unsafe, needs a newer version, or holds a file that is no image.
    """
    if isinstance(location.where, Store):
        return None
    path, store = local_path(location.where), location.store
    if path is None or store is None or not store.exists(MANIFEST_KEY):
        return None
    if store.exists("original/.zarray"):
        location.close()  # the archive opens the file anew
        return _verbatim(path, cache, limits)
    if any(store.exists(name) for name in _ZARR) or store.exists("0/.zarray"):
        return None
    location.close()
    return _Nested(path, cache, limits)


def _verbatim(path: Path, cache: ChunkCache | None, limits: ArrayLimits | None) -> ImageSource:
    file = original_file(path)
    name = file.uri.replace("\\", "/").rpartition("/")[2]
    try:
        return TiffImages(file, name, uri=str(path), cache=cache, limits=limits)
    except FormatError as error:
        raise UnsupportedOperation(
            f"{path} keeps {name} as it is, which cannot be shown ({error});"
            " `napari-decant restore` gives it back"
        ) from error


class _Nested:
    """The members of a nested series; an image's path is ``PART/PATH WITHIN IT``."""

    def __init__(self, path: Path, cache: ChunkCache | None, limits: ArrayLimits | None) -> None:
        self._path, self._cache, self._limits = path, cache, limits
        with Archive(path) as archive:
            members = archive.manifest.members
            if archive.manifest.mode != "series" or not members:
                raise FormatError(f"{path} has a manifest but no pixels; the archive is damaged")
        self._members = [(member.relpath, member.subarchive) for member in members]
        for _, part in self._members:
            if not part or part in (".", "..") or "/" in part or "\\" in part:
                raise FormatError(f"{path} names the part {part!r}, which is not beside its manifest")

    def list_images(self) -> list[ImageEntry]:
        """See `ImageSource.list_images`."""
        entries = []
        for number, (name, part) in enumerate(self._members):
            if number >= _MAX_LISTED:  # opening a hundred thousand files for a list helps nobody
                entries.append(ImageEntry(name, part))
                continue
            try:
                found = list_images(self._path / part)
            except DecantError as error:
                entries.append(ImageEntry(name, part, error=str(error)))
                continue
            several = len(found) > 1
            entries += [
                ImageEntry(
                    f"{name} - {entry.name}" if several else name,
                    f"{part}/{entry.path}" if several else part,
                    entry.kind,
                    entry.shape,
                    entry.dtype,
                    entry.axes,
                    entry.levels,
                    entry.multiscale_index,
                    entry.error,
                )
                for entry in found
            ]
        return entries

    def open(self, image: str | None) -> Image:
        """See `ImageSource.open`."""
        if image is None and len(self._members) > 1:
            raise ChoiceNeeded(
                f"{self._path} holds {len(self._members):,} files; name one of them",
                tuple(self.list_images()),
            )
        part, _, rest = (image or self._members[0][1]).partition("/")
        if part not in {known for _, known in self._members}:
            raise UsageError(f"{self._path} has no image {image!r}")
        return open_image(self._path / part, image=rest or None, cache=self._cache, limits=self._limits)

    def close(self) -> None:
        """See `ImageSource.close`; nothing is held."""


register_opener("archive", open_archive)
