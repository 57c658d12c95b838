"""The window as a whole: quick to start, for every theme, font size and keyboard, nothing cut off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QProgressBar,
    QScrollArea,
    QWidget,
)
from superqt import QElidingLabel
from tests.support.gui import rows, settled

from napari_decant import archive
from napari_decant.gui import DARK, LIGHT, Desk, Look, Window, make_window
from napari_decant.gui.jobs import InlineWorker

CONTROLS = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit, QProgressBar)


def visible(widget: QWidget, *kinds: type) -> list[QWidget]:
    return [each for kind in kinds for each in widget.findChildren(kind) if each.isVisible()]


def activate(qtbot, window: QWidget) -> None:
    """Give a window the keyboard, as clicking on it would."""
    with qtbot.waitActive(window):
        window.raise_()
        window.activateWindow()


def cut_off(window: QWidget) -> list[str]:
    """Labels and buttons that are smaller than their words, or stick out of the window."""
    found = []
    area = window.rect()
    for each in visible(window, QLabel, QAbstractButton):
        if isinstance(each, QElidingLabel):
            continue
        if isinstance(each, QLabel) and each.pixmap() is not None and not each.pixmap().isNull():
            continue
        text = each.text()
        if not text.strip():
            continue
        place = each.rect().translated(each.mapTo(window, each.rect().topLeft()))
        scrolled = any(isinstance(above, QScrollArea) for above in _above(each))
        if not scrolled and not area.contains(place):
            found.append(f"{text!r} at {place} is outside {area}")
        wrapped = isinstance(each, QLabel) and each.wordWrap()
        need = each.heightForWidth(each.width()) if wrapped else each.sizeHint().height()
        if each.height() < min(need, each.sizeHint().height()) - 1:
            found.append(f"{text!r} has {each.height()} of {need} in height")
        if not wrapped and each.width() < each.minimumSizeHint().width() - 1:
            found.append(f"{text!r} has {each.width()} of {each.minimumSizeHint().width()} in width")
    return found


def _above(widget: QWidget) -> Iterator[QWidget]:
    while (widget := widget.parentWidget()) is not None:
        yield widget


@pytest.fixture
def filled(qtbot, window: Window, tiffs: Path) -> Window:
    """The window with something in every panel."""
    packed = [archive.pack(path, tiffs / "packed").archive for path in sorted(tiffs.glob("*.tif"))]
    window.pack.add([tiffs])
    window.verify.add(packed)
    window.restore.add(packed)
    window.inspect.add([packed[0]])
    window.export.add([packed[0]])
    for panel in (window.pack, window.verify, window.restore, window.export):
        settled(qtbot, panel)
    qtbot.waitUntil(lambda: window.inspect.shown is not None, timeout=20_000)
    return window


@pytest.mark.parametrize("full", [False, True], ids=["empty", "filled"])
@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_nothing_is_cut_off_at_1024x640_and_with_large_fonts(
    qtbot, qapp: QApplication, tiffs: Path, scale: float, full: bool
) -> None:
    font = qapp.font()
    larger = qapp.font()
    larger.setPointSizeF(font.pointSizeF() * scale)
    qapp.setFont(larger)
    desk = Desk(look=Look(LIGHT), open_images=lambda paths: None, worker=InlineWorker)
    try:
        window = make_window(qapp, desk)
        qtbot.addWidget(window)
        window.show()
        qtbot.waitExposed(window)
        if full:
            packed = [archive.pack(path, tiffs / "packed").archive for path in sorted(tiffs.glob("*.tif"))]
            window.pack.add([tiffs])
            window.verify.add(packed)
            window.restore.add(packed)
            window.inspect.add([packed[0]])
            window.export.add([packed[0]])
            for panel in (window.pack, window.verify, window.restore, window.export):
                settled(qtbot, panel)
            qtbot.waitUntil(lambda: window.inspect.shown is not None, timeout=20_000)
        window.resize(1024, 640)
        for number, tab in enumerate(window.tabs):
            tab.click()
            qtbot.wait(30)
            assert cut_off(window) == [], window.panels[number].TITLE
            assert (window.width(), window.height()) == (1024, 640), "it needs more room than there is"
        if full:
            for panel in (window.pack, window.verify, window.restore, window.export):
                window.tabs[window.panels.index(panel)].click()
                panel.form.open()
                qtbot.wait(30)
                assert cut_off(window) == [], f"options of {panel.TITLE}"
                assert (window.width(), window.height()) == (1024, 640)
        window.close()
    finally:
        qapp.setFont(font)
        desk.close()


def test_a_single_column_is_enough(qtbot, filled: Window) -> None:
    def fits() -> bool:
        filled.resize(300, 640)  # step by step, as dragging does: below some width everything moves together
        return filled.width() <= 330

    for tab, panel in zip(filled.tabs, filled.panels, strict=True):
        tab.click()
        qtbot.waitUntil(fits, timeout=20_000)
        assert panel.minimumSizeHint().width() <= 330, panel.TITLE
    assert filled.pack.table.isColumnHidden(1)
    filled.resize(1024, 640)
    filled.tabs[0].click()
    qtbot.waitUntil(lambda: not filled.pack.table.isColumnHidden(1), timeout=20_000)


def test_every_control_has_a_tooltip(qtbot, filled: Window) -> None:
    for number, tab in enumerate(filled.tabs):
        tab.click()
        panel = filled.panels[number]
        if hasattr(panel, "form"):
            panel.form.open()
        qtbot.wait(10)
        without = [
            (type(each).__name__, each.text() if hasattr(each, "text") else each.objectName())
            for each in visible(filled, *CONTROLS)
            if not each.toolTip() and not (each.parentWidget() and each.parentWidget().toolTip())
        ]
        assert without == []


def test_every_control_is_reached_with_the_keyboard(qtbot, filled: Window) -> None:
    activate(qtbot, filled)
    for number, tab in enumerate(filled.tabs):
        tab.click()
        tab.setFocus()
        panel = filled.panels[number]
        reached = set()
        for _ in range(60):
            qtbot.keyClick(QApplication.focusWidget() or filled, Qt.Key.Key_Tab)
            reached.add(QApplication.focusWidget())
        wanted = {each for each in visible(panel, QAbstractButton) if each.isEnabled()}
        missed = [each.text() or each.accessibleName() for each in wanted - reached]
        assert missed == [], panel.TITLE


def test_shortcuts_change_the_tab(qtbot, window: Window) -> None:
    activate(qtbot, window)
    for number, key in enumerate((Qt.Key.Key_1, Qt.Key.Key_2, Qt.Key.Key_3, Qt.Key.Key_4, Qt.Key.Key_5)):
        qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        assert window.stack.currentIndex() == number


def luminance(color: QColor) -> float:
    parts = [color.redF(), color.greenF(), color.blueF()]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    first, second = sorted((luminance(QColor(one)), luminance(QColor(other))), reverse=True)
    return (first + 0.05) / (second + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_marks_stand_out(theme) -> None:
    for role in ("text", "muted", "accent", "good", "bad", "warn"):
        for ground in (theme.window, theme.surface, theme.selection):
            least = 4.5 if role in ("text", "muted") and ground != theme.selection else 3.0
            assert contrast(getattr(theme, role), ground) >= least, (role, ground)
    assert contrast(theme.on_accent, theme.accent) >= 4.5


def test_icons_and_colours_follow_the_theme(qtbot, window: Window) -> None:
    add = window.pack.drop.buttons[0]
    light = add.icon().pixmap(32, 32).toImage()
    window.desk.look.set_theme(DARK)
    dark = add.icon().pixmap(32, 32).toImage()
    assert light != dark
    assert QApplication.palette().window().color().name() == DARK.window
    assert DARK.surface in window.pack.styleSheet()
    window.desk.look.set_theme(LIGHT)
    assert add.icon().pixmap(32, 32).toImage() == light


def test_dropping_anywhere_on_the_window_works(qtbot, window: Window, drop, tiffs: Path) -> None:
    drop(window, tiffs)
    settled(qtbot, window.pack)
    assert len(rows(window.pack)) == 3


def test_paths_given_at_the_start_go_where_they_belong(qtbot, window: Window, tiffs: Path) -> None:
    packed = archive.pack(tiffs / "cell_0.tif").archive
    window.add([packed])
    settled(qtbot, window.verify)
    assert window.stack.currentWidget() is window.verify
    assert [row.path for row in rows(window.verify)] == [packed]
    window.add([tiffs / "cell_1.tif"])
    settled(qtbot, window.pack)
    assert window.stack.currentWidget() is window.pack


START = """
import sys, time
begun = time.perf_counter()
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication
QApplication.exec = lambda *_: 0
from napari_decant.gui import _app
make = _app.make_window
def made(*arguments):
    global window
    window = make(*arguments)
    return window
_app.make_window = made
from napari_decant.cli import main
code = main(["gui"])
for _ in range(5):
    QApplication.processEvents()
try:
    waited = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
except (OSError, IndexError):
    waited = 0.0
print(time.perf_counter() - begun - waited, window.isVisible(), *sys.modules)
window.close()
sys.exit(code)
"""


def test_the_window_starts_quickly_and_without_napari() -> None:
    times = []
    for _ in range(3):
        result = subprocess.run(
            [sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=60,
            env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        )  # fmt: skip
        seconds, shown, *modules = result.stdout.split()
        assert shown == "True"
        assert not {"napari", "magicgui", "zarr", "vispy"} & set(modules)
        times.append(float(seconds))
    # Without the time that other processes of a busy machine took; these only ever add, so the best counts.
    assert min(times) < 1.5


def test_b11_a_relative_path_from_another_folder_is_meant_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant import gui
    from napari_decant.cli import main

    given: list[Path] = []
    monkeypatch.setattr(gui, "run", lambda paths: given.extend(paths) or 0, raising=False)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["gui", "data"]) == 0
    assert given == [tmp_path / "data"]
    assert main(["gui", "nowhere"]) == 2
