"""Unfinished files of a program that was killed: find them, and remove them when asked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from napari_decant.gui.jobs._rows import Leftover
from napari_decant.gui.jobs._worker import Context
from napari_decant.stores._atomic import PARTIAL_SUFFIX

__all__ = ["find_leftovers", "remove_leftovers"]


def find_leftovers(context: Context, folders: Sequence[Path]) -> list[Leftover]:
    """Unfinished files of this program in folders, and folders of unfinished series."""
    found = []
    for folder in folders:
        context.cancel.check()
        try:
            names = os.listdir(folder)
        except OSError:  # the folder is gone, or its disk is not plugged in
            continue
        found += [left for name in names if _is_ours(name) and (left := _look(folder / name)) is not None]
    return found


def _look(path: Path) -> Leftover | None:
    try:
        stat = os.lstat(path)
    except OSError:  # it went away meanwhile
        return None
    return Leftover(path, stat.st_size, stat.st_mtime_ns)


def _is_ours(name: str) -> bool:
    """``.NAME.xxxxxxxx.partial``, as the archive package names what it has not finished."""
    mark = name.removesuffix(PARTIAL_SUFFIX).rpartition(".")[2]
    hexadecimal = len(mark) == 8 and all(letter in "0123456789abcdef" for letter in mark)
    return name.startswith(".") and name.endswith(PARTIAL_SUFFIX) and hexadecimal


def remove_leftovers(context: Context, files: Sequence[Leftover]) -> list[tuple[Path, str]]:
    """Remove them; returns those that had to stay, with the reason."""
    kept = []
    for file in files:
        if _look(file.path) != file:
            kept.append((file.path, "it is being written to"))
            continue
        try:
            if file.path.is_dir() and not file.path.is_symlink():
                shutil.rmtree(file.path)
            else:
                os.unlink(file.path)
        except OSError as error:
            kept.append((file.path, error.strerror or str(error)))
    return kept
