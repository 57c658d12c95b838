"""Which keys a store answers, and how a name that must not be used is told apart."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from napari_decant.errors import UnsafeInput

__all__ = ["check_key", "check_prefix", "children", "join_key", "unsafe_name_reason"]

MAX_KEY_LENGTH = 4096
_DRIVE = re.compile(r"[A-Za-z]:")
# halves of characters, but for those that stand for the bytes of a file name that is not UTF-8
_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def unsafe_name_reason(name: str) -> str | None:
    """Why a name must not be used as a key, or None if it is fine.

    A key is relative and POSIX: components divided by ``/``, none of them empty, ``.`` or ``..``; no
    backslash, NUL or drive letter, because on some system each of them leaves the root, and no half of a
    character, which JSON can name and no file system.
    """
    if not name:
        return "is empty"
    if len(name) > MAX_KEY_LENGTH:
        return f"is longer than {MAX_KEY_LENGTH:,} characters"
    if "\0" in name:
        return "contains a NUL"
    if not name.isascii() and _HALVES.search(name):
        return "has half of a character"
    if "\\" in name:
        return "contains a backslash"
    if name[0] == "/":
        return "is absolute"
    if _DRIVE.match(name) or (os.name == "nt" and ":" in name):
        return "names a drive"
    if name[0] == "." or "/." in name or "//" in name or name[-1] == "/":
        for part in name.split("/"):
            if part == "..":
                return "leaves the root with '..'"
            if part in ("", "."):
                return "has an empty or '.' component"
    return None


def check_key(key: str, uri: str) -> str:
    """Return the key if it stays in the store; raise `UnsafeInput` otherwise."""
    reason = unsafe_name_reason(key)
    if reason is not None:
        raise UnsafeInput(f"{key[:200]!r} {reason}; such a key is never read from {uri}")
    return key


def check_prefix(prefix: str, uri: str) -> str:
    """As `check_key` for a group path; the result is empty or ends with ``/``."""
    prefix = prefix.rstrip("/")
    return f"{check_key(prefix, uri)}/" if prefix else ""


def join_key(*parts: str) -> str:
    """Join key parts with ``/``, leaving out empty ones."""
    return "/".join(part for part in (p.strip("/") for p in parts) if part)


def children(names: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """Divide keys below ``prefix`` (empty or ending with ``/``) into groups and keys, sorted."""
    groups: set[str] = set()
    keys: set[str] = set()
    skip = len(prefix)
    for name in names:
        head, slash, _ = name[skip:].partition("/")
        if slash:
            groups.add(head)
        elif head:
            keys.add(head)
    return sorted(groups), sorted(keys)
