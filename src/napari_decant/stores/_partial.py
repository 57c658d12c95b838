"""Unfinished files: their hidden names, who writes them, and what a program that was ended left behind."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "PARTIAL_SUFFIX",
    "Leftover",
    "find_leftovers",
    "is_partial_name",
    "partial_path",
    "remove_leftovers",
]

PARTIAL_SUFFIX = ".partial"
_NAME_BYTES = 120  # of the final name kept in the temporary one, so that long names still fit
_PARTIAL = re.compile(r"\..+\.([0-9a-f]{6})-([0-9]+)\.[0-9a-f]{8}\.partial", re.DOTALL)
_FOREIGN_SECONDS = 24 * 3600.0  # what another machine has not touched for so long is not being written


@functools.cache
def _machine() -> str:
    """Tells apart machines, and containers of one machine, that write to a common disk."""
    facts = [socket.gethostname()]
    try:
        facts.append(Path("/etc/machine-id").read_text())
        facts.append(os.readlink("/proc/self/ns/pid"))  # the same number is another process elsewhere
    except (OSError, ValueError):  # other systems have no such files
        facts.append("")
    return hashlib.sha256("|".join(facts).encode(errors="replace")).hexdigest()[:6]


def partial_path(target: Path) -> Path:
    """A new hidden name beside a target, for what becomes the target once it is finished.

    It names the process that writes (``.NAME.machine-pid.random.partial``), so that a later one
    can tell what is being written from what was left behind. Locks would say the same, but a lock
    on a network drive can keep its own program from reading the file back.
    """
    name = target.name
    while len(os.fsencode(name)) > _NAME_BYTES:
        name = name[:-1]
    mark = f"{_machine()}-{os.getpid()}.{secrets.token_hex(4)}"
    return target.parent / f".{name}.{mark}{PARTIAL_SUFFIX}"


def is_partial_name(name: str) -> bool:
    """Whether a file name is one that `partial_path` makes."""
    return _PARTIAL.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Leftover:
    """An unfinished file, or folder, whose writer is gone.

    Attributes
    ----------
    path : Path
    size : int
        Bytes, of a folder those of all files in it.
    mtime_ns : int
        When it was last written to.
    """

    path: Path
    size: int
    mtime_ns: int


def find_leftovers(folder: Path, *, deep: bool = False) -> list[Leftover]:
    """Unfinished files that nobody writes to any more; nothing is changed.

    Only names that `partial_path` makes are looked at. On this machine a file counts as left
    behind once its process is gone, on another machine's word once it lies untouched for a day.

    Parameters
    ----------
    folder : Path
        Where to look; a folder that is not there, or not readable, holds none.
    deep : bool
        Look into all folders below, too; links are not followed.
    """
    found: list[Leftover] = []
    for here, folders, names in os.walk(folder):
        ours = [name for name in (*folders, *names) if is_partial_name(name)]
        found += [left for name in sorted(ours) if (left := _look(Path(here) / name)) is not None]
        folders[:] = sorted(name for name in folders if deep and not is_partial_name(name))
    return found


def remove_leftovers(leftovers: Iterable[Leftover]) -> list[tuple[Path, str]]:
    """Remove what `find_leftovers` found; what changed since then stays.

    Returns
    -------
    list of (Path, str)
        What had to stay, with the reason.
    """
    kept = []
    for leftover in leftovers:
        path = leftover.path
        if not is_partial_name(path.name) or _look(path) != leftover:
            kept.append((path, "it changed since it was found"))
            continue
        try:
            shutil.rmtree(path) if path.is_dir() else os.unlink(path)
        except OSError as error:
            kept.append((path, error.strerror or str(error)))
    return kept


def _look(path: Path) -> Leftover | None:
    """State of one unfinished file; None if somebody may still write to it."""
    match = _PARTIAL.fullmatch(path.name)
    assert match is not None
    try:
        stats = [os.lstat(file) for file in (path, *_below(path))]
    except OSError:  # it is just being finished or removed
        return None
    if not (stat.S_ISREG(stats[0].st_mode) or stat.S_ISDIR(stats[0].st_mode)):
        return None
    newest = max(found.st_mtime_ns for found in stats)
    size = sum(found.st_size for found in stats if stat.S_ISREG(found.st_mode))
    machine, pid = match[1], int(match[2])
    if machine == _machine():
        return None if _is_alive(pid) else Leftover(path, size, newest)
    old = time.time() - newest / 1e9 > _FOREIGN_SECONDS
    return Leftover(path, size, newest) if old else None


def _below(folder: Path) -> Iterator[Path]:
    if folder.is_dir() and not folder.is_symlink():
        yield from folder.rglob("*")


if sys.platform == "win32":

    def _is_alive(pid: int) -> bool:
        """Whether a process runs; a signal would end it here, so its handle is asked."""
        import ctypes

        query, still_active = 0x1000, 259
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel.OpenProcess(query, False, pid)
        if not handle:
            return ctypes.get_last_error() == 5  # access denied: it runs, as somebody else
        code = ctypes.c_ulong()
        kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return code.value == still_active

else:

    def _is_alive(pid: int) -> bool:
        """Whether a process of this number runs."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            return True
        return True
