"""A window to click on, and files to drop on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from qtpy.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from qtpy.QtGui import QDragEnterEvent, QDropEvent
from qtpy.QtWidgets import QAbstractButton, QApplication, QCheckBox, QRadioButton, QWidget
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant.gui import LIGHT, Desk, Look, MemoryStore, Window, make_window, open_settings
from napari_decant.gui.jobs import InlineWorker


@pytest.fixture
def store() -> MemoryStore:
    """What the user's settings are."""
    return MemoryStore()


@pytest.fixture
def opened() -> list[Path]:
    """What was opened in napari."""
    return []


@pytest.fixture
def desk(qapp: QApplication, store: MemoryStore, opened: list[Path]) -> Iterator[Desk]:
    """Jobs in threads of this process, so that faults can be injected into the engine."""
    made = Desk(open_settings(store), Look(LIGHT), open_images=opened.extend, worker=InlineWorker)
    yield made
    made.close()


@pytest.fixture
def window(qtbot, qapp: QApplication, desk: Desk) -> Iterator[Window]:
    """The window, shown, with its jobs in threads."""
    made = make_window(qapp, desk)
    qtbot.addWidget(made)
    made.resize(1024, 640)
    made.show()
    qtbot.waitExposed(made)
    yield made
    desk.runner.cancel_all()
    qtbot.waitUntil(lambda: not desk.runner.busy, timeout=10_000)
    made.close()


@pytest.fixture
def drop(qtbot) -> Callable[..., None]:
    """Drop paths on a widget, as the file manager would."""

    def do(widget: QWidget, *paths: Path) -> None:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        buttons, keys, copy = (
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.DropAction.CopyAction,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PySide6 wants only Qt to make such events
            enter = QDragEnterEvent(QPoint(40, 40), copy, data, buttons, keys)
            dropped = QDropEvent(QPointF(40, 40), copy, data, buttons, keys)
        QApplication.sendEvent(widget, enter)
        assert enter.isAccepted()
        QApplication.sendEvent(widget, dropped)

    return do


@pytest.fixture
def click(qtbot) -> Callable[[QAbstractButton], None]:
    """Click a button that a user could click."""

    def do(button: QAbstractButton) -> None:
        assert button.isVisible()
        assert button.isEnabled(), f"{button.text()} cannot be clicked"
        # A box may be wider than its words, and only these can be clicked.
        place = QPoint(button.height() // 2, button.height() // 2)
        boxes = (QCheckBox, QRadioButton)
        where = {"pos": place} if isinstance(button, boxes) else {}
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton, **where)

    return do


@pytest.fixture
def tiffs(tmp_path: Path) -> Path:
    """A folder with three TIFFs, one of them kept as it is, and a text file."""
    folder = tmp_path / "plate3"
    folder.mkdir()
    for n in range(2):
        write_tiff(folder / f"cell_{n}.tif", TiffSpec(pages=3, height=40, width=50, seed=n))
    (folder / "odd.tif").write_bytes(b"no TIFF at all" * 100)
    (folder / "notes.txt").write_text("not to be packed")
    return folder
