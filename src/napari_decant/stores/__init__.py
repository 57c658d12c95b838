"""Where bytes come from: folders, zip files, memory, http and s3. Reading only."""

from napari_decant.stores._base import Extent, Store
from napari_decant.stores._folder import FolderStore
from napari_decant.stores._keys import check_key, join_key, unsafe_name_reason
from napari_decant.stores._memory import MemoryStore
from napari_decant.stores._open import ZIP_SUFFIXES, local_path, open_positional, open_store, open_zip
from napari_decant.stores._positional import BytesFile, LocalFile, PositionalFile
from napari_decant.stores._reader import FileMetadataReader, MetadataBudget
from napari_decant.stores._remote import RemoteFile, RemoteStore
from napari_decant.stores._roots import ZARR_METADATA, find_roots
from napari_decant.stores._zip import ZipStore
from napari_decant.stores._zip_directory import ZipDirectory, ZipEntry, ZipLimits
from napari_decant.stores._zip_read import read_zip_directory
from napari_decant.stores._zip_salvage import SalvagedEntry, salvage_directory, salvage_entries

__all__ = [
    "ZARR_METADATA",
    "ZIP_SUFFIXES",
    "BytesFile",
    "Extent",
    "FileMetadataReader",
    "FolderStore",
    "LocalFile",
    "MemoryStore",
    "MetadataBudget",
    "PositionalFile",
    "RemoteFile",
    "RemoteStore",
    "SalvagedEntry",
    "Store",
    "ZipDirectory",
    "ZipEntry",
    "ZipLimits",
    "ZipStore",
    "check_key",
    "find_roots",
    "join_key",
    "local_path",
    "open_positional",
    "open_store",
    "open_zip",
    "read_zip_directory",
    "salvage_directory",
    "salvage_entries",
    "unsafe_name_reason",
]
