"""A source file held open while it is packed: read at positions, never written, watched for changes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np

from napari_decant.archive._geometry import PageLayout
from napari_decant.errors import SourceChanged, StorageError, UnsupportedOperation, UsageError
from napari_decant.stores._atomic import storage_error
from napari_decant.stores._positional import LocalFile
from napari_decant.stores._ranges import read_ranges

__all__ = ["Source"]


class Source:
    """One file to pack.

    Parameters
    ----------
    path : Path
        A regular file.

    Raises
    ------
    UsageError
        There is no such file.
    StorageError
        It cannot be read.
    UnsupportedOperation
        It is a folder, a device or a pipe.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stat = os.stat(path)
            if not stat.S_ISREG(self._stat.st_mode):
                kind = "a folder" if stat.S_ISDIR(self._stat.st_mode) else "not a regular file"
                raise UnsupportedOperation(f"{path} is {kind}; give a file")
            self.file = LocalFile(path)
        except FileNotFoundError as error:
            raise UsageError(f"{path} does not exist; check the path") from error
        except OSError as error:
            raise storage_error("reading", path, error) from error
        except StorageError as error:
            raise StorageError(f"{path} cannot be read; check its permissions ({error})") from error
        self.size = self.file.size
        self.mtime_ns = self._stat.st_mtime_ns
        self.mode = stat.S_IMODE(self._stat.st_mode)

    def read_at(self, offset: int, length: int) -> bytes:
        """The bytes there, fewer at the end of the file."""
        if offset < 0 or offset >= self.size:
            return b""
        return self.file.read_at(offset, min(length, self.size - offset))

    def read_segments(self, layout: PageLayout, out: np.ndarray) -> None:
        """Fill ``out`` (uint8, ``layout.nbytes``) with a page's pixel bytes in serialisation order."""
        read_ranges(self.file, layout.offsets, layout.counts, out)

    def check_unchanged(self) -> None:
        """Compare the file on disk with the one that was opened.

        Raises
        ------
        SourceChanged
            It was written, replaced or removed meanwhile.
        """
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise SourceChanged(
                f"{self.path} disappeared while it was packed; no archive was made"
            ) from error
        then = self._stat
        same = (then.st_size, then.st_mtime_ns, then.st_ino, then.st_dev)
        if (now.st_size, now.st_mtime_ns, now.st_ino, now.st_dev) != same:
            raise SourceChanged(
                f"{self.path} changed while it was packed; no archive was made, pack it again"
            )

    def check_size(self, size: int) -> None:
        """Compare the size with the one that the file was planned with.

        Raises
        ------
        SourceChanged
            They differ.
        """
        if self.size != size:
            raise SourceChanged(f"{self.path} changed after it was looked at; pack it again")

    def close(self) -> None:
        """Release the handle."""
        self.file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
