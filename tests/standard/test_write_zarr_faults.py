"""Killed, cancelled, full, torn, locked: what is left is either nothing or what the next run goes on from."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.killed_export import SHAPE, Slow, identity_of
from tests.support.limits import ROOT
from tests.support.ngff import ramp
from tests.support.working import Forgetful
from tests.support.writing import CountedArray, expected_levels, holes, small_layout

from napari_decant.errors import Cancelled, IntegrityError, StorageError, TargetExists, UsageError
from napari_decant.images import ImageToWrite, open_image, plan_ome_zarr, write_ome_zarr
from napari_decant.images import _write_zarr_encode as encoding
from napari_decant.images import _write_zarr_shard as shards
from napari_decant.images._write_zarr_stage import STATE
from napari_decant.progress import CancelToken, Progress
from napari_decant.standard import check

CHUNKS = (1, 1, 8, 40, 40)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_layout(monkeypatch, times=1)


def counted() -> CountedArray:
    return CountedArray(ramp(SHAPE), CHUNKS)


def assert_whole(target: Path) -> None:
    plan = plan_ome_zarr(target.with_name("other.zarr"), ImageToWrite(ramp(SHAPE), "tczyx"))
    opened = open_image(target)
    wanted = expected_levels(ramp(SHAPE), plan.images[0].layout.factors)
    for level, expected in zip(opened.levels, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(level), expected)
    opened.close()
    assert holes(target) == 0


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def partial_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial")


def finished_shards(partial: Path) -> list[Path]:
    """Shards that are sealed; one that has its name but no seal yet is written again."""
    seals = partial / STATE / "shards"
    return sorted(partial / path.relative_to(seals).with_suffix("") for path in seals.rglob("*.json"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Start an export and kill it once the 27 shards of the first time point are whole, and some more."""

    def start(suffix: str) -> Path:
        target = tmp_path_factory.mktemp("killed") / f"a.{suffix}"
        program = [sys.executable, "-m", "tests.support.killed_export", str(target)]
        with subprocess.Popen(program, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
            partial = partial_of(target)
            deadline = time.monotonic() + 60
            try:
                while len(finished_shards(partial)) < 40:
                    assert process.poll() is None, "it ended before it could be killed"
                    assert time.monotonic() < deadline, "it wrote too little to be killed"
                    time.sleep(0.005)
            finally:
                process.kill()
        return target

    return start


@pytest.mark.parametrize("suffix", ["zarr", "ozx"])
def test_e05_a_killed_export_is_taken_up_and_only_the_rest_is_read(
    suffix: str, killed: Callable[[str], Path]
) -> None:
    target = killed(suffix)
    assert left(target.parent) == [f".a.{suffix}.partial"]
    whole = len(finished_shards(partial_of(target)))
    source = counted()
    report = write_ome_zarr(target, ImageToWrite(source, "tczyx", identity=identity_of("a")), workers=2)
    assert 40 <= report.resumed_shards <= whole
    assert set(source.touched.values()) == {1}
    # the first time point was not read again; what lower levels need of it is in finished shards
    assert {index[0] for index in source.touched} <= {1, 2, 3}
    assert left(target.parent) == [f"a.{suffix}"]
    assert_whole(target)


def test_e05_torn_shards_are_done_again_and_no_others(killed: Callable[[str], Path]) -> None:
    target = killed("zarr")
    partial = partial_of(target)
    done = [p for p in finished_shards(partial) if p.relative_to(partial).parts[:3] == ("0", "c", "0")]
    first = done[0]
    other = {p: p.stat().st_mtime_ns for p in done[1:]}
    first.write_bytes(first.read_bytes()[: int(first.stat().st_size * 0.6)])
    source = counted()
    report = write_ome_zarr(target, ImageToWrite(source, "tczyx", identity=identity_of("a")))
    assert report.resumed_shards >= 39
    # planes of the torn shard were read again, those of its neighbour in z were not
    assert any(index[0] == 0 for index in source.touched)
    assert other
    kept = [target / p.relative_to(partial) for p in other]
    assert [p.stat().st_mtime_ns for p in kept] == list(other.values())
    assert_whole(target)


def test_another_source_is_never_mixed_in(killed: Callable[[str], Path]) -> None:
    target = killed("zarr")
    other = ImageToWrite(np.full(SHAPE, 7, np.uint16), "tczyx", identity=identity_of("b"))
    with pytest.raises(TargetExists, match="unfinished export of something else"):
        write_ome_zarr(target, other)
    assert left(target.parent) == [".a.zarr.partial"]
    write_ome_zarr(target, other, overwrite=True)
    opened = open_image(target)
    assert (np.asarray(opened.levels[0]) == 7).all()
    opened.close()
    assert left(target.parent) == ["a.zarr"]


@pytest.mark.parametrize("suffix", ["zarr", "ozx"])
@pytest.mark.parametrize("after", [0.0, 0.3, 0.9])
def test_cancel_ends_quickly_and_leaves_nothing(suffix: str, after: float, tmp_path: Path) -> None:
    token = CancelToken()

    def watch(event: Progress) -> None:
        if event.done >= after * event.total:
            token.cancel()

    if after == 0:
        token.cancel()
    start = time.monotonic()
    with pytest.raises(Cancelled):
        write_ome_zarr(
            tmp_path / f"a.{suffix}", ImageToWrite(counted(), "tczyx"), progress=watch, cancel=token
        )
    assert time.monotonic() - start < 10
    assert left(tmp_path) == []


def test_progress_moves_forward_to_the_end(tmp_path: Path) -> None:
    events: list[Progress] = []
    threads = set()

    def watch(event: Progress) -> None:
        events.append(event)
        threads.add(threading.get_ident())

    report = write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(counted(), "tczyx"), progress=watch)
    done = [event.done for event in events]
    assert done == sorted(done)
    assert len(set(done)) > 5
    assert events[-1].done == events[-1].total == 2 * report.raw_bytes
    assert threads == {threading.get_ident()}


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = shards.OpenFiles.append
    calls = 0

    def full(self: Any, path: Path, data: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 200:
            raise shards.storage_error("writing", path, OSError(errno.ENOSPC, "No space left on device"))
        append(self, path, data)

    image = ImageToWrite(counted(), "tczyx", identity="x")
    with monkeypatch.context() as patch:
        patch.setattr(shards.OpenFiles, "append", full)
        with pytest.raises(StorageError, match=r"disk is full.*same command goes on"):
            write_ome_zarr(tmp_path / "a.zarr", image)
    assert left(tmp_path) == [".a.zarr.partial"]
    report = write_ome_zarr(tmp_path / "a.zarr", image)
    assert report.resumed_shards > 0
    assert_whole(tmp_path / "a.zarr")


def test_a_source_that_fails_leaves_nothing_and_is_named(tmp_path: Path) -> None:
    class Broken(CountedArray):
        def __getitem__(self, key: Any) -> np.ndarray:
            if len(self.touched) > 6:
                raise IntegrityError("chunk 1/0/3/0/0 of the source is damaged")
            return super().__getitem__(key)

    with pytest.raises(IntegrityError, match="chunk 1/0/3"):
        write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(Broken(ramp(SHAPE), CHUNKS), "tczyx"))
    assert left(tmp_path) == []


@pytest.mark.parametrize("place", ["chunk", "index"])
def test_what_the_disk_spoils_is_found_by_reading_back(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = shards.ShardWriter.finish
    spoiled: list[Path] = []

    def spoil(self: Any) -> None:
        finish(self)
        if not spoiled:
            data = bytearray(self.path.read_bytes())
            data[len(data) // 3 if place == "chunk" else -10] ^= 1
            self.path.write_bytes(data)
            spoiled.append(self.path)

    monkeypatch.setattr(shards.ShardWriter, "finish", spoil)
    with pytest.raises(IntegrityError, match="read back"):
        write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(counted(), "tczyx"))
    assert left(tmp_path) == []
    spoiled.clear()
    write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(counted(), "tczyx"), verify=False)
    assert not check(tmp_path / "a.zarr", whole=True).ok


def test_an_encoder_that_errs_is_found_by_reading_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = encoding.encode

    def wrong(chunk: np.ndarray, compression: int, shuffle: bool) -> Any:
        return encode(chunk + (chunk.flat[0] == 1), compression, shuffle)

    monkeypatch.setattr(encoding, "encode", wrong)
    with pytest.raises(IntegrityError, match="differs"):
        write_ome_zarr(tmp_path / "a.zarr", ImageToWrite(counted(), "tczyx"))


@pytest.mark.skipif(os.name == "nt", reason="the lock is advisory and POSIX only")
def test_two_exports_to_one_target_do_not_mix(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Waiting(CountedArray):
        def __getitem__(self, key: Any) -> np.ndarray:
            begun.set()
            go_on.wait(30)
            return super().__getitem__(key)

    image = ImageToWrite(Waiting(ramp(SHAPE), CHUNKS), "tczyx", identity="x")
    first = threading.Thread(target=write_ome_zarr, args=(tmp_path / "a.zarr", image))
    first.start()
    assert begun.wait(30)
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="another program"):
            write_ome_zarr(tmp_path / "a.zarr", image, overwrite=overwrite)
    go_on.set()
    first.join()
    assert_whole(tmp_path / "a.zarr")


class Reopen:
    """Opens the source in another process, where the layout must be small too."""

    def __call__(self, path: str) -> ImageToWrite:
        assert path == ""
        return ImageToWrite(counted(), "tczyx")


class ReopenSlow:
    """A source that takes long, in another process."""

    def __call__(self, path: str) -> ImageToWrite:
        return ImageToWrite(Slow(ramp(SHAPE), 1.0), "tczyx")


def test_cancel_and_failures_reach_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from napari_decant.images import _write_zarr_jobs as jobs

    monkeypatch.setattr(jobs, "_SMALL", 0)
    monkeypatch.setattr(jobs, "_JOBS", 4)
    token = CancelToken()
    threading.Timer(3, token.cancel).start()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        with pytest.raises(Cancelled):
            write_ome_zarr(
                tmp_path / "a.zarr",
                ImageToWrite(counted(), "tczyx"),
                workers=1,
                executor=executor,
                reopen=ReopenSlow(),
                cancel=token,
            )
        assert left(tmp_path) == []
        with pytest.raises(UsageError, match="2 axes were named"):
            write_ome_zarr(
                tmp_path / "a.zarr",
                ImageToWrite(counted(), "tczyx"),
                workers=1,
                executor=executor,
                reopen=ReopenWrong(),
            )
    assert left(tmp_path) == []


def test_cancel_waits_for_workers_that_the_executor_forgot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant.images import _write_zarr_jobs as jobs

    monkeypatch.setattr(jobs, "_SMALL", 0)
    monkeypatch.setattr(jobs, "_JOBS", 4)
    token, at_work = CancelToken(), threading.Event()

    class Watched(CountedArray):
        def __getitem__(self, key: Any) -> np.ndarray:
            token.cancel()
            at_work.set()
            time.sleep(0.3)  # it is still reading when the cancel is seen
            return super().__getitem__(key)

    def reopen(path: str) -> ImageToWrite:
        return ImageToWrite(Watched(ramp(SHAPE), CHUNKS), "tczyx")

    executor = Forgetful(2)
    with pytest.raises(Cancelled):
        write_ome_zarr(
            tmp_path / "a.zarr",
            ImageToWrite(counted(), "tczyx"),
            workers=1,
            executor=executor,
            reopen=reopen,
            cancel=token,
        )
    assert at_work.is_set()
    assert left(tmp_path) == []
    executor.shutdown()
    assert left(tmp_path) == []


class ReopenWrong:
    """Fails in another process."""

    def __call__(self, path: str) -> ImageToWrite:
        return ImageToWrite(counted(), "yx")


def test_any_executor_spreads_whole_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from napari_decant.images import _write_zarr_jobs as jobs

    monkeypatch.setattr(jobs, "_SMALL", 0)
    monkeypatch.setattr(jobs, "_JOBS", 4)
    plan = plan_ome_zarr(tmp_path / "a.zarr", ImageToWrite(counted(), "tczyx"), workers=1)
    rounds = jobs.divide(plan.images[0], plan.target, jobs.WriteOptions(), spread=True)
    assert len(rounds) == 2
    assert len(rounds[0]) >= 4
    assert sum(job.nbytes for jobs_ in rounds for job in jobs_) == 2 * plan.raw_bytes
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        report = write_ome_zarr(plan, workers=1, executor=executor, reopen=Reopen())
    assert report.verified
    assert_whole(tmp_path / "a.zarr")
    assert left(tmp_path) == ["a.zarr"]
