"""Write a file so that its final name appears only once it is complete and on disk."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from napari_decant.errors import DiskFull, StorageError, TargetExists, UsageError
from napari_decant.stores._partial import PARTIAL_SUFFIX, partial_path

__all__ = [
    "PARTIAL_SUFFIX",
    "AtomicFile",
    "disk_of",
    "make_folder",
    "require_path",
    "storage_error",
    "sync_directory",
]


def disk_of(path: Path) -> Path:
    """Where the disk of a path is mounted; of a path that is not there yet, its nearest folder's."""
    here = Path(os.path.abspath(path))
    while not here.exists() and here != here.parent:
        here = here.parent
    while not os.path.ismount(here) and here != here.parent:
        here = here.parent
    return here


def storage_error(doing: str, path: Path | str, error: OSError) -> StorageError:
    """One sentence for an operating-system error: what failed, where, what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        disk = disk_of(Path(path))
        return DiskFull(f"the disk is full ({disk}): {doing} {path} stopped; free some space and try again")
    if error.errno == errno.EROFS:
        return StorageError(
            f"{disk_of(Path(path))} is read-only: {doing} {path} failed; choose another folder"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return StorageError(
            f"no permission for {doing} {path}; change the permissions or choose another folder"
        )
    if error.errno == errno.ENAMETOOLONG:
        return StorageError(f"{doing} {path} failed: the name is too long for this disk; shorten it")
    return StorageError(f"{doing} {path} failed: {error.strerror or error}")


def sync_directory(folder: Path) -> None:
    """Make a rename in ``folder`` durable; systems that cannot sync a folder are left alone."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder may be writable but not readable
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def require_path(path: Path) -> None:
    """Check that something is there.

    Raises
    ------
    UsageError
        Nothing is.
    StorageError
        It cannot be told, for lack of permission.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{path} does not exist; check the path") from error
    except OSError as error:
        raise storage_error("reading", path, error) from error


def make_folder(folder: Path) -> None:
    """Make an output folder, with those above it.

    Raises
    ------
    UsageError
        It, or what is above it, is a file.
    StorageError
        It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), folder)
        below = f", and {folder} cannot lie in it" if file != folder else ""
        raise UsageError(f"{file} is no folder{below}; choose another place") from error
    except OSError as error:
        raise storage_error("creating", folder, error) from error


def _is_there(target: Path) -> bool:
    """Whether a name is taken; one that the disk cannot hold is found out now, not after the work."""
    try:
        os.lstat(target)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error("writing", target, error) from error
    return True


class AtomicFile:
    """A temporary file beside the target that `commit` turns into the target.

    Leaving the ``with`` block without a commit removes the temporary file, so a failure or a
    cancel leaves nothing; a kill leaves at most a hidden ``*.partial`` file.

    Parameters
    ----------
    target : Path
        The final name; its folder must exist.
    overwrite : bool
        Replace an existing target at commit.
    buffering : int
        Of the file; 0 where every write is large.

    Attributes
    ----------
    file : BinaryIO
        The open temporary file (read and write).
    path : Path
        Its name.

    Raises
    ------
    TargetExists
        The target exists, now or at commit, and ``overwrite`` is false.
    StorageError
        The folder cannot be written.
    """

    def __init__(self, target: Path, *, overwrite: bool = False, buffering: int = 1 << 18) -> None:
        self.target, self.overwrite = target, overwrite
        if _is_there(target) and not overwrite:
            raise TargetExists(
                f"{target} exists already; remove it, choose another folder or ask to overwrite"
            )
        self.path = partial_path(target)
        try:
            self.file: BinaryIO = open(self.path, "x+b", buffering=buffering)  # noqa: SIM115
        except FileNotFoundError as error:
            raise StorageError(f"the folder {target.parent} does not exist; create it first") from error
        except OSError as error:
            raise storage_error("writing", target, error) from error
        self._done = False
        self._syncing: threading.Thread | None = None
        self._sync_error: OSError | None = None

    def __enter__(self) -> Self:
        return self

    def sync_behind(self) -> None:
        """Let the disk work off what is written so far while the caller goes on.

        A sync still running is enough; `flush` waits for it and raises what it met.
        """
        try:
            self.file.flush()
            if self._syncing is None or not self._syncing.is_alive():
                # A handle of its own: a cancel closes the file at once and waits for no slow disk.
                handle = os.dup(self.file.fileno())
                self._syncing = threading.Thread(
                    target=self._sync, args=(handle,), name="decant-sync", daemon=True
                )
                self._syncing.start()
        except OSError as error:
            raise storage_error("writing", self.target, error) from error

    def _sync(self, handle: int) -> None:
        try:
            os.fsync(handle)
        except OSError as error:
            self._sync_error = error
        finally:
            os.close(handle)

    def flush(self) -> None:
        """Bring everything written so far to the disk."""
        try:
            if self._syncing is not None:
                self._syncing.join()
            if self._sync_error is not None:
                raise self._sync_error
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise storage_error("writing", self.target, error) from error

    def commit(self) -> None:
        """Sync, close and rename to the final name."""
        self.flush()
        try:
            self.file.close()
            if self.overwrite:
                os.replace(self.path, self.target)
            else:
                self._rename_if_free()
            self._done = True
            sync_directory(self.target.parent)
        except FileExistsError as error:
            raise TargetExists(
                f"{self.target} was created by somebody else meanwhile; nothing was replaced"
            ) from error
        except OSError as error:
            raise storage_error("writing", self.target, error) from error

    def _rename_if_free(self) -> None:
        try:
            os.link(self.path, self.target)  # fails if the name is taken, at the same instant
        except FileExistsError:
            raise
        except OSError:  # a disk without hard links
            if os.path.lexists(self.target):
                raise FileExistsError(errno.EEXIST, "exists", str(self.target)) from None
            os.rename(self.path, self.target)
            return
        os.unlink(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._done:
            return
        with contextlib.suppress(OSError):  # what could not be flushed is thrown away anyway
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
