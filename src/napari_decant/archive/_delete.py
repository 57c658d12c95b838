"""Delete originals: only those that an archive, proved in full, gives back as they are now."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from napari_decant.archive._batch import BatchRow
from napari_decant.archive._hashing import hash_whole
from napari_decant.archive._names import stored_name
from napari_decant.archive._report import Jsonable
from napari_decant.archive._verifier import verify
from napari_decant.errors import StorageError, UnsupportedOperation
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores import LocalFile

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
        names = {_path_of(row, name): digest for name, digest, _ in row.files}
        try:
            whole = bool(verify(row.archive, progress=progress, cancel=cancel).whole)
            message = "" if whole else f"{row.archive} did not verify as whole"
        except UnsupportedOperation as error:
            message = str(error)
        for path, digest in names.items():
            why = message or _why_not(path, digest, progress, cancel)
            size = 0
            if not why:
                try:
                    size = path.stat().st_size
                    remove(path)
                except OSError as error:
                    why = f"{path} could not be deleted: {error.strerror or error}"
            done.append(Deletion(path, not why, why, size))
    return done


def _path_of(row: BatchRow, name: str) -> Path:
    if not row.source.is_dir():
        return row.source
    path = row.source / name
    if path.exists():
        return path
    # a name that is not UTF-8 stands escaped in the manifest
    for root, _, files in os.walk(row.source):
        for file in files:
            found = Path(root) / file
            if stored_name(found.relative_to(row.source).as_posix()) == name:
                return found
    return path


def _why_not(path: Path, digest: str, progress: ProgressCallback, cancel: CancelToken) -> str:
    """Why a file must stay: it is not, byte for byte, what the archive holds."""

    def advance(done: int) -> None:
        cancel.check()
        progress(Progress("compare", done, file.size, path.name))

    try:
        file = LocalFile(path)
        try:
            found = hash_whole(file, file.size, advance)
        finally:
            file.close()
    except StorageError as error:
        return str(error)
    return "" if found == digest else f"{path} changed since it was packed"


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
