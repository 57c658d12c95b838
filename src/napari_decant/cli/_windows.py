"""The verbs that open windows: view, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from napari_decant.cli._common import app
from napari_decant.errors import UsageError
from napari_decant.stores._atomic import require_path

__all__ = ["demo", "gui", "view"]


@app.command
def view(paths: Annotated[list[Path], Parameter(negative=())]) -> int:
    """Open images and archives in napari.

    Parameters
    ----------
    paths
        Archives, OME-Zarr folders or TIFFs.
    """
    for path in paths:
        require_path(path)
    _napari().view(paths)
    return 0


@app.command
def gui(paths: Annotated[list[Path] | None, Parameter(negative=())] = None) -> int:
    """Open the window for packing, verifying, restoring and looking inside.

    Parameters
    ----------
    paths
        Files, folders or archives to begin with.
    """
    given = [path.absolute() for path in paths or []]
    for path in given:
        require_path(path)
    try:
        from napari_decant.gui import run
    except ImportError as error:  # qtpy says so too if there is no Qt behind it
        raise UsageError('the window needs Qt; run: pip install "napari-decant[all]"') from error
    return run(given)


@app.command
def demo(
    *,
    output: Annotated[Path, Parameter(("--output", "-o"), help="Folder for the results.")] = Path(
        "demo-output"
    ),
    show: Annotated[bool | None, Parameter(help="Open a window; default: if there is a display.")] = None,
) -> int:
    """Pack, verify, restore and show a real microscope image."""
    return int(_napari().run_demo(output, show=show))


def _napari() -> Any:
    """The part that needs napari, with a clear word if it is not installed."""
    try:
        import napari  # noqa: F401
    except ImportError as error:
        raise UsageError('napari is not installed; run: pip install "napari-decant[all]"') from error
    from napari_decant import plugin

    return plugin
