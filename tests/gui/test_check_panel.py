"""Checking in the window: what holds, what is not met and what is broken, with what to do about it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from qtpy.QtCore import QMimeData, Qt
from qtpy.QtWidgets import QFileDialog
from tests.plugin.helpers import write_folder, write_zip
from tests.support.conforming import conforming
from tests.support.gui import button, notices, rows, settled, states
from tests.support.ngff import group_keys
from tests.support.servers import serve_http
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui import CheckPanel
from napari_decant.gui._row import Mark, Row
from napari_decant.standard import _check


@pytest.fixture
def panel(window) -> CheckPanel:
    """The panel, in front."""
    window.tabs[5].click()
    return window.check


@pytest.fixture
def check(qtbot, panel: CheckPanel, drop, click) -> Callable[..., list[Row]]:
    """Drop paths, click the button, wait."""

    def do(*paths: Path) -> list[Row]:
        drop(panel, *paths)
        settled(qtbot, panel)
        click(panel.footer.main)
        settled(qtbot, panel, timeout=60_000)
        return rows(panel)

    return do


def test_an_image_that_follows_says_so_and_only_what_is_not_met_is_unfolded(
    panel: CheckPanel, check, tmp_path: Path
) -> None:
    (row,) = check(write_folder(tmp_path / "good.zarr", conforming()))
    assert (row.mark, row.state) == (Mark.UNMET, "1 not met")
    unmet, held, off = row.children
    assert unmet.name.startswith("C2  ")
    assert "because the chunk holds the whole image" in unmet.what
    assert (held.mark, off.mark) == (Mark.FOLLOWS, Mark.SKIPPED)
    assert held.name.endswith("rules hold")
    assert all(child.mark is Mark.FOLLOWS for child in held.children)
    assert panel.table.isExpanded(panel.rows.index_of(row))
    assert not panel.table.isExpanded(panel.rows.index_of(held))
    title = panel.card.title.text()
    assert title.startswith("good.zarr follows dca-0.1: every rule that must hold does; 1 recommendation")


def test_a_broken_rule_says_what_was_found_and_what_to_do(
    qtbot, window, panel: CheckPanel, check, click, tmp_path: Path, qapp
) -> None:
    (row,) = check(write_folder(tmp_path / "bad.zarr", conforming(levels=1)))
    assert row.mark is Mark.BROKEN
    broken = [child for child in row.children if child.mark is Mark.BROKEN]
    assert broken
    for child in broken:
        assert "Found: " in child.detail
        assert ". " in child.what, "what was found, and what to do"
    panel.table.setCurrentIndex(panel.rows.index_of(broken[0]))
    assert panel.detail.isVisible()
    assert broken[0].detail == panel.detail.text()
    assert "does not follow dca-0.1" in panel.card.title.text()
    click(button(panel, "Copy report"))
    assert "FAIL" in qapp.clipboard().text()
    click(button(panel, "Export…"))
    assert window.stack.currentWidget() is window.export
    settled(qtbot, window.export)


def test_folders_zips_and_archives_are_found_below_a_folder(panel: CheckPanel, check, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    write_folder(folder / "deep" / "a.zarr", conforming())
    write_zip(folder / "b.ozx", conforming())
    tiff = write_tiff(tmp_path / "c.tif", TiffSpec(pages=3, height=40, width=50)).path
    archive.pack(tiff, folder)
    (folder / "notes.txt").write_text("no image")
    found = check(folder)
    assert sorted(row.name for row in found) == ["a.zarr", "b.ozx", "c.tif.zarr.zip"]
    by_name = {row.name: row for row in found}
    assert by_name["a.zarr"].mark is Mark.UNMET
    assert by_name["c.tif.zarr.zip"].mark is Mark.BROKEN, "archives are 0.4, and say so"
    assert any("0.4" in child.what for child in by_name["c.tif.zarr.zip"].children)
    assert panel.card.title.text().startswith("1 of 3 places breaks rules of dca-0.1: ")


def test_the_version_decides_and_a_change_of_it_asks_for_another_check(
    qtbot, panel: CheckPanel, check, click, tmp_path: Path
) -> None:
    (row,) = check(write_folder(tmp_path / "one.zarr", conforming(levels=1)))
    assert row.mark is Mark.BROKEN
    assert any(child.name.startswith("M1 ") for child in row.children if child.mark is Mark.BROKEN)
    panel.form.open()
    panel.form.widgets["standard"].value = "dca-0.2"
    assert (row.mark, row.children) == (Mark.READY, [])
    assert panel.card is None
    click(panel.footer.main)
    settled(qtbot, panel)
    assert row.mark is Mark.UNMET
    assert "dca-0.2" in row.what


@pytest.mark.parametrize("kind", ["empty folder", "torn json", "no zip", "cut zip"])
def test_what_is_broken_is_one_precise_finding(check, panel: CheckPanel, tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("x.zarr" if "zip" not in kind else "x.ozx")
    if kind == "empty folder":
        path.mkdir()
    elif kind == "torn json":
        write_folder(path, conforming() | {"zarr.json": b'{"zarr_format": 3, "node'})
    elif kind == "no zip":
        path.write_bytes(b"no zip at all" * 10)
    else:
        write_zip(path, conforming())
        path.write_bytes(path.read_bytes()[:-30])
    (row,) = check(path)
    assert row.mark is Mark.BROKEN
    (broken,) = [child for child in row.children if child.mark is Mark.BROKEN]
    assert broken.name.startswith("O1 ")
    assert "x." in broken.what
    assert panel.table.isExpanded(panel.rows.index_of(row))


def test_what_is_gone_meanwhile_is_one_sentence(
    qtbot, panel: CheckPanel, drop, click, tmp_path: Path
) -> None:
    path = write_zip(tmp_path / "a.ozx", conforming())
    drop(panel, path)
    settled(qtbot, panel)
    path.unlink()
    click(panel.footer.main)
    settled(qtbot, panel)
    assert list(states(panel).values()) == ["failed"]
    assert "does not exist" in rows(panel)[0].detail


def test_what_is_no_image_is_sent_to_export(
    qtbot, window, panel: CheckPanel, drop, click, tmp_path: Path
) -> None:
    tiff = write_tiff(tmp_path / "cell.tif", TiffSpec()).path
    drop(panel, tiff)
    settled(qtbot, panel)
    assert notices(panel) == ["cell.tif is no OME-Zarr."]
    click(button(panel, "Export it"))
    settled(qtbot, window.export)
    assert [row.name for row in rows(window.export)] == ["cell.tif"]


def test_a_plate_is_summarised_by_rule(check, panel: CheckPanel, tmp_path: Path) -> None:
    wells = [f"A/{n + 1}" for n in range(10)]
    plate = {
        "rows": [{"name": "A"}],
        "columns": [{"name": str(n + 1)} for n in range(10)],
        "wells": [{"path": well, "rowIndex": 0, "columnIndex": n} for n, well in enumerate(wells)],
    }
    keys = group_keys("", {"plate": plate}) | group_keys("A", {})
    for n, well in enumerate(wells):
        keys |= group_keys(well, {"well": {"images": [{"path": "0"}]}})
        keys |= conforming(path=f"{well}/0", levels=1 if n < 3 else 3)
    (row,) = check(write_folder(tmp_path / "plate.zarr", keys))
    assert row.mark is Mark.BROKEN
    assert "10 images" in row.what
    (levels,) = [child for child in row.children if child.name.startswith("M1 ")]
    assert levels.what.startswith("3 of 10 places, first A/1/0")
    assert [child.name for child in levels.children] == ["A/1/0", "A/2/0", "A/3/0"]
    assert row.children[-1].name.endswith("without anything to do")


def test_cancel_stops_within_two_seconds(
    qtbot, panel: CheckPanel, drop, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _check.collect_facts

    def slowly(*arguments, **options):
        time.sleep(0.2)
        return real(*arguments, **options)

    keys = group_keys("", {"bioformats2raw.layout": 3})
    for n in range(40):
        keys |= conforming(path=str(n), levels=1)
    path = write_folder(tmp_path / "many.zarr", keys)
    monkeypatch.setattr(_check, "collect_facts", slowly)
    drop(panel, path)
    settled(qtbot, panel)
    click(panel.footer.main)
    qtbot.waitUntil(lambda: panel.batch is not None and panel.batch.fraction > 0, timeout=30_000)
    click(panel.footer.cancel)
    settled(qtbot, panel, timeout=2_000)
    assert list(states(panel).values()) == ["cancelled"]
    assert panel.card.title.text() == "Nothing was checked."


def test_reports_are_saved_as_page_and_json_and_replace_nothing(
    qtbot, panel: CheckPanel, check, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(write_folder(tmp_path / "good.zarr", conforming()))
    out = tmp_path / "reports"
    out.mkdir()
    (out / "good.zarr.check.html").write_text("mine")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(lambda *_: str(out)))
    click(button(panel, "Save report"))
    qtbot.waitUntil(lambda: len(os.listdir(out)) == 3, timeout=10_000)
    settled(qtbot, panel)
    assert (out / "good.zarr.check.html").read_text() == "mine"
    report = json.loads((out / "good.zarr.check 2.json").read_text())
    assert report["standard"] == "dca-0.1"
    assert report["ok"] is True
    assert "<table>" in (out / "good.zarr.check 2.html").read_text()
    assert any("Saved good.zarr.check 2.html" in text for text in notices(panel))


def test_a_folder_that_takes_no_report_is_named(
    qtbot, panel: CheckPanel, check, click, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant.stores import _atomic

    check(write_folder(tmp_path / "good.zarr", conforming()))

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied", str(arguments[0]))

    monkeypatch.setattr(QFileDialog, "getExistingDirectory", staticmethod(lambda *_: str(tmp_path / "out")))
    monkeypatch.setattr(_atomic, "open", refuse, raising=False)
    click(button(panel, "Save report"))
    qtbot.waitUntil(lambda: bool(notices(panel)), timeout=10_000)
    assert "no permission for writing" in notices(panel)[0]
    assert os.listdir(tmp_path / "out") == []


def test_an_address_is_checked_as_it_stands(qtbot, panel: CheckPanel, click, tmp_path: Path, qapp) -> None:
    write_folder(tmp_path / "served" / "a.zarr", conforming())
    with serve_http(tmp_path / "served") as server:
        click(button(panel, "Add address"))
        panel.question.setTextValue(f"{server.url}/a.zarr")
        panel.question.accept()
        data = QMimeData()
        data.setText(f"{server.url}/none.zarr and some words")
        qapp.clipboard().setMimeData(data)
        qtbot.keyClick(panel, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
        assert [row.name for row in rows(panel)] == ["a.zarr", "none.zarr"]
        qtbot.waitUntil(panel.footer.main.isEnabled, timeout=20_000)
        click(panel.footer.main)
        settled(qtbot, panel, timeout=60_000)
    good, none = rows(panel)
    assert good.mark is Mark.UNMET
    assert none.mark in (Mark.BROKEN, Mark.FAILED)
    panel.add_addresses(["ftp://x/y.zarr"])
    assert any("no address of http, https or s3" in text for text in notices(panel))


def test_after_an_export_the_next_step_is_to_check_it(qtbot, window, drop, click, tmp_path: Path) -> None:
    tiff = write_tiff(tmp_path / "cell.tif", TiffSpec(pages=3, height=40, width=50)).path
    window.tabs[4].click()
    drop(window.export, tiff)
    settled(qtbot, window.export)
    click(window.export.footer.main)
    settled(qtbot, window.export, timeout=60_000)
    click(button(window.export, "Check it"))
    settled(qtbot, window.check)
    assert window.stack.currentWidget() is window.check
    click(window.check.footer.main)
    settled(qtbot, window.check, timeout=60_000)
    (row,) = rows(window.check)
    assert row.name == "cell.tif.zarr"
    assert row.mark in (Mark.FOLLOWS, Mark.UNMET), "an export breaks no rule"
