"""What names an image and the state of its file, so that another one is never taken for it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from napari_decant.images._image import Image
from napari_decant.stores import local_path

__all__ = ["image_identity"]

_MOST_FILES = 10_000


def image_identity(location: str, image: Image) -> str:
    """Name an image and the state of its file.

    Parameters
    ----------
    location : str
        Where the image was opened.
    image : Image
    """
    path = local_path(location)
    state = ""
    if path is not None:
        real = Path(os.path.realpath(path))
        try:
            if real.is_dir():
                state = _folder_state(real / image.path)
            else:
                facts = real.stat()
                state = f"{facts.st_size} {facts.st_mtime_ns}"
        except OSError:
            state = "unknown"
        location = str(real)
    return f"{location} {image.path!r} {state}"


def _folder_state(folder: Path) -> str:
    """Hash of the names, sizes and times of the files in a folder; of a great many only the first."""
    state = hashlib.sha256()
    left = _MOST_FILES
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names)[:left]:
            facts = os.stat(os.path.join(where, name))
            state.update(os.fsencode(f"{where}/{name} {facts.st_size} {facts.st_mtime_ns}\n"))
        left -= min(left, len(names))
        if left == 0:
            break
    return state.hexdigest()[:16]
