"""Whatever goes wrong while packing or restoring, nothing has the final name and sources are as they were."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import info, pack, restore, verify
from napari_decant.archive import pack_series, plan_series
from napari_decant.errors import (
    Cancelled,
    DecantError,
    SourceChanged,
    StorageError,
    TargetExists,
    UnsafeInput,
    UnsupportedOperation,
)
from napari_decant.progress import CancelToken, Progress
from napari_decant.stores import LocalFile
from napari_decant.stores._atomic import AtomicFile

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX names and signals")


@pytest.fixture
def tiff(tmp_path: Path) -> Path:
    """Eight planes with gaps: several units of work in every stage."""
    (tmp_path / "in").mkdir()
    spec = TiffSpec(pages=8, height=1000, width=1100, gap=30, trailing=5)
    return write_tiff(tmp_path / "in" / "a.tif", spec).path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def nothing_final(folder: Path) -> None:
    """No file but unfinished ones, which are hidden and say so."""
    left = [path.name for path in folder.rglob("*") if path.is_file()]
    assert [name for name in left if not (name.startswith(".") and name.endswith(".partial"))] == []


def nothing_at_all(folder: Path) -> None:
    assert [path for path in folder.rglob("*") if path.is_file()] == []


class FailingFile:
    """A file whose write number ``n`` fails as on a full disk, or whose flush or close does."""

    def __init__(self, file: Any, countdown: list[int], where: str, code: int) -> None:
        self._file, self._countdown, self._where, self._code = file, countdown, where, code

    def _maybe(self, where: str) -> None:
        if where == self._where:
            self._countdown[0] -= 1
            if self._countdown[0] < 0:
                raise OSError(self._code, os.strerror(self._code))

    def write(self, data: Any) -> Any:
        self._maybe("write")
        return self._file.write(data)

    def flush(self) -> None:
        self._maybe("flush")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._maybe("close")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def failing_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    """Make the n-th write, flush or close of every output fail."""
    original = AtomicFile.__init__

    def arm(where: str, n: int, code: int) -> None:
        def init(self: AtomicFile, *args: Any, **options: Any) -> None:
            original(self, *args, **options)
            self.file = FailingFile(self.file, [n], where, code)  # type: ignore[assignment]

        monkeypatch.setattr(AtomicFile, "__init__", init)

    return arm


KILLS = int(os.environ.get("NAPARI_DECANT_KILLS", "5"))
"""Random points at which a process is killed; more of them run in make test-long."""

FAULTS = [("write", 0), ("write", 1), ("write", 7), ("write", 40), ("flush", 0), ("close", 0)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(("where", "n"), FAULTS)
def test_B13_disk_full_while_packing(
    tiff: Path, out: Path, failing_disk: Callable[[str, int, int], None], where: str, n: int, code: int
) -> None:
    before = tiff.read_bytes()
    failing_disk(where, n, code)
    with pytest.raises(StorageError) as caught:
        pack(tiff, out)
    assert ("disk is full" in str(caught.value)) == (code == errno.ENOSPC)
    assert "a.tif" in str(caught.value)
    nothing_at_all(out)
    assert tiff.read_bytes() == before


@pytest.mark.parametrize(("where", "n"), [("write", 0), ("write", 1), ("flush", 0), ("close", 0)])
def test_B13_disk_full_while_restoring(
    tiff: Path, out: Path, failing_disk: Callable[[str, int, int], None], where: str, n: int
) -> None:
    archive = pack(tiff).archive
    failing_disk(where, n, errno.ENOSPC)
    with pytest.raises(StorageError, match="disk is full"):
        restore(archive, out)
    nothing_at_all(out)
    assert archive.exists()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root to mount a small disk")
def test_B13_a_disk_that_is_really_full(tiff: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        noise = tmp_path / "noise.tif"
        write_tiff(noise, TiffSpec(pages=2, height=1200, width=1100, values="bits"))
        with pytest.raises(StorageError, match="disk is full"):
            pack(noise, small)
        nothing_at_all(small)
        archive = pack(noise, tmp_path).archive
        with pytest.raises(StorageError, match="disk is full"):
            restore(archive, small)
        nothing_at_all(small)
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("n", [3, 8, 20])
def test_read_error_in_mid_file(tiff: Path, out: Path, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    original, calls = LocalFile.read_into, [0]

    def read_into(self: LocalFile, offset: int, view: memoryview) -> None:
        calls[0] += self.uri == str(tiff)
        if calls[0] >= n:
            raise StorageError(f"cannot read {self.uri}: Input/output error")
        original(self, offset, view)

    monkeypatch.setattr(LocalFile, "read_into", read_into)
    with pytest.raises(StorageError, match=r"a\.tif: Input/output error"):
        pack(tiff, out)
    nothing_at_all(out)


@pytest.mark.parametrize("same_size", [True, False])
@pytest.mark.parametrize("at", [1, 5])
def test_source_changed_while_packed(tiff: Path, out: Path, at: int, same_size: bool) -> None:
    events = [0]

    def progress(event: Progress) -> None:
        events[0] += 1
        if events[0] == at:
            with open(tiff, "r+b") as file:
                file.seek(100 if same_size else 0, os.SEEK_SET if same_size else os.SEEK_END)
                file.write(b"changed")

    with pytest.raises((SourceChanged, StorageError, DecantError)) as caught:
        pack(tiff, out, progress=progress)
    assert isinstance(caught.value, SourceChanged)
    nothing_at_all(out)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("at", [1, 2, 8, 9, 10, 11])
def test_cancel_at_any_point(tiff: Path, out: Path, at: int, workers: int) -> None:
    token, events, cancelled_at = CancelToken(), [0], [0.0]

    def progress(event: Progress) -> None:
        events[0] += 1
        if events[0] == at:
            cancelled_at[0] = time.monotonic()
            token.cancel()

    with pytest.raises(Cancelled):
        pack(tiff, out, progress=progress, cancel=token, workers=workers)
    assert time.monotonic() - cancelled_at[0] < 2
    nothing_at_all(out)


def test_cancel_restore_and_verify(tiff: Path, out: Path) -> None:
    archive = pack(tiff).archive
    for work in (lambda **k: restore(archive, out, **k), lambda **k: verify(archive, **k)):
        token = CancelToken()
        token.cancel()
        with pytest.raises(Cancelled):
            work(cancel=token)
    nothing_at_all(out)


def test_two_packs_to_one_target(tiff: Path, out: Path) -> None:
    results: list[object] = []

    def work() -> None:
        try:
            results.append(pack(tiff, out))
        except TargetExists as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not isinstance(result, TargetExists) for result in results) == 1
    assert [path.name for path in out.iterdir()] == ["a.tif.zarr.zip"]
    assert verify(out / "a.tif.zarr.zip").whole


KILLED = """
import sys
from napari_decant import pack, restore
print("begun", flush=True)
{call}
print("done", flush=True)
"""


def kill_at(call: str, delay: float) -> bool:
    """Run a call in a process of its own and kill it; whether it was done before."""
    words = [sys.executable, "-c", KILLED.format(call=call)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n", process.stderr.read() if process.stderr else ""
    time.sleep(delay)
    process.kill()
    rest, _ = process.communicate()
    return "done" in rest


def kill_many(call: str, folder: Path, final: str, good: Callable[[Path], bool], times: int) -> None:
    """Kill at random points: the final name is absent, or the file is whole."""
    seeded = random.Random(7)
    begun = time.monotonic()
    assert not kill_at(call, 0) or (folder / final).exists()
    span = max(0.4, time.monotonic() - begun)
    for _ in range(times):
        shutil.rmtree(folder)
        folder.mkdir()
        done = kill_at(call, seeded.random() * span)
        target = folder / final
        if target.exists():
            assert good(target)
        else:
            assert not done
            nothing_final(folder)


@posix
def test_kill_while_packing(tiff: Path, out: Path) -> None:
    before = tiff.read_bytes()
    call = f"pack({str(tiff)!r}, {str(out)!r})"
    kill_many(call, out, "a.tif.zarr.zip", lambda path: bool(verify(path).whole), KILLS)
    assert tiff.read_bytes() == before
    report = pack(tiff, out, overwrite=True)  # leftovers of the killed ones are not in the way
    assert verify(report.archive).whole


@posix
def test_kill_while_restoring(tiff: Path, out: Path) -> None:
    archive = pack(tiff).archive
    call = f"restore({str(archive)!r}, {str(out)!r})"
    kill_many(call, out, "a.tif", lambda path: path.read_bytes() == tiff.read_bytes(), KILLS)


def test_archive_in_a_read_only_folder(tiff: Path, out: Path, tmp_path: Path) -> None:
    archive = pack(tiff, out).archive
    os.utime(archive, ns=(1, 1))
    archive.chmod(0o444)
    out.chmod(0o555)
    try:
        assert verify(archive).whole
        assert verify(archive, quick=True).ok
        assert info(archive).mode == "byte-exact"
        restore(archive, tmp_path / "back")
        assert [path.name for path in out.iterdir()] == [archive.name]
        assert archive.stat().st_mtime_ns == 1
    finally:
        out.chmod(0o755)


@pytest.mark.parametrize("mtime_ns", [0, 5, 978307201_123456789, 4418064000_000000001, -86400_000000000])
def test_C03_times_come_back(tiff: Path, out: Path, mtime_ns: int) -> None:
    os.utime(tiff, ns=(mtime_ns, mtime_ns))
    stored = tiff.stat().st_mtime_ns  # what this disk can hold
    restored = restore(pack(tiff).archive, out).files[0]
    assert restored.stat().st_mtime_ns == stored


def test_C03_times_of_a_series(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i in range(3):
        path = write_tiff(folder / f"p{i}.tif", TiffSpec(seed=i)).path
        os.utime(path, ns=(i * 10**18 + i, i * 10**18 + i))
    report = pack_series(plan_series(sorted(folder.iterdir()), folder), tmp_path / "s.zarr.zip")
    files = restore(report.archive, out).files
    assert [file.stat().st_mtime_ns for file in files] == [
        (folder / f"p{i}.tif").stat().st_mtime_ns for i in range(3)
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are no text")
def test_names_that_are_not_utf8(tmp_path: Path, out: Path) -> None:
    name = os.fsdecode(b"caf\xe9 %41.tif")
    made = write_tiff(tmp_path / name, TiffSpec(pages=2))
    report = pack(made.path, out)
    assert info(report.archive).members[0].name == "caf%E9 %2541.tif"
    assert restore(report.archive, tmp_path / "back").files == (tmp_path / "back" / name,)
    assert (tmp_path / "back" / name).read_bytes() == made.path.read_bytes()
    folder = tmp_path / "s"
    folder.mkdir()
    files = [write_tiff(folder / os.fsdecode(b"x\xff%d.tif" % i), TiffSpec(seed=i)).path for i in range(2)]
    series = pack_series(plan_series(files, folder), tmp_path / "s.zarr.zip")
    restored = restore(series.archive, tmp_path / "back2").files
    assert sorted(file.name for file in restored) == sorted(file.name for file in files)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have such names only in archives")
@pytest.mark.parametrize("name", ["C:x.tif", "a\\b.tif"])
def test_names_that_some_system_could_not_hold(tmp_path: Path, out: Path, name: str) -> None:
    made = write_tiff(tmp_path / name, TiffSpec())
    with pytest.raises(UnsupportedOperation, match="rename it"):
        pack(made.path, out)
    nothing_at_all(out)


@pytest.mark.parametrize("pair", [("A.tif", "a.tif"), ("caf\u00e9.tif", "cafe\u0301.tif")])
def test_C06_names_that_clash(tmp_path: Path, pair: tuple[str, str]) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for i, name in enumerate(pair):
        write_tiff(folder / name, TiffSpec(seed=i))
    if len(list(folder.iterdir())) < 2:
        pytest.skip("this disk keeps only one of the two")
    with pytest.raises(UnsupportedOperation, match="one name on some disks"):
        plan_series(sorted(folder.iterdir()), folder)


@posix
def test_C05_links_are_refused_with_the_list(tmp_path: Path) -> None:
    from napari_decant.archive import plan

    folder = tmp_path / "s"
    folder.mkdir()
    write_tiff(folder / "a.tif", TiffSpec())
    (folder / "b.tif").symlink_to("a.tif")
    (folder / "c.tif").symlink_to("/etc/hostname")
    (folder / "d.tif").symlink_to("nowhere")
    (folder / "e").symlink_to(folder)
    before = sorted(os.lstat(path).st_mtime_ns for path in folder.iterdir())
    with pytest.raises(UnsupportedOperation, match=r"links are not archived: .*and 1 more"):
        plan([folder], series=True)
    rows = plan([folder])
    assert sorted(row.mode for row in rows) == ["byte-exact", *["failed"] * 4]
    assert all("is a link" in (row.reason or "") for row in rows if row.mode == "failed")
    assert sorted(os.lstat(path).st_mtime_ns for path in folder.iterdir()) == before


def test_S01_link_entry_in_a_zip(tmp_path: Path, tiff: Path) -> None:
    import zipfile

    archive = pack(tiff).archive
    with zipfile.ZipFile(archive, "a") as opened:
        link = zipfile.ZipInfo("d")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        opened.writestr(link, "/tmp")
    with pytest.raises(UnsafeInput):
        restore(archive, tmp_path / "back")
    nothing_at_all(tmp_path / "back") if (tmp_path / "back").exists() else None


def test_S06_pickle_never_runs(tmp_path: Path, tiff: Path) -> None:
    import pickle

    from tests.support.damage import edit_entry

    marker = tmp_path / "marker"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (marker,))

    archive = pack(tiff).archive
    edit_entry(archive, "0/0/0/0", lambda _: pickle.dumps(Evil()))
    for filters in (b'[{"id": "pickle"}]', b'[{"id": "json2"}]'):
        edit_entry(
            archive, "0/.zarray", lambda data, f=filters: data.replace(b'"filters": null', b'"filters": ' + f)
        )
        report = verify(archive)
        assert not report.whole
        with pytest.raises(DecantError):
            restore(archive, tmp_path / "back")
        edit_entry(archive, "0/.zarray", lambda data, f=filters: data.replace(f, b"null"))
    assert not marker.exists()


def events_of(work: Callable[..., object]) -> Iterator[Progress]:
    seen: list[Progress] = []
    work(progress=seen.append)
    yield from seen


def test_B12_progress_never_goes_backwards(tiff: Path, out: Path) -> None:
    last: dict[str, int] = {}
    for event in events_of(lambda **k: pack(tiff, out, **k)):
        assert event.total == tiff.stat().st_size
        assert last.get(event.stage, 0) <= event.done <= event.total
        last[event.stage] = event.done
    assert last == {"pack": tiff.stat().st_size, "verify": tiff.stat().st_size}
