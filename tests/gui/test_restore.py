"""Restoring in the window: where to, what of it, and never over what is there without a question."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog
from tests.support.damage import flip_stored_byte
from tests.support.gui import button, notices, rows, settled, states
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui._row import Mark


@pytest.fixture
def series(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of three planes, and its archive."""
    folder = tmp_path / "stack"
    folder.mkdir()
    for n in range(3):
        write_tiff(folder / f"z{n}.tif", TiffSpec(height=20, width=30, seed=n))
    report = archive.pack_batch(archive.plan([folder], tmp_path / "packed", series=True))
    return folder, report.rows[0].archive


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def open_archive(qtbot, window, drop, *paths: Path) -> None:
    window.tabs[2].click()
    drop(window.restore, *paths)
    settled(qtbot, window.restore)


def test_the_folder_is_asked_for_and_everything_comes_back(
    qtbot, window, drop, click, series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, packed = series
    open_archive(qtbot, window, drop, packed)
    assert window.restore.footer.main.text() == "Restore 3 files to…"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(lambda *_: ""))
    click(window.restore.footer.main)
    assert window.restore.batch is None, "no folder, nothing done"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(lambda *_: str(tmp_path / "back")))
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    assert contents(tmp_path / "back") == contents(folder)
    assert list(states(window.restore).values()) == ["restored, equal"]
    assert "3 files, " in window.restore.card.title.text()
    assert "equal to the original to the last byte" in window.restore.card.title.text()


def test_dialogs_for_folders_start_where_the_archives_lie(
    qtbot, window, drop, click, series, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, packed = series
    asked: list[str] = []

    def ask(parent, title, folder="", *more) -> str:
        asked.append(folder)
        return ""

    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(ask))
    window.tabs[2].click()
    window.restore.pick_folder()
    open_archive(qtbot, window, drop, packed)
    click(window.restore.footer.main)
    window.restore.pick_folder()
    assert asked == ["", str(packed.parent), str(packed.parent)]


def test_the_form_says_what_no_threads_are(qtbot, window) -> None:
    for panel in (window.pack, window.verify, window.restore):
        panel.form.open()
        workers = panel.form.widgets["workers"]
        assert workers.label.endswith("(0: one a core)")
        assert workers.native.accessibleName() == workers.label
        assert workers.value == window.desk.settings.workers == 0


def test_single_members_are_chosen_by_their_boxes(qtbot, window, drop, click, series, tmp_path: Path) -> None:
    folder, packed = series
    window.desk.settings.restore_folder = str(tmp_path / "back")
    open_archive(qtbot, window, drop, packed)
    model = window.restore.rows
    (row,) = rows(window.restore)
    assert [child.what for child in row.children] == [str(tmp_path / "back" / f"z{n}.tif") for n in range(3)]
    for n in (0, 2):
        model.setData(
            model.index_of(row.children[n]), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole
        )
    assert model.data(model.index_of(row), Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.PartiallyChecked
    assert window.restore.footer.main.text() == "Restore 1 file"
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    assert contents(tmp_path / "back") == {"z1.tif": (folder / "z1.tif").read_bytes()}
    assert [child.mark for child in row.children] == [Mark.NONE, Mark.RESTORED, Mark.NONE]
    assert row.state == "1 of 3 restored"


@pytest.mark.parametrize("answer", ["Leave it", "Replace it", "Cancel"])
def test_files_in_the_way_are_asked_about(
    qtbot, window, drop, click, series, tmp_path: Path, answer: str
) -> None:
    folder, packed = series
    back = tmp_path / "back"
    back.mkdir()
    (back / "z1.tif").write_bytes(b"mine")
    window.desk.settings.restore_folder = str(back)
    open_archive(qtbot, window, drop, packed)
    click(window.restore.footer.main)
    qtbot.waitUntil(lambda: getattr(window.restore, "question", None) is not None, timeout=10_000)
    assert "z1.tif exists already" in window.restore.question.text()
    assert contents(back) == {"z1.tif": b"mine"}, "nothing before the answer"
    click(button(window.restore.question, answer))
    settled(qtbot, window.restore)
    wanted = contents(folder)
    if answer == "Cancel":
        wanted = {"z1.tif": b"mine"}
    elif answer == "Leave it":
        wanted["z1.tif"] = b"mine"
    assert contents(back) == wanted


def test_a_damaged_archive_gives_no_file_and_does_not_stop_the_others(
    qtbot, window, drop, click, tmp_path: Path
) -> None:
    packed = []
    for n in range(2):
        tiff = write_tiff(tmp_path / f"c{n}.tif", TiffSpec(pages=3, height=40, width=50, seed=n)).path
        packed.append(archive.pack(tiff, tmp_path / "packed").archive)
    flip_stored_byte(packed[0], "0/1/0/0")
    window.desk.settings.restore_folder = str(tmp_path / "back")
    open_archive(qtbot, window, drop, *packed)
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    assert [row.mark for row in rows(window.restore)] == [Mark.FAILED, Mark.RESTORED]
    assert sorted(os.listdir(tmp_path / "back")) == ["c1.tif"]
    assert "1 archive failed" in " ".join(line.text() for line in window.restore.card.lines)


def test_c03_times_come_back_to_the_nanosecond(qtbot, window, drop, click, tmp_path: Path) -> None:
    times = {"old.tif": 0, "odd.tif": 1_000_000_001_123_456_789, "late.tif": 4_420_000_000_000_000_001}
    packed = []
    for name, mtime in times.items():
        tiff = write_tiff(tmp_path / name, TiffSpec()).path
        os.utime(tiff, ns=(mtime, mtime))
        times[name] = tiff.stat().st_mtime_ns  # as this disk keeps it
        packed.append(archive.pack(tiff, tmp_path / "packed").archive)
    window.desk.settings.restore_folder = str(tmp_path / "back")
    open_archive(qtbot, window, drop, *packed)
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    assert {name: (tmp_path / "back" / name).stat().st_mtime_ns for name in times} == times


def test_c05_links_in_a_folder_are_named_and_nothing_outside_is_read(
    qtbot, window, drop, tmp_path: Path
) -> None:
    outside = write_tiff(tmp_path / "outside.tif", TiffSpec()).path
    folder = tmp_path / "folder"
    folder.mkdir()
    write_tiff(folder / "real.tif", TiffSpec())
    for name, target in (("sibling.tif", "real.tif"), ("away.tif", outside), ("dangling.tif", "nowhere")):
        (folder / name).symlink_to(target)
    (folder / "loop").symlink_to(folder)
    drop(window.pack, folder)
    settled(qtbot, window.pack)
    assert [row.name for row in rows(window.pack)] == ["real.tif"]
    assert any("links in a folder are not followed" in text for text in notices(window.pack))
    assert (folder / "sibling.tif").is_symlink()


def test_c06_names_that_some_disks_hold_for_one_are_seen_before_anything_is_written(
    qtbot, window, drop, tmp_path: Path
) -> None:
    packed = []
    for folder, name in (("one", "A.tif"), ("two", "a.tif")):
        (tmp_path / folder).mkdir()
        packed.append(archive.pack(write_tiff(tmp_path / folder / name, TiffSpec()).path).archive)
    window.desk.settings.restore_folder = str(tmp_path / "back")
    open_archive(qtbot, window, drop, *packed)
    children = [child for row in rows(window.restore) for child in row.children]
    assert {child.mark for child in children} == {Mark.CLASH}
    assert not window.restore.footer.main.isEnabled()
    assert not (tmp_path / "back").exists()
    window.restore.remove([rows(window.restore)[0]])
    assert window.restore.footer.main.isEnabled()


def test_an_archive_that_cannot_be_opened_says_why(qtbot, window, drop, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zarr.zip"
    bad.write_bytes(b"PK but nothing else")
    open_archive(qtbot, window, drop, bad)
    (row,) = rows(window.restore)
    assert row.mark is Mark.FAILED
    assert "bad.zarr.zip" in row.detail
    assert not window.restore.footer.main.isEnabled()
