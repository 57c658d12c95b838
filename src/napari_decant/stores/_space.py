"""Room on a disk, looked at before the work begins."""

from __future__ import annotations

import shutil
from pathlib import Path

from napari_decant.errors import DiskFull
from napari_decant.stores._atomic import disk_of

__all__ = ["free_space", "require_space"]


def free_space(folder: Path) -> int | None:
    """Bytes free on the disk of a folder; None where the disk does not say."""
    try:
        usage = shutil.disk_usage(disk_of(folder))
    except OSError:  # the write itself will say what is wrong
        return None
    return usage.free if usage.total else None  # some network disks report nothing but zeros


def require_space(folder: Path, need: int, doing: str) -> None:
    """Refuse work that surely does not fit.

    Parameters
    ----------
    folder : Path
        Where it would be written; need not be there yet.
    need : int
        Bytes that are needed at least.
    doing : str
        What for, such as ``"restoring a.tif.zarr.zip"``.

    Raises
    ------
    DiskFull
        There is less; names the disk and both numbers.
    """
    free = free_space(folder)
    if free is not None and need > free:
        raise DiskFull(
            f"the disk is full ({disk_of(folder)}): {doing} needs {need:,} bytes, {free:,} are free; "
            "free some space or choose another disk"
        )
