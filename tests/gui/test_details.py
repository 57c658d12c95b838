"""Small things that a person trips over: words cut off, questions about nothing, keys that do harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QPushButton
from tests.support.gui import button, notices, rows, settled
from tests.support.tiffwriter import TiffSpec, write_tiff


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_sizes_are_never_cut_off(qtbot, window, drop, tmp_path: Path, factor: float) -> None:
    font = window.font()
    font.setPointSizeF(font.pointSizeF() * factor)
    window.setFont(font)
    for size in (7, 999, 999_400, 888_800_000):
        path = tmp_path / f"{size}.tif"
        path.touch()
        with path.open("r+b") as file:
            file.truncate(size)
    drop(window.pack, tmp_path)
    settled(qtbot, window.pack)
    table = window.pack.table
    for key in ("size", "packed"):
        column = table.rows.keys.index(key)
        for row in rows(window.pack):
            words = row.size_words if key == "size" else row.packed_words
            room = table.columnWidth(column) - table.fontMetrics().height() // 2  # padding of a cell
            assert table.fontMetrics().horizontalAdvance(words) <= room, words


def test_titles_grow_with_the_font(qtbot, window) -> None:
    panel = window.pack
    title = panel.drop._head
    before = title.fontMetrics().height(), title.fontMetrics().height() / panel.fontMetrics().height()
    font = panel.font()
    font.setPointSizeF(2 * font.pointSizeF())
    panel.setFont(font)
    QApplication.processEvents()
    assert title.fontMetrics().height() > 1.7 * before[0]
    assert title.fontMetrics().height() / panel.fontMetrics().height() == pytest.approx(before[1], rel=0.1)


def test_a_series_is_asked_for_only_where_files_are_alike(qtbot, window, drop, click, tmp_path: Path) -> None:
    unlike = tmp_path / "unlike"
    alike = tmp_path / "alike"
    for folder in (unlike, alike):
        folder.mkdir()
    for n in range(3):
        write_tiff(unlike / f"{n}.tif", TiffSpec(height=20 + n, width=30))
        write_tiff(alike / f"{n}.tif", TiffSpec(height=20, width=30, seed=n))
    drop(window.pack, unlike)
    settled(qtbot, window.pack)
    assert notices(window.pack) == []
    window.pack.remove(list(rows(window.pack)))
    drop(window.pack, alike)
    settled(qtbot, window.pack)
    assert notices(window.pack) == ["Are the 3 files in alike one series?"]
    click(window.pack.footer.main)
    assert notices(window.pack) == []  # answered by packing them one by one
    settled(qtbot, window.pack)


def test_two_folders_of_series_are_asked_for_as_such(qtbot, window, drop, click, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for n in range(2):
            write_tiff(tmp_path / name / f"z{n}.tif", TiffSpec(height=20, width=30, seed=n))
    drop(window.pack, tmp_path)
    settled(qtbot, window.pack)
    assert notices(window.pack) == ["Are the files of each of 2 folders one series?"]
    click(button(window.pack, "Make one image a folder"))
    qtbot.waitUntil(lambda: len(rows(window.pack)) == 2, timeout=10_000)


def test_no_button_gets_the_focus_by_itself(qtbot, window, drop, tiffs: Path) -> None:
    """Enter starts the work; Enter or Space once more must not click whatever Qt focuses next."""
    window.activateWindow()
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    window.pack.footer.main.setFocus()
    qtbot.keyClick(window.pack.footer.main, Qt.Key.Key_Space)
    assert not window.pack.footer.main.isEnabled()
    assert not isinstance(window.focusWidget(), QPushButton)
    settled(qtbot, window.pack)
