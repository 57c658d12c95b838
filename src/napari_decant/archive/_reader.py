"""Open an archive and check its numbers against each other before any work is done with them."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._arrays import ArchiveArrays
from napari_decant.archive._manifest import (
    MANIFEST_KEY,
    MAX_MANIFEST_BYTES,
    Manifest,
    Member,
    load_manifest,
    page_tables,
)
from napari_decant.archive._names import real_name
from napari_decant.archive._page_faults import find_faults
from napari_decant.archive._page_table import PageColumns, PageTable
from napari_decant.errors import (
    DecantError,
    FormatError,
    IncompleteFile,
    MissingKey,
    StorageError,
    UsageError,
)
from napari_decant.ngff import ArrayMeta
from napari_decant.stores import FolderStore, LocalFile, Store, ZipStore, open_zip, salvage_directory
from napari_decant.stores._atomic import require_path
from napari_decant.stores._positional import ParkedFile

__all__ = ["Archive"]

logger = logging.getLogger(__name__)

_MAX_ATTRIBUTES = 64 << 20


def _begins_like_a_tiff(path: Path) -> bool:
    with LocalFile(path) as file:
        return file.read_at(0, min(4, file.size)) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def _open_store(path: Path, *, salvage: bool, parked: bool) -> Store:
    if path.is_dir():
        return FolderStore(path)
    if parked:
        return ZipStore(ParkedFile(path))
    try:
        return open_zip(path)
    except IncompleteFile:
        if _begins_like_a_tiff(path):
            raise UsageError(f"{path} is a TIFF and no archive; `pack` makes one of it") from None
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
        self._arrays = ArchiveArrays(self.store, path)
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

    @cached_property
    def records(self) -> Sequence[Member]:
        """What the manifest says of each original, in its order; a single file has one, too."""
        manifest = self.manifest
        if manifest.mode == "series":
            return manifest.members
        whole = manifest.mode == "verbatim"
        return [
            Member.model_construct(
                relpath=manifest.original_name,
                original_size=manifest.original_size,
                original_sha256=manifest.original_sha256,
                byteorder="<" if whole else manifest.byteorder,
                husk_array="original" if whole else "husk",
                husk_raw_size=manifest.original_size if whole else manifest.husk_raw_size,
                pages=[] if whole else manifest.pages,
                subarchive="",
            )
        ]

    @property
    def nested(self) -> bool:
        """Whether each original has an archive of its own."""
        return self.manifest.mode == "series" and not self.manifest.series_consolidated

    @cached_property
    def _tables(self) -> tuple[PageColumns, list[PageTable]]:
        return page_tables(self.records)

    @cached_property
    def faults(self) -> dict[int, str]:
        """What contradicts itself in the numbers of each original, by its place in `records`.

        Of a nested series the parts are not looked at.
        """
        if self.nested:
            return {}
        columns, tables = self._tables
        pixels: ArrayMeta | None = None
        if len(columns.kind):
            try:
                pixels = self._arrays.pixels().meta
            except DecantError:  # whoever opens such a file is told why
                logger.debug("the pixel array of %s cannot be opened", self.path, exc_info=True)
        starts = np.array([0, *(table.stop for table in tables)])
        sizes = np.array([record.original_size for record in self.records], np.int64)
        husks = np.array([record.husk_raw_size for record in self.records], np.int64)
        order = self.manifest.plane_order
        found = find_faults(columns, starts, sizes, husks, pixels, order)
        names = [record.relpath for record in self.records]
        return {k: fault.replace("{file}", f"{names[k]!r} in {self.path}") for k, fault in found.items()}

    def files(self, member: str | None = None) -> Iterator[ArchivedFile]:
        """The original files, each checked as far as its numbers go, in manifest order.

        Parameters
        ----------
        member : str, optional
            Only the file of this name; nothing of the others is opened.

        Raises
        ------
        FormatError
            The numbers of the manifest and of the arrays contradict each other.
        """
        for k, record in enumerate(self.records):
            if member in (None, record.relpath):
                yield self.file(k)

    def file(self, number: int) -> ArchivedFile:
        """One original by its place in `records`.

        Raises
        ------
        FormatError
            As `files`.
        """
        record = self.records[number]
        if self.nested:
            return self._nested_file(record)
        if number in self.faults:
            raise FormatError(self.faults[number])
        pages = self._tables[1][number]
        return ArchivedFile(
            record.relpath,
            record.original_size,
            record.original_sha256,
            record.byteorder,
            self._arrays.bytes_of(record.husk_array, record.husk_raw_size),
            record.husk_raw_size,
            self._arrays.pixels() if len(pages) else None,
            pages,
            pages.indices,
            self.manifest.plane_order if len(pages) else (),
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
