"""Ask which of several images of one file to open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLabel,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_decant.images import ImageEntry

__all__ = ["ImageChooser", "choose_images"]


def choose_images(message: str, entries: Sequence[ImageEntry]) -> Sequence[ImageEntry]:
    """Ask in a dialog above the active window.

    Parameters
    ----------
    message : str
        What there is.
    entries : sequence of ImageEntry
        All images; those that cannot be opened are shown with the reason.

    Returns
    -------
    sequence of ImageEntry
        The chosen ones; none if the user cancelled.
    """
    from qtpy.QtWidgets import QApplication

    dialog = ImageChooser(message, entries, QApplication.activeWindow())
    return dialog.chosen() if dialog.exec() else ()


class ImageChooser(QDialog):
    """A list of images with name, size, type and levels.

    Parameters
    ----------
    message : str
        Shown above the list.
    entries : sequence of ImageEntry
        See `choose_images`.
    parent : QWidget, optional
        The window that it belongs to.
    """

    def __init__(self, message: str, entries: Sequence[ImageEntry], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Choose images")
        self._entries = list(entries)
        self._list = QTreeWidget()
        self._list.setHeaderLabels(["Image", "Size", "Type", "Levels"])
        self._list.setRootIsDecorated(False)
        self._list.setUniformRowHeights(True)
        self._list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        for entry in self._entries:
            self._list.addTopLevelItem(_row(entry))
        header = self._list.header()
        assert header is not None
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        text = QLabel(message)
        text.setWordWrap(True)
        buttons = QDialogButtonBox.StandardButton
        self._buttons = QDialogButtonBox(buttons.Open | buttons.Cancel)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        self._list.itemSelectionChanged.connect(self._update)
        self._list.itemDoubleClicked.connect(self._open_one)
        layout = QVBoxLayout(self)
        layout.addWidget(text)
        layout.addWidget(self._list)
        layout.addWidget(self._buttons)
        self.resize(560, 360)
        first = next((i for i, entry in enumerate(self._entries) if entry.error is None), None)
        if first is not None:
            self._list.setCurrentItem(self._list.topLevelItem(first))
        self._update()

    def chosen(self) -> list[ImageEntry]:
        """Selected images in the order of the list."""
        rows = sorted(self._list.indexOfTopLevelItem(item) for item in self._list.selectedItems())
        return [self._entries[row] for row in rows]

    def _update(self) -> None:
        button = self._buttons.button(QDialogButtonBox.StandardButton.Open)
        assert button is not None
        button.setEnabled(bool(self.chosen()))

    def _open_one(self, item: Any) -> None:
        if self.chosen():
            self.accept()


def _row(entry: ImageEntry) -> QTreeWidgetItem:
    extents = zip(entry.axes, entry.shape, strict=True) if len(entry.axes) == len(entry.shape) else ()
    size = " ".join(f"{axis}{extent}" for axis, extent in extents) or " x ".join(map(str, entry.shape))
    row = QTreeWidgetItem([entry.name, size, entry.dtype, str(entry.levels or "")])
    if entry.error is not None:
        row.setText(1, "cannot be opened")
        row.setToolTip(1, entry.error)
        row.setFlags(Qt.ItemFlag.NoItemFlags)
    return row
