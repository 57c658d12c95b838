"""Jobs without a window: states, numbers, worker processes and their deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.tiffwriter import write_sparse_imagej

from napari_decant.gui._settings import MemoryStore, open_settings
from napari_decant.gui._words import becomes_text, count, reason_text, seconds_text, size_text
from napari_decant.gui.jobs import (
    Batch,
    Failure,
    InlineWorker,
    Job,
    JobList,
    JobRunner,
    JobState,
    Task,
    WorkerProcess,
)
from napari_decant.progress import Progress

TASKS = "tests.support.gui_tasks"


def wait(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture(params=[InlineWorker, WorkerProcess], ids=["threads", "processes"])
def runner(request: pytest.FixtureRequest) -> Iterator[JobRunner]:
    made = JobRunner(JobList(), slots=1, worker=request.param)
    yield made
    made.close()


@pytest.fixture
def process_runner() -> Iterator[JobRunner]:
    made = JobRunner(JobList(), slots=1)
    yield made
    made.close()


def job(name: str, verb: str = "count", **arguments: object) -> Job:
    return Job(verb, name, Task(f"{TASKS}:{name}", arguments), 100)


def test_a_job_goes_from_queued_to_done_and_gives_parts_and_a_result(runner: JobRunner) -> None:
    seen: list[tuple[JobState, float]] = []
    parts: list[object] = []
    one = job("count", steps=5)
    runner.jobs.changed.connect(lambda each: seen.append((each.state, each.fraction)))
    runner.jobs.parted.connect(lambda each, part: parts.append(part))
    assert one.state is JobState.QUEUED
    runner.submit([one])
    wait(lambda: one.state.over)
    assert (one.state, one.result, one.fraction) == (JobState.DONE, 5, 1.0)
    assert parts == [0, 1, 2, 3, 4]
    assert seen[-1] == (JobState.DONE, 1.0)
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert all(fraction < 1 for state, fraction in seen if state is JobState.RUNNING)
    assert any("done in" in line for line in one.log)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("os", "Input/output error (a.tif)"),
        ("memory", "out of memory; choose fewer workers"),
        ("bug", "this is a fault of the program"),
        ("outcome", "it failed in part"),
    ],
)
def test_failures_are_sentences(runner: JobRunner, kind: str, words: str) -> None:
    one = job("fail", kind=kind)
    runner.submit([one])
    wait(lambda: one.state.over)
    assert one.state is JobState.FAILED
    assert one.failure is not None
    assert words in one.failure.message
    assert "Traceback" not in one.failure.message
    assert one.result == ("something all the same" if kind == "outcome" else None)


def test_cancelling_reaches_what_runs_and_what_waits(runner: JobRunner) -> None:
    jobs = [job("count", steps=2000, seconds=0.01) for _ in range(3)]
    runner.submit(jobs)
    wait(lambda: jobs[0].state is JobState.RUNNING)
    begun = time.monotonic()
    runner.cancel_all()
    wait(lambda: all(each.state.over for each in jobs), 2)
    assert time.monotonic() - begun < 2
    assert {each.state for each in jobs} == {JobState.CANCELLED}
    assert jobs[2].started is None
    after = job("count", steps=1)
    runner.submit([after])
    wait(lambda: after.state is JobState.DONE)


def test_short_jobs_do_not_wait_for_long_ones(runner: JobRunner) -> None:
    long, short = job("count", steps=2000, seconds=0.01), job("count", steps=1)
    runner.submit([long])
    wait(lambda: long.state is JobState.RUNNING)
    runner.submit([short], runner.LOOK)
    wait(lambda: short.state.over, 10)
    assert long.state is JobState.RUNNING


def test_a_crash_takes_one_job_with_it(process_runner: JobRunner) -> None:
    crash, after = job("die"), job("pid")
    process_runner.submit([crash, after])
    wait(lambda: after.state.over)
    assert crash.state is JobState.FAILED
    assert crash.failure is not None
    assert "ended unexpectedly" in crash.failure.message
    assert after.result not in (None, os.getpid())


def test_a_check_that_hangs_is_ended_within_two_seconds(process_runner: JobRunner) -> None:
    one, after = Job("check", "x", Task(f"{TASKS}:hang")), job("pid")
    process_runner.submit([one, after])
    wait(lambda: one.state is JobState.RUNNING)
    time.sleep(0.3)
    begun = time.monotonic()
    process_runner.cancel([one])
    wait(lambda: one.state.over, 2)
    assert time.monotonic() - begun < 2
    assert one.state is JobState.CANCELLED
    wait(lambda: after.state is JobState.DONE)


def test_a_system_that_starts_no_process_fails_the_job_and_not_the_lane() -> None:
    given: list[InlineWorker] = []

    def make() -> InlineWorker:
        given.append(InlineWorker())
        if len(given) == 1:
            raise OSError(12, "Cannot allocate memory")
        return given[-1]

    runner = JobRunner(JobList(), slots=1, worker=make)
    one, two = job("count", steps=1), job("count", steps=1)
    runner.submit([one, two])
    wait(lambda: two.state.over)
    assert (one.state, two.state) == (JobState.FAILED, JobState.DONE)
    assert one.failure is not None
    assert "Cannot allocate memory" in one.failure.message
    runner.close()


def test_jobs_that_nobody_asks_about_any_more_are_forgotten(runner: JobRunner) -> None:
    jobs = [job("count", steps=2000, seconds=0.01) for _ in range(3)]
    runner.submit(jobs)
    wait(lambda: jobs[0].state is JobState.RUNNING)
    runner.abandon(jobs)
    wait(lambda: len(runner.jobs) == 0, 3)
    assert {each.state for each in jobs} == {JobState.CANCELLED}


def test_what_libraries_print_does_not_disturb(process_runner: JobRunner) -> None:
    one, two = job("noisy"), job("noisy")
    process_runner.submit([one, two])
    wait(lambda: two.state.over)
    assert (one.result, two.result) == ("heard", "heard")


def test_workers_never_run_the_program_that_started_them_again(tmp_path: Path) -> None:
    # As people write scripts for napari: without an "if __name__" guard.
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys, time; sys.path.insert(0, {os.getcwd()!r})\n"
        "print('script runs', flush=True)\n"
        "from napari_decant.gui.jobs import *\n"
        "runner = JobRunner(JobList(), slots=1)\n"
        f"job = Job('x', 'x', Task('{TASKS}:main_name'))\n"
        "runner.submit([job])\n"
        "while not job.state.over: time.sleep(0.01)\n"
        "print(job.state, job.result)\n"
        "runner.close()\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["script", "runs", "done", "None"]


def test_b11_a_killed_window_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write_sparse_imagej(folder / "a.tif", 400, 1024, 1024)
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from napari_decant.gui.jobs import *\n"
        "runner = JobRunner(JobList(), slots=1)\n"
        f"look = Job('look', 'x', Task('plan_pack', dict(paths=[Path({str(folder)!r})], output=None,"
        " codec='default', series=False, pattern=None)))\n"
        "found = []\n"
        "runner.jobs.parted.connect(lambda job, part: found.extend(part))\n"
        "runner.submit([look], runner.LOOK)\n"
        "while not look.state.over: time.sleep(0.01)\n"
        "pack = Job('pack', 'x', Task('pack', dict(planned=found[0], codec='default', pyramid=False,"
        " workers=1, overwrite=False)), 1)\n"
        "runner.submit([pack])\n"
        "while pack.fraction < 0.02: time.sleep(0.005)\n"
        "print('packing', flush=True)\n"
        "time.sleep(60)\n"
    )
    window = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert window.stdout is not None
    assert window.stdout.readline() == "packing\n"
    assert [name for name in os.listdir(folder) if name.endswith(".partial")]
    window.send_signal(signal.SIGKILL)
    window.wait()
    window.stdout.close()
    wait(lambda: os.listdir(folder) == ["a.tif"], 15)


def test_packing_counts_twice_and_is_done_only_when_it_was_verified() -> None:
    one = Job("pack", "a.tif", Task("pack"), 1000)
    jobs = JobList()
    jobs.add([one])
    jobs.start(one)
    seen = []
    for stage in ("pack", "verify"):
        for done in range(0, 1001, 100):
            jobs.advance(one, Progress(stage, done, 1000, "a.tif"))
            seen.append(one.fraction)
    assert seen == sorted(seen)
    assert seen[10] == pytest.approx(0.8)
    assert seen[-1] < 1
    jobs.advance(one, Progress("pack", 0, 1000, "a.tif"))  # a second try, kept as it is
    assert one.fraction == seen[-1]
    jobs.finish(one, "result")
    assert one.fraction == 1
    assert not jobs.finish(one, failure=Failure("too late"))
    assert one.state is JobState.DONE


def test_several_files_of_one_job_count_together() -> None:
    one = Job("restore", "a", Task("restore"), 300)
    for name in ("a", "b", "c"):
        one.advance(Progress("restore", 50, 100, name))
        one.advance(Progress("restore", 100, 100, name))
    assert one.fraction == pytest.approx(0.995)
    half = Job("restore", "a", Task("restore"), 300)
    half.advance(Progress("restore", 100, 100, "a"))
    half.advance(Progress("restore", 50, 100, "b"))
    assert half.fraction == pytest.approx(0.5)


def test_speed_and_time_left_of_a_run() -> None:
    now = 0.0
    batch = Batch("pack", lambda: now)
    jobs = [Job("pack", str(n), Task("pack"), 1000) for n in range(4)]
    assert batch.seconds_left is None
    batch.expect(4)
    assert len(batch) == 4
    assert not batch.over
    batch.add(jobs)
    for each in jobs[:2]:
        each.state = JobState.RUNNING
        for step in range(1, 11):
            now += 1.0
            each.fraction = step / 10
            batch.update(each)
        each.state = JobState.DONE
        batch.update(each)
    assert batch.fraction == pytest.approx(0.5)
    assert batch.bytes_per_second == pytest.approx(100, rel=0.05)
    assert batch.seconds_left == pytest.approx(20, rel=0.1)
    jobs[2].state, jobs[3].state = JobState.FAILED, JobState.CANCELLED
    batch.update(jobs[2])
    assert batch.fraction < 1
    batch.update(jobs[3])
    assert batch.over
    assert batch.fraction == 1
    assert batch.count(JobState.FAILED) == 1


def test_numbers_are_human() -> None:
    sizes = {
        0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 99_949: "99.9 kB", 99_951: "100 kB",
        999_499: "999 kB", 999_500: "1.0 MB", 2_100_000_000: "2.1 GB", 51 * 10**12: "51.0 TB",
    }  # fmt: skip
    assert {size: size_text(size) for size in sizes} == sizes
    assert [seconds_text(n) for n in (0.2, 8, 59.7, 61, 3600, 7800, 40_000, 400_000)] == [
        "1 s", "8 s", "60 s", "1 min", "1 h", "2 h 10 min", "11 h", "5 days",
    ]  # fmt: skip
    assert (count(1, "file"), count(1024, "file")) == ("1 file", "1,024 files")


def test_every_reason_of_the_archive_has_words() -> None:
    from napari_decant.archive import Reason
    from napari_decant.gui import _words

    codes = {value for name, value in vars(Reason).items() if name.isupper()}
    assert codes <= set(_words._REASONS)
    assert "not-a-tiff" not in reason_text("not-a-tiff")


def test_what_a_row_becomes_is_said_in_words() -> None:
    from napari_decant.archive import PlanRow
    from napari_decant.gui.jobs import Planned

    def words(mode: str, **more: object) -> str:
        row = PlanRow(Path("a"), Path("b"), "file", mode, None, 1)
        from dataclasses import replace

        return becomes_text(Planned(replace(row, **more)))  # type: ignore[arg-type]

    assert words("byte-exact", axes=("c", "y", "x"), shape=(3, 20, 30)) == "image  c3 y20 x30"
    assert words("verbatim", reason="compressed") == "kept as it is: its pixels are compressed already"
    assert words("series", axes=("z", "y", "x"), shape=(3, 2, 1)) == "one image  z3 y2 x1"
    assert words("series") == "a folder of archives"
    assert words("failed") == "cannot be packed"


def test_settings_survive_stores_that_know_only_text() -> None:
    store = MemoryStore(codec="fast", workers="3", series="true", quick="no", replace=1, of_old="x")
    settings = open_settings(store)
    assert (settings.codec, settings.workers, settings.series, settings.quick) == ("fast", 3, True, False)
    assert settings.replace is False
    settings.workers = 5
    assert store.values["workers"] == 5
