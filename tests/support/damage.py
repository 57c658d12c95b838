"""Spoil an archive in one place, keeping the rest of the zip as it is."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["add_entry", "drop_entry", "edit_entry", "flip_byte", "flip_stored_byte", "rewrite"]


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Write the archive again, as a good zip, with changed entries."""
    with zipfile.ZipFile(path) as opened:
        entries = {info.filename: opened.read(info) for info in opened.infolist()}
    change(entries)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as made:
        for name, data in entries.items():
            made.writestr(zipfile.ZipInfo(name), data)
    path.write_bytes(buffer.getvalue())


def edit_entry(path: Path, name: str, edit: Callable[[bytes], bytes]) -> None:
    rewrite(path, lambda entries: entries.update({name: edit(entries[name])}))


def drop_entry(path: Path, name: str) -> None:
    rewrite(path, lambda entries: entries.pop(name))


def add_entry(path: Path, name: str, data: bytes) -> None:
    rewrite(path, lambda entries: entries.update({name: data}))


def flip_byte(data: bytes, at: int | None = None) -> bytes:
    """The same bytes with one bit pattern turned."""
    at = len(data) // 2 if at is None else at
    return data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :]


def flip_stored_byte(path: Path, name: str) -> None:
    """Turn a byte in the middle of an entry without touching any checksum: what a failing disk does."""
    with zipfile.ZipFile(path) as opened:
        info = opened.getinfo(name)
    data = bytearray(path.read_bytes())
    start = info.header_offset + 30 + len(info.filename.encode())
    data[start + info.compress_size // 2] ^= 0x5A
    path.write_bytes(bytes(data))
