"""The crop tool as a dock widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import napari
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication, QWidget

from napari_decant.gui import Look
from napari_decant.gui.crop import CropPanel
from napari_decant.plugin._docks import OneDock
from napari_decant.plugin._leaving import Work, guard
from napari_decant.plugin._widgets import napari_theme
from napari_decant.plugin.crop._host import NapariHost

__all__ = ["CropWidget"]


class CropWidget(OneDock, CropPanel):
    """Cut regions out of layers, docked in napari.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    parent : QWidget, optional
    """

    def __init__(self, napari_viewer: napari.viewer.Viewer, parent: QWidget | None = None) -> None:
        if self.docked:
            return
        viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)  # napari hands out a proxy
        self._open = True
        self._soon: dict[Any, Callable[[], object]] = {}
        self._host = NapariHost(viewer, self._later)
        self._viewer = viewer
        super().__init__(self._host, Look(napari_theme(viewer.theme)), parent=parent)
        self._host.panel = self
        work = Work(lambda: int(self.busy), self.cancel, lambda: self.busy)
        self._unguard = guard(viewer, work)
        viewer.events.theme.connect(self._retheme)
        app = QApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(self.undocked)
        self.destroyed.connect(lambda: self._let_go())  # with its whole window; it is no widget any more then
        self.refresh()

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            self._unguard()
            self._viewer.events.theme.disconnect(self._retheme)
            self.stop_threads()
            self._host.release()

    def _later(self, call: Callable[[], object]) -> None:
        """Call something when napari has finished what it is doing; the same thing once only."""
        if not self._open:
            return
        if not self._soon:
            QTimer.singleShot(0, self._run_soon)
        self._soon[getattr(call, "__func__", call)] = call

    def _run_soon(self) -> None:
        calls, self._soon = list(self._soon.values()), {}
        for call in calls:
            if self._open:
                call()

    def _retheme(self, event: Any = None) -> None:
        self.look.set_theme(napari_theme(self._viewer.theme))

    def undocked(self) -> None:
        """See `OneDock.undocked`; the box goes out of the view, too."""
        if not self._open:
            return
        self._open = False
        self._unguard()
        self._viewer.events.theme.disconnect(self._retheme)
        self.close_down()
        self._host.close()
        self.deleteLater()
