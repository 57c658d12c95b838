"""Whatever is dropped on Verify and Restore: one sentence in its row, and nothing is lost."""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.gui import notices, rows, settled
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui._row import Mark
from napari_decant.stores import _atomic, _positional


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A good archive."""
    tiff = write_tiff(tmp_path / "cell.tif", TiffSpec(pages=3, height=40, width=50)).path
    return archive.pack(tiff, tmp_path / "packed").archive


def _text(path: Path) -> None:
    path.write_bytes(b"this is no archive at all\n" * 40)


def _other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("letter.txt", "a zip of something else")


def _cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _locked(path: Path) -> None:
    """Set the bit that says that a password is needed, for every entry."""
    data = bytearray(path.read_bytes())
    for magic, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = data.find(magic)
        while place >= 0:
            data[place + at] |= 1
            place = data.find(magic, place + 4)
    path.write_bytes(data)


BAD: dict[str, Callable[[Path], None]] = {
    "text": _text,
    "another zip": _other_zip,
    "cut short": _cut,
    "password": _locked,
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
}


def sentence(text: str) -> None:
    """One line for people: no traceback, no class, and it names what it is about."""
    assert text
    assert "Traceback" not in text
    assert "Error" not in text
    assert "fault of the program" not in text
    assert len(text.splitlines()[0]) < 400


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
@pytest.mark.parametrize("kind", sorted(BAD))
def test_verify_says_in_the_row_what_is_wrong(
    qtbot, window, drop, click, packed: Path, kind: str, quick: bool
) -> None:
    BAD[kind](packed)
    before = packed.read_bytes()
    window.desk.settings.quick = quick
    window.tabs[1].click()
    drop(window.verify, packed)
    settled(qtbot, window.verify)
    click(window.verify.footer.main)
    settled(qtbot, window.verify, timeout=10_000)
    (row,) = rows(window.verify)
    assert row.mark in (Mark.DAMAGED, Mark.FAILED)
    sentence(row.detail)
    assert packed.name in window.verify.report(row)
    assert window.verify.card.title.text()
    assert not any(each.mark.value.role == "good" for each in row.walk())
    assert packed.read_bytes() == before


@pytest.mark.parametrize("kind", sorted(BAD))
def test_restore_says_in_the_row_what_is_wrong_and_writes_nothing(
    qtbot, window, drop, click, packed: Path, tmp_path: Path, kind: str
) -> None:
    BAD[kind](packed)
    window.desk.settings.restore_folder = str(tmp_path / "back")
    window.tabs[2].click()
    drop(window.restore, packed)
    settled(qtbot, window.restore)
    (row,) = rows(window.restore)
    sentence(row.detail)
    if window.restore.footer.main.isEnabled():  # it can be seen only while it is rebuilt
        click(window.restore.footer.main)
        settled(qtbot, window.restore)
        sentence(row.detail)
    assert row.mark is Mark.FAILED
    assert not (tmp_path / "back").exists() or not any((tmp_path / "back").rglob("*"))


@pytest.mark.parametrize("verb", ["verify", "restore"])
def test_what_was_deleted_meanwhile_is_named(
    qtbot, window, drop, click, packed: Path, tmp_path: Path, verb: str
) -> None:
    panel = window.panel(verb)
    window.desk.settings.restore_folder = str(tmp_path / "back")
    window.tabs[window.panels.index(panel)].click()
    drop(panel, packed)
    settled(qtbot, panel)
    packed.unlink()
    click(panel.footer.main)
    settled(qtbot, panel)
    (row,) = rows(panel)
    assert row.mark is Mark.FAILED
    assert f"{packed} does not exist" in row.detail
    assert panel.footer.main.isEnabled(), "it can be tried again"
    drop(panel, packed)
    settled(qtbot, panel)
    assert notices(panel)[-1] == "cell.tif.zarr.zip does not exist any more."


@pytest.mark.parametrize("verb", ["verify", "restore"])
def test_what_may_not_be_read_is_named(
    qtbot, window, drop, click, packed: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    # Tests may run as root, who may read everything; so the system's answer is injected.
    def refuse(path, *arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    panel = window.panel(verb)
    window.tabs[window.panels.index(panel)].click()
    monkeypatch.setattr(_positional.os, "open", refuse)
    drop(panel, packed)
    settled(qtbot, panel)
    if verb == "verify":
        click(panel.footer.main)
        settled(qtbot, panel)
    (row,) = rows(panel)
    assert row.mark is Mark.FAILED
    assert str(packed) in row.detail
    sentence(row.detail)


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "choose another folder")]
)
def test_a_target_that_takes_nothing_is_named_and_nothing_is_left(
    qtbot, window, drop, click, packed: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, code: int, words: str,
) -> None:  # fmt: skip
    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code), str(arguments[0]))

    window.desk.settings.restore_folder = str(tmp_path / "back")
    window.tabs[2].click()
    drop(window.restore, packed)
    settled(qtbot, window.restore)
    monkeypatch.setattr(_atomic, "open", refuse, raising=False)
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    (row,) = rows(window.restore)
    assert row.mark is Mark.FAILED
    assert words in row.detail
    sentence(row.detail)
    assert not any((tmp_path / "back").rglob("*"))
    monkeypatch.undo()
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    assert row.mark is Mark.RESTORED
    assert (tmp_path / "back" / "cell.tif").read_bytes() == (tmp_path / "cell.tif").read_bytes()
