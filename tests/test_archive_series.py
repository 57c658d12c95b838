"""A folder becomes one archive, shared or nested, and every file in it comes back byte for byte."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from tests.support.damage import flip_stored_byte
from tests.support.manyfiles import make_many, under_64_files
from tests.support.pixels import open_array, read_manifest, stored_pages
from tests.support.recovering import recover
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import info, pack, restore, verify
from napari_decant.archive import SeriesPlan, open_original, pack_batch, pack_series, plan, plan_series
from napari_decant.archive._encode import Encoder, Part
from napari_decant.archive._geometry import PageLayout
from napari_decant.cli import main
from napari_decant.errors import (
    Cancelled,
    FormatError,
    IntegrityError,
    SourceChanged,
    StorageError,
    TargetExists,
    UsageError,
)
from napari_decant.progress import CancelToken, Progress

ROOT = Path(__file__).parent.parent
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX limits and signals")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def numbered(folder: Path, numbers: list[int]) -> list[Path]:
    """Files ``img_N.tif`` whose pixels are all N."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"img_{number}.tif" for number in numbers]
    for path, number in zip(files, numbers, strict=True):
        tifffile.imwrite(path, np.full((6, 5), number, np.uint16))
    return files


def pack_folder(folder: Path, target: Path) -> SeriesPlan:
    """Pack a folder as the command line does; the plan tells what was understood."""
    planned = pack_plan(folder)
    pack_series(planned, target)
    return planned


def pack_plan(folder: Path) -> SeriesPlan:
    """What the command line understands of a folder."""
    (row,) = plan([folder], folder.parent, series=True, estimate=False)
    assert row.series is not None
    return row.series


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Images that agree in both byte orders, one that does not, files that are no images, an empty one."""
    folder = tmp_path / "day1"
    (folder / "deep" / "er").mkdir(parents=True)
    for i in range(4):
        order = ">" if i % 2 else "<"
        write_tiff(folder / f"z{i}.tif", TiffSpec(seed=i, byteorder=order, trailing=i, values="bits"))
    write_tiff(folder / "deep" / "z9.tif", TiffSpec(seed=9, gap=5))
    write_tiff(folder / "odd.tif", TiffSpec(height=7, width=9, seed=3))
    write_tiff(folder / "packed.tif", TiffSpec(seed=4, deflate=True))
    (folder / "Thumbs.db").write_bytes(bytes(range(256)) * 9)
    (folder / "deep" / "er" / "notes.txt").write_text("not a TIFF")
    (folder / "empty.tif").touch()
    return folder


def test_everything_in_a_folder_comes_back(mixed: Path, tmp_path: Path) -> None:
    planned = pack_folder(mixed, tmp_path / "day1.zarr.zip")
    assert planned.consolidated
    archive = tmp_path / "day1.zarr.zip"
    report = verify(archive)
    assert (report.whole, report.problems) == (True, ())
    assert len(report.members) == 10
    restore(archive, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(mixed)
    for member in report.members:
        with open_original(archive, member.name) as original:
            assert original.read() == (mixed / member.name).read_bytes()


def test_the_image_holds_the_planes_of_the_members_that_agree(mixed: Path, tmp_path: Path) -> None:
    pack_folder(mixed, tmp_path / "day1.zarr.zip")
    manifest, pixels = read_manifest(tmp_path / "day1.zarr.zip"), open_array(tmp_path / "day1.zarr.zip")
    listed = {m["relpath"]: m for m in manifest["members"] if m["pages"]}
    assert sorted(listed) == ["deep/z9.tif", "z0.tif", "z1.tif", "z2.tif", "z3.tif"]
    assert {m["byteorder"] for m in listed.values()} == {"<", ">"}
    for i in range(4):
        order = ">" if i % 2 else "<"
        spec = TiffSpec(seed=i, byteorder=order, trailing=i, values="bits")
        expected = write_tiff(tmp_path / "again.tif", spec).array
        (stored,) = stored_pages(pixels, manifest, listed[f"z{i}.tif"]["pages"])
        assert np.array_equal(stored, expected[0])


def test_what_was_understood_is_said_before_anything_is_written(mixed: Path, tmp_path: Path) -> None:
    (row,) = plan([mixed], tmp_path / "out", series=True)
    assert (row.mode, row.kind, row.members) == ("series", "series", 10)
    assert 0 < row.estimated_size < 10 * row.original_size + 100_000
    notes = "\n".join(row.notes)
    assert "empty.tif is empty" in notes
    assert "odd.tif is kept whole beside the image (other-shape-than-the-series)" in notes
    assert "packed.tif is kept whole beside the image (compressed)" in notes
    assert "(not-a-tiff)" in notes
    assert not (tmp_path / "out").exists()


def test_B04_an_empty_file_in_a_series(tmp_path: Path) -> None:
    files = numbered(tmp_path / "s", [1, 2, 3, 4])
    (tmp_path / "s" / "img_5.tif").touch()
    planned = pack_folder(tmp_path / "s", tmp_path / "s.zarr.zip")
    assert any("img_5.tif is empty" in note for note in planned.notes)
    assert open_array(tmp_path / "s.zarr.zip").shape[-3] == len(files)  # no plane is invented for it
    restore(tmp_path / "s.zarr.zip", tmp_path / "back")
    assert (tmp_path / "back" / "img_5.tif").stat().st_size == 0
    assert contents(tmp_path / "back") == contents(tmp_path / "s")


def test_files_that_do_not_agree_are_nested(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    (folder / "deep").mkdir(parents=True)
    for i in range(3):
        write_tiff(folder / f"p{i}.tif", TiffSpec(height=5 + i, width=6, seed=i))
    # names that a part, or the folder for unfinished parts, has as well
    (folder / "m0").write_bytes(b"not m0.zarr.zip")
    (folder / "m1").write_bytes(b"not m1.zarr.zip")
    (folder / "packing").write_bytes(b"nor a folder")
    (folder / "deep" / "empty").touch()
    os.utime(folder / "deep" / "empty", ns=(5, 978307201_123456789))
    planned = pack_folder(folder, tmp_path / "s.zarr")
    assert not planned.consolidated
    assert (tmp_path / "s.zarr").is_dir()
    found, quick = verify(tmp_path / "s.zarr"), verify(tmp_path / "s.zarr", quick=True)
    assert (found.whole, found.problems, len(found.members)) == (True, (), 7)
    assert (quick.whole, quick.problems) == (None, ())
    restored = restore(tmp_path / "s.zarr", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(folder)
    times = {path.relative_to(tmp_path / "back"): path.stat().st_mtime_ns for path in restored.files}
    assert times == {path: (folder / path).stat().st_mtime_ns for path in times}


def test_damage_in_a_nested_series_is_named_by_part_and_key(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(3):
        write_tiff(folder / f"p{i}.tif", TiffSpec(height=5 + i, width=6, seed=i))
    archive = tmp_path / "s.zarr"
    pack_folder(folder, archive)
    flip_stored_byte(archive / "m1.zarr.zip", "0/0/0/0")
    (archive / "Thumbs.db").write_bytes(b"x")
    text = (archive / ".decant" / "manifest.json").read_bytes()
    found = verify(archive)
    kinds = {problem.key: problem.kind for problem in found.problems}
    assert kinds["m1.zarr.zip/0/0/0/0"] == "damaged"
    assert kinds["Thumbs.db"] == "unexpected"
    assert {m.name: m.whole for m in found.members} == {"p0.tif": True, "p1.tif": False, "p2.tif": True}
    # one letter of a name: without the list of hashes nothing in a folder would tell
    (archive / ".decant" / "manifest.json").write_bytes(text.replace(b"p2.tif", b"q2.tif"))
    quick = {problem.key: problem.kind for problem in verify(archive, quick=True).problems}
    assert quick[".decant/manifest.json"] == "changed"
    (archive / ".decant" / "manifest.json").write_bytes(text)
    shutil.copy(folder / "p2.tif", archive / "m2.zarr.zip")  # the file itself where its archive was
    found = verify(archive)
    assert [problem.key for problem in found.problems if problem.kind == "damaged"][-1] == "m2.zarr.zip"
    assert not found.members[2].whole
    (archive / "m2.zarr.zip").unlink()
    gone = {problem.kind for problem in verify(archive, quick=True).problems if "m2" in problem.key}
    assert gone == {"missing", "damaged"}


def test_one_member_is_restored_without_touching_the_others(mixed: Path, tmp_path: Path) -> None:
    archive = tmp_path / "day1.zarr.zip"
    pack_folder(mixed, archive)
    relpaths = [member["relpath"] for member in read_manifest(archive)["members"]]
    for name in ("husk_0", "husk_1"):  # the others are not even readable
        flip_stored_byte(archive, f"{name}/0")
    whole = {member.name: member.whole for member in verify(archive).members}
    broken = [name for name, state in whole.items() if not state]
    assert len(broken) == 2
    for name in set(relpaths) - set(broken):
        report = restore(archive, tmp_path / "back", member=name)
        assert report.files == (tmp_path / "back" / name,)
        assert report.files[0].read_bytes() == (mixed / name).read_bytes()
    with pytest.raises(FormatError, match=broken[0]):
        restore(archive, tmp_path / "bad", member=broken[0])
    assert contents(tmp_path / "back").keys() == set(relpaths) - set(broken)
    with pytest.raises(UsageError, match="no member 'nothing'"):
        restore(archive, tmp_path / "back", member="nothing")


def test_a_member_by_command(mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack_folder(mixed, tmp_path / "day1.zarr.zip")
    words = ["restore", str(tmp_path / "day1.zarr.zip"), "-o", str(tmp_path / "back"), "--member"]
    assert main([*words, "deep/z9.tif"]) == 0
    assert contents(tmp_path / "back") == {"deep/z9.tif": (mixed / "deep" / "z9.tif").read_bytes()}
    assert main([*words, "z9.tif"]) == 2
    assert "`info` lists them" in capsys.readouterr().err


def test_B06_natural_order(tmp_path: Path) -> None:
    files = numbered(tmp_path / "s", list(range(1, 13)))
    shuffled = random.Random(3).sample(files, len(files))
    expected = [f"img_{n}.tif" for n in range(1, 13)]
    routes: dict[str, SeriesPlan | None] = {
        "folder": plan([tmp_path / "s"], series=True, estimate=False)[0].series,
        "shuffled list": plan(shuffled, series=True, estimate=False)[0].series,
        "reversed list": plan(files[::-1], series=True, estimate=False)[0].series,
        "python": plan_series(shuffled, tmp_path / "s"),
    }
    archives = []
    for number, (route, planned) in enumerate(routes.items()):
        assert planned is not None
        assert [member.relpath for member in planned.members] == expected, route
        (tmp_path / str(number)).mkdir()
        archive = pack_series(planned, tmp_path / str(number) / "s.zarr.zip").archive
        pixels = open_array(archive)
        planes = np.asarray(pixels).reshape(12, 6, 5)
        assert (planes == np.arange(1, 13)[:, None, None]).all(), route
        archives.append(archive.read_bytes())
        (tmp_path / str(number) / "s.zarr.zip").unlink()
    assert len(set(archives)) == 1


def test_B06_natural_order_across_folders(tmp_path: Path) -> None:
    for folder in ("t10", "t9", "t1"):
        numbered(tmp_path / "s" / folder, [1, 2, 10])
    (tmp_path / "s" / "a.txt").write_text("a folder without files of its own would be a tree of series")
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    by_folder = plan([tmp_path / "s"], series=True, estimate=False)[0].series
    by_list = plan(files, series=True, estimate=False)[0].series
    assert by_folder is not None
    assert by_list is not None
    names = [member.relpath for member in by_folder.members]
    assert names == ["a.txt", *(f"{t}/img_{n}.tif" for t in ("t1", "t9", "t10") for n in (1, 2, 10))]
    assert [member.relpath for member in by_list.members] == names


@pytest.mark.parametrize("odd", [{"img_2.tif"}, {"img_1.tif", "img_2.tif", "img_3.tif"}])
def test_a_member_that_does_not_come_back_as_planes_is_kept_whole(
    odd: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One odd member never costs the series; where all are odd, there is no image, and no loss either."""
    folder, target = tmp_path / "s", tmp_path / "s.zarr.zip"
    numbered(folder, [1, 2, 3])
    read_plane = Encoder._plane

    def wrong(self: Encoder, part: Part, layout: PageLayout) -> np.ndarray:
        return read_plane(self, part, layout) + (part.source.path.name in odd)

    monkeypatch.setattr(Encoder, "_plane", wrong)
    report = pack_series(pack_plan(folder), target)
    reasons = [member.get("reason") for member in info(target).facts["members"]]
    names = ["img_1.tif", "img_2.tif", "img_3.tif"]
    assert reasons == ["reconstruction-differs" if name in odd else None for name in names]
    assert any("kept whole beside the image (reconstruction-differs)" in note for note in report.notes)
    assert verify(target).whole
    assert verify(target, quick=True).ok
    restore(target, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(folder)
    assert recover(target, tmp_path / "recovered") == (0, "")
    assert contents(tmp_path / "recovered") == contents(folder)
    with open_original(target, "img_2.tif") as file:
        assert file.read() == (folder / "img_2.tif").read_bytes()
    if len(odd) < 3:
        assert sorted(np.unique(open_array(target))) == [1, 3]
    else:
        assert report.shape == info(target).shape == ()


def test_a_member_that_never_comes_back_costs_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, target = tmp_path / "s", tmp_path / "s.zarr.zip"
    numbered(folder, [1, 2])
    (folder / "notes.txt").write_bytes(b"some words")
    add_rest = Encoder._add_rest

    def lose(
        self: Encoder, done: Any, part: Part, number: int, ranges: tuple[np.ndarray, np.ndarray]
    ) -> None:
        moved = (
            ranges[0] + (part.source.path.suffix == ".txt"),
            ranges[1] - (part.source.path.suffix == ".txt"),
        )
        add_rest(self, done, part, number, moved)

    monkeypatch.setattr(Encoder, "_add_rest", lose)
    with pytest.raises(IntegrityError, match=r"notes\.txt"):
        pack_series(pack_plan(folder), target)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_part_of_a_nested_series_opens_without_the_others(tmp_path: Path) -> None:
    folder, target = tmp_path / "s", tmp_path / "s.zarr"
    folder.mkdir()
    for number in range(3):
        (folder / f"note{number}.txt").write_bytes(b"words %d" % number)
    pack_folder(folder, target)
    for part in ("m0.zarr.zip", "m2.zarr.zip"):
        (target / part).write_bytes(b"spoilt")
    with open_original(target, "note1.txt") as file:
        assert file.read() == b"words 1"


@posix
def test_B06_3000_files_under_64_open_files(tmp_path: Path) -> None:
    folder = make_many(tmp_path / "s", 3000)
    seconds = under_64_files(folder, tmp_path / "s.zarr.zip", tmp_path / "back")
    assert seconds < 30  # of the processor; some 9 s on an idle machine
    assert open_array(tmp_path / "s.zarr.zip").shape[-3:] == (3000, 8, 8)
    assert contents(tmp_path / "back") == contents(folder)


@posix
def test_B06_nested_parts_under_64_open_files(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(150):
        (folder / f"note{i}.txt").write_bytes(b"%d" % i)
    under_64_files(folder, tmp_path / "s.zarr", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(folder)


def test_archives_in_the_folder_are_no_members(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    numbered(folder, [1, 2])
    pack_folder(folder, folder / "old.zarr.zip")
    (folder / "other.zarr").mkdir()
    (folder / "other.zarr" / ".zgroup").write_text("{}")
    (folder / ".img.000000-1.00000000.partial").write_bytes(b"unfinished")
    (folder / "notes.partial").write_bytes(b"the user's own")
    planned = plan([folder], series=True, estimate=False)[0].series
    assert planned is not None
    assert [member.relpath for member in planned.members] == ["img_1.tif", "img_2.tif", "notes.partial"]
    assert any("old.zarr.zip, other.zarr" in note for note in planned.notes)


def test_the_archive_of_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(tmp_path / "day1", [1, 2])
    numbered(tmp_path / "day1" / "deep", [1, 2])
    monkeypatch.chdir(tmp_path / "day1")
    for given in (".", "deep/.."):
        (row,) = plan([given], series=True, estimate=False)
        assert Path(os.path.abspath(row.target)) == tmp_path / "day1.zarr.zip"
        assert row.relative == "day1"
    assert plan(["deep"], series=True, estimate=False)[0].target == Path("deep.zarr.zip")
    assert main(["pack", "--series", ".", "--quiet"]) == 0
    assert verify(tmp_path / "day1.zarr.zip").whole
    assert main(["pack", "--series", ".", "--quiet"]) == 0  # nothing was put into the folder meanwhile
    assert sorted(contents(tmp_path / "day1")) == [
        "deep/img_1.tif", "deep/img_2.tif", "img_1.tif", "img_2.tif",
    ]  # fmt: skip


def test_one_stray_series_does_not_stop_the_others(tmp_path: Path) -> None:
    numbered(tmp_path / "a", [1, 2])
    numbered(tmp_path / "b", [1, 2])
    (tmp_path / "b" / "link.tif").symlink_to("img_1.tif")
    rows = plan([tmp_path / "a", tmp_path / "b"], tmp_path / "out", series=True)
    modes = {row.source.name: row.mode for row in rows}
    assert modes == {"a": "series", "b": "failed"}
    assert any("links are not archived" in (row.reason or "") for row in rows)
    report = pack_batch(rows)
    assert {row.source.name: row.state for row in report.rows} == {"a": "packed", "b": "failed"}


def test_two_series_of_one_name_do_not_meet(tmp_path: Path) -> None:
    numbered(tmp_path / "a" / "day", [1, 2])
    numbered(tmp_path / "b" / "day", [3, 4])
    rows = plan([tmp_path / "a" / "day", tmp_path / "b" / "day"], tmp_path / "out", series=True)
    assert [row.mode for row in rows] == ["series", "failed"]
    assert "different folders" in (rows[1].reason or "")


def test_a_member_that_changes_is_noticed(tmp_path: Path) -> None:
    files = numbered(tmp_path / "s", [1, 2, 3])
    planned = plan_series(files, tmp_path / "s")
    files[1].write_bytes(files[1].read_bytes() + b"more")
    with pytest.raises(SourceChanged, match=r"img_2\.tif"):
        pack_series(planned, tmp_path / "s.zarr.zip")
    for i, path in enumerate(files):
        path.write_bytes(b"text %d" % i)
    nested = plan_series(files, tmp_path / "s")
    files[2].write_bytes(b"longer than it was")
    with pytest.raises(SourceChanged, match=r"img_3\.tif"):
        pack_series(nested, tmp_path / "s.zarr")
    files[2].unlink()
    with pytest.raises(UsageError, match="does not exist"):
        pack_series(nested, tmp_path / "s.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


@pytest.mark.parametrize("nested", [False, True])
def test_progress_and_cancel_of_a_series(tmp_path: Path, nested: bool) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(6):
        write_tiff(folder / f"p{i}.tif", TiffSpec(height=300 + i * nested, width=400, seed=i))
    planned = plan_series(list(folder.iterdir()), folder)
    assert planned.consolidated != nested
    target = tmp_path / ("s.zarr" if nested else "s.zarr.zip")
    last: dict[str, int] = {}

    def progress(event: Progress) -> None:
        assert event.total == planned.size
        assert last.get(event.stage, 0) <= event.done <= event.total
        last[event.stage] = event.done

    pack_series(planned, target, progress=progress)
    assert last == {"pack": planned.size, "verify": planned.size}
    before = contents(tmp_path)
    token = CancelToken()

    def stop(event: Progress) -> None:
        if event.stage == "verify" or event.done > planned.size // 2:
            token.cancel()

    begun = time.monotonic()
    with pytest.raises(Cancelled):
        pack_series(planned, target, overwrite=True, progress=stop, cancel=token)
    assert time.monotonic() - begun < 10
    assert contents(tmp_path) == before  # the older archive is there, and nothing beside it


def test_a_nested_series_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(2):
        write_tiff(folder / f"p{i}.tif", TiffSpec(height=5 + i, width=6, seed=i))
    pack_folder(folder, tmp_path / "s.zarr")
    old = contents(tmp_path / "s.zarr")
    write_tiff(folder / "p2.tif", TiffSpec(height=9, width=6))
    planned = plan_series(list(folder.iterdir()), folder)
    with pytest.raises(TargetExists):
        pack_series(planned, tmp_path / "s.zarr")
    rename, calls = os.rename, [0]

    def killed(source: Path, target: Path) -> None:
        # as a kill between the two renames would leave it: the old archive under a name that all see
        if Path(target) == tmp_path / "s.zarr":
            raise OSError(5, "Input/output error")
        calls[0] += 1
        rename(source, target)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(StorageError):
        pack_series(planned, tmp_path / "s.zarr", overwrite=True)
    monkeypatch.undo()
    (aside,) = tmp_path.glob("s.zarr.replaced-*")
    assert contents(aside) == old
    assert verify(aside).whole
    aside.rename(tmp_path / "s.zarr")
    pack_series(planned, tmp_path / "s.zarr", overwrite=True)
    assert len(info(tmp_path / "s.zarr").members) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "s.zarr"]


def test_C03_times_of_folders_in_a_series(tmp_path: Path) -> None:
    numbered(tmp_path / "s", [1, 2])
    numbered(tmp_path / "s" / "deep" / "er", [1, 2])
    for name, when in (("deep/er", 978307201_123456789), ("deep", 5_000_000_001)):
        os.utime(tmp_path / "s" / name, ns=(when, when))
    wanted = {name: (tmp_path / "s" / name).stat().st_mtime_ns for name in ("deep", "deep/er")}
    pack_folder(tmp_path / "s", tmp_path / "s.zarr.zip")
    restore(tmp_path / "s.zarr.zip", tmp_path / "back")
    assert {name: (tmp_path / "back" / name).stat().st_mtime_ns for name in wanted} == wanted
    shutil.rmtree(tmp_path / "back")
    (tmp_path / "back" / "deep").mkdir(parents=True)
    os.utime(tmp_path / "back" / "deep", ns=(7, 7))
    restore(tmp_path / "s.zarr.zip", tmp_path / "back")
    assert (tmp_path / "back" / "deep").stat().st_mtime_ns != wanted[
        "deep"
    ]  # a folder that was there already


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are no text")
@pytest.mark.parametrize("nested", [False, True])
def test_names_that_are_not_utf8_in_a_series(tmp_path: Path, nested: bool) -> None:
    folder = tmp_path / os.fsdecode(b"s\xe9rie")
    (folder / os.fsdecode(b"jour\xff")).mkdir(parents=True)
    (folder / "a.txt").write_text("beside")
    for i in range(3):
        name = os.fsdecode(b"jour\xff/p 100%% %d.tif" % i)
        write_tiff(folder / name, TiffSpec(height=5 + i * nested, width=6, seed=i))
    (row,) = plan([folder], tmp_path / "out", series=True)
    assert row.series is not None
    assert row.series.consolidated != nested
    archive = pack_series(row.series, row.target).archive
    assert verify(archive).whole
    restore(archive, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(folder)
    name = os.fsdecode(b"jour\xff/p 100% 1.tif")
    assert restore(archive, tmp_path / "one", member=name).files == (tmp_path / "one" / name,)
    assert [row.state for row in pack_batch([row]).rows] == ["skipped"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tif", "a.tif"),
        ("aux.tif", "%61ux.tif"),
        ("deep/COM1", "deep/%43OM1"),
        ("x. ", "x.%20"),
        ("100%.", "100%25%2E"),
        ("a:b?.tif", "a%3Ab%3F.tif"),
        ("auxiliary.tif", "auxiliary.tif"),
    ],
)
def test_C06_names_that_windows_cannot_hold(name: str, expected: str) -> None:
    from urllib.parse import unquote

    from napari_decant.archive._names import system_name

    assert system_name(name, windows=True) == expected
    assert system_name(name, windows=False) == name
    if expected != name:
        assert unquote(expected) == name  # nothing is lost


def test_C06_a_name_too_long_is_refused_before_the_work(tmp_path: Path) -> None:
    made = write_tiff(tmp_path / f"{'x' * 246}.tif", TiffSpec(pages=2))
    events: list[Progress] = []
    with pytest.raises(StorageError, match="too long"):
        pack(made.path, progress=events.append)
    assert events == []
    deep = tmp_path / "/".join(["y" * 60] * 5)
    numbered(deep, [1, 2])
    (tmp_path / ("y" * 60) / "a.txt").write_text("beside")
    planned = pack_folder(tmp_path / ("y" * 60), tmp_path / "deep.zarr.zip")
    assert max(len(member.relpath) for member in planned.members) > 240
    restore(tmp_path / "deep.zarr.zip", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tmp_path / ("y" * 60))


def test_a_folder_that_cannot_be_read_is_not_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(tmp_path / "s" / "locked", [1])
    numbered(tmp_path / "s", [2, 3])
    scandir: Callable[..., object] = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match="no permission for reading"):
        plan([tmp_path / "s"], series=True)
    rows = plan([tmp_path / "s"])
    assert [row.mode for row in rows] == ["failed", "byte-exact", "byte-exact"]
    assert "locked" in (rows[0].reason or "")
