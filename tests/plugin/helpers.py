"""Images on disk in every form, and a look at who reads them."""

from __future__ import annotations

import os
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from napari_decant.plugin._opened import opened_behind
from napari_decant.stores import FolderStore


def wait_measured(layer: Any) -> None:
    """Wait until a worker has set the contrast that it measured; it would replace what is set before."""
    from qtpy.QtWidgets import QApplication

    opened, number = opened_behind(layer.data)
    if opened.layers[number].contrast_limits is not None:
        return
    with opened.borrow() as layers:
        limits = layers[number].measure_contrast()
    deadline = time.monotonic() + 20
    while tuple(layer.contrast_limits) != limits:
        assert time.monotonic() < deadline, "the contrast was not measured"
        QApplication.processEvents()
        time.sleep(0.01)


def write_folder(folder: Path, keys: dict[str, bytes]) -> Path:
    """Write keys as files."""
    for key, data in keys.items():
        target = folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def write_zip(
    path: Path,
    keys: dict[str, bytes],
    *,
    method: int = zipfile.ZIP_STORED,
    more: dict[str, bytes] | None = None,
) -> Path:
    """Write keys as entries; a name that ends with a slash is a directory."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, data in {**keys, **(more or {})}.items():
            archive.writestr(key, data)
    return path


def reads_of(monkeypatch: pytest.MonkeyPatch, delay: float = 0.0) -> list[tuple[str, str]]:
    """Record every read of a chunk's bytes from now on, as (thread, file); each takes ``delay`` seconds."""
    seen: list[tuple[str, str]] = []
    for name in ("read_file", "read_file_into"):
        real = getattr(FolderStore, name)

        def slow(self: Any, file: str, *args: Any, _real: Any = real) -> Any:
            if not file.endswith((".json", ".zarray", ".zattrs", ".zgroup")):
                seen.append((threading.current_thread().name, file))
                time.sleep(delay)
            return _real(self, file, *args)

        monkeypatch.setattr(FolderStore, name, slow)
    return seen


def handles_of(path: Path) -> int:
    """How many descriptors of this process lead to a file; Linux only."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}") == str(path)
        except OSError:  # the descriptor of the listing itself
            continue
    return found
