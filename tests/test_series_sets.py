"""Which files become one series: sets within a folder, trees of folders, links, and what is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.seriesfiles import (
    contents,
    described,
    ome_xml,
    pack_row,
    tiff_data,
    with_companion,
    write_planes,
)

from napari_decant.archive import find_set, pack_batch, plan, restore
from napari_decant.errors import UnsupportedOperation, UsageError


def numbered(folder: Path, start: int = 0) -> None:
    """Write three slices."""
    for i in range(1, 4):
        write_planes(folder / f"img_{i}.tif", [start + i])


def test_a_tree_is_a_series_for_each_folder_with_files(tmp_path: Path) -> None:
    tree = tmp_path / "year"
    for number, name in enumerate(("day10/pos1", "day2/pos1", "day2/pos2", "day1")):
        numbered(tree / name, 10 * number)
    write_planes(tree / "day1" / "deep" / "img_9.tif", [99])
    (tree / "texts").mkdir()
    (tree / "texts" / "plan.txt").write_text("no image here")
    (tree / "Thumbs.db").write_text("left by the system")
    rows = plan([tree], tmp_path / "out", series=True, estimate=False)
    assert [row.relative for row in rows] == ["day1", "day2/pos1", "day2/pos2", "day10/pos1"]
    assert [row.target.relative_to(tmp_path / "out").as_posix() for row in rows] == [
        "day1.zarr.zip",
        "day2/pos1.zarr.zip",
        "day2/pos2.zarr.zip",
        "day10/pos1.zarr.zip",
    ]
    assert [row.members for row in rows] == [4, 3, 3, 3]
    assert pack_batch(rows).count("packed") == 4
    for row in rows:
        restore(row.target, tmp_path / "back" / row.relative)
        assert contents(tmp_path / "back" / row.relative) == contents(tree / row.relative)
    # beside the sources, and again: the archives are no members
    beside = plan([tree], series=True, estimate=False)
    assert [row.target for row in beside][1] == tree / "day2" / "pos1.zarr.zip"
    assert pack_batch(beside).count("packed") == 4
    again = plan([tree], series=True, estimate=False)
    assert [row.members for row in again] == [4, 3, 3, 3]


def test_a_folder_with_files_is_one_series_with_everything_below(tmp_path: Path) -> None:
    numbered(tmp_path / "s" / "pos1")
    numbered(tmp_path / "s" / "pos2")
    (tmp_path / "s" / "settings.txt").write_text("of all positions")
    (row,) = plan([tmp_path / "s"], tmp_path, series=True, estimate=False)
    assert row.members == 7
    assert row.axes == ("p", "z", "y", "x")


def test_links_in_a_tree_are_refused(tmp_path: Path) -> None:
    numbered(tmp_path / "tree" / "a")
    (tmp_path / "tree" / "b").symlink_to(tmp_path / "tree" / "a")
    with pytest.raises(UnsupportedOperation, match="links are not archived"):
        plan([tmp_path / "tree"], series=True)


def test_two_sets_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    for k, run in enumerate(("run1", "run2")):
        names = [f"{run}_z{z}.ome.tif" for z in range(3)]
        data = [tiff_data(name, 0, z=2 - z) for z, name in enumerate(names)]
        for z, name in enumerate(names):
            xml = ome_xml([(run, {"T": 1, "Z": 3, "C": 1}, data)], uuid=name)
            write_planes(folder / name, [10 * k + z + 1], described(xml))
    given = [folder / "run2_z1.ome.tif", folder / "run1_z0.ome.tif"]
    rows = plan(given, series=True, estimate=False)
    assert [row.target for row in rows] == [folder / "run1_z.zarr.zip", folder / "run2_z.zarr.zip"]
    assert [pack_row(row).values for row in rows] == [[3, 2, 1], [13, 12, 11]]
    assert [row.members for row in rows] == [3, 3]
    # the archives beside the files change nothing
    assert len(find_set(given[0]) or ()) == 3


def test_what_was_chosen_along_with_a_set_goes_with_it(tmp_path: Path) -> None:
    companion, files = with_companion(tmp_path / "s")
    notes = tmp_path / "s" / "notes.txt"
    notes.write_text("chosen too")
    (tmp_path / "s" / "other.txt").write_text("not chosen")
    (row,) = plan([files[0], notes], tmp_path, series=True, estimate=False)
    assert row.series is not None
    assert {member.path for member in row.series.members} == {companion, *files, notes}


def test_a_file_without_a_set(tmp_path: Path) -> None:
    numbered(tmp_path / "s")
    assert find_set(tmp_path / "s" / "img_1.tif") is None
    assert find_set(tmp_path / "s") is None
    (tmp_path / "s" / "empty.tif").touch()
    (tmp_path / "s" / "text.companion.ome").write_text("no XML")
    assert find_set(tmp_path / "s" / "empty.tif") is None
    assert find_set(tmp_path / "s" / "text.companion.ome") is None
    with pytest.raises(UsageError, match="does not exist"):
        find_set(tmp_path / "nothing.tif")
    (row,) = plan([tmp_path / "s" / "img_1.tif"], tmp_path, series=True, estimate=False)
    assert row.members == 1


def test_hundreds_of_chosen_files_list_their_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    folder = tmp_path / "s"
    first = write_planes(folder / "img_0.tif", [1])
    for i in range(1, 300):
        (folder / f"img_{i}.tif").write_bytes(first.read_bytes())
    listed: list[str] = []
    scandir = os.scandir

    def count(path: str) -> object:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", count)
    files = [folder / f"img_{i}.tif" for i in range(300)]
    (row,) = plan(files, tmp_path, series=True, estimate=False)
    assert row.members == 300
    assert row.shape[0] == 300
    assert len(listed) < 5
