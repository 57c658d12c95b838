"""``napari-decant demo``: the whole way of one real image, told in plain words."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from napari_decant.errors import StorageError, UnsupportedOperation
from napari_decant.plugin._view import has_display, view

__all__ = ["run_demo"]

_SCREEN = "-screen 0 1920x1200x24 +extension GLX"
_PATIENCE = 300  # seconds for napari to start, draw and end
_HEADLESS = "NAPARI_DECANT_HEADLESS"  # set where the display is a virtual one that nobody looks at


def run_demo(output_dir: str | Path, *, show: bool | None = None) -> int:
    """Pack, verify, restore and show the sample image, and say what happens on stdout.

    Parameters
    ----------
    output_dir : path
        Gets the archive, the restored file and, where no window is shown, two pictures of napari.
        Results of an earlier demo there are replaced.
    show : bool, optional
        Whether to open a window; by default where there is a display that somebody can see.

    Returns
    -------
    int
        0 if the file came back byte for byte, else 1.

    Raises
    ------
    StorageError
        The folder cannot be written to.
    UnsupportedOperation
        There is no display and no Xvfb to stand in for one, or napari does not run.
    """
    from napari_decant._resources import sample_path
    from napari_decant.archive import pack, restore, verify

    folder = Path(output_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    source = sample_path()
    size = source.stat().st_size
    _say(f"1. The original: {source.name}, a fluorescence image of a cell, {size:,} bytes.")
    report = pack(source, folder, overwrite=True)
    share = 100 * report.archive_size / size
    extents = ", ".join(f"{axis} {extent}" for axis, extent in zip(report.axes, report.shape, strict=True))
    _say(
        f"2. Packed into {report.archive}: {report.archive_size:,} bytes, {share:.0f} % of the original.\n"
        f"   It is an OME-Zarr image ({extents}; {report.dtype}) plus the bytes that are not pixels."
    )
    checked = verify(report.archive)
    found = "it is whole" if checked.whole else "it is NOT whole"
    _say(f"3. Verified: every byte of the original was recomputed from the archive; {found}.")
    (restored,) = restore(report.archive, folder / "restored", overwrite=True).files
    _say(f"4. Restored to {restored}.")
    before, after = _sha256(source), _sha256(restored)
    same = before == after and bool(checked.whole)
    _say(
        f"5. sha256 of the original {before}\n"
        f"   sha256 restored        {after}\n"
        + ("   They are equal: the file came back byte for byte." if same else "   They DIFFER.")
    )
    if show if show is not None else _somebody_looks():
        _say("6. napari shows the image straight from the archive. Close its window to end the demo.")
        view([report.archive])
    else:
        canvas, window = _pictures(report.archive, folder)
        why = "" if show is False else "Nobody can see a window here. "
        _say(
            f"6. {why}napari opened the archive, drew it and closed again. What it looked like:\n"
            f"   {canvas} (the image)\n"
            f"   {window} (the whole window)"
        )
    return 0 if same else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _somebody_looks() -> bool:
    return has_display() and not os.environ.get(_HEADLESS)


def _pictures(archive: Path, folder: Path) -> tuple[Path, Path]:
    """Take pictures in a process of its own: on this display, or on Xvfb where there is none.

    It gets settings of its own too, so that the size of its window does not become the user's.
    """
    from napari_decant.plugin._screenshots import picture_paths

    command = [sys.executable, "-m", "napari_decant.plugin._screenshots", str(archive), str(folder)]
    environment = dict(os.environ)
    if not has_display():
        xvfb_run = shutil.which("xvfb-run")
        if xvfb_run is None:
            raise UnsupportedOperation(
                "all steps but the last are done: there is no display to show the archive on; install xvfb"
                " (apt install xvfb), or run the demo on a desktop"
            )
        command = [xvfb_run, "--auto-servernum", f"--server-args={_SCREEN}", *command]
        environment["QT_QPA_PLATFORM"] = "xcb"
    with tempfile.TemporaryDirectory() as settings:
        environment["NAPARI_CONFIG"] = str(Path(settings) / "settings.yaml")
        try:
            ran = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UnsupportedOperation(
                f"all steps but the last are done: napari drew nothing within {_PATIENCE} seconds"
            ) from error
    if ran.returncode:
        last = (ran.stderr.strip() or ran.stdout.strip() or "it said nothing").splitlines()[-1]
        raise UnsupportedOperation(f"all steps but the last are done: napari did not run: {last}")
    return picture_paths(archive, folder)
