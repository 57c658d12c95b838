"""The images of a file as a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt
from qtpy.QtGui import QFont

from napari_decant.gui._words import axes_text
from napari_decant.images import ImageEntry
from napari_decant.plugin._opened import entry_key

__all__ = ["IMAGE", "EntryModel"]

_HEADERS = ("", "Image", "Size", "Type", "Levels")
OPEN, IMAGE, SIZE, TYPE, LEVELS = range(5)
_MARK = "\N{CHECK MARK}"


class EntryModel(QAbstractTableModel):
    """A row for each image: whether it is open, its name, size, type and levels."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: Sequence[ImageEntry] = ()
        self._open: frozenset[str] = frozenset()

    def set_entries(self, entries: Sequence[ImageEntry]) -> None:
        """Show other images."""
        self.beginResetModel()
        self.entries = tuple(entries)
        self.endResetModel()

    def set_open(self, keys: Collection[str]) -> None:
        """Mark images as open, by what `entry_key` says of them."""
        new = frozenset(keys)
        if new != self._open:
            self._open = new
            if self.entries:
                last = self.index(len(self.entries) - 1, len(_HEADERS) - 1)
                self.dataChanged.emit(self.index(0, 0), last)

    def is_open(self, entry: ImageEntry) -> bool:
        """Whether an image is open."""
        return entry_key(entry) in self._open

    def rowCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.entries)

    def columnCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802
        return len(_HEADERS)

    def headerData(self, section: int, orientation: Any, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: N802
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _HEADERS[section]
        return None

    def flags(self, index: QModelIndex) -> Any:
        if not index.isValid() or self.entries[index.row()].error is not None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry, column = self.entries[index.row()], index.column()
        opened = self.is_open(entry)
        if role == Qt.ItemDataRole.DisplayRole:
            return _text(entry, column, opened)
        if role == Qt.ItemDataRole.ToolTipRole:
            return entry.error or ("Open; activate it to select its layers" if opened else None)
        if role == Qt.ItemDataRole.AccessibleTextRole and column == OPEN:
            return "open" if opened else "not open"
        if role == Qt.ItemDataRole.FontRole and opened and column == IMAGE:
            font = QFont()
            font.setBold(True)
            return font
        return None


def _text(entry: ImageEntry, column: int, opened: bool) -> str:
    if column == OPEN:
        return _MARK if opened else ""
    if column == IMAGE:
        return entry.name
    if column == SIZE:
        return "cannot be opened" if entry.error is not None else axes_text(entry.axes, entry.shape)
    if column == TYPE:
        return f"{entry.dtype} labels".strip() if entry.kind == "labels" else entry.dtype
    return str(entry.levels or "")
