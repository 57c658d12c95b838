"""C-02 in the window: what of a damaged archive is still whole, and getting just that back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.damage import flip_stored_byte
from tests.support.gui import button, rows, settled
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


def plane_of(packed: Path, member: str) -> str:
    """Key of the chunk that holds the pixels of a member."""
    with archive.Archive(packed) as opened:
        (number,) = next(file.indices for file in opened.files() if file.name == member)
    return f"0/{number}/0/0"


def restored(window, tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tmp_path / "back").rglob("*.tif")}


def test_c02_files_that_are_whole_in_a_damaged_archive_come_back_alone(
    qtbot, window, drop, click, series, tmp_path: Path
) -> None:
    folder, packed = series
    flip_stored_byte(packed, plane_of(packed, "z1.tif"))
    window.desk.settings.restore_folder = str(tmp_path / "back")
    window.tabs[1].click()
    drop(window.verify, packed)
    settled(qtbot, window.verify)
    click(window.verify.footer.main)
    settled(qtbot, window.verify)
    (row,) = rows(window.verify)
    assert "2 of 3 files whole" in row.what
    marks = {child.name: child.mark for child in row.children if child.name.endswith(".tif")}
    assert marks == {"z0.tif": Mark.WHOLE, "z1.tif": Mark.DAMAGED, "z2.tif": Mark.WHOLE}
    click(button(window.verify, "Restore what is whole"))
    settled(qtbot, window.restore)
    (row,) = rows(window.restore)
    assert [(child.checked, child.mark) for child in row.children] == [
        (True, Mark.NONE), (False, Mark.DAMAGED), (True, Mark.NONE),
    ]  # fmt: skip
    assert window.restore.footer.main.text() == "Restore 2 files"
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    assert row.state == "2 of 3 restored"
    wanted = {name: (folder / name).read_bytes() for name in ("z0.tif", "z2.tif")}
    assert restored(window, tmp_path) == wanted


@pytest.mark.parametrize("cut", [1, 22])
def test_c02_an_archive_cut_short_says_so_at_once_and_gives_back_what_is_left(
    qtbot, window, drop, click, series, tmp_path: Path, cut: int
) -> None:
    folder, packed = series
    flip_stored_byte(packed, plane_of(packed, "z2.tif"))
    packed.write_bytes(packed.read_bytes()[:-cut])
    window.desk.settings.restore_folder = str(tmp_path / "back")
    window.tabs[1].click()
    drop(window.verify, packed)
    settled(qtbot, window.verify)
    click(window.verify.footer.main)
    settled(qtbot, window.verify, timeout=20_000)
    (row,) = rows(window.verify)
    assert row.state == "incomplete"
    assert "--salvage" not in window.verify.report(row)
    assert [child.state for child in row.children if child.name.endswith(".tif")] == ["not read"] * 3
    click(button(window.verify, "Find what is whole"))
    settled(qtbot, window.verify)
    assert [child.state for child in row.children if child.name.endswith(".tif")] == [
        "whole", "whole", "damaged",
    ]  # fmt: skip
    click(button(window.verify, "Restore what is whole"))
    settled(qtbot, window.restore)
    (row,) = rows(window.restore)
    assert row.state == "incomplete"
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    wanted = {name: (folder / name).read_bytes() for name in ("z0.tif", "z1.tif")}
    assert restored(window, tmp_path) == wanted


def test_c02_one_lost_file_does_not_keep_the_others(
    qtbot, window, drop, click, series, tmp_path: Path
) -> None:
    _, packed = series
    flip_stored_byte(packed, plane_of(packed, "z0.tif"))
    packed.write_bytes(packed.read_bytes()[:-1])  # nobody has verified it: all three are chosen
    window.desk.settings.restore_folder = str(tmp_path / "back")
    window.tabs[2].click()
    drop(window.restore, packed)
    settled(qtbot, window.restore)
    click(window.restore.footer.main)
    settled(qtbot, window.restore)
    (row,) = rows(window.restore)
    assert row.mark is Mark.FAILED
    assert row.state == "2 of 3 restored"
    assert "2 files are back, 1 of 3 files could not be" in row.detail
    assert [child.mark for child in row.children] == [Mark.DAMAGED, Mark.RESTORED, Mark.RESTORED]
    assert "z0.tif" in row.children[0].detail
    assert set(restored(window, tmp_path)) == {"z1.tif", "z2.tif"}
    assert not [name for name in os.listdir(tmp_path / "back") if "partial" in name]
    assert any("1 file could not be rebuilt" in line.text() for line in window.restore.card.lines)
    assert not window.restore.footer.main.isEnabled(), "what is back is not restored twice"
