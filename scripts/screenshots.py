"""Make the pictures of the documentation from the running program: every state of every panel.

Usage: python scripts/screenshots.py [FOLDER]   (docs/images by default; needs a display, see with_display.py)
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from qtpy.QtCore import QPoint, QRect
from qtpy.QtGui import QColor, QImage, QPainter, QPixmap
from qtpy.QtWidgets import QApplication, QWidget

from napari_decant._resources import sample_path
from napari_decant.gui import DARK, LIGHT, Desk, Look, Window, make_window
from napari_decant.gui._delete import DeleteDialog

ROOT = Path(__file__).resolve().parent.parent
SIZE = (1024, 640)
NARROW = (340, 700)
PATIENCE = 120.0
LIMIT = 6_000_000


class Studio:
    """A window, files to show in it, and a camera."""

    def __init__(self, app: QApplication, folder: Path, files: Path, dark: bool) -> None:
        self.app, self.folder, self.files = app, folder, files
        self.suffix = "dark" if dark else "light"
        self.desk = Desk(look=Look(DARK if dark else LIGHT), open_images=lambda paths: None)
        self.window: Window = make_window(app, self.desk)
        self.window.resize(*SIZE)
        self.window.show()
        self.pause()

    def until(self, done: Callable[[], bool]) -> None:
        """Let the program run until something is so."""
        end = time.monotonic() + PATIENCE
        while not done():
            self.app.processEvents()
            time.sleep(0.005)
            if time.monotonic() > end:
                raise SystemExit("screenshots: the program did not get where it should; run it by hand")

    def pause(self, seconds: float = 0.25) -> None:
        """Let everything be drawn."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end)

    def settle(self, panel: Any) -> None:
        """Wait until a panel has nothing to do."""
        self.until(lambda: not panel.looking and panel.batch is None)
        self.pause()

    def shoot(self, name: str, *, over: QWidget | None = None) -> None:
        """Save what the window shows, with what lies over it."""
        self.pause()
        picture: QPixmap = self.window.grab()
        if over is not None:
            painter = QPainter(picture)
            painter.fillRect(self.window.rect(), QColor(0, 0, 0, 90))  # as if it were behind
            origin = self.window.rect().center() - over.rect().center()
            place = QRect(QPoint(max(0, origin.x()), max(0, origin.y())), over.size())
            painter.drawPixmap(place.topLeft(), over.grab())
            painter.setPen(self.desk.look.color("border"))
            painter.drawRect(place)
            painter.end()
        save(picture.toImage(), self.folder / f"window-{name}-{self.suffix}.png")

    def close(self) -> None:
        """Let go of everything."""
        self.window.close()
        self.until(lambda: not self.window.isVisible())


def save(image: QImage, path: Path) -> None:
    """Write a picture as small as it gets without losing a colour: marks are told by theirs."""
    if not image.convertToFormat(QImage.Format.Format_RGB888).save(str(path), "PNG", 0):
        raise SystemExit(f"screenshots: {path} cannot be written")


@contextmanager
def files() -> Iterator[Path]:
    """A small experiment: plates, a slide, a file that is no TIFF."""
    folder = Path(tempfile.gettempdir()) / "experiment"  # a plain name, since pictures show it
    try:
        folder.mkdir()
    except FileExistsError:
        folder = Path(tempfile.mkdtemp(prefix="experiment-"))
    try:
        plate = folder / "plate3"
        plate.mkdir()
        for n in range(5):
            shutil.copy(sample_path(), plate / f"cell_{n:02d}.tif")
        random = np.random.default_rng(0)
        slide = random.integers(0, 255, (600, 600, 3), dtype=np.uint8)
        tifffile.imwrite(plate / "slide.tif", slide, compression="zlib")
        series = folder / "timelapse"
        series.mkdir()
        base = tifffile.imread(sample_path())[0]
        for n in range(12):
            tifffile.imwrite(series / f"img_t{n:03d}.tif", np.roll(base, n, axis=1))
        (folder / "large").mkdir()
        noise = random.normal(400, 30, (1024, 1024)).astype(np.uint16)
        for n in range(4):
            with tifffile.TiffWriter(folder / "large" / f"scan_{n}.tif") as tiff:
                for z in range(60):
                    tiff.write(np.roll(noise, z, axis=0), contiguous=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def pack(studio: Studio) -> Path:
    """Every state of the panel that packs; returns the folder of archives."""
    window, panel = studio.window, studio.window.pack
    studio.shoot("pack-empty")
    panel.add([studio.files / "plate3"])
    studio.settle(panel)
    studio.shoot("pack-ready")
    panel.table.setCurrentIndex(panel.rows.index_of(panel.rows.root.children[-1]))
    panel.form.open()
    studio.shoot("pack-options")
    panel.form.toggle.click()
    window.resize(*NARROW)
    studio.pause()
    window.resize(*NARROW)  # now that everything stands in one column
    studio.shoot("pack-narrow")
    window.resize(*SIZE)
    panel.remove(list(panel.rows.root.children))
    for notice in panel.notices():
        notice.put_away()

    panel.add([studio.files / "large"])
    studio.settle(panel)
    for notice in panel.notices():
        notice.put_away()
    panel.footer.main.click()
    studio.until(lambda: panel.batch is not None and panel.batch.fraction > 0.3)
    studio.shoot("pack-running")
    panel.footer.cancel.click()
    studio.settle(panel)
    studio.shoot("pack-cancelled")
    panel.remove(list(panel.rows.root.children))
    panel.put_card_away()

    panel.desk.settings.series = True
    panel.add([studio.files / "timelapse"])
    studio.settle(panel)
    panel.table.setExpanded(panel.rows.index_of(panel.rows.root.children[0]), True)
    studio.shoot("pack-series")
    panel.remove(list(panel.rows.root.children))
    panel.desk.settings.series = False

    panel.add([studio.files / "plate3"])
    studio.settle(panel)
    for notice in panel.notices():
        notice.put_away()
    panel.footer.main.click()
    studio.settle(panel)
    studio.shoot("pack-done")
    assert panel.card is not None
    next(each for each in panel.card.buttons if "originals" in each.text()).click()
    (dialog,) = panel.findChildren(DeleteDialog)
    studio.shoot("delete", over=dialog)
    dialog.reject()
    packed = studio.files / "plate3"
    (packed / "cell_01.tif").rename(packed / "cell_01.moved")
    panel.put_card_away()
    panel.remove(list(panel.rows.root.children))
    panel.desk.settings.replace = True
    panel.add([packed])
    studio.settle(panel)
    (packed / "cell_02.tif").rename(packed / "cell_02.moved")
    for notice in panel.notices():
        notice.put_away()
    panel.footer.main.click()
    studio.settle(panel)
    failed = next(row for row in panel.rows.root.children if row.state == "failed")
    panel.table.setCurrentIndex(panel.rows.index_of(failed))
    studio.shoot("pack-failed")
    panel.desk.settings.replace = False
    for name in ("cell_01", "cell_02"):
        (packed / f"{name}.moved").rename(packed / f"{name}.tif")
    return packed


def verify(studio: Studio, packed: Path) -> None:
    """Every state of the panel that verifies."""
    window, panel = studio.window, studio.window.verify
    window.tabs[1].click()
    studio.shoot("verify-empty")
    panel.add([packed])
    studio.settle(panel)
    panel.desk.settings.quick = True
    studio.pause()
    panel.footer.main.click()
    studio.settle(panel)
    studio.shoot("verify-quick")
    panel.desk.settings.quick = False
    panel.verify(list(panel.rows.root.children), quick=False)
    studio.settle(panel)
    studio.shoot("verify-whole")
    spoiled = packed / "cell_03.tif.zarr.zip"
    kept = spoiled.read_bytes()
    data = bytearray(kept)
    data[len(data) // 3] ^= 0x55
    spoiled.write_bytes(data)
    panel.verify(list(panel.rows.root.children), quick=False)
    studio.settle(panel)
    studio.shoot("verify-damaged")
    spoiled.write_bytes(kept)


def restore(studio: Studio, packed: Path) -> None:
    """Every state of the panel that restores."""
    window, panel = studio.window, studio.window.restore
    window.tabs[2].click()
    studio.shoot("restore-empty")
    panel.desk.settings.restore_folder = str(studio.files / "restored")
    panel.add([packed])
    studio.settle(panel)
    first = panel.rows.root.children[0]
    panel.table.setExpanded(panel.rows.index_of(first), True)
    studio.shoot("restore-ready")
    panel.footer.main.click()
    studio.until(lambda: panel.card is not None)
    studio.settle(panel)
    studio.shoot("restore-done")
    panel.put_card_away()
    panel.remove(list(panel.rows.root.children))
    panel.add([packed / "cell_00.tif.zarr.zip"])
    studio.settle(panel)
    panel.footer.main.click()
    studio.until(lambda: getattr(panel, "question", None) is not None)
    studio.shoot("restore-question", over=panel.question)
    panel.question.reject()


def inspect(studio: Studio, packed: Path) -> None:
    """Every state of the panel that looks inside."""
    window, panel = studio.window, studio.window.inspect
    window.tabs[3].click()
    studio.shoot("inspect-empty")
    panel.add([packed / "cell_00.tif.zarr.zip"])
    studio.until(lambda: panel.shown is not None)
    studio.shoot("inspect-archive")


def export(studio: Studio, packed: Path) -> None:
    """Every state of the panel that exports."""
    window, panel = studio.window, studio.window.export
    window.tabs[4].click()
    studio.shoot("export-empty")
    panel.desk.settings.export_folder = str(studio.files / "exported")
    panel.add([packed / "cell_00.tif.zarr.zip", packed / "slide.tif"])
    studio.settle(panel)
    studio.shoot("export-ready")
    panel.footer.main.click()
    studio.settle(panel)
    panel.table.setExpanded(panel.rows.index_of(panel.rows.root.children[0]), True)
    studio.shoot("export-done")


def check(studio: Studio, packed: Path) -> None:
    """Every state of the panel that checks."""
    window, panel = studio.window, studio.window.check
    window.tabs[5].click()
    studio.shoot("check-empty")
    panel.add([studio.files / "exported", packed / "cell_00.tif.zarr.zip"])
    studio.settle(panel)
    panel.footer.main.click()
    studio.settle(panel)
    first, *_, archive = panel.rows.root.children
    panel.table.setExpanded(panel.rows.index_of(first), False)
    broken = archive.children[0]
    panel.table.setCurrentIndex(panel.rows.index_of(broken))
    studio.shoot("check-done")


def main(folder: Path, zoom: float) -> None:
    """Make all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication.instance() or QApplication(sys.argv[:1])
    font = app.font()
    font.setPointSizeF(font.pointSizeF() * zoom)
    app.setFont(font)
    for dark in (False, True):
        with files() as experiment:
            studio = Studio(app, folder, experiment, dark)
            packed = pack(studio)
            verify(studio, packed)
            restore(studio, packed)
            inspect(studio, packed)
            export(studio, packed)
            check(studio, packed)
            studio.close()
    napari = [sys.executable, str(ROOT / "scripts" / "screenshots_napari.py"), str(folder)]
    subprocess.run(napari, check=True)  # in a process of its own: its window dresses the whole program
    made = sorted((*folder.glob("window-*.png"), *folder.glob("napari-*.png")))
    size = sum(path.stat().st_size for path in made)
    print(f"screenshots: {len(made)} pictures, {size / 1e6:.1f} MB, in {os.path.relpath(folder)}")
    if size > LIMIT:
        raise SystemExit(f"screenshots: more than {LIMIT / 1e6:.0f} MB; take fewer or smaller ones")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--font", type=float, default=1.0, help="size of the font: 1.5 is 150 %%")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.font)
