"""Names of files: natural order, clashes, and names that are not UTF-8."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import quote

from napari_decant.errors import UnsupportedOperation
from napari_decant.stores import unsafe_name_reason

__all__ = [
    "find_clashes",
    "member_name",
    "natural_key",
    "raw_name_of",
    "real_name",
    "refuse_clashes",
    "stored_name",
    "system_name",
]

_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789")}
_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts ``img_2`` before ``img_10``, folder by folder; equal names stay stable."""
    parts = _DIGITS.split(name)
    key = tuple(
        (0, int(part), part) if part.isdecimal() else (1, 0, part.casefold()) for part in parts if part
    )
    return (*key, (2, 0, name))


def stored_name(name: str) -> str:
    """A name as the manifest holds it: percent-escaped where it is not UTF-8.

    Parameters
    ----------
    name : str
        As Python gives it: bytes that are not UTF-8 are lone surrogates.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return quote(os.fsencode(name), safe="/ !#$&'()+,;=@[]^_`{}~")
    return name


def member_name(name: str) -> str:
    """The name under which a file goes into an archive.

    Raises
    ------
    UnsupportedOperation
        Some system could not restore it inside a folder: backslash, drive letter, NUL.
    """
    stored = stored_name(name)
    reason = unsafe_name_reason(stored)
    if reason is not None:
        raise UnsupportedOperation(
            f"the name {name!r} {reason}, so not every system could restore it; rename it"
        )
    return stored


def real_name(stored: str, raw_hex: object) -> str:
    """The true name of a restored file: its own bytes where they were not UTF-8 and the system allows it."""
    if not isinstance(raw_hex, str) or os.name == "nt":
        return stored
    try:
        name = os.fsdecode(bytes.fromhex(raw_hex))
    except ValueError:
        return stored
    return name if stored_name(name) == stored and unsafe_name_reason(name) is None else stored


def system_name(name: str, *, windows: bool = os.name == "nt") -> str:
    """A path as this system can hold it: on Windows some names are devices, or lose their last character.

    Such parts are percent-escaped, so that unquoting gives the name back.
    """
    return "/".join(map(_windows_part, name.split("/"))) if windows else name


def _windows_part(part: str) -> str:
    device = part.partition(".")[0].rstrip().casefold() in _DEVICES
    if not device and part[-1] not in ". " and not any(c in '<>:"|?*' or ord(c) < 32 for c in part):
        return part
    last = len(part) - 1
    return "".join(
        f"%{ord(c):02X}"
        if c in '%<>:"|?*' or ord(c) < 32 or (i == last and c in ". ") or (i == 0 and device)
        else c
        for i, c in enumerate(part)
    )


def raw_name_of(name: str) -> str | None:
    """Bytes of a name that is not UTF-8, in hex; None for one that is."""
    return os.fsencode(name).hex() if stored_name(name) != name else None


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def find_clashes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that are one name on a disk that ignores case or Unicode form."""
    seen: dict[str, str] = {}
    clashes = []
    for name in names:
        first = seen.setdefault(_folded(name), name)
        if first is not name:
            clashes.append((first, name))
    return clashes


def refuse_clashes(names: Iterable[str], what: str) -> None:
    """Refuse names that would overwrite each other somewhere.

    Raises
    ------
    UnsupportedOperation
        Two names differ only by case or Unicode form, or not at all.
    """
    clashes = find_clashes(names)
    if clashes:
        first, second = clashes[0]
        more = f" (and {len(clashes) - 1} more pairs)" if len(clashes) > 1 else ""
        raise UnsupportedOperation(
            f"{what} {first!r} and {second!r} are one name on some disks{more}; rename one of them first"
        )
