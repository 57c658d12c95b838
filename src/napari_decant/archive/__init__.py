"""The archive format: pack, verify, restore, look inside."""

import napari_decant.archive._images  # noqa: F401 - teaches `open_image` about archives
from napari_decant.archive._archived_file import ArchivedFile
from napari_decant.archive._batch import pack_batch
from napari_decant.archive._batch_report import BatchReport, BatchRow, restore_folder, write_reports
from napari_decant.archive._codec import PixelCodec, parse_codec
from napari_decant.archive._delete import Deletion, delete_sources
from napari_decant.archive._info import info
from napari_decant.archive._manifest import Manifest, load_manifest
from napari_decant.archive._original import OriginalFile, OriginalStream, open_original
from napari_decant.archive._pack import SUFFIX, archive_path, pack
from napari_decant.archive._pack_series import pack_series, series_path
from napari_decant.archive._pages import Reason
from napari_decant.archive._plan import PlanRow, find_others, plan
from napari_decant.archive._reader import Archive
from napari_decant.archive._report import (
    ArchiveInfo,
    MemberState,
    PackReport,
    Problem,
    RestoreReport,
    VerifyReport,
)
from napari_decant.archive._restore import find_archives, restore
from napari_decant.archive._series import SeriesPlan, plan_series
from napari_decant.archive._sets import find_set
from napari_decant.archive._verifier import verify
from napari_decant.stores._partial import Leftover, find_leftovers, remove_leftovers

__all__ = [
    "SUFFIX",
    "Archive",
    "ArchiveInfo",
    "ArchivedFile",
    "BatchReport",
    "BatchRow",
    "Deletion",
    "Leftover",
    "Manifest",
    "MemberState",
    "OriginalFile",
    "OriginalStream",
    "PackReport",
    "PixelCodec",
    "PlanRow",
    "Problem",
    "Reason",
    "RestoreReport",
    "SeriesPlan",
    "VerifyReport",
    "archive_path",
    "delete_sources",
    "find_archives",
    "find_leftovers",
    "find_others",
    "find_set",
    "info",
    "load_manifest",
    "open_original",
    "pack",
    "pack_batch",
    "pack_series",
    "parse_codec",
    "plan",
    "plan_series",
    "remove_leftovers",
    "restore",
    "restore_folder",
    "series_path",
    "verify",
    "write_reports",
]
