"""What tests of the window ask of its panels."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QTreeView, QWidget

from napari_decant.archive import PixelCodec
from napari_decant.gui._row import Row

__all__ = [
    "button",
    "controls_of",
    "faults_of",
    "kept_waiting",
    "notices",
    "rows",
    "settled",
    "slow",
    "states",
]


def kept_waiting() -> float:
    """Seconds that this thread was ready to run while others had the processors (Linux tells)."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make every chunk take a while to compress."""
    encode = PixelCodec.encode

    def wait(self: PixelCodec, array: object) -> bytes:
        time.sleep(seconds)
        return encode(self, array)

    monkeypatch.setattr(PixelCodec, "encode", wait)


def rows(panel: Any) -> list[Row]:
    """Top-level rows of a panel."""
    return list(panel.rows.root.children)


def states(panel: Any) -> dict[str, str]:
    """The state of each row as the table shows it."""
    model = panel.rows
    last = len(model.keys) - 1
    return {model.index(i, 0).data(): model.index(i, last).data() for i in range(model.rowCount())}


def settled(qtbot: Any, panel: Any, timeout: int = 20_000) -> None:
    """Wait until nothing is looked at or worked on."""
    qtbot.waitUntil(lambda: not panel.looking and panel.batch is None, timeout=timeout)


def notices(panel: Any) -> list[str]:
    """Messages that are shown."""
    return [notice.text for notice in panel.notices() if notice.isVisible()]


def button(panel: Any, words: str) -> QAbstractButton:
    """The visible button with these words."""
    found = [
        each for each in panel.findChildren(QAbstractButton)
        if each.isVisible() and words in each.text().replace("&", "")
    ]  # fmt: skip
    assert len(found) == 1, [each.text() for each in panel.findChildren(QAbstractButton) if each.isVisible()]
    return found[0]


def controls_of(panel: QWidget) -> list[QWidget]:
    """What can be seen and used in a panel; the inner parts of a field count as the field."""
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit, QTreeView)
    found = [each for kind in kinds for each in panel.findChildren(kind) if each.isVisible()]
    whole = (QComboBox, QAbstractSpinBox)
    return [each for each in found if not isinstance(each.parentWidget(), whole) and not _is_inner(each)]


def _is_inner(widget: QWidget) -> bool:
    return widget.objectName().startswith("qt_")  # such as the button that clears a line


def faults_of(qtbot: Any, panel: QWidget) -> list[str]:
    """Controls without a tooltip, a name, a way to them by the keyboard, or a look of their own in focus."""
    faults = []
    for each in controls_of(panel):
        name = f"{type(each).__name__} {each.accessibleName()!r}"
        above = each.parentWidget()
        if not each.toolTip() and not (above is not None and above.toolTip()):
            faults.append(f"{name}: no tooltip")
        text = each.text() if hasattr(each, "text") else ""
        if not (each.accessibleName() or text.strip() or (above is not None and above.accessibleName())):
            faults.append(f"{name}: no name for a screen reader")
        if not each.isEnabled():
            continue
        if not each.focusPolicy() & Qt.FocusPolicy.TabFocus:
            faults.append(f"{name}: the Tab key passes it by")
            continue
        panel.setFocus()
        plain = each.grab().toImage()
        each.setFocus(Qt.FocusReason.TabFocusReason)
        qtbot.waitUntil(each.hasFocus, timeout=2_000)
        if each.grab().toImage() == plain and not isinstance(each, QTreeView):
            faults.append(f"{name}: nothing shows that it has the focus")
    return faults
