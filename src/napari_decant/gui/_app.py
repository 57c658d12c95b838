"""Start the window as a program of its own."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QSettings, Qt, QTimer
from qtpy.QtGui import QIcon
from qtpy.QtWidgets import QApplication

from napari_decant._resources import icon_path
from napari_decant.gui._desk import Desk
from napari_decant.gui._settings import open_settings
from napari_decant.gui._theme import Look, system_theme
from napari_decant.gui._window import Window

__all__ = ["QtStore", "make_window", "run", "set_aside_modules"]


class QtStore:
    """Settings where the system keeps those of its programs."""

    def __init__(self) -> None:
        self._settings = QSettings("napari-decant", "window")

    def load(self) -> dict[str, Any]:
        """See `SettingsStore.load`."""
        return {key: self._settings.value(key) for key in self._settings.allKeys()}

    def save(self, name: str, value: Any) -> None:
        """See `SettingsStore.save`."""
        self._settings.setValue(name, value)  # Qt writes it a moment later; a slow disk holds nothing up


def open_in_napari(paths: Sequence[Path]) -> None:
    """Show images in a napari of its own."""
    command = [sys.executable, "-m", "napari_decant.cli", "view", *(os.fspath(path) for path in paths)]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def make_window(app: QApplication, desk: Desk | None = None) -> Window:
    """Make the window and dress the application in its colours."""
    look = desk.look if desk is not None else Look(system_theme())
    if desk is None:
        has_napari = importlib.util.find_spec("napari") is not None
        desk = Desk(open_settings(QtStore()), look, open_images=open_in_napari if has_napari else None)
    app.setStyle("Fusion")
    app.setPalette(look.palette())
    look.changed.connect(lambda: app.setPalette(look.palette()))
    app.setWindowIcon(QIcon(os.fspath(icon_path())))
    hints = app.styleHints()
    if hasattr(hints, "colorSchemeChanged"):  # Qt 6.5
        hints.colorSchemeChanged.connect(lambda *_: look.set_theme(system_theme()))
    return Window(desk)


def set_aside_modules() -> None:
    """Spare the garbage collector what was imported: walking it again and again would hold the window up."""
    gc.collect()
    gc.freeze()


def run(paths: Sequence[Path] = ()) -> int:
    """Show the window until it is closed; returns the exit code."""
    QApplication.setHighDpiScaleFactorRoundingPolicy(Qt.HighDpiScaleFactorRoundingPolicy.PassThrough)
    app = QApplication(sys.argv[:1])
    app.setApplicationName("napari-decant")
    app.setDesktopFileName("napari-decant")
    window = make_window(app)
    window.show()

    def begin() -> None:
        set_aside_modules()
        window.desk.warm()
        window.look_for_leftovers()
        if paths:
            window.add(paths)

    QTimer.singleShot(0, begin)
    return int(app.exec())
