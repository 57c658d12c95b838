"""The same jobs on a Dask cluster: packed, cancelled, and no worker that dies leaves anybody waiting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiffwriter import TiffSpec, write_tiff
from tests.support.working import stay

from napari_decant.archive import pack_batch, plan, restore, verify
from napari_decant.cli import main
from napari_decant.cli._cluster import ClusterExecutor, executor_at
from napari_decant.errors import Cancelled, StorageError, UsageError
from napari_decant.progress import CancelToken, Progress

ROOT = Path(__file__).parent.parent
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.timeout(120),
    # Dask's own objects are let go of by its event loop, in its own time
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Cluster:
    """A scheduler and workers on this machine, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        deadline = time.monotonic() + 60
        while not self._file.exists():
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        options = ["--scheduler-file", str(self._file), "--no-dashboard"]
        with (self._folder / f"{words[0]}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words, *options],
                stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip

    def add_workers(self, count: int) -> None:
        options = ["--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--memory-limit", "0"]
        self.workers += [self._start("worker", *options) for _ in range(count)]

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_workers(2)
        with distributed.Client(made.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield made
    finally:
        made.close()


def tree(folder: Path, count: int, **size: int) -> list[Path]:
    """TIFFs in folders below ``folder``, each with other pixels."""
    files = []
    for i in range(count):
        where = folder / f"day{i % 2}"
        where.mkdir(parents=True, exist_ok=True)
        files.append(write_tiff(where / f"p{i}.tif", TiffSpec(pages=2, seed=i, trailing=i, **size)).path)
    return files


def test_a_tree_is_packed_by_the_cluster(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tree(tmp_path / "in", 6)
    words = ["pack", tmp_path / "in", "-o", tmp_path / "out", "--cluster", cluster.address, "--json"]
    assert main([str(word) for word in words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in report["rows"]] == ["packed"] * 6
    for file in files:
        relative = file.relative_to(tmp_path / "in")
        archive = tmp_path / "out" / relative.parent / f"{relative.name}.zarr.zip"
        assert verify(archive).whole
        (restored,) = restore(archive, tmp_path / "back" / relative.parent).files
        assert restored.read_bytes() == file.read_bytes()
    assert main([str(word) for word in words]) == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"skipped"}


def test_a_failure_on_the_cluster_is_one_row(cluster: Cluster, tmp_path: Path) -> None:
    files = tree(tmp_path / "in", 3)
    rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)
    files[1].unlink()
    with executor_at(cluster.address) as executor:
        report = pack_batch(rows, executor=executor)
    states = {row.source.name: row.state for row in report.rows}
    assert states == {"p0.tif": "packed", "p1.tif": "failed", "p2.tif": "packed"}
    (message,) = [row.message for row in report.rows if row.state == "failed"]
    assert "p1.tif does not exist" in message


def cancel_once_begun(token: CancelToken, told: list[float]) -> Callable[[Progress], None]:
    def progress(event: Progress) -> None:
        if event.done and not told:
            told.append(time.monotonic())
            token.cancel()

    return progress


def test_cancel_reaches_the_workers(cluster: Cluster, tmp_path: Path) -> None:
    tree(tmp_path / "in", 6, height=2000, width=2100)
    rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)
    token, told = CancelToken(), list[float]()
    with executor_at(cluster.address) as executor, pytest.raises(Cancelled):
        pack_batch(rows, executor=executor, cancel=token, progress=cancel_once_begun(token, told))
    assert time.monotonic() - told[0] < 5  # the workers look every 0.1 s, this test shares its machine
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(left) < 6
    assert all(verify(path).whole for path in left), left


def test_wrong_address() -> None:
    with pytest.raises(UsageError, match="no Dask scheduler answers"), executor_at("nowhere"):
        pass


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_z_lost_workers_cost_rows_but_no_time(cluster: Cluster, tmp_path: Path) -> None:
    """The last one, since it ends the cluster: one worker is lost, then the other, then nobody is left."""
    client: Any = distributed.Client(cluster.address, set_as_default=False)
    executor = ClusterExecutor(client, patience=2)
    try:
        marker = tmp_path / "marker"
        future = executor.submit(os.getpid)
        assert future.result(timeout=30) in {worker.pid for worker in cluster.workers}
        future = executor.submit(stay, str(marker), 2)
        wait_until(lambda: marker.exists() and marker.read_text())
        first = int(marker.read_text())
        os.kill(first, signal.SIGKILL)  # another worker does it again
        assert future.result(timeout=60) != first
        tree(tmp_path / "in", 3)
        rows = plan([tmp_path / "in"], tmp_path / "out", estimate=False)
        assert [row.state for row in pack_batch(rows, executor=executor).rows] == ["packed"] * 3
        for worker in cluster.workers:
            worker.kill()
            worker.wait()
        again = pack_batch(rows, executor=executor, overwrite=True)
        assert [row.state for row in again.rows] == ["failed"] * 3
        assert all("no workers any more" in row.message for row in again.rows)
        assert all(verify(row.archive).whole for row in again.rows)  # the finished ones stay
        with pytest.raises(StorageError):
            executor.submit(os.getpid).result(timeout=30)
    finally:
        executor.shutdown(wait=False)
        client.close(timeout=2)
