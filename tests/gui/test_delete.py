"""Deleting originals: a deliberate act, and never what is not proved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qtpy.QtWidgets import QApplication
from tests.support.damage import flip_stored_byte
from tests.support.gui import button, settled

from napari_decant.gui._delete import DeleteDialog
from napari_decant.gui._row import Mark
from napari_decant.gui._widgets import Card


@pytest.fixture
def trash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A trash of the test's own."""
    import send2trash

    folder = tmp_path / "trash"
    folder.mkdir()

    def move(path: str) -> None:
        os.rename(path, folder / os.path.basename(path))

    monkeypatch.setattr(send2trash, "send2trash", move)
    return folder


@pytest.fixture
def dialog(qtbot, window, drop, click, tiffs: Path) -> DeleteDialog:
    """The dialog after three files were packed."""
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    click(button(window.pack, "Delete originals"))
    (made,) = window.pack.findChildren(DeleteDialog)
    qtbot.waitUntil(made.isVisible, timeout=20_000)
    return made


def finished(qtbot, dialog: DeleteDialog) -> None:
    qtbot.waitUntil(lambda: dialog._batch is None, timeout=20_000)


def marks(dialog: DeleteDialog) -> dict[str, str]:
    return {row.name: row.state for row in dialog.table.rows.root.children}


def test_nothing_happens_without_the_box_and_then_they_go_to_the_trash(
    qtbot, dialog: DeleteDialog, click, tiffs: Path, trash: Path
) -> None:
    assert sorted(row.name for row in dialog.table.rows.root.children) == [
        "cell_0.tif",
        "cell_1.tif",
        "odd.tif",
    ]
    assert dialog.to_trash.isChecked()
    assert not dialog.go.isEnabled()
    click(dialog.sure)
    assert dialog.go.text() == "Move to trash"
    before = {path.name: path.read_bytes() for path in tiffs.glob("*.tif")}
    click(dialog.go)
    finished(qtbot, dialog)
    assert {path.name: path.read_bytes() for path in trash.iterdir()} == before
    assert list(tiffs.glob("*.tif")) == []
    assert set(marks(dialog).values()) == {"deleted"}
    assert "3 originals, " in dialog._head.text()
    assert not dialog.go.isEnabled(), "once is enough"


def test_for_good_needs_the_word(qtbot, dialog: DeleteDialog, click, tiffs: Path, trash: Path) -> None:
    click(dialog.for_good)
    click(dialog.sure)
    assert not dialog.go.isEnabled()
    qtbot.keyClicks(dialog.word, "delet")
    assert not dialog.go.isEnabled()
    qtbot.keyClicks(dialog.word, "e")
    click(dialog.go)
    finished(qtbot, dialog)
    assert list(tiffs.glob("*.tif")) == []
    assert list(trash.iterdir()) == []


def test_changed_originals_and_spoiled_archives_keep_their_originals(
    qtbot, dialog: DeleteDialog, click, tiffs: Path, trash: Path
) -> None:
    changed = tiffs / "cell_0.tif"
    stat = changed.stat()
    data = bytearray(changed.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    os.utime(changed, ns=(stat.st_mtime_ns, stat.st_mtime_ns))  # nothing but the bytes tells
    flip_stored_byte(tiffs / "cell_1.tif.zarr.zip", "0/1/0/0")
    click(dialog.sure)
    click(dialog.go)
    finished(qtbot, dialog)
    assert sorted(path.name for path in tiffs.glob("*.tif")) == ["cell_0.tif", "cell_1.tif"]
    assert [path.name for path in trash.iterdir()] == ["odd.tif"]
    kept = {row.name: row for row in dialog.table.rows.root.children if row.mark is Mark.KEPT}
    assert "changed since it was packed" in kept["cell_0.tif"].detail
    assert "did not verify as whole" in kept["cell_1.tif"].detail
    assert "2 were left as they were" in dialog._head.text()


def test_closing_the_dialog_deletes_nothing(qtbot, dialog: DeleteDialog, click, tiffs: Path) -> None:
    click(dialog.sure)
    click(dialog.shut)
    assert len(list(tiffs.glob("*.tif"))) == 3


def test_the_dialog_is_offered_at_the_end_if_asked_for(qtbot, window, drop, click, tiffs: Path) -> None:
    window.desk.settings.offer_delete = True
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    qtbot.waitUntil(lambda: bool(window.pack.findChildren(DeleteDialog)), timeout=20_000)
    (made,) = window.pack.findChildren(DeleteDialog)
    assert not made.go.isEnabled()
    assert len(list(tiffs.glob("*.tif"))) == 3
    made.reject()


def test_a_panel_that_is_closed_as_its_run_ends_offers_nothing(
    qtbot, window, drop, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.desk.settings.offer_delete = True
    panel = window.pack
    drop(panel, tiffs)
    settled(qtbot, panel)
    ends = panel.show_card

    def end(card: Card) -> None:
        ends(card)
        panel.leave()  # as when its dock is closed

    monkeypatch.setattr(panel, "show_card", end)
    click(panel.footer.main)
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: panel.card is not None, timeout=20_000)
    QApplication.processEvents()
    assert not panel.findChildren(DeleteDialog)
