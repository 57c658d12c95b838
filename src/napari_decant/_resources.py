"""Files that ship with the program: the sample image and the icon."""

from __future__ import annotations

from pathlib import Path

from napari_decant.errors import StorageError

__all__ = ["icon_path", "sample_path"]

_FOLDER = Path(__file__).parent / "resources"


def _shipped(name: str) -> Path:
    path = _FOLDER / name
    if not path.is_file():
        raise StorageError(f"{path} is missing from this installation; install napari-decant again")
    return path


def sample_path() -> Path:
    """Return the path of the sample image.

    A real fluorescence image: three channels (DNA, microtubules, actin) of 350 x 350 pixels, uint16,
    saved by ImageJ. Its source and licence stand in ``PROVENANCE.md`` beside it.

    Returns
    -------
    Path
        A TIFF that must not be written to.

    Raises
    ------
    StorageError
        The installation is incomplete.
    """
    return _shipped("cell_dna_mts_actin.tif")


def icon_path() -> Path:
    """Return the path of the program's icon, an SVG that reads on light and dark backgrounds.

    Returns
    -------
    Path
        An SVG file.

    Raises
    ------
    StorageError
        The installation is incomplete.
    """
    return _shipped("icon.svg")
