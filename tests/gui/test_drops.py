"""What is dropped together, twice, on the wrong panel, or is gone: said once, nothing lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from qtpy.QtWidgets import QFileDialog
from tests.support.gui import button, notices, rows, settled, states
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui._row import Mark


@pytest.fixture
def show(window):
    """Go to a panel by its tab."""

    def do(key: str):
        panel = window.panel(key)
        window.tabs[window.panels.index(panel)].click()
        return panel

    return do


@pytest.mark.parametrize("verb", ["verify", "restore", "check"])
def test_an_archive_dropped_with_its_folder_is_one_row(qtbot, show, drop, tmp_path: Path, verb: str) -> None:
    packed = archive.pack(write_tiff(tmp_path / "a.tif", TiffSpec()).path).archive
    panel = show(verb)
    drop(panel, packed, tmp_path)
    settled(qtbot, panel)
    assert [row.path for row in rows(panel)] == [packed]


@pytest.mark.parametrize("verb", ["pack", "export"])
def test_a_file_dropped_with_its_folder_is_one_row(qtbot, show, drop, tiffs: Path, verb: str) -> None:
    panel = show(verb)
    drop(panel, tiffs / "cell_1.tif", tiffs)
    settled(qtbot, panel)
    assert sorted(row.path for row in rows(panel)) == sorted(tiffs.glob("*.tif"))


@pytest.mark.parametrize("series", [False, True])
def test_what_is_not_there_does_not_keep_the_rest_from_being_planned(
    qtbot, show, drop, tiffs: Path, tmp_path: Path, series: bool
) -> None:
    panel = show("pack")
    panel.desk.settings.series = series
    drop(panel, tiffs / "gone.tif", tmp_path / "gone too.tif", tiffs)
    settled(qtbot, panel)
    assert len(rows(panel)) == (1 if series else 3)
    assert "gone.tif and 1 more do not exist any more." in notices(panel)


def test_a_link_is_not_said_to_be_no_tiff_as_well(qtbot, show, drop, tiffs: Path) -> None:
    try:
        (tiffs / "linked.tif").symlink_to(tiffs / "cell_0.tif")
    except OSError:
        pytest.skip("no links here")
    panel = show("pack")
    drop(panel, tiffs)
    settled(qtbot, panel)
    assert [text for text in notices(panel) if "linked.tif" in text] == [
        "linked.tif: links in a folder are not followed; add the files themselves."
    ]
    assert "1 other file is no TIFF by its name and stays outside: notes.txt" in notices(panel)


@pytest.mark.parametrize(
    ("verb", "said", "does", "to"),
    [
        ("verify", "cell_0.tif and 2 more are no archives.", "Pack them", "pack"),
        ("restore", "cell_0.tif and 2 more are no archives.", "Pack them", "pack"),
        ("check", "cell_0.tif and 2 more are no OME-Zarr.", "Export them", "export"),
    ],
)
def test_many_files_for_another_panel_are_one_message(
    qtbot, window, show, drop, click, tiffs: Path, verb: str, said: str, does: str, to: str
) -> None:
    panel = show(verb)
    drop(panel, *sorted(tiffs.glob("*.tif")))
    settled(qtbot, panel)
    assert notices(panel) == [said]
    click(button(panel, does))
    settled(qtbot, window.panel(to))
    assert len(rows(window.panel(to))) == 3


@pytest.mark.parametrize("verb", ["pack", "export"])
def test_a_folder_dropped_again_is_looked_at_again(qtbot, show, drop, tiffs: Path, verb: str) -> None:
    panel = show(verb)
    drop(panel, tiffs)
    settled(qtbot, panel)
    write_tiff(tiffs / "cell_9.tif", TiffSpec())
    (tiffs / "odd.tif").unlink()
    drop(panel, tiffs)
    settled(qtbot, panel)
    assert sorted(states(panel)) == ["cell_0.tif", "cell_1.tif", "cell_9.tif"]


@pytest.mark.parametrize("verb", ["pack", "export"])
def test_what_is_done_and_dropped_again_is_said_to_be_there(
    qtbot, show, drop, click, tiffs: Path, verb: str
) -> None:
    panel = show(verb)
    drop(panel, tiffs / "cell_0.tif")
    settled(qtbot, panel)
    click(panel.footer.main)
    settled(qtbot, panel, timeout=60_000)
    (row,) = rows(panel)
    mark = row.mark
    drop(panel, tiffs / "cell_0.tif")
    settled(qtbot, panel)
    assert (rows(panel), row.mark) == ([row], mark)
    assert notices(panel) == ["Nothing new in cell_0.tif: it is in the list already."]


def test_an_original_and_its_archive_are_not_exported_to_one_place(
    qtbot, show, drop, click, tmp_path: Path
) -> None:
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec()).path
    archive.pack(tiff)
    panel = show("export")
    drop(panel, tmp_path)
    settled(qtbot, panel)
    first, second = rows(panel)
    assert (first.mark, second.mark) == (Mark.READY, Mark.CLASH)
    assert second.detail == f"{tiff} becomes {tmp_path / 'a.tif.zarr'}, too; take one of them off the list."
    assert panel.footer.main.text() == "Export 1 image"
    panel.remove([first])
    assert second.mark is Mark.READY
    assert "too; take one" not in second.detail
    click(panel.footer.main)
    settled(qtbot, panel, timeout=60_000)
    assert second.mark is Mark.EXPORTED


def test_originals_for_one_place_are_not_restored_though_the_folder_is_chosen_last(
    qtbot, show, drop, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        packed.append(archive.pack(write_tiff(tmp_path / name / "a.tif", TiffSpec()).path).archive)
    panel = show("restore")
    drop(panel, *packed)
    settled(qtbot, panel)
    out = tmp_path / "out"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(lambda *a: str(out)))
    click(panel.footer.main)
    settled(qtbot, panel)
    assert not out.exists()
    assert notices(panel) == ["Two originals would go to the same place; see the table."]
    assert all(panel.table.isExpanded(panel.rows.index_of(row)) for row in rows(panel))
    assert not panel.footer.main.isEnabled()


def test_a_long_name_in_a_message_is_not_cut_off(qtbot, show, drop, tmp_path: Path) -> None:
    panel = show("verify")
    name = "20260101_plate_with_a_long_name_well_B07_488nm" * 4 + ".txt"
    (tmp_path / name).write_text("no archive")
    panel.window().resize(700, 640)
    drop(panel, tmp_path / name)
    settled(qtbot, panel)
    (notice,) = panel.notices()
    assert notice.text == f"{name} is no archive."
    words = notice._text
    assert words.minimumSizeHint().width() <= words.width()
    assert words.height() > 2 * words.fontMetrics().height()  # it goes on in the next lines


def test_questions_about_series_go_with_what_they_ask_about(
    qtbot, show, drop, click, tiffs: Path, tmp_path: Path
) -> None:
    (tiffs / "odd.tif").unlink()
    other = tmp_path / "plate4"
    other.mkdir()
    for n in range(3):
        write_tiff(other / f"img_{n}.tif", TiffSpec(seed=n))
    panel = show("pack")

    def asked() -> int:
        return sum("one series?" in text for text in notices(panel))

    for again in (False, True):
        drop(panel, tiffs)
        drop(panel, other)
        settled(qtbot, panel)
        assert asked() == 2
        if again:
            panel.remove(rows(panel))
        else:
            click(panel.footer.main)
            settled(qtbot, panel)
            panel.remove(rows(panel))
        assert asked() == 0
    drop(panel, tiffs)
    drop(panel, other)
    settled(qtbot, panel)
    question = next(notice for notice in panel.notices() if "plate4" in notice.text)
    click(question.buttons[0])
    assert asked() == 0
    settled(qtbot, panel)
    qtbot.waitUntil(lambda: len(rows(panel)) == 2, timeout=20_000)


def test_when_all_rows_are_gone_the_summary_stays_small_and_the_drop_area_is_back(
    qtbot, show, drop, click, tiffs: Path
) -> None:
    panel = show("pack")
    drop(panel, tiffs)
    settled(qtbot, panel)
    click(panel.footer.main)
    settled(qtbot, panel)
    assert not panel.drop.isVisible()
    height = panel.card.height()
    panel.remove(rows(panel))
    qtbot.waitUntil(lambda: panel.drop.isVisible() and panel.drop.height() > 200)
    assert panel.card.height() <= height
    assert not panel.drop.strip
    click(button(panel, "Done"))
    assert panel.drop.isVisible()


def test_a_folder_that_is_typed_is_the_one_that_a_shell_would_take(
    qtbot, show, drop, click, tiffs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "there"
    for verb, setting, name in (
        ("pack", "output_folder", "cell_0.tif.zarr.zip"),
        ("export", "export_folder", "cell_0.tif.zarr"),
        ("restore", "restore_folder", ""),
    ):
        panel = show(verb)
        for typed in ("~/there", "there"):
            setattr(panel.desk.settings, setting, typed)
            drop(panel, out / "cell_0.tif.zarr.zip" if verb == "restore" else tiffs / "cell_0.tif")
            settled(qtbot, panel)
            (row,) = rows(panel)
            if verb == "pack":
                target = row.data.row.target
                click(panel.footer.main)
                settled(qtbot, panel)
            else:
                target = row.data.target if verb == "export" else Path(row.what)
            assert target == out / name
            panel.remove(rows(panel))


def test_an_output_folder_that_is_a_file_says_so(qtbot, show, drop, click, tiffs: Path) -> None:
    panel = show("pack")
    file = tiffs / "notes.txt"
    panel.desk.settings.output_folder = str(file / "out")
    drop(panel, tiffs / "cell_0.tif")
    settled(qtbot, panel)
    click(panel.footer.main)
    settled(qtbot, panel)
    (row,) = rows(panel)
    assert row.detail == f"{file} is no folder, and {file / 'out'} cannot lie in it; choose another place"


def test_what_was_wrong_with_a_pattern_is_not_said_any_more_once_it_is_right(
    qtbot, show, drop, tiffs: Path
) -> None:
    (tiffs / "odd.tif").unlink()
    panel = show("pack")
    panel.desk.settings.series = True
    panel.desk.settings.pattern = "cell_{q}_{t"
    drop(panel, tiffs)
    settled(qtbot, panel)
    assert any("cannot be read" in text for text in notices(panel))
    panel.desk.settings.pattern = "cell_{t}.tif"
    qtbot.waitUntil(lambda: len(rows(panel)) == 1, timeout=20_000)
    settled(qtbot, panel)
    assert not any("cannot be read" in text for text in notices(panel))
