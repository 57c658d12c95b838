"""Pictures of napari with an image in it, for the demo and the documentation.

Runs as a program too: ``python -m napari_decant.plugin._screenshots IMAGE FOLDER``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from napari_decant.errors import StorageError

if TYPE_CHECKING:
    import napari

__all__ = ["picture_paths", "settle", "take_screenshots"]

_WINDOW = (1280, 860)
_PATIENCE = 60.0  # seconds until layers must have been read


def picture_paths(image: Path, folder: Path) -> tuple[Path, Path]:
    """Where the pictures of an image go: the canvas, and the whole window."""
    stem = image.name.partition(".")[0]
    return folder / f"{stem}-canvas.png", folder / f"{stem}-window.png"


def take_screenshots(image: Path, folder: Path) -> tuple[Path, Path]:
    """Open an image in napari, wait until it is drawn, and take two pictures.

    Parameters
    ----------
    image : Path
        What to open.
    folder : Path
        Where the pictures go.

    Returns
    -------
    canvas, window : Path

    Raises
    ------
    DecantError
        The image cannot be opened.
    StorageError
        It was not read within a minute.
    """
    from napari_decant.plugin._view import add_to_viewer, open_viewer

    canvas, window = picture_paths(image, folder)
    viewer = open_viewer(show=True)
    try:
        viewer.window.resize(*_WINDOW)
        add_to_viewer(viewer, image)
        viewer.canvas.overlays.scale_bar.visible = True
        settle(viewer)
        viewer.reset_view()
        settle(viewer)
        viewer.screenshot(path=str(canvas), canvas_only=True, flash=False)
        viewer.screenshot(path=str(window), canvas_only=False, flash=False)
    finally:
        viewer.close()
    return canvas, window


def settle(viewer: napari.Viewer, quiet: float = 0.3) -> None:
    """Let the window work until every visible layer was read and nothing changed for a moment."""
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + _PATIENCE
    calm_since = time.monotonic()
    while time.monotonic() - calm_since < quiet:
        QApplication.processEvents()
        if any(layer.visible and not layer.loaded for layer in viewer.layers):
            calm_since = time.monotonic()
        if time.monotonic() > end:
            raise StorageError(f"the image was not read within {_PATIENCE:.0f} seconds")
        time.sleep(0.01)


if __name__ == "__main__":
    take_screenshots(Path(sys.argv[1]), Path(sys.argv[2]))
