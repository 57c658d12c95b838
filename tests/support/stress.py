"""Windows and panels come and go while jobs run: run as a program, so that a crash is an exit code.

Usage: python -m tests.support.stress windows|panels ROUNDS FOLDER
"""

from __future__ import annotations

import faulthandler
import gc
import random
import sys
import threading
from pathlib import Path
from typing import Any

from qtpy.QtCore import QEventLoop, QTimer
from qtpy.QtWidgets import QApplication
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant.gui import (
    LIGHT,
    CheckPanel,
    Desk,
    ExportPanel,
    InspectPanel,
    Look,
    PackPanel,
    RestorePanel,
    VerifyPanel,
    make_window,
)
from napari_decant.gui.jobs import InlineWorker

__all__ = ["main"]

PANELS = (PackPanel, VerifyPanel, CheckPanel, RestorePanel, ExportPanel, InspectPanel)


def spin(seconds: float) -> None:
    """Let events be handled, also those that delete."""
    loop = QEventLoop()
    QTimer.singleShot(int(seconds * 1000) + 1, loop.quit)
    loop.exec()


def begin(panels: list[Any], chance: random.Random, folder: Path) -> None:
    """Give panels work, and start it."""
    for panel in panels:
        panel.add([folder])
    spin(chance.random() * 0.3)
    for panel in panels:
        if hasattr(panel, "footer") and panel.KEY != "restore" and panel.footer.main.isEnabled():
            panel.footer.main.click()
    spin(chance.random() * 0.15)


def windows(app: QApplication, rounds: int, folder: Path, chance: random.Random) -> None:
    """A window and its jobs are closed in the midst of work."""
    for number in range(rounds):
        desk = Desk(look=Look(LIGHT), worker=InlineWorker)
        window = make_window(app, desk)
        window.show()
        begin(list(window.panels), chance, folder)
        desk.runner.cancel_all()
        spin(chance.random() * 0.1 if chance.random() < 0.5 else 0)
        desk.close()
        window.close()
        window.deleteLater()
        del window, desk
        if number % 3 == 0:
            gc.collect()
        spin(0.02)


def panels(app: QApplication, rounds: int, folder: Path, chance: random.Random) -> None:
    """Panels of one desk go in the midst of work, as docks do."""
    desk = Desk(look=Look(LIGHT), worker=InlineWorker)
    for number in range(rounds):
        made = [kind(desk) for kind in chance.sample(PANELS, 3)]
        for panel in made:
            panel.show()
        begin(made, chance, folder)
        for panel in made:
            if chance.random() < 0.5:
                panel.leave()
            panel.close()
            panel.deleteLater()
        del made, panel
        if number % 3 == 0:  # also what worker threads collect must be no harm
            gc.collect()
        spin(0.02)
    desk.runner.cancel_all()
    desk.close()


def main(mode: str, rounds: int, folder: Path) -> None:
    """Run, and see that nothing is left."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(240, exit=True)
    app = QApplication.instance() or QApplication([])
    for number in range(12):
        write_tiff(folder / f"{number}.tif", TiffSpec(pages=3, height=40, width=50, seed=number))
    {"windows": windows, "panels": panels}[mode](app, rounds, folder, random.Random(7))
    spin(0.05)
    gc.collect()
    spin(0.05)
    left = [type(widget).__name__ for widget in QApplication.allWidgets()]
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("decant")]
    partial = [path.name for path in folder.rglob("*.partial")]
    sys.stdout.write(f"left: {left} {threads} {partial}\n")
    faulthandler.cancel_dump_traceback_later()
    raise SystemExit(bool(left or threads or partial))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
