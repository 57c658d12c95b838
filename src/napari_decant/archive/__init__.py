"""The archive format: pack, verify, restore, look inside."""

from napari_decant.archive._codec import PixelCodec, parse_codec
from napari_decant.archive._info import info
from napari_decant.archive._manifest import Manifest, load_manifest
from napari_decant.archive._original import OriginalFile, OriginalStream, open_original
from napari_decant.archive._pack import SUFFIX, archive_path, pack
from napari_decant.archive._pages import Reason
from napari_decant.archive._reader import Archive, ArchivedFile
from napari_decant.archive._report import (
    ArchiveInfo,
    MemberState,
    PackReport,
    Problem,
    RestoreReport,
    VerifyReport,
)
from napari_decant.archive._restore import restore
from napari_decant.archive._verify import verify

__all__ = [
    "SUFFIX",
    "Archive",
    "ArchiveInfo",
    "ArchivedFile",
    "Manifest",
    "MemberState",
    "OriginalFile",
    "OriginalStream",
    "PackReport",
    "PixelCodec",
    "Problem",
    "Reason",
    "RestoreReport",
    "VerifyReport",
    "archive_path",
    "info",
    "load_manifest",
    "open_original",
    "pack",
    "parse_codec",
    "restore",
    "verify",
]
