"""Verifying in the window: what is whole, what is not, and what was not even read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.damage import add_entry, drop_entry, edit_entry, flip_stored_byte
from tests.support.gui import button, notices, rows, settled, states
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui._row import Mark


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """Two good archives in a folder."""
    made = []
    for n in range(2):
        tiff = write_tiff(tmp_path / f"cell_{n}.tif", TiffSpec(pages=3, height=40, width=50, seed=n)).path
        made.append(archive.pack(tiff, tmp_path / "packed").archive)
    return made


def test_a_dropped_folder_is_verified_and_only_then_green(
    qtbot, window, drop, click, archives: list[Path]
) -> None:
    window.tabs[1].click()
    drop(window.verify, archives[0].parent)
    settled(qtbot, window.verify)
    assert set(states(window.verify).values()) == {"ready"}
    assert not any(row.mark.value.role == "good" for row in rows(window.verify))
    assert window.verify.footer.main.text() == "Verify 2 archives"
    click(window.verify.footer.main)
    settled(qtbot, window.verify)
    assert set(states(window.verify).values()) == {"whole"}
    title = window.verify.card.title.text()
    assert title.startswith("2 archives are whole: every byte of 2 files, ")
    for row in rows(window.verify):
        assert [child.mark for child in row.children] == [Mark.WHOLE]
        assert not window.verify.table.isExpanded(window.verify.rows.index_of(row)), "only what is not whole"


def test_a_quick_look_is_never_green_and_says_what_it_did_not_do(
    qtbot, window, drop, click, archives: list[Path]
) -> None:
    flip_stored_byte(archives[0], "0/1/0/0")
    window.tabs[1].click()
    drop(window.verify, *archives)
    settled(qtbot, window.verify)
    window.verify.form.open()
    window.verify.form.widgets["quick"].native.click()
    qtbot.waitUntil(lambda: window.verify.footer.main.text() == "Check 2 archives quickly", timeout=20_000)
    click(window.verify.footer.main)
    settled(qtbot, window.verify)
    assert set(states(window.verify).values()) == {"complete, not read"}
    shown = [row.mark for top in rows(window.verify) for row in top.walk()]
    assert not any(mark.value.role == "good" for mark in shown)
    assert "pixels were not read" in window.verify.card.title.text()
    assert "whole" not in window.verify.card.title.text()
    click(button(window.verify, "Verify in full"))
    settled(qtbot, window.verify)
    assert sorted(states(window.verify).values()) == ["damaged", "whole"]


_DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "damaged": (lambda path: flip_stored_byte(path, "0/1/0/0"), "0/1/0/0"),
    "missing": (lambda path: drop_entry(path, "0/2/0/0"), "0/2/0/0"),
    "unexpected": (lambda path: add_entry(path, "0/0/Thumbs.db", b"junk"), "0/0/Thumbs.db"),
    "metadata": (
        lambda path: edit_entry(path, ".zattrs", lambda d: d.replace(b"decant", b"dekant")),
        ".zattrs",
    ),
}


@pytest.mark.parametrize("kind", sorted(_DAMAGE))
def test_c04_what_is_wrong_is_named_by_its_key(
    qtbot, window, drop, click, archives: list[Path], kind: str
) -> None:
    spoil, key = _DAMAGE[kind]
    spoil(archives[0])
    window.tabs[1].click()
    drop(window.verify, *archives)
    settled(qtbot, window.verify)
    click(window.verify.footer.main)
    settled(qtbot, window.verify)
    bad, good = rows(window.verify)
    assert (bad.mark, good.mark) == (Mark.DAMAGED, Mark.WHOLE)
    wanted = "changed" if kind == "metadata" else kind
    assert (key, wanted) in [(child.name, child.state) for child in bad.children]
    assert window.verify.table.isExpanded(window.verify.rows.index_of(bad))
    assert window.verify.card.title.text().startswith("1 of 2 archives is not whole: ")
    assert key in window.verify.report(bad)


@pytest.mark.parametrize("cut", [1, 22, 0.5], ids=["1 byte", "22 bytes", "half"])
def test_c02_a_truncated_archive_is_named_at_once(
    qtbot, window, drop, click, archives: list[Path], cut: float
) -> None:
    data = archives[0].read_bytes()
    archives[0].write_bytes(data[: -int(cut)] if cut >= 1 else data[: len(data) // 2])
    window.tabs[1].click()
    drop(window.verify, archives[0])
    settled(qtbot, window.verify)
    click(window.verify.footer.main)
    settled(qtbot, window.verify, timeout=5_000)
    (row,) = rows(window.verify)
    assert row.mark in (Mark.DAMAGED, Mark.FAILED)
    assert "incomplete" in (row.detail + row.state)


def test_c02_two_gigabytes_of_zeros_are_no_archive(qtbot, window, drop, click, tmp_path: Path) -> None:
    path = tmp_path / "zeros.ozx"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    window.tabs[1].click()
    drop(window.verify, path)
    settled(qtbot, window.verify)
    click(window.verify.footer.main)
    settled(qtbot, window.verify, timeout=5_000)
    (row,) = rows(window.verify)
    assert row.mark in (Mark.DAMAGED, Mark.FAILED)
    assert row.detail


def test_what_is_no_archive_is_sent_to_packing(qtbot, window, drop, click, tmp_path: Path) -> None:
    tiff = write_tiff(tmp_path / "cell.tif", TiffSpec()).path
    window.tabs[1].click()
    drop(window.verify, tiff)
    settled(qtbot, window.verify)
    assert notices(window.verify) == ["cell.tif is no archive."]
    click(button(window.verify, "Pack it"))
    settled(qtbot, window.pack)
    assert [row.name for row in rows(window.pack)] == ["cell.tif"]


def test_dropping_once_more_verifies_once_more(qtbot, window, drop, click, archives: list[Path]) -> None:
    window.tabs[1].click()
    for _ in range(2):
        drop(window.verify, archives[0])
        settled(qtbot, window.verify)
        click(window.verify.footer.main)
        settled(qtbot, window.verify)
    assert list(states(window.verify).values()) == ["whole"]
