"""A tree is packed whatever happens: it goes on after failures, resumes, reports, deletes what is proved."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.damage import flip_stored_byte
from tests.support.tiffwriter import TiffSpec, write_tiff
from tests.support.working import Forgetful, die_after_marking, die_when_done

from napari_decant.archive import (
    BatchReport,
    BatchRow,
    PlanRow,
    delete_sources,
    find_leftovers,
    pack_batch,
    plan,
    remove_leftovers,
    restore,
    verify,
    write_reports,
)
from napari_decant.archive import _batch as batch
from napari_decant.archive import _spread as spread
from napari_decant.cli import main
from napari_decant.errors import Cancelled, UnsupportedOperation
from napari_decant.progress import CancelToken, Progress

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are no text")
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def make_tree(folder: Path, count: int = 5, **size: int) -> dict[str, bytes]:
    """TIFFs in three folders, each with other pixels."""
    for i in range(count):
        where = folder / ["", "day1", "day1/night"][i % 3]
        where.mkdir(parents=True, exist_ok=True)
        write_tiff(where / f"p{i}.tif", TiffSpec(pages=2, seed=i, trailing=i, **size))
    return contents(folder)


def packed(folder: Path, out: Path, **options: Any) -> BatchReport:
    return pack_batch(plan([folder], out, estimate=False), **options)


@pytest.fixture
def always_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use processes also for little work."""
    monkeypatch.setattr(batch, "_SPREAD_BYTES", 0)


def states(report: BatchReport) -> dict[str, str]:
    return {row.relative: row.state for row in report.rows}


def test_the_tree_is_kept_and_comes_back(tmp_path: Path) -> None:
    originals = make_tree(tmp_path / "in")
    report = packed(tmp_path / "in", tmp_path / "out")
    assert states(report) == dict.fromkeys(originals, "packed")
    assert sorted(contents(tmp_path / "out")) == sorted(f"{name}.zarr.zip" for name in originals)
    assert main(["restore", str(tmp_path / "out"), "-o", str(tmp_path / "back"), "--quiet"]) == 0
    assert contents(tmp_path / "back") == originals
    assert contents(tmp_path / "in") == originals
    assert main(["verify", str(tmp_path / "out"), "--against", str(tmp_path / "in"), "--quiet"]) == 0


def test_what_is_in_no_archive_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(tmp_path / "in", 2)
    (tmp_path / "in" / "day1" / "notes.txt").write_text("kept")
    (tmp_path / "in" / "Thumbs.db").write_bytes(b"nobody misses it")
    run = ["pack", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--quiet"]
    for more in (["--dry-run"], [], []):  # the last one finds all packed
        assert main([*run, *more]) == 0
        assert "1 other file is in no archive (notes.txt)" in capsys.readouterr().out
    assert main([*run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == [str(tmp_path / "in" / "day1" / "notes.txt")]
    assert main(["pack", str(tmp_path / "in"), "--series", "-o", str(tmp_path / "all"), "--quiet"]) == 0
    assert "no archive" not in capsys.readouterr().out
    above = tmp_path / "above"
    shutil.move(tmp_path / "in", above / "plate")
    (above / "methods").mkdir()
    (above / "methods" / "protocol.pdf").write_bytes(b"no image here or below")
    assert main(["pack", str(above), "--series", "-o", str(tmp_path / "tree"), "--quiet"]) == 0
    assert "1 other file is in no archive (protocol.pdf)" in capsys.readouterr().out


POOLS = [
    pytest.param(lambda: ThreadPoolExecutor(2), id="threads"),
    pytest.param(
        lambda: ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")),
        id="spawned processes",
    ),
]


@pytest.mark.parametrize("pool", POOLS)
def test_any_executor_packs(tmp_path: Path, pool: Callable[[], Executor]) -> None:
    originals = make_tree(tmp_path / "in")
    seen: list[Progress] = []
    with pool() as executor:
        report = packed(tmp_path / "in", tmp_path / "out", executor=executor, progress=seen.append)
    assert states(report) == dict.fromkeys(originals, "packed")
    assert all(verify(row.archive).whole for row in report.rows)
    here = packed(tmp_path / "in", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "out")
    assert {row.relative: row.files for row in here.rows} == {row.relative: row.files for row in report.rows}
    done = [event.done for event in seen]
    assert done == sorted(done)
    total = sum(map(len, originals.values()))
    assert (seen[-1].done, seen[-1].total) == (total, total)


def test_B12_progress_is_full_only_after_verification(tmp_path: Path) -> None:
    originals = make_tree(tmp_path / "in")
    total = sum(map(len, originals.values()))
    seen: list[tuple[int, int]] = []

    def progress(event: Progress) -> None:
        assert (event.stage, event.total) == ("pack", total)
        seen.append((event.done, len(list((tmp_path / "out").rglob("*.zarr.zip")))))

    packed(tmp_path / "in", tmp_path / "out", progress=progress)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (total, len(originals) - 1)  # the last event comes just before the last rename
    halves = [done for done, finished in seen if finished == 0]
    assert max(halves) <= len(originals["p0.tif"])


def test_it_goes_on_after_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    originals = make_tree(tmp_path / "in")
    rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)
    (tmp_path / "in" / "p3.tif").unlink()  # between the look and the work
    (tmp_path / "in" / "day1" / "p1.tif").write_bytes(b"no TIFF any more, which is no obstacle")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "p0.tif.zarr.zip").write_bytes(b"somebody else's file")
    pack_file = spread.pack

    def odd(source: Path, *args: Any, **options: Any) -> Any:
        if source.name == "p2.tif":
            raise KeyError("a fault of the program")
        return pack_file(source, *args, **options)

    monkeypatch.setattr(spread, "pack", odd)
    report = pack_batch(rows)
    assert states(report) == {
        "p0.tif": "failed", "p3.tif": "failed", "day1/night/p2.tif": "failed",
        "day1/p1.tif": "packed", "day1/p4.tif": "packed",
    }  # fmt: skip
    messages = {row.relative: row.message for row in report.rows}
    assert "is no whole archive" in messages["p0.tif"]
    assert "does not exist" in messages["p3.tif"]
    assert "unexpected KeyError" in messages["day1/night/p2.tif"]
    assert (tmp_path / "out" / "p0.tif.zarr.zip").read_bytes() == b"somebody else's file"
    assert report.exit_code == 2
    assert "3 failed" in report.sentence()
    assert len(originals) == 5


def test_packed_and_unchanged_is_skipped(tmp_path: Path) -> None:
    originals = make_tree(tmp_path / "in")
    packed(tmp_path / "in", tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.zip")}
    again = packed(tmp_path / "in", tmp_path / "out")
    assert states(again) == dict.fromkeys(originals, "skipped")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.zip")} == before
    assert {name: size for row in again.rows for name, _, size in row.files}.keys() == {
        Path(name).name for name in originals
    }
    changed, touched = tmp_path / "in" / "p0.tif", tmp_path / "in" / "day1" / "p1.tif"
    changed.write_bytes(changed.read_bytes() + b"x")
    os.utime(touched, ns=(1, 1))
    write_tiff(tmp_path / "in" / "new.tif", TiffSpec())
    found = states(packed(tmp_path / "in", tmp_path / "out"))
    assert found.pop("new.tif") == "packed"
    assert found == dict.fromkeys(originals, "skipped") | {"p0.tif": "failed", "day1/p1.tif": "failed"}
    replaced = packed(tmp_path / "in", tmp_path / "out", overwrite=True)
    assert set(states(replaced).values()) == {"packed"}


@pytest.mark.parametrize("nested", [False, True])
def test_a_series_is_skipped_when_unchanged(tmp_path: Path, nested: bool) -> None:
    folder = tmp_path / "in" / "s"
    folder.mkdir(parents=True)
    for i in range(3):
        write_tiff(folder / f"p{i}.tif", TiffSpec(seed=i, height=5 + nested * i, width=6))

    def run() -> BatchReport:
        return pack_batch(plan([folder], tmp_path / "out", series=True, estimate=False))

    first, again = run(), run()
    assert ([row.state for row in first.rows], [row.state for row in again.rows]) == (["packed"], ["skipped"])
    assert again.rows[0].archive_size == first.rows[0].archive_size > 0
    assert again.rows[0].files == first.rows[0].files
    (folder / "p1.tif").touch()
    assert [row.state for row in run().rows] == ["failed"]


def tool(folder: Path, sums: Path) -> None:
    """The real sha256sum finds every original in place."""
    program = shutil.which("sha256sum")
    if program is None:
        pytest.skip("there is no sha256sum here")
    command = [program, "--check", "--strict", str(sums)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(b": OK") == len([path for path in folder.rglob("*") if path.is_file()])


def test_report_and_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    originals = make_tree(tmp_path / "in")
    (tmp_path / "in" / "photo.tif").write_bytes(b"no TIFF")
    (tmp_path / "in" / "nothing.tif").touch()
    words = ["pack", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--json"]
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert printed["rows"] == report["rows"]
    rows = {row["relative"]: row for row in report["rows"]}
    assert len(rows) == len(originals) + 2
    assert (rows["photo.tif"]["mode"], rows["photo.tif"]["reason"]) == ("verbatim", "not-a-tiff")
    assert (rows["nothing.tif"]["mode"], rows["nothing.tif"]["reason"]) == ("verbatim", "empty-file")
    assert all(Path(row["archive"]).stat().st_size == row["archive_size"] for row in rows.values())
    assert main(["restore", str(tmp_path / "out"), "-o", str(tmp_path / "back"), "--quiet"]) == 0
    tool(tmp_path / "back", tmp_path / "out" / "SHA256SUMS")
    damaged = tmp_path / "back" / "p0.tif"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with pytest.raises(AssertionError, match="FAILED"):
        tool(tmp_path / "back", tmp_path / "out" / "SHA256SUMS")


@pytest.mark.parametrize("name", ["report.json", "SHA256SUMS"])
def test_reports_are_not_written_over_files_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Without ``-o`` they lie in the folder of the originals, where such names are common."""
    make_tree(tmp_path, 2)
    theirs = tmp_path / name
    theirs.write_text("00" * 32 + "  p0.tif\n")
    for _ in range(2):
        assert main(["pack", str(tmp_path)]) == 0
        assert "decant-report.json" in capsys.readouterr().err
        assert theirs.read_text() == "00" * 32 + "  p0.tif\n"
        reports = {path.name for path in tmp_path.iterdir() if path.suffix == ".json" or "SUMS" in path.name}
        assert reports == {name, "decant-report.json", "decant-SHA256SUMS"}
    theirs.unlink()
    assert main(["pack", str(tmp_path)]) == 0  # replaces nothing but its own, without a word
    assert main(["pack", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    assert "p0.tif" in (tmp_path / "SHA256SUMS").read_text()


@pytest.mark.parametrize("failing", [False, True])
def test_sums_of_series_match_their_restored_places(tmp_path: Path, failing: bool) -> None:
    for name in ("day1", "day2"):
        make_tree(tmp_path / "in" / name, 2)
    if failing:  # what is left is one archive, which must still be restored to the place in the list
        (tmp_path / "in" / "day2" / "link").symlink_to("p0.tif")
    given = [str(tmp_path / "in" / name) for name in ("day1", "day2")]
    main(["pack", "--series", *given, "-o", str(tmp_path / "out"), "--quiet"])
    assert main(["restore", str(tmp_path / "out"), "-o", str(tmp_path / "back"), "--quiet"]) == 0
    tool(tmp_path / "back", tmp_path / "out" / "SHA256SUMS")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["day1", "day2"][: 2 - failing]


@linux
def test_sums_of_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "in" / os.fsdecode(b"d\xe9j\xe0 vu")
    folder.mkdir(parents=True)
    names = ["line\nbreak.tif", "return\rhere.tif", " spaces .tif", "*star.tif", "100%.tif", "\u00e9.tif"]
    for i, name in enumerate([*names, os.fsdecode(b"caf\xe9 100%.tif")]):
        write_tiff(folder / name, TiffSpec(seed=i))
    write_tiff(folder / "back\\slash.tif", TiffSpec())
    report = packed(tmp_path / "in", tmp_path / "out")
    assert [row.message for row in report.rows if row.state == "failed"] == [
        "the name 'back\\\\slash.tif' contains a backslash, so not every system could restore it; rename it"
    ]
    _, sums = write_reports(report, tmp_path / "out")
    assert main(["restore", str(tmp_path / "out"), "-o", str(tmp_path / "back"), "--quiet"]) == 0
    (folder / "back\\slash.tif").unlink()
    assert contents(tmp_path / "back") == contents(tmp_path / "in")
    tool(tmp_path / "back", sums)
    json.loads((tmp_path / "out" / "report.json").read_text())


def test_sums_of_a_name_with_a_backslash(tmp_path: Path) -> None:
    # no file of such a name is packed; an archive of another program may hold one in its report
    row = BatchRow(tmp_path, tmp_path, "packed", files=(("a\\b\nc", "0" * 64, 1),), relative="x")
    _, sums = write_reports(BatchReport((row,), 0.0), tmp_path)
    assert sums.read_bytes() == b"\\" + b"0" * 64 + b"  a\\\\b\\nc\n"


@posix
@pytest.mark.usefixtures("always_spread")
def test_a_process_that_dies_costs_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    originals = make_tree(tmp_path / "in", 6)
    rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)

    def submit_bad(self: ProcessPoolExecutor, fn: Any, task: Any, *args: Any) -> Any:
        # the file that brings its process down, each time it is tried
        bad = task.row.source.name == "p3.tif"
        return submit(self, *((die_after_marking, *args) if bad else (fn, task, *args)))

    submit = ProcessPoolExecutor.submit
    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit_bad)
    report = pack_batch(rows, workers=2)
    assert states(report) == dict.fromkeys(originals, "packed") | {"p3.tif": "failed"}
    (message,) = [row.message for row in report.rows if row.state == "failed"]
    assert "the process that packed it ended" in message
    assert all(verify(row.archive).whole for row in report.rows if row.state == "packed")
    monkeypatch.undo()
    assert set(states(pack_batch(rows)).values()) == {"packed", "skipped"}


@posix
@pytest.mark.usefixtures("always_spread")
def test_an_answer_that_is_lost_with_its_process_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    originals = make_tree(tmp_path / "in", 4)
    rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)

    def submit_lost(self: ProcessPoolExecutor, fn: Any, task: Any, *args: Any) -> Any:
        lost = task.row.source.name == "p1.tif"
        return submit(self, *((die_when_done, fn, task, *args) if lost else (fn, task, *args)))

    submit = ProcessPoolExecutor.submit
    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit_lost)
    report = pack_batch(rows, workers=2)
    assert states(report) == dict.fromkeys(originals, "packed")
    assert all(row.files and row.archive_size == row.archive.stat().st_size for row in report.rows)
    assert all(verify(row.archive).whole for row in report.rows)


@pytest.mark.usefixtures("always_spread")
@pytest.mark.parametrize("where", ["processes", "threads", "cluster", "here"])
def test_cancel_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    make_tree(tmp_path / "in", 6, height=1500, width=1600)
    rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)
    token, told = CancelToken(), list[float]()
    if where == "here":
        monkeypatch.setattr(batch, "_SPREAD_BYTES", 1 << 40)

    def progress(event: Progress) -> None:
        if event.done > 0.3 * event.total and not told:
            told.append(time.monotonic())
            token.cancel()

    pools: dict[str, Callable[[], Executor]] = {
        "threads": lambda: ThreadPoolExecutor(2),
        "cluster": lambda: Forgetful(2),
    }
    executor = pools[where]() if where in pools else None
    with pytest.raises(Cancelled, match="nothing unfinished"):
        pack_batch(rows, workers=2, executor=executor, progress=progress, cancel=token)
    assert time.monotonic() - told[0] < 2
    before = contents(tmp_path / "out")
    if executor is not None:
        executor.shutdown()  # waits for what is still going on: nothing
    assert contents(tmp_path / "out") == before
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert 0 < len(left) < 6
    assert all(verify(path).whole for path in left)
    assert find_leftovers(tmp_path / "out", deep=True) == []
    assert set(states(pack_batch(rows)).values()) == {"packed", "skipped"}


RUN = """
import sys
from pathlib import Path
if __name__ == "__main__":
    from napari_decant.archive import _batch, pack_batch, plan
    _batch._SPREAD_BYTES = 0
    rows = plan([Path(sys.argv[1])], Path(sys.argv[2]), estimate=False)
    print("begun", flush=True)
    pack_batch(rows, workers=2)
    print("done", flush=True)
"""


def start(folder: Path, script: Path, *words: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@posix
def test_B11_resume_after_the_whole_batch_was_killed(tmp_path: Path) -> None:
    originals = make_tree(tmp_path / "in", 24, height=900, width=1000)
    out, script = tmp_path / "out", tmp_path / "run.py"
    script.write_text(RUN)
    seeded = random.Random(11)
    for _ in range(2):
        process = start(tmp_path, script, tmp_path / "in", out)
        begun = len(list(out.rglob("*.zarr.zip")))
        wait_until(lambda n=begun: len(list(out.rglob("*.zarr.zip"))) > n)  # type: ignore[misc]
        assert process.poll() is None
        workers = psutil.Process(process.pid).children(recursive=True)
        time.sleep(seeded.random() * 0.2)
        process.kill()
        process.communicate()
        wait_until(lambda w=workers: not psutil.wait_procs(w, timeout=0.1)[1])  # type: ignore[misc]
        finished = list(out.rglob("*.zarr.zip"))
        assert all(verify(path).whole for path in finished)
    assert contents(tmp_path / "in") == originals
    report = packed(tmp_path / "in", out)
    assert set(states(report).values()) <= {"packed", "skipped"}
    assert report.count("skipped") >= 2
    left = find_leftovers(out, deep=True)
    assert left  # at least the folder through which progress travelled
    assert remove_leftovers(left) == []
    assert sorted(contents(out)) == sorted(f"{name}.zarr.zip" for name in originals)


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_ctrl_c_reaches_all_processes_and_ends_in_one_sentence(
    tmp_path: Path, number: signal.Signals
) -> None:
    make_tree(tmp_path / "in", 8, height=1500, width=1600)
    out, script = tmp_path / "out", tmp_path / "run.py"
    script.write_text(
        RUN.replace('print("begun", flush=True)\n    pack_batch(rows, workers=2)', "").replace(
            "rows = plan",
            'from napari_decant.cli import main; print("begun", flush=True); '
            'sys.exit(main(["pack", sys.argv[1], "-o", sys.argv[2], "--workers", "2"])); rows = plan',
        )
    )
    process = start(tmp_path, script, tmp_path / "in", out)
    wait_until(lambda: list(out.rglob("*.zarr.zip")))
    os.killpg(process.pid, number)
    begun = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 5
    assert process.returncode == 130
    assert err.startswith("napari-decant: cancelled, nothing unfinished was left behind")
    assert err.count("\n") == 1
    left = [path for path in out.rglob("*") if path.is_file()]
    assert all(verify(path).whole for path in left)
    assert find_leftovers(out, deep=True) == []


@posix
def test_B11_leftovers_are_offered_and_cleaned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(tmp_path / "in", 3)
    out = tmp_path / "out"
    out.mkdir()
    gone = subprocess.run([sys.executable, "-c", HALF, str(out)], capture_output=True, text=True)
    assert gone.returncode == -signal.SIGKILL, gone.stderr
    dead = [path.name for path in out.iterdir()]
    assert len(dead) == 2
    running = subprocess.Popen([sys.executable, "-c", HALF.replace("os.kill", "input() #"), str(out)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "written\n"
    others = [".mine.partial", "report.partial", ".x.zarr.12345678.partial"]
    for name in others:
        (out / name).write_bytes(b"the user's own")
    foreign = out / ".a.tif.zarr.zip.ffffff-1.01234567.partial"  # of another machine, written to just now
    foreign.write_bytes(b"x")
    try:
        assert sorted(left.path.name for left in find_leftovers(out)) == sorted(dead)
        assert main(["pack", str(tmp_path / "in"), "-o", str(out)]) == 0
        err = capsys.readouterr().err
        assert f"2 unfinished files of an earlier run in {out}" in err
        assert "`napari-decant clean` removes them" in err
        assert main(["clean", str(tmp_path), "--dry-run"]) == 0
        assert sorted(left.path.name for left in find_leftovers(out)) == sorted(dead)
        capsys.readouterr()
        assert main(["clean", str(tmp_path), "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert sorted(result["removed"]) == sorted(str(out / name) for name in dead)
        assert len(list(out.glob(".*half*"))) == 2  # those of the program that still runs
        assert all((out / name).exists() for name in [*others, foreign.name])
    finally:
        running.communicate("\n")
    os.utime(foreign, (1, 1))  # nobody has touched it for years
    assert foreign in [left.path for left in find_leftovers(out)]
    (changed,) = [left for left in find_leftovers(out) if left.path == foreign]
    foreign.write_bytes(b"somebody writes to it after all")
    assert remove_leftovers([changed]) == [(foreign, "it changed since it was found")]
    assert foreign.exists()
    assert main(["clean", str(tmp_path / "nothing")]) == 2


HALF = """
import os, sys
from pathlib import Path
from napari_decant.stores._atomic import AtomicFile
from napari_decant.stores._partial import partial_path
file = AtomicFile(Path(sys.argv[1]) / "half.tif.zarr.zip")
file.file.write(b"half" * 1000)
file.file.flush()
folder = partial_path(Path(sys.argv[1]) / "half.zarr")
folder.mkdir()
(folder / "m0.zarr.zip").write_bytes(b"part")
print("written", flush=True)
os.kill(os.getpid(), 9)
"""


def test_B11_a_bare_relative_name_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    originals = make_tree(tmp_path / "data" / "in", 3)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["pack", "../data/in", "-o", "archives"]) == 0
    shown = [line.split(": ")[0] for line in capsys.readouterr().out.splitlines() if ".zarr.zip: " in line]
    assert len(shown) == len(originals)
    assert all(verify(path).whole for path in shown)  # what is shown leads to the finished file
    assert sorted(path.name for path in Path().iterdir()) == ["archives"]
    assert contents(tmp_path / "data" / "in") == originals


@pytest.mark.parametrize("at", [0.3, 0.7])
def test_B11_cancel_at_30_percent(tmp_path: Path, at: float) -> None:
    from napari_decant import pack

    path = write_tiff(tmp_path / "a.tif", TiffSpec(pages=20, height=500, width=500)).path
    before = path.read_bytes()
    token = CancelToken()

    def progress(event: Progress) -> None:
        if event.done >= at * event.total:
            token.cancel()

    with pytest.raises(Cancelled):
        pack(path, tmp_path / "out", progress=progress, cancel=token)
    assert list((tmp_path / "out").iterdir()) == []
    assert path.read_bytes() == before


# --- two rows, one archive --------------------------------------------------------------------------------


def test_two_files_of_one_name_do_not_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        make_tree(tmp_path / name, 1, height=10 + ord(name))
    words = [
        "pack",
        str(tmp_path / "a" / "p0.tif"),
        str(tmp_path / "b" / "p0.tif"),
        "-o",
        str(tmp_path / "out"),
    ]
    assert main([*words, "--overwrite"]) == 2
    assert "would become" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").glob("*.zip")] == ["p0.tif.zarr.zip"]
    restored = restore(tmp_path / "out" / "p0.tif.zarr.zip", tmp_path / "back").files[0]
    assert restored.read_bytes() == (tmp_path / "a" / "p0.tif").read_bytes()


def test_two_archives_of_one_name_are_not_restored_over_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        make_tree(tmp_path / name, 1, height=10 + ord(name))
        packed(tmp_path / name, tmp_path / f"{name}-out")
    archives = [str(tmp_path / f"{name}-out" / "p0.tif.zarr.zip") for name in ("a", "b")]
    assert main(["restore", *archives, "-o", str(tmp_path / "back"), "--overwrite"]) == 2
    assert "belong in one place" in capsys.readouterr().err
    assert not (tmp_path / "back").exists()
    assert main(["verify", *archives, "--quiet"]) == 0


# --- deleting originals -----------------------------------------------------------------------------------


def rows_of(tmp_path: Path, count: int = 4) -> tuple[list[PlanRow], tuple[BatchRow, ...]]:
    make_tree(tmp_path / "in", count)
    planned = plan([tmp_path / "in"], tmp_path / "out", estimate=False)
    return planned, pack_batch(planned).rows


def test_only_what_is_proved_is_deleted(tmp_path: Path) -> None:
    _, rows = rows_of(tmp_path, 6)
    by_name = {row.source.name: row for row in rows}
    flip_stored_byte(by_name["p0.tif"].archive, "0/1/0/0")
    changed = by_name["p1.tif"].source
    when = changed.stat().st_mtime_ns
    changed.write_bytes(changed.read_bytes()[:-1] + b"!")
    os.utime(changed, ns=(when, when))  # same size, same time: only the bytes tell
    by_name["p2.tif"].archive.unlink()
    # the archive of another file has come to its place: whole, but it holds other bytes
    shutil.copy(by_name["p4.tif"].archive, by_name["p3.tif"].archive)
    before = contents(tmp_path / "in")
    done = {deletion.source.name: deletion for deletion in delete_sources(rows, permanently=True)}
    assert {name: found.deleted for name, found in done.items()} == {
        "p0.tif": False, "p1.tif": False, "p2.tif": False, "p3.tif": False, "p4.tif": True, "p5.tif": True,
    }  # fmt: skip
    assert "did not verify as whole" in done["p0.tif"].message
    assert "changed since it was packed" in done["p1.tif"].message
    assert "does not exist" in done["p2.tif"].message
    assert "does not hold" in done["p3.tif"].message
    kept = {name: data for name, data in before.items() if Path(name).name not in ("p4.tif", "p5.tif")}
    assert contents(tmp_path / "in") == kept


def test_rows_that_failed_are_left_alone(tmp_path: Path) -> None:
    planned, _ = rows_of(tmp_path)
    before = contents(tmp_path / "in")
    (tmp_path / "in" / "p0.tif").touch()
    rows = pack_batch(planned, overwrite=False).rows
    rows += tuple(BatchRow(row.source, row.archive, "failed", files=row.files) for row in rows)
    rows += tuple(BatchRow(row.source, row.archive, "cancelled", files=row.files) for row in rows[:4])
    failed = [row for row in rows if row.state not in ("packed", "skipped")]
    assert delete_sources(failed, permanently=True) == []
    assert contents(tmp_path / "in") == before


def test_a_source_written_to_at_the_last_moment_stays(tmp_path: Path) -> None:
    _, rows = rows_of(tmp_path, 1)
    source = rows[0].source

    def progress(event: Progress) -> None:
        if event.stage == "compare":
            with source.open("ab") as file:
                file.write(b"new data")

    (deletion,) = delete_sources(rows, permanently=True, progress=progress)
    assert not deletion.deleted
    assert source.read_bytes().endswith(b"new data")


def test_cancel_of_deleting(tmp_path: Path) -> None:
    _, rows = rows_of(tmp_path)
    token = CancelToken()
    token.cancel()
    before = contents(tmp_path / "in")
    with pytest.raises(Cancelled):
        delete_sources(rows, permanently=True, cancel=token)
    assert contents(tmp_path / "in") == before


@pytest.mark.parametrize("nested", [False, True])
def test_members_of_a_series_are_deleted(tmp_path: Path, nested: bool) -> None:
    folder = tmp_path / "in" / "s"
    (folder / "deep").mkdir(parents=True)
    for i in range(3):
        write_tiff(folder / f"p{i}.tif", TiffSpec(seed=i, height=5 + nested * i, width=6))
    (folder / "deep" / "notes.txt").write_text("beside")
    rows = pack_batch(plan([folder], tmp_path / "out", series=True, estimate=False)).rows
    (folder / "late.txt").write_text("came after it was packed")
    done = delete_sources(rows, permanently=True)
    assert [deletion.deleted for deletion in done] == [True] * 4
    assert contents(folder) == {"late.txt": b"came after it was packed"}


@linux
def test_the_trash_by_command(tmp_path: Path) -> None:
    make_tree(tmp_path / "in", 3)
    originals = contents(tmp_path / "in")
    (tmp_path / "home").mkdir()
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "XDG_DATA_HOME": str(tmp_path / "home" / "data"),
    }
    words = [sys.executable, "-m", "napari_decant.cli", "pack", "in", "-o", "out", "--delete-source"]
    ran = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count(": deleted\n") == 3
    assert contents(tmp_path / "in") == {}
    trash = contents(tmp_path / "home" / "data" / "Trash" / "files")
    assert sorted(trash.values()) == sorted(originals.values())  # they can be taken back
    assert main(["restore", str(tmp_path / "out"), "-o", str(tmp_path / "back"), "--quiet"]) == 0
    assert contents(tmp_path / "back") == originals


def test_permanently_takes_a_second_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(tmp_path / "in", 2)
    words = ["pack", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--json"]
    assert main([*words, "--permanently"]) == 2
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    assert main([*words, "--delete-source", "--permanently"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["deleted"] for item in found["deleted"]] == [True, True]
    assert contents(tmp_path / "in") == {}


def test_without_a_trash_nothing_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = rows_of(tmp_path, 1)
    monkeypatch.setitem(sys.modules, "send2trash", None)
    with pytest.raises(UnsupportedOperation, match="there is no trash"):
        delete_sources(rows)
    assert rows[0].source.exists()


# --- room on the disk -------------------------------------------------------------------------------------


def test_B13_room_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from napari_decant import pack
    from napari_decant.archive import pack_series, plan_series
    from napari_decant.errors import DiskFull

    path = write_tiff(tmp_path / "in.tif", TiffSpec(pages=4, height=400, width=500)).path
    archive = pack(path).archive
    size = path.stat().st_size
    usage = shutil.disk_usage(tmp_path)
    for free, fits in ((size - 1, False), (size, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        if fits:
            assert restore(archive, tmp_path / "back").files[0].read_bytes() == path.read_bytes()
            continue
        with pytest.raises(DiskFull, match=rf"needs {size:,} bytes, {free:,} are free"):
            restore(archive, tmp_path / "back")
        assert not (tmp_path / "back").exists()
    # replacing needs room for one more copy, not for two
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size))
    restore(archive, tmp_path / "back", overwrite=True)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=500))
    for work in (
        lambda: pack(path, tmp_path / "out"),
        lambda: pack_series(plan_series([path], tmp_path), tmp_path / "out" / "s.zarr.zip"),
    ):
        with pytest.raises(DiskFull, match=r"the disk is full \(.+\): packing .* needs"):
            work()
        assert list((tmp_path / "out").iterdir()) == []
    # what compresses well needs far less than its size: it is not refused
    flat = tmp_path / "flat.tif"
    flat.write_bytes(b"\0" * (8 << 20))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    assert pack(flat, tmp_path / "out").archive_size < 100_000
