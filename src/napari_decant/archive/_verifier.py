"""Check an archive: recompute every original, and look at every entry on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from napari_decant.archive._against import not_archived, peers_of
from napari_decant.archive._manifest import MANIFEST_KEY
from napari_decant.archive._reader import Archive
from napari_decant.archive._report import MemberState, Problem, VerifyReport
from napari_decant.archive._verify_entries import Checker, Options
from napari_decant.errors import FormatError, IncompleteFile, StorageError, UnsafeInput, UsageError
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores import LocalFile, salvage_directory
from napari_decant.stores._atomic import require_path

__all__ = ["verify"]


def verify(
    archive: str | Path,
    *,
    quick: bool = False,
    against: str | Path | None = None,
    salvage: bool = False,
    workers: int | None = None,
    memory: int | None = None,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> VerifyReport:
    """Check an archive.

    Parameters
    ----------
    archive : path
        ``NAME.zarr.zip`` or an unpacked archive folder.
    quick : bool
        Check structure, directory and metadata only. The report's ``whole`` is None then.
    against : path, optional
        Compare each original byte for byte with the file here: a file, or the folder that holds
        the originals by their names. Files of the folder of a series that are not in the archive
        are reported too.
    salvage : bool
        Of an archive that was cut short, find out which originals the rest still gives back.
    workers : int, optional
        Threads; one a core by default.
    memory : int, optional
        Limit in bytes; workers drop to fit.
    progress : callable
        Gets a `Progress` about every few megabytes.
    cancel : CancelToken, optional
        Stops the work.

    Returns
    -------
    VerifyReport
        Damage is reported in it, not raised.

    Raises
    ------
    UsageError
        There is nothing at the path, or the options contradict each other.
    UnsupportedOperation
        The archive needs a newer version of this program.
    UnsafeInput
        It asks for something that is never done.
    FormatError
        It is not an archive at all.
    Cancelled
        ``cancel`` was used.
    """
    path = Path(archive)
    cancel = cancel or CancelToken()
    require_path(path)
    if quick and against is not None:
        raise UsageError("a quick look reads no pixels, so it cannot compare; leave one of the two out")
    if against is not None:
        require_path(Path(against))
    options = Options(quick, workers, memory, progress, cancel)
    try:
        opened = Archive(path)
    except UnsafeInput:
        raise
    except IncompleteFile as error:
        return _check_rest_of(path, error, options, salvage)
    except FormatError as error:
        return VerifyReport(path, options.depth, False, (), (Problem("damaged", MANIFEST_KEY, str(error)),))
    with opened:
        checker = Checker(opened, options)
        if against is None:
            return checker.run()
        folder = Path(against)
        checker.peers = peers_of(opened, folder)
        if opened.manifest.mode == "series":
            for name in not_archived(opened, folder):
                checker.note("not-archived", name, f"{folder / name} is not in the archive")
        return replace(checker.run(), against=folder)


def _check_rest_of(path: Path, error: IncompleteFile, options: Options, salvage: bool) -> VerifyReport:
    """Report an archive without its end, with what the rest still holds."""
    try:
        opened = Archive(path, salvage=True)
    except UnsafeInput:
        raise
    except (FormatError, StorageError):
        text = f"{error}; {_count(path, options.cancel)} entries are left, but no list of the files"
        return VerifyReport(path, options.depth, False, (), (Problem("incomplete", path.name, text),))
    with opened:
        if salvage:
            checker = Checker(opened, options)
            checker.note("incomplete", path.name, str(error))
            return checker.run()
        members = opened.manifest.members
        named = [(m.relpath, m.original_size, m.original_sha256) for m in members]
        if not members:
            manifest = opened.manifest
            named = [(manifest.original_name, manifest.original_size, manifest.original_sha256)]
        files = "1 file" if len(named) == 1 else f"{len(named):,} files"
        text = f"{error}; the list of {files} is left: verify with --salvage says which are whole"
        states = tuple(MemberState(*found, None) for found in named)
        return VerifyReport(path, options.depth, False, states, (Problem("incomplete", path.name, text),))


def _count(path: Path, cancel: CancelToken) -> str:
    with LocalFile(path) as file:
        return f"{len(salvage_directory(file, cancel.check)):,}"
