"""Packing, as a user does it: drop, look, click, read the end."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from qtpy.QtWidgets import QFileDialog, QMessageBox
from tests.support.gui import button, notices, rows, settled, slow, states
from tests.support.tiffwriter import TiffSpec, write_sparse_imagej, write_tiff

from napari_decant import archive
from napari_decant.archive import PixelCodec
from napari_decant.gui._row import Mark
from napari_decant.gui.jobs import JobState
from napari_decant.images import TIFF_SUFFIXES
from napari_decant.stores import _atomic
from napari_decant.stores._partial import partial_path


def test_a_dropped_folder_is_packed_and_every_byte_checked(qtbot, window, drop, click, tiffs: Path) -> None:
    before = {path: path.read_bytes() for path in tiffs.iterdir()}
    assert not window.pack.table.isVisible()
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    whats = {row.name: row.what for row in rows(window.pack)}
    assert whats == {
        "cell_0.tif": "image  z3 y40 x50",
        "cell_1.tif": "image  z3 y40 x50",
        "odd.tif": "kept as it is: it is not a TIFF",
    }
    assert window.pack.footer.main.text() == "Pack 3 items"
    click(window.pack.footer.main)
    settled(qtbot, window.pack)

    assert states(window.pack) == dict.fromkeys(whats, "whole")
    title = window.pack.card.title.text()
    assert title.startswith("3 files, ")
    assert "are now 3 archives" in title
    assert title.endswith("Every byte was checked.")
    assert {path: path.read_bytes() for path in before} == before
    for path in tiffs.glob("*.tif"):
        assert archive.verify(f"{path}.zarr.zip").whole
    assert not window.pack.footer.main.isEnabled()
    assert "notes.txt.zarr.zip" not in os.listdir(tiffs)


def test_the_files_of_a_folder_become_one_image(qtbot, window, drop, click, tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    folder.mkdir()
    for n in range(5):
        write_tiff(folder / f"img_z{n:03d}.tif", TiffSpec(height=20, width=30, seed=n))
    (folder / "Thumbs.db").write_bytes(b"junk")
    drop(window.pack, folder)
    settled(qtbot, window.pack)
    assert len(rows(window.pack)) == 5
    click(button(window.pack, "Make one image of them"))
    qtbot.waitUntil(lambda: len(rows(window.pack)) == 1, timeout=10_000)
    settled(qtbot, window.pack)
    (row,) = rows(window.pack)
    assert row.name == "stack/  (6 files)"
    assert "y20 x30" in row.what
    assert [child.name for child in row.children][:2] == ["img_z000.tif", "img_z001.tif"]
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    assert row.mark is Mark.WHOLE
    assert "6 files" in window.pack.card.title.text()

    click(window.tabs[2])
    drop(window.restore, tmp_path / "stack.zarr.zip")
    settled(qtbot, window.restore)
    window.desk.settings.restore_folder = str(tmp_path / "back")
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    same = subprocess.run(["diff", "-r", str(folder), str(tmp_path / "back")], capture_output=True, text=True)
    assert (same.returncode, same.stdout) == (0, "")


def test_cancel_stops_within_two_seconds_and_leaves_nothing(
    qtbot, window, drop, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    for n in range(3):
        write_sparse_imagej(folder / f"{n}.tif", 100, 1024, 1024)
    slow(monkeypatch, 0.1)
    drop(window.pack, folder)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    seen: list[float] = []
    qtbot.waitUntil(lambda: seen.append(window.pack.batch.fraction) or seen[-1] > 0.01, timeout=20_000)
    assert "%" in window.windowTitle()
    assert window.pack.footer.cancel.isVisible()
    click(window.pack.footer.cancel)
    settled(qtbot, window.pack, timeout=2_000)
    assert seen == sorted(seen)
    assert set(states(window.pack).values()) == {"cancelled"}
    assert "Nothing was packed" in window.pack.card.title.text()
    assert sorted(os.listdir(folder)) == ["0.tif", "1.tif", "2.tif"]
    monkeypatch.undo()
    assert window.pack.footer.main.text() == "Try 3 items again"
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    assert set(states(window.pack).values()) == {"whole"}


def test_b12_the_bar_moves_every_second_never_back_and_is_full_only_after_verification(
    qtbot, window, drop, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sparse_imagej(tmp_path / "slow.tif", 60, 1024, 1024)
    slow(monkeypatch, 0.1)
    drop(window.pack, tmp_path / "slow.tif")
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    bar: list[tuple[float, int]] = []
    job = next(iter(window.desk.jobs))

    def watch() -> bool:
        if window.pack.batch is not None:
            bar.append((time.monotonic(), window.pack.footer.bar.value()))
        return window.pack.batch is None

    qtbot.waitUntil(watch, timeout=30_000)
    values = [value for _, value in bar]
    assert values == sorted(values)
    moves = [when for (when, value), (_, before) in zip(bar[1:], bar, strict=False) if value != before]
    assert len(moves) > 4
    assert max(later - sooner for sooner, later in itertools.pairwise(moves)) < 1
    assert values[-1] < 1000 or job.state is JobState.DONE
    assert any("verify: slow.tif" in line for line in job.log)


def test_one_of_several_is_cancelled_from_the_menu(
    qtbot, window, drop, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.1)
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    row = rows(window.pack)[1]
    window.pack.table.setCurrentIndex(window.pack.rows.index_of(row))
    window.pack._show_menu(window.pos(), row)
    (cancel,) = [action for action in window.pack.menu.actions() if action.text() == "Cancel this"]
    cancel.trigger()
    window.pack.menu.close()
    settled(qtbot, window.pack)
    assert sorted(states(window.pack).values()) == ["cancelled", "whole", "whole"]
    assert "1 item cancelled" in window.pack.card.lines[1].text()


def test_a_failure_is_told_and_does_not_stop_the_others(qtbot, window, drop, click, tiffs: Path) -> None:
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    kept = (tiffs / "cell_0.tif").read_bytes()
    (tiffs / "cell_0.tif").unlink()
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    assert states(window.pack) == {"cell_0.tif": "failed", "cell_1.tif": "whole", "odd.tif": "whole"}
    row = rows(window.pack)[0]
    assert "does not exist" in row.detail
    window.pack.table.setCurrentIndex(window.pack.rows.index_of(row))
    assert window.pack.detail.isVisible()
    assert window.pack.detail.text() == row.detail
    (tiffs / "cell_0.tif").write_bytes(kept)
    assert window.pack.footer.main.text() == "Try 1 item again"
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    assert set(states(window.pack).values()) == {"whole"}


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the disk is full"), (errno.EIO, "failed")],
)
def test_a_full_disk_is_named_and_nothing_is_left(
    qtbot, window, drop, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    drop(window.pack, tiffs / "cell_0.tif")
    settled(qtbot, window.pack)
    monkeypatch.setattr(_atomic.os, "fsync", full)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    (row,) = rows(window.pack)
    assert row.mark is Mark.FAILED
    assert words in row.detail
    assert "cell_0.tif.zarr.zip" in row.detail
    assert not window.pack.card.title.text().endswith("checked.")
    assert [name for name in os.listdir(tiffs) if "zarr" in name] == []


def test_a_folder_that_cannot_be_written_is_named(
    qtbot, window, drop, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, for whom every folder can be written; so the system's answer is injected.
    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(arguments[0]))

    drop(window.pack, tiffs / "cell_0.tif")
    settled(qtbot, window.pack)
    monkeypatch.setattr(_atomic, "open", refuse, raising=False)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    (row,) = rows(window.pack)
    assert row.mark is Mark.FAILED
    assert "no permission for writing" in row.detail
    assert "choose another folder" in row.detail


def test_archives_that_are_there_are_kept_or_replaced_on_request(
    qtbot, window, drop, click, tiffs: Path
) -> None:
    one, two = tiffs / "cell_0.tif", tiffs / "cell_1.tif"
    archive.pack(one)
    other = Path(f"{two}.zarr.zip")
    other.write_bytes(b"something else")
    drop(window.pack, one, two)
    settled(qtbot, window.pack)
    assert "exists already" in rows(window.pack)[0].detail
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    assert states(window.pack) == {"cell_0.tif": "packed before", "cell_1.tif": "failed"}
    assert other.read_bytes() == b"something else"
    assert not window.pack.card.title.text().endswith("checked.")

    window.pack.form.open()
    window.pack.form.widgets["replace"].native.click()
    assert window.desk.settings.replace
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    assert states(window.pack)["cell_1.tif"] == "whole"
    assert archive.verify(other).whole


def test_options_decide_and_are_remembered(qtbot, window, store, drop, click, tiffs: Path) -> None:
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    window.pack.form.open()
    assert not window.pack.form.widgets["output_folder"].value
    window.pack.form.widgets["output_folder"].value = tiffs.parent / "out"
    window.pack.form.widgets["codec"].value = "fast"
    wanted = tiffs.parent / "out" / "cell_0.tif.zarr.zip"
    qtbot.waitUntil(lambda: bool(rows(window.pack)) and _target(window) == wanted, timeout=10_000)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    made = _target(window)
    assert archive.info(made).codec == "blosc:zstd:byteshuffle:clevel=1"
    assert store.values["output_folder"] == str(tiffs.parent / "out")
    assert store.values["codec"] == "fast"
    assert [name for name in os.listdir(tiffs) if "zarr" in name] == []
    window.pack.form.toggle.click()
    assert str(tiffs.parent / "out") in window.pack.form._line.text()


def _target(window) -> Path:
    return rows(window.pack)[0].data.row.target


def test_archives_and_empty_folders_dropped_here_are_sent_where_they_belong(
    qtbot, window, drop, click, tiffs: Path, tmp_path: Path
) -> None:
    packed = archive.pack(tiffs / "cell_0.tif").archive
    (tmp_path / "empty").mkdir()
    drop(window.pack, packed)
    settled(qtbot, window.pack)
    assert rows(window.pack) == []
    assert any("packed already" in text for text in notices(window.pack))
    drop(window.pack, tmp_path / "empty")
    settled(qtbot, window.pack)
    assert any("holds no TIFF files" in text for text in notices(window.pack))
    click(button(window.pack, "Restore"))
    settled(qtbot, window.restore)
    assert window.stack.currentWidget() is window.restore
    assert [row.path for row in rows(window.restore)] == [packed]


def test_files_are_chosen_in_dialogs_too(
    qtbot, window, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(tiffs / "cell_0.tif")]
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", staticmethod(lambda *_: (names, "")))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(lambda *_: str(tiffs)))
    click(button(window.pack, "Add files"))
    settled(qtbot, window.pack)
    assert [row.name for row in rows(window.pack)] == ["cell_0.tif"]
    click(button(window.pack, "Add folder"))
    settled(qtbot, window.pack)
    assert len(rows(window.pack)) == 3, "a file that is listed already is not listed twice"


def test_rows_are_taken_off_the_list_and_copied(qtbot, window, drop, tiffs: Path, qapp) -> None:
    from qtpy.QtCore import Qt

    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    window.pack.table.selectAll()
    qtbot.keyClick(window.pack.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    text = qapp.clipboard().text()
    assert str(tiffs / "odd.tif") in text
    assert "kept as it is: it is not a TIFF" in text
    qtbot.keyClick(window.pack.table, Qt.Key.Key_Delete)
    assert rows(window.pack) == []
    assert not window.pack.footer.isVisible()
    assert (tiffs / "odd.tif").exists()
    drop(window.pack, tiffs / "odd.tif")
    settled(qtbot, window.pack)
    assert len(rows(window.pack)) == 1, "what was taken off may be added again"


def test_report_and_hashes_are_saved(
    qtbot, window, drop, click, tiffs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    (tmp_path / "reports").mkdir()
    monkeypatch.setattr(
        QFileDialog, "getExistingDirectory", staticmethod(lambda *_: str(tmp_path / "reports"))
    )
    click(button(window.pack, "Save report"))
    qtbot.waitUntil(lambda: any("SHA256SUMS" in text for text in notices(window.pack)), timeout=10_000)
    report = json.loads((tmp_path / "reports" / "report.json").read_text())
    assert [row["state"] for row in report["rows"]] == ["packed"] * 3
    check = subprocess.run(
        ["sha256sum", "-c", str(tmp_path / "reports" / "SHA256SUMS")],
        cwd=tiffs,
        capture_output=True,
        text=True,
    )
    assert check.returncode == 0, check.stderr


def test_closing_in_mid_job_asks_and_then_stops_cleanly(
    qtbot, window, drop, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    write_sparse_imagej(folder / "a.tif", 100, 1024, 1024)
    slow(monkeypatch, 0.1)
    drop(window.pack, folder)
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    qtbot.waitUntil(lambda: window.pack.batch.fraction > 0.005, timeout=20_000)
    window.close()
    assert window.isVisible()
    click(button(window.question, "Keep working"))
    qtbot.waitUntil(lambda: window.question is None, timeout=20_000)
    assert window.isVisible()
    assert window.desk.runner.busy

    window.close()
    assert isinstance(window.question, QMessageBox)
    assert "1 job would be stopped" in window.question.text()
    click(button(window.question, "Stop and close"))
    qtbot.waitUntil(lambda: not window.isVisible(), timeout=3_000)
    assert os.listdir(folder) == ["a.tif"]


def test_the_question_goes_when_the_work_ends_before_the_answer(
    qtbot, window, drop, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiff(tmp_path / "a.tif", TiffSpec())
    goes_on, encode = threading.Event(), PixelCodec.encode

    def wait(self: PixelCodec, array: object) -> bytes:
        goes_on.wait(20)
        return encode(self, array)

    drop(window.pack, tmp_path / "a.tif")
    settled(qtbot, window.pack)
    monkeypatch.setattr(PixelCodec, "encode", wait)
    click(window.pack.footer.main)
    window.close()
    question = window.question
    assert question.text() == "1 job would be stopped."
    goes_on.set()
    qtbot.waitUntil(lambda: window.question is None, timeout=20_000)
    assert not question.isVisible()
    settled(qtbot, window.pack)
    assert window.isVisible()  # with the summary, which the user has not seen
    assert window.pack.card is not None


def test_b11_leftovers_of_a_killed_run_are_offered_at_the_next_start(
    qtbot, window, click, tmp_path: Path
) -> None:
    written_by_the_dead = (
        "import sys; from pathlib import Path; from napari_decant.stores._partial import partial_path;"
        "made = partial_path(Path(sys.argv[1])); made.write_bytes(b'x' * 1000); print(made)"
    )
    words = [sys.executable, "-c", written_by_the_dead, str(tmp_path / "a.tif.zarr.zip")]
    left = Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())
    being_written = partial_path(tmp_path / "b.tif.zarr.zip")  # by this very process, which lives
    being_written.write_bytes(b"y" * 1000)
    other = tmp_path / "mine.partial"
    other.write_bytes(b"not of this program")
    window.desk.settings.busy_folders = f"{tmp_path}\n{tmp_path / 'unplugged'}"
    window.look_for_leftovers()
    qtbot.waitUntil(lambda: bool(notices(window.pack)), timeout=10_000)
    (text,) = notices(window.pack)
    assert "1 unfinished file (1.0 kB)" in text
    click(button(window.pack, "Remove"))
    qtbot.waitUntil(lambda: not left.exists(), timeout=10_000)
    assert other.exists()
    assert being_written.exists()
    assert window.desk.settings.busy_folders == ""


def test_b11_folders_are_remembered_only_while_they_are_written_to(
    qtbot, window, drop, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(window.pack, tiffs)
    settled(qtbot, window.pack)
    slow(monkeypatch, 0.05)
    click(window.pack.footer.main)
    assert window.desk.settings.busy_folders == str(tiffs)
    settled(qtbot, window.pack)
    assert window.desk.settings.busy_folders == ""
    assert str(tiffs) in window.pack.card.lines[0].text(), "the full path is shown"


def test_opening_in_napari_and_showing_the_folder(
    qtbot, window, opened, drop, click, tiffs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant.gui import _panel

    shown = []
    monkeypatch.setattr(
        _panel.QDesktopServices, "openUrl", staticmethod(lambda url: shown.append(url.toLocalFile()))
    )
    drop(window.pack, tiffs / "cell_0.tif")
    settled(qtbot, window.pack)
    click(window.pack.footer.main)
    settled(qtbot, window.pack)
    click(button(window.pack, "Open in napari"))
    assert opened == [tiffs / "cell_0.tif.zarr.zip"]
    click(button(window.pack, "Show in folder"))
    assert shown == [str(tiffs)]
    click(button(window.pack, "Done"))
    assert window.pack.card is None
    assert window.pack.drop.isVisible()
    shutil.rmtree(tiffs)


def test_what_stays_outside_of_a_dropped_folder_is_said(qtbot, window, desk, drop, tiffs: Path) -> None:
    def said() -> list[str]:
        settled(qtbot, window.pack)
        return [text for text in notices(window.pack) if "outside" in text]

    drop(window.pack, tiffs)
    assert said() == ["1 other file is no TIFF by its name and stays outside: notes.txt"]
    for number in range(3):
        (tiffs / f"log_{number}.txt").write_text("no image")
    window.pack._plan_again()
    assert said() == ["4 other files are no TIFFs by their names and stay outside: log_0.txt, log_1.txt, …"]
    desk.settings.series = True
    window.pack._plan_again()
    assert said() == []  # a series keeps every file of its folder


def test_the_dialog_offers_what_a_folder_is_searched_for(window) -> None:
    offered = window.pack.FILTER.partition("(")[2].partition(")")[0].split()
    assert [pattern.removeprefix("*") for pattern in offered] == list(TIFF_SUFFIXES)
