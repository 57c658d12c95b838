"""The images of a file that holds several, in a dock: what there is, what is open, and opening more."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import napari
from napari.layers import Layer
from napari.qt.threading import create_worker
from napari.utils.notifications import show_error, show_warning
from qtpy.QtCore import QSortFilterProxyModel, Qt
from qtpy.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from napari_decant.errors import DecantError
from napari_decant.images import ImageEntry, list_images
from napari_decant.plugin._chooser_model import IMAGE, EntryModel
from napari_decant.plugin._docks import OneDock, show_dock
from napari_decant.plugin._jobs import DockBar
from napari_decant.plugin._layers import LayerData
from napari_decant.plugin._open import read_entry
from napari_decant.plugin._opened import OpenedImage, entry_key, opened_behind
from napari_decant.plugin._watch import watch

__all__ = ["TITLE", "ImageChooser", "offer_images"]

TITLE = "Images in a file"
_EMPTY = (
    "Drop a file that holds several images on the viewer: a plate, a series, an image with labels. They are"
    " listed here, and you choose which to open."
)
_FILTERED = 12  # images from which on a line to filter them helps
_WIDTH = 22  # heights of the font
_MEASURED = 100  # rows that the columns are made wide enough for
_FEW = 8  # images that open in a moment


def offer_images(viewer: Any, location: str, entries: Sequence[ImageEntry]) -> None:
    """Show the images of a file beside the viewer, and let the user open some; returns at once."""
    chooser: ImageChooser = show_dock(viewer, TITLE, lambda: ImageChooser(viewer))
    chooser.offer(location, entries)


class ImageChooser(OneDock, QWidget):
    """A list of the images of one file, or of one of several files.

    Parameters
    ----------
    napari_viewer : napari.Viewer
        Where images are opened. The files of its layers are listed, too.
    """

    def __init__(self, napari_viewer: napari.viewer.Viewer) -> None:
        if self.docked:
            return
        super().__init__()
        self.viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)
        self._entries: dict[str, Sequence[ImageEntry]] = {}
        self._worker: Any = None
        self._gone = False  # workers may end later than the list
        self.files = QComboBox()
        self.files.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.files.setMinimumContentsLength(12)
        self.files.setAccessibleName("File")
        self.words = QLabel(_EMPTY)
        self.words.setWordWrap(True)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter by name")
        self.filter.setToolTip("Show the images whose name contains this")
        self.filter.setClearButtonEnabled(True)
        self.model = EntryModel()
        self._proxy = QSortFilterProxyModel(self)
        self._proxy.setSourceModel(self.model)
        self._proxy.setFilterKeyColumn(IMAGE)
        self._proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.list = QTreeView()
        self.list.setModel(self._proxy)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setAllColumnsShowFocus(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setToolTip("Double-click an image to open it, or choose several and click Open")
        self.list.setAccessibleName("Images")
        self.list.setMinimumWidth(_WIDTH * self.fontMetrics().height())
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setResizeContentsPrecision(_MEASURED)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.open = QPushButton("Open")
        self.open.setToolTip("Open the chosen images as layers (Enter)")
        layout = QVBoxLayout(self)
        for widget in (self.files, self.words, self.filter, self.list, self.open):
            layout.addWidget(widget)
        layout.setStretch(3, 1)
        self.files.currentIndexChanged.connect(self._show_file)
        self.filter.textChanged.connect(self._proxy.setFilterFixedString)
        self.list.selectionModel().selectionChanged.connect(self._update)
        self.list.activated.connect(self.open_chosen)  # Enter, or a double click
        self.open.clicked.connect(self.open_chosen)
        self.viewer.layers.events.inserted.connect(self._on_layers)
        self.viewer.layers.events.removed.connect(self._on_layers)
        self._on_layers()
        self._show_file()

    def undocked(self) -> None:
        """See `OneDock.undocked`."""
        self._gone = True
        self.viewer.layers.events.inserted.disconnect(self._on_layers)
        self.viewer.layers.events.removed.disconnect(self._on_layers)
        if self._worker is not None:
            self._worker.quit()
        self.deleteLater()

    # --- files ---

    @property
    def location(self) -> str:
        """The file that is shown; empty where there is none."""
        return str(self.files.currentData() or "")

    def offer(self, location: str, entries: Sequence[ImageEntry]) -> None:
        """List the images of a file and show them."""
        where = _normal(location)
        self._entries[where] = entries
        self._add_file(where)
        self.files.setCurrentIndex(self.files.findData(where))
        self._show_file()
        first = next((row for row, entry in enumerate(entries) if entry.error is None), None)
        if first is not None:
            self.list.setCurrentIndex(self._proxy.mapFromSource(self.model.index(first, IMAGE)))
        self.list.setFocus()

    def _add_file(self, where: str) -> None:
        if self.files.findData(where) < 0:
            self.files.addItem(where.replace("\\", "/").rstrip("/").rpartition("/")[2], where)
            self.files.setItemData(self.files.count() - 1, where, Qt.ItemDataRole.ToolTipRole)

    def _show_file(self) -> None:
        where = self.location
        known = self._entries.get(where)
        if where and known is None:
            self._list(where)
        entries = known or ()
        self.model.set_entries(entries)
        self._on_layers()
        self.files.setVisible(bool(where))
        self.files.setToolTip(where)
        self.filter.clear()
        self.filter.setVisible(len(entries) >= _FILTERED)
        self.list.setVisible(bool(entries))
        self.open.setVisible(bool(entries))
        self.words.setText(_words(entries) if entries else "Looking into the file" if where else _EMPTY)
        self._update()

    def _list(self, where: str) -> None:
        """Find out what a file holds, off the thread of the window."""

        def listed() -> tuple[Sequence[ImageEntry], str]:
            try:
                return list_images(where), ""
            except DecantError as error:
                return (), str(error)

        def show(result: tuple[Sequence[ImageEntry], str]) -> None:
            entries, problem = result
            self._entries[where] = entries
            if not self._gone and self.location == where:
                self._show_file()
                if problem:
                    self.words.setText(problem)

        create_worker(listed, _connect={"returned": show})

    # --- what is open ---

    def _on_layers(self, event: Any = None) -> None:
        """Mark what is open, and list the files of all layers."""
        shown = [(_normal(opened.location), opened.key) for _, opened in self._layers()]
        for where, _ in shown:
            self._add_file(where)
        self.model.set_open({key for where, key in shown if where == self.location})
        self._update()

    def _layers(self) -> list[tuple[Layer, OpenedImage]]:
        """Layers of ours in the viewer, with what is behind them."""
        found = [(layer, opened_behind(layer.data)) for layer in self.viewer.layers]
        return [(layer, behind[0]) for layer, behind in found if behind is not None]

    def chosen(self) -> list[ImageEntry]:
        """The selected images, in the order of the list."""
        rows = self.list.selectionModel().selectedRows(IMAGE)
        return [self.model.entries[row] for row in sorted(self._proxy.mapToSource(row).row() for row in rows)]

    def _update(self) -> None:
        count = len([entry for entry in self.chosen() if not self.model.is_open(entry)])
        self.open.setEnabled(count > 0 and self._worker is None)
        self.open.setText(f"Open {count:,} images" if count > 1 else "Open")

    # --- opening ---

    def open_chosen(self) -> None:
        """Open the selected images that are not open yet; of those that are, select the layers."""
        chosen = self.chosen()
        wanted = [entry for entry in chosen if not self.model.is_open(entry)]
        if not wanted:
            self._select_layers({entry_key(entry) for entry in chosen})
        elif self._worker is None:
            self._open(self.location, wanted)

    def _select_layers(self, keys: set[str]) -> None:
        self.viewer.layers.selection = {
            layer
            for layer, opened in self._layers()
            if _normal(opened.location) == self.location and opened.key in keys
        }

    def _open(self, where: str, wanted: Sequence[ImageEntry]) -> None:
        """Open images one by one: their metadata in a worker, their layers in the window."""
        told: list[str] = []
        failed: list[str] = []

        def read() -> Iterator[list[LayerData]]:
            for entry in wanted:
                try:
                    yield read_entry(where, entry, told.append)
                except DecantError as error:
                    failed.append(f"{entry.name}: {error}")
                    yield []

        worker = self._worker = create_worker(read, _start_thread=False)
        self._update()
        bar = DockBar("Opening images", worker.quit, unit=" images") if len(wanted) > _FEW else None
        done = 0

        def add(layers: list[LayerData]) -> None:
            nonlocal done
            done += 1
            for data in layers:
                self.viewer.add_layer(Layer.create(*data))
            if bar is not None:
                bar.show(done, len(wanted))

        def end() -> None:
            self._worker = None
            if bar is not None:
                bar.close()
            if not self._gone:
                self._update()
            for show, texts in ((show_warning, told), (show_error, failed)):
                if texts:
                    more = f"; and {len(texts) - 3:,} more" if len(texts) > 3 else ""
                    show("; ".join(texts[:3]) + more)

        watch(self.viewer)
        worker.yielded.connect(add)
        worker.finished.connect(end)
        worker.start()


def _normal(location: str) -> str:
    return location if "://" in location else os.path.abspath(location)


def _words(entries: Sequence[ImageEntry]) -> str:
    images = len([entry for entry in entries if entry.kind != "labels"])
    labels = len(entries) - images
    parts = [f"{images:,} image{'s' if images != 1 else ''}"] if images else []
    parts += [f"{labels:,} label image{'s' if labels != 1 else ''}"] if labels else []
    return f"{' and '.join(parts)}. Choose what to open."
