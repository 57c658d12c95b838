"""Open an archive and check its numbers against each other before any work is done with them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np

from napari_decant.archive._axes import canonical_permutation
from napari_decant.archive._geometry import ByteOrder, PageLayout
from napari_decant.archive._layout import Regions, regions_of
from napari_decant.archive._manifest import (
    MANIFEST_KEY,
    MAX_MANIFEST_BYTES,
    Manifest,
    Member,
    PageRecord,
    load_manifest,
)
from napari_decant.archive._names import real_name
from napari_decant.engine import ZarrArray
from napari_decant.errors import FormatError, IncompleteFile, MissingKey, StorageError
from napari_decant.stores import FolderStore, LocalFile, Store, ZipStore, open_zip, salvage_directory
from napari_decant.stores._atomic import require_path
from napari_decant.stores._positional import ParkedFile

__all__ = ["Archive", "ArchivedFile"]

_MAX_ATTRIBUTES = 64 << 20


@dataclass(frozen=True, eq=False)
class ArchivedFile:
    """One original file inside an archive and what is needed to rebuild it.

    A file kept verbatim is one whose husk is the whole file.

    Attributes
    ----------
    name : str
        POSIX path of the file below the folder that it is restored into.
    size, sha256 : int, str
        Of the original.
    byteorder : {"<", ">"}
        Of its pixels.
    husk : ZarrArray or None
        None if the husk is empty.
    husk_size : int
        Bytes.
    pixels : ZarrArray or None
        None if no page is listed.
    pages : sequence of PageLayout
    indices : sequence of int
        Storage position of each page in the pixel array.
    plane_order : sequence of str
    """

    name: str
    size: int
    sha256: str
    byteorder: ByteOrder
    husk: ZarrArray | None
    husk_size: int
    pixels: ZarrArray | None = None
    pages: Sequence[PageLayout] = ()
    indices: Sequence[int] = ()
    plane_order: Sequence[str] = ()

    @cached_property
    def regions(self) -> Regions:
        """Pixel regions of the file in offset order."""
        return regions_of(self.pages)

    def coordinate(self, page: int) -> tuple[int, ...]:
        """Leading array coordinate of a page (section 5, ``read_page``)."""
        assert self.pixels is not None
        leading = self.pixels.shape[: len(self.pixels.shape) - len(self.pages[page].shape)]
        if not self.plane_order:
            return tuple(int(i) for i in np.unravel_index(self.indices[page], leading))
        perm = canonical_permutation(self.plane_order)
        storage_shape = [leading[perm.index(i)] for i in range(len(perm))]
        position = np.unravel_index(self.indices[page], storage_shape)
        return tuple(int(position[axis]) for axis in perm)


def _open_store(path: Path, *, salvage: bool, parked: bool) -> Store:
    if path.is_dir():
        return FolderStore(path)
    if parked:
        return ZipStore(ParkedFile(path))
    try:
        return open_zip(path)
    except IncompleteFile:
        if not salvage:
            raise
    file = LocalFile(path)
    try:
        directory = salvage_directory(file)
    except BaseException:
        file.close()
        raise
    return ZipStore(file, directory=directory)


class Archive:
    """An archive opened for reading.

    Parameters
    ----------
    path : Path
        ``NAME.zarr.zip`` or an unpacked ``NAME.zarr`` folder.
    salvage : bool
        Of a zip file that has lost its end, use the entries that are left.
    parked : bool
        Hold no file open between reads; for the parts of a nested series, which may be thousands.

    Attributes
    ----------
    path : Path
    store : Store
    manifest : Manifest

    Raises
    ------
    UsageError
        There is nothing at the path.
    FormatError
        It is no archive, or it is damaged.
    UnsafeInput, UnsupportedOperation
        As `load_manifest`.
    """

    def __init__(self, path: Path, *, salvage: bool = False, parked: bool = False) -> None:
        self.path = path
        require_path(path)
        self.store: Store = _open_store(path, salvage=salvage, parked=parked)
        self._nested: dict[str, Archive] = {}
        self._pixels: ZarrArray | None = None
        try:
            self.manifest: Manifest = self._load_manifest()
        except BaseException:
            self.store.close()
            raise

    def _load_manifest(self) -> Manifest:
        try:
            data = self.store.read(MANIFEST_KEY, limit=MAX_MANIFEST_BYTES)
        except MissingKey:
            raise FormatError(
                f"{self.path} is not an archive of this program: it has no {MANIFEST_KEY}; "
                "open it as an image instead"
            ) from None
        # A name or a hash with a flipped bit must not pass for the true one.
        if isinstance(self.store, ZipStore) and zlib.crc32(data) != self.store.entry(MANIFEST_KEY).crc:
            raise FormatError(
                f"the manifest of {self.path} does not match its checksum "
                f"({MANIFEST_KEY}); the archive is damaged"
            )
        return load_manifest(data, str(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all handles."""
        for archive in self._nested.values():
            archive.close()
        self._nested.clear()
        self.store.close()

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """``.zattrs`` of the group; empty where there is none or it cannot be read."""
        try:
            attributes = json.loads(self.store.read(".zattrs", limit=_MAX_ATTRIBUTES))
        except (StorageError, FormatError, ValueError, RecursionError):
            return {}
        return attributes if isinstance(attributes, dict) else {}

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The ``decant`` key of the attributes."""
        facts = self.attributes.get("decant")
        return facts if isinstance(facts, dict) else {}

    @cached_property
    def kept(self) -> dict[str, dict[str, Any]]:
        """What the archive keeps of each original beside its bytes, by its stored name."""
        members = self.manifest.members
        if not members:
            return {self.manifest.original_name: self.facts}
        recorded = self.facts.get("members")
        names = [member.relpath for member in members]
        pairs = zip(names, recorded, strict=False) if isinstance(recorded, list) else ()
        return {name: facts for name, facts in pairs if isinstance(facts, dict)}

    def real_names(self) -> dict[str, str]:
        """The path of each original below the folder that it is restored into, by its stored name.

        They differ where a name is not UTF-8.
        """
        members = self.manifest.members
        stored = [member.relpath for member in members] if members else [self.manifest.original_name]
        return {name: real_name(name, self.kept.get(name, {}).get("raw_name")) for name in stored}

    def files(self, member: str | None = None) -> Iterator[ArchivedFile]:
        """The original files, each checked as far as its numbers go, in manifest order.

        Parameters
        ----------
        member : str, optional
            Only the file of this name; nothing of the others is looked at.

        Raises
        ------
        FormatError
            The numbers of the manifest and of the arrays contradict each other.
        """
        manifest = self.manifest
        if manifest.mode != "series" and member not in (None, manifest.original_name):
            return
        members = [found for found in manifest.members if member in (None, found.relpath)]
        if manifest.mode == "verbatim":
            yield self._whole(manifest)
        elif manifest.mode == "byte-exact":
            yield self._exact(
                Member.model_construct(
                    relpath=manifest.original_name,
                    original_size=manifest.original_size,
                    original_sha256=manifest.original_sha256,
                    byteorder=manifest.byteorder,
                    husk_array="husk",
                    husk_raw_size=manifest.husk_raw_size,
                    pages=manifest.pages,
                )
            )
        elif manifest.series_consolidated:
            for found in members:
                yield self._exact(found)
        else:
            for found in members:
                yield self._nested_file(found)

    def _array(self, name: str) -> ZarrArray:
        try:
            return ZarrArray(self.store, path=name)
        except MissingKey:
            raise FormatError(
                f"{self.path} lacks the array {name!r}; the archive is damaged or incomplete"
            ) from None

    def _pixel_array(self) -> ZarrArray:
        if self._pixels is None:
            self._pixels = self._array("0")
        return self._pixels

    def _bytes_array(self, name: str, size: int) -> ZarrArray | None:
        if size == 0:
            return None
        array = self._array(name)
        if len(array.shape) != 1 or array.dtype != np.uint8 or array.shape[0] != size:
            raise FormatError(
                f"array {name!r} of {self.path} does not hold {size:,} bytes; the archive is damaged"
            )
        return array

    def _whole(self, manifest: Manifest) -> ArchivedFile:
        size = manifest.original_size
        return ArchivedFile(
            manifest.original_name,
            size,
            manifest.original_sha256,
            "<",
            self._bytes_array("original", size),
            size,
        )

    def _exact(self, member: Member) -> ArchivedFile:
        pages = [page.layout() for page in member.pages]
        listed = sum(page.nbytes for page in pages)
        if member.husk_raw_size + listed != member.original_size:
            raise FormatError(
                f"husk and pixels of {member.relpath!r} in {self.path} do not add up to its size; "
                "the manifest is damaged"
            )
        found = ArchivedFile(
            member.relpath,
            member.original_size,
            member.original_sha256,
            member.byteorder,
            self._bytes_array(member.husk_array, member.husk_raw_size),
            member.husk_raw_size,
            self._pixel_array() if pages else None,
            pages,
            [page.index for page in member.pages],
            self.manifest.plane_order,
        )
        self._check_pages(found, member.pages)
        return found

    def _check_pages(self, file: ArchivedFile, records: Sequence[PageRecord]) -> None:
        where = f"{file.name!r} in {self.path}"
        regions = file.regions
        if len(regions):
            ends = regions.offset + regions.length
            if int(ends[-1]) > file.size or bool((regions.offset[1:] < ends[:-1]).any()):
                raise FormatError(
                    f"pixel regions of {where} overlap or pass its end; the manifest is damaged"
                )
        if file.pixels is None:
            return
        shape, dtype = tuple(file.pixels.shape), file.pixels.dtype.newbyteorder("<")
        known: dict[int, int] = {}  # planes, by the dimensions of a page
        for record, page in zip(records, file.pages, strict=True):
            ndim = len(page.shape)
            leading = len(shape) - ndim
            planes = known.get(ndim)
            if planes is None:
                planes = known[ndim] = prod(shape[: max(0, leading)])
            if shape[leading:] != page.shape or record.index >= planes:
                raise FormatError(
                    f"page {record.index} of {where} does not lie in its pixel array; the manifest is damaged"
                )
            if dtype != page.dtype:
                raise FormatError(f"page {record.index} of {where} has another dtype than its pixel array")
            if file.plane_order and len(file.plane_order) != leading:
                raise FormatError(
                    f"plane_order of {self.path} does not fit its pixel array; the manifest is damaged"
                )

    def part_path(self, member: Member) -> Path:
        """Where the archive of a member of a nested series lies.

        Raises
        ------
        FormatError
            It is not there, or not beside the manifest.
        """
        name = member.subarchive
        if not name or "/" in name or "\\" in name or name in (".", ".."):
            raise FormatError(f"{self.path} names the part {name!r}, which is not beside its manifest")
        path = self.path / name
        if not path.is_file():
            raise FormatError(f"{self.path} lacks its part {name!r}; the archive is incomplete")
        return path

    def _nested_file(self, member: Member) -> ArchivedFile:
        name, path = member.subarchive, self.part_path(member)
        if name not in self._nested:
            self._nested[name] = Archive(path, parked=True)
        file = self._nested[name].only_file(member)
        return ArchivedFile(
            member.relpath, file.size, file.sha256, file.byteorder, file.husk, file.husk_size, file.pixels,
            file.pages, file.indices, file.plane_order,
        )  # fmt: skip

    def only_file(self, member: Member) -> ArchivedFile:
        """The file of an archive that is a part of a nested series.

        Raises
        ------
        FormatError
            It is not the one that the series means.
        """
        if self.manifest.mode == "series":
            raise FormatError(f"the part {self.path} is a series itself; such archives are not read")
        (file,) = self.files()
        if (file.size, file.sha256) != (member.original_size, member.original_sha256):
            raise FormatError(f"the part {self.path} holds another file than the manifest of its series says")
        return file
