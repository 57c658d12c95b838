"""Delete originals: only those that an archive, proved in full, gives back as they are now."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from napari_decant.archive._batch_report import BatchRow
from napari_decant.archive._hashing import hash_whole
from napari_decant.archive._report import Jsonable
from napari_decant.archive._source import Source
from napari_decant.archive._verifier import verify
from napari_decant.errors import Cancelled, DecantError, SourceChanged, UnsupportedOperation
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress

__all__ = ["Deletion", "delete_sources"]


@dataclass(frozen=True, slots=True)
class Deletion(Jsonable):
    """One original: whether it is gone, and if not, why it was kept."""

    source: Path
    deleted: bool
    message: str = ""
    size: int = 0


def delete_sources(
    rows: Sequence[BatchRow],
    *,
    permanently: bool = False,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> list[Deletion]:
    """Delete the originals of packed rows.

    An original goes only if its archive verifies in full now and the file still has the very
    bytes that the archive gives back; both are recomputed here.

    Parameters
    ----------
    rows : sequence of BatchRow
        From `pack_batch`; rows that were not packed or skipped are left alone.
    permanently : bool
        Delete for good instead of moving to the trash.

    Returns
    -------
    list of Deletion
        One for each original, kept ones with the reason.

    Raises
    ------
    UnsupportedOperation
        There is no trash (send2trash is not installed) and ``permanently`` is false.
    Cancelled
        ``cancel`` was used; what is deleted is deleted.
    """
    remove = _remover(permanently)
    cancel = cancel or CancelToken()
    done: list[Deletion] = []
    for row in rows:
        if row.state not in ("packed", "skipped"):
            continue
        cancel.check()
        held, message = _held(row, progress, cancel)
        for name, digest, _ in row.files:
            path = row.source / name if row.source.is_dir() else row.source
            why = message or ("" if held[digest] else f"{row.archive} does not hold {path}")
            done.append(_delete(path, digest, why, remove, progress, cancel))
    return done


def _held(row: BatchRow, progress: ProgressCallback, cancel: CancelToken) -> tuple[Counter[str], str]:
    """Hashes of the originals that the archive gives back now, and why it cannot be relied on, if so."""
    try:
        report = verify(row.archive, progress=progress, cancel=cancel)
    except Cancelled:
        raise
    except DecantError as error:
        return Counter(), str(error)
    held = Counter(member.sha256 for member in report.members if member.whole)
    return held, "" if report.whole else f"{row.archive} did not verify as whole"


def _delete(
    path: Path,
    digest: str,
    why: str,
    remove: Callable[[Path], None],
    progress: ProgressCallback,
    cancel: CancelToken,
) -> Deletion:
    """Remove one file if nothing speaks against it and it is, byte for byte, what the archive holds."""

    def advance(done: int) -> None:
        cancel.check()
        progress(Progress("compare", done, source.size, path.name))

    if why:
        return Deletion(path, False, why)
    try:
        with Source(path) as source:
            found = hash_whole(source.file, source.size, advance)
            source.check_unchanged()
        if found != digest:
            return Deletion(path, False, f"{path} changed since it was packed")
        remove(path)
    except SourceChanged:
        return Deletion(path, False, f"{path} changed just now")
    except Cancelled:
        raise
    except DecantError as error:
        return Deletion(path, False, str(error))
    except OSError as error:
        return Deletion(path, False, f"{path} could not be deleted: {error.strerror or error}")
    return Deletion(path, True, "", source.size)


def _remover(permanently: bool) -> Callable[[Path], None]:
    if permanently:
        return os.unlink
    try:
        from send2trash import send2trash
    except ImportError as error:
        raise UnsupportedOperation(
            "there is no trash here (send2trash is not installed); install it, or delete permanently"
        ) from error

    def to_trash(path: Path) -> None:
        send2trash(str(path))

    return to_trash
