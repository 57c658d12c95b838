"""Make the pictures of the page about cropping from the running program.

Usage: python scripts/crop_pictures.py [FOLDER]   (docs/images by default; needs a display)
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from napari.viewer import Viewer
from PIL import Image
from qtpy.QtWidgets import QApplication

from napari_decant.images.crop import Region
from napari_decant.plugin._screenshots import settle
from napari_decant.plugin.crop import CropWidget

ROOT = Path(__file__).resolve().parent.parent
SIZE = (1100, 760)
PATIENCE = 60.0
LIMIT = 2_000_000


def until(done: Callable[[], bool]) -> None:
    """Let the program run until something is so."""
    end = time.monotonic() + PATIENCE
    while not done():
        QApplication.processEvents()
        time.sleep(0.005)
        if time.monotonic() > end:
            raise SystemExit("crop_pictures: the program did not get where it should; run it by hand")


class Studio:
    """napari with the crop tool in it, and a camera."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.viewer = Viewer(show=True)
        self.viewer.window.resize(*SIZE)
        self.made: list[Path] = []

    def tool(self) -> CropWidget:
        """Dock the tool as its menu entry does."""
        widget = CropWidget(self.viewer)
        self.viewer.window.add_dock_widget(widget, name="Crop a region (Decant)", area="right")
        self.ready(widget)
        return widget

    def ready(self, widget: CropWidget) -> None:
        """Wait until picture and numbers are those of the box, and everything is drawn."""
        QApplication.processEvents()
        until(lambda: widget.settled and not widget.busy)
        settle(self.viewer)

    def shoot(self, name: str) -> None:
        """Save what the window shows, in 256 colours."""
        settle(self.viewer)
        pixels = np.ascontiguousarray(self.viewer.screenshot(canvas_only=False, flash=False)[..., :3])
        path = self.folder / f"crop-{name}.png"
        Image.fromarray(pixels).quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        self.made.append(path)


def volume() -> np.ndarray:
    """Make up a volume: bright rods and balls in a faint haze, as uint16 of 48 x 160 x 160 voxels."""
    random = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(*[np.arange(n, dtype=np.float32) for n in (48, 160, 160)], indexing="ij"), -1)
    grid[..., 0] *= 3  # planes are three times as far apart as pixels
    made = np.full(grid.shape[:3], 200.0, np.float32)
    for _ in range(40):
        center = random.uniform((10, 15, 15), (134, 145, 145)).astype(np.float32)
        along = random.normal(size=3).astype(np.float32)
        along /= np.linalg.norm(along)
        away = grid - center
        reach = away @ along
        across = (away**2).sum(-1) - reach**2
        made += random.uniform(800, 3000) * np.exp(-across / 18 - (reach / random.uniform(8, 30)) ** 2)
    return np.clip(made, 0, 65535).astype(np.uint16)


def main(folder: Path) -> None:
    """Make all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    studio = Studio(folder)
    viewer = studio.viewer
    viewer.open_sample("napari-decant", "cell")
    settle(viewer)
    widget = studio.tool()
    viewer.reset_view()
    studio.ready(widget)
    widget.set_region(Region((24.0, 18.0), (16.0, 18.0), (0.0,)))
    studio.ready(widget)
    studio.shoot("box")
    widget.set_region(Region((24.0, 18.0), (16.0, 18.0), (25.0,)))
    studio.ready(widget)
    widget.footer.add.click()
    studio.ready(widget)
    studio.shoot("turned")

    viewer.layers.clear()
    look = {"scale": (1.5, 0.5, 0.5), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
    viewer.add_image(volume(), name="rods", colormap="bop blue", contrast_limits=(200, 2600), **look)
    widget.footer.forget()
    viewer.dims.ndisplay = 3
    viewer.scene.camera.angles = (15.0, 40.0, 120.0)
    viewer.reset_view(reset_camera_angle=False)
    widget.set_region(Region((36.0, 40.0, 40.0), (30.0, 40.0, 30.0), (20.0, 15.0, 0.0)))
    studio.ready(widget)
    studio.shoot("volume")
    widget.form.modes.button(1).click()
    widget.set_region(widget.intent.region.moved(size=(0.5, 60.0, 60.0)) if widget.intent.region else None)
    widget.form.follow.setChecked(True)
    viewer.scene.camera.angles = (10.0, 30.0, 110.0)
    studio.ready(widget)
    studio.shoot("plane")
    viewer.close()
    size = sum(path.stat().st_size for path in studio.made)
    print(f"crop_pictures: {len(studio.made)} pictures, {size / 1e6:.1f} MB")
    if size > LIMIT:
        raise SystemExit(f"crop_pictures: more than {LIMIT / 1e6:.0f} MB; take fewer or smaller ones")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    main(parser.parse_args().folder)
