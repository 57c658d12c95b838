"""What names an image and the state of its file, so that another one is never taken for it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from napari_decant.images._image import Image
from napari_decant.stores import local_path

__all__ = ["image_identity"]


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
                documents = [real / image.path / name for name in ("zarr.json", ".zattrs", ".zarray")]
                found = [d for d in documents if d.is_file()]
                state = hashlib.sha256(b"".join(d.read_bytes() for d in found)).hexdigest()[:16]
            else:
                facts = real.stat()
                state = f"{facts.st_size} {facts.st_mtime_ns}"
        except OSError:
            state = "unknown"
        location = str(real)
    return f"{location} {image.path!r} {state}"
