"""Where an image grows: a hidden folder beside the target, which becomes the target when it is whole."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from napari_decant.errors import StorageError, TargetExists, UsageError
from napari_decant.images._write_zarr_shard import is_finished
from napari_decant.ngff import ArrayMeta
from napari_decant.stores._atomic import (
    PARTIAL_SUFFIX,
    AtomicFile,
    make_folder,
    storage_error,
    sync_directory,
)
from napari_decant.stores._zip_write import StoredZipWriter

__all__ = ["STATE", "Stage"]

STATE = ".state"
_PLAN = "plan.json"
_PIECE = 8 << 20
COMMENT = b'{"ome":{"version":"0.5"}}'


class Stage:
    """The folder ``.NAME.partial`` beside a target ``NAME``.

    It holds the store as it will be, and ``.state`` with what a later run needs to go on: what the export is
    of, and a seal for every finished shard. A kill leaves it; a cancel removes it.

    Parameters
    ----------
    target : Path
        A folder ``.zarr``, or a file ``.ozx``.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.folder = target.parent / f".{target.name}{PARTIAL_SUFFIX}"
        self._lock: int | None = None

    @property
    def single_file(self) -> bool:
        """Whether the target is one file."""
        return self.target.suffix.lower() == ".ozx"

    def run_folder(self) -> Path:
        """Make a folder through which this run speaks with its workers; that of an earlier run goes.

        Raises
        ------
        StorageError
            It cannot be made.
        """
        runs = self.folder / STATE / "runs"
        try:
            _remove(runs)
            folder = runs / uuid.uuid4().hex  # workers of a run before must not take it for theirs
            folder.mkdir(parents=True)
        except OSError as error:
            raise storage_error("writing", runs, error) from error
        return folder

    def open(self, identity: dict[str, Any], *, overwrite: bool) -> bool:
        """Make the folder, or take up the one that an earlier run of the same export left.

        Parameters
        ----------
        identity : dict
            What is exported, and how; only a run with the same goes on.
        overwrite : bool
            Replace the target, and throw away what is left of another export to it.

        Returns
        -------
        bool
            Whether an earlier run is taken up.

        Raises
        ------
        TargetExists
            The target exists, or another export to it is unfinished, and ``overwrite`` is false.
        UsageError
            Another program exports to it now.
        StorageError
            The folder cannot be made.
        """
        if not overwrite and os.path.lexists(self.target):
            raise TargetExists(
                f"{self.target} exists already; remove it, choose another name or ask to overwrite"
            )
        if not self.target.parent.is_dir():
            make_folder(self.target.parent)
        plan = self.folder / STATE / _PLAN
        wanted = json.loads(json.dumps(identity))
        found: Any = None
        if self.folder.exists():
            self._hold()
            for left in self.target.parent.glob(f".{glob.escape(self.target.name)}.*{PARTIAL_SUFFIX}"):
                if left.is_file():  # a single file whose assembly was killed
                    left.unlink()
            with contextlib.suppress(OSError, ValueError):
                found = json.loads(plan.read_text())
            if found == wanted:
                return True
            if found is not None and not overwrite:
                self.release()
                raise TargetExists(
                    f"an unfinished export of something else to {self.target} lies in {self.folder}; remove"
                    " that folder or ask to overwrite"
                )
            self.discard()
        try:
            plan.parent.mkdir(parents=True)
            self._hold()
            plan.write_text(json.dumps(identity))
        except OSError as error:
            raise storage_error("writing", self.folder, error) from error
        return False

    def _hold(self) -> None:
        """Keep a second program out, as long as this one lives."""
        if self._lock is not None or os.name == "nt":
            return
        import fcntl

        try:
            (self.folder / STATE).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / STATE / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise UsageError(
                f"another program writes {self.target} now; wait for it or choose another name"
            ) from error
        except OSError:  # a file system without locks
            return

    def release(self) -> None:
        """Let another program go on with the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, key: str, data: bytes) -> None:
        """Write a small file whole."""
        path = self.folder / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".part")
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            raise storage_error("writing", path, error) from error

    def shard_path(self, array: str, meta: ArrayMeta, index: tuple[int, ...]) -> Path:
        """Where a shard lies."""
        return self.folder.joinpath(*f"{array}/{meta.object_key(index)}".split("/"))

    def seal_path(self, array: str, meta: ArrayMeta, index: tuple[int, ...]) -> Path:
        """Where it is recorded that a shard is finished."""
        return self.folder.joinpath(STATE, "shards", *f"{array}/{meta.object_key(index)}.json".split("/"))

    def finished(self, array: str, meta: ArrayMeta) -> set[tuple[int, ...]]:
        """Shards of an array that are whole, from an earlier run or another process."""
        root = self.folder.joinpath(STATE, "shards", *array.split("/"), "c")
        found = set()
        for path in sorted(root.rglob("*.json")) if root.is_dir() else ():
            parts = path.relative_to(root).with_suffix("").parts
            if not all(part.isdigit() for part in parts) or len(parts) != meta.rank:
                continue
            index = tuple(int(part) for part in parts)
            if is_finished(self.shard_path(array, meta, index), path, meta):
                found.add(index)
        return found

    def commit(self, *, overwrite: bool) -> int:
        """Give the finished store its name; returns its size in bytes."""
        for left in self.folder.rglob("*.part"):  # of a run that was killed
            left.unlink()
        if self.single_file:
            size = self._zip(overwrite)
            self.discard()
            return size
        shutil.rmtree(self.folder / STATE)
        self.release()
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        try:
            self._replace(overwrite)
            sync_directory(self.target.parent)
        except OSError as error:
            raise storage_error("writing", self.target, error) from error
        return size

    def _replace(self, overwrite: bool) -> None:
        old = self.target.parent / f".{self.target.name}.old"
        if overwrite and os.path.lexists(self.target):
            _remove(old)
            os.rename(self.target, old)
        elif os.path.lexists(self.target):
            raise TargetExists(f"{self.target} was created by somebody else meanwhile; nothing was replaced")
        os.rename(self.folder, self.target)
        _remove(old)

    def _zip(self, overwrite: bool) -> int:
        """Assemble one file of what is finished (RFC-9): documents first, by depth, then the shards."""
        files = [
            p for p in self.folder.rglob("*") if p.is_file() and STATE not in p.relative_to(self.folder).parts
        ]
        keys = {p.relative_to(self.folder).as_posix(): p for p in files}
        documents = sorted(
            (k for k in keys if k.rpartition("/")[2] == "zarr.json"), key=lambda k: (k.count("/"), k)
        )
        shards = sorted(k for k in keys if k not in documents)
        with AtomicFile(self.target, overwrite=overwrite) as out:
            try:
                writer = StoredZipWriter(out.file, COMMENT, zip64=True)
                for key in (*documents, *shards):
                    with keys[key].open("rb") as file:
                        writer.copy(key, file, os.fstat(file.fileno()).st_size)
                writer.finish()
                size = writer.bytes_written
            except OSError as error:
                raise storage_error("writing", self.target, error) from error
            out.commit()
        return size

    def discard(self) -> None:
        """Remove everything."""
        self.release()
        _remove(self.folder)

    @contextlib.contextmanager
    def cleaning(self, *, resumable: bool = True) -> Iterator[None]:
        """Remove the folder where the work inside fails for good; keep it where it can be taken up again.

        A full disk or a lost network leaves what is resumable: the same command goes on from there.
        """
        try:
            yield
        except StorageError as error:
            if not resumable:
                self.discard()
                raise type(error)(f"{error}; nothing was left behind") from error
            self.release()
            kept = (
                f"{error}; what is finished is kept in {self.folder}, and the same command goes on from there"
            )
            raise type(error)(kept) from error
        except Exception:
            self.discard()
            raise
        finally:
            self.release()


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
    except OSError as error:
        raise storage_error("removing", path, error) from error
