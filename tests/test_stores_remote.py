"""Stores behind http and s3 give the same bytes as the folder and the zip file that are served."""

from __future__ import annotations

import pickle
import socket
import threading
import time
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.servers import serve_http, serve_s3

from napari_decant.errors import (
    AccessRefused,
    BudgetExceeded,
    MissingKey,
    SourceChanged,
    StorageError,
    UnsafeInput,
    UnsupportedOperation,
)
from napari_decant.stores import (
    FileMetadataReader,
    MetadataBudget,
    RemoteStore,
    ZipStore,
    _remote,
    find_roots,
    open_store,
)

DATA = {
    "zarr.json": b'{"zarr_format": 3}',
    "0/zarr.json": b"{}",
    "0/c/0/0": bytes(range(256)) * 50,
    "with space/ä+%25": b"odd name",
}


@pytest.fixture
def served(tmp_path: Path):
    for key, value in DATA.items():
        path = tmp_path / "img.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    with zipfile.ZipFile(tmp_path / "img.zarr.zip", "w") as archive:
        for key in ("0/c/0/0", "0/zarr.json", "zarr.json"):
            archive.writestr(key, DATA[key])
        archive.writestr("big", b"\x07" * 3_000_000)
    with serve_http(tmp_path) as server:
        yield server


def check(store: RemoteStore) -> None:
    for key, value in DATA.items():
        assert store.read(key) == value
        where = store.extent(key)
        assert where is not None
        assert where.length == len(value)
    assert store.read("0/c/0/0", 300, 700) == DATA["0/c/0/0"][300:700]
    out = bytearray(100)
    store.read_file_into("0/c/0/0", 5, memoryview(out))
    assert bytes(out) == DATA["0/c/0/0"][5:105]
    assert store.extent("0/c/9/9") is None
    assert store.read_optional("gone") is None
    with pytest.raises(MissingKey):
        store.read("gone")
    with pytest.raises(MissingKey):
        store.read_file("gone", 0, 1)
    with pytest.raises(UnsafeInput):
        store.read("../img.zarr.zip")
    with pytest.raises(UnsafeInput, match="12,800 bytes"):
        store.read("0/c/0/0", limit=100)
    with pytest.raises(StorageError):
        store.read_file("0/c/0/0", 12_000, 5_000)
    budget = MetadataBudget(20)
    keys = ["zarr.json", "0/zarr.json", "1/zarr.json"]
    assert FileMetadataReader(4).read_many(store, keys, budget) == {k: DATA[k] for k in keys[:2]}
    with pytest.raises(BudgetExceeded):
        FileMetadataReader(4).read(store, "0/c/0/0", budget)
    assert pickle.loads(pickle.dumps(store)).read("zarr.json") == DATA["zarr.json"]


def test_http_folder(served) -> None:
    with open_store(f"{served.url}/img.zarr") as store:
        assert isinstance(store, RemoteStore)
        check(store)
        assert find_roots(store) == [""]
        with pytest.raises(UnsupportedOperation, match="cannot be listed"):
            store.list_dir()
    with pytest.raises(StorageError, match="closed"):
        store.read("zarr.json")


def test_http_reads_a_whole_document_in_one_request(served) -> None:
    with open_store(f"{served.url}/img.zarr") as store:
        served.requests.clear()
        store.read("0/zarr.json")
        assert served.requests == [("GET", "/img.zarr/0/zarr.json", "")]


def test_http_metadata_reads_are_in_flight_together(served) -> None:
    keys = [f"{i}/zarr.json" for i in range(8)]
    with open_store(f"{served.url}/img.zarr") as store:
        store.exists("zarr.json")
        served.together = threading.Barrier(8, timeout=10)  # which fails if one waits for the other's answer
        FileMetadataReader(concurrency=8).read_many(store, keys)
        assert not served.together.broken


def test_zip_over_http_reads_its_tail_once(served) -> None:
    with open_store(f"{served.url}/img.zarr.zip") as store:
        assert isinstance(store, ZipStore)
        assert served.requests == [("GET", "/img.zarr.zip", "bytes=-1048576")]
        assert store.read("0/c/0/0") == DATA["0/c/0/0"]
        assert served.requests[1:] == [("GET", "/img.zarr.zip", "bytes=37-12836")]
        assert store.read("big")[-5:] == b"\x07" * 5
        assert pickle.loads(pickle.dumps(store)).read("zarr.json") == DATA["zarr.json"]


def test_a_zip_that_changes_on_its_server_is_noticed(tmp_path: Path, served) -> None:
    with open_store(f"{served.url}/img.zarr.zip") as store:
        path = tmp_path / "img.zarr.zip"
        path.write_bytes(path.read_bytes().replace(bytes(range(256)), bytes(range(255, -1, -1)), 1))
        with pytest.raises(SourceChanged, match="changed on its server"):
            store.read("0/c/0/0")


def test_small_zip_over_http_is_one_request(tmp_path: Path, served) -> None:
    with zipfile.ZipFile(tmp_path / "small.ozx", "w") as archive:
        for key, value in DATA.items():
            archive.writestr(key, value)
    with open_store(f"{served.url}/small.ozx") as store:
        assert {k: store.read(k) for k in store.keys()} == DATA  # noqa: SIM118
    assert len(served.requests) == 1


def test_a_server_without_ranges_gives_whole_objects(served) -> None:
    served.ranges = False
    with open_store(f"{served.url}/img.zarr") as store:
        assert {key: store.read(key) for key in DATA} == DATA
        with pytest.raises(StorageError, match="byte ranges; download it first"):
            store.read("0/c/0/0", 5, 9)
        served.requests.clear()
        assert store.read_file("0/c/0/0", 0, len(DATA["0/c/0/0"])) == DATA["0/c/0/0"]
        assert [found for _, _, found in served.requests] == [""]  # it is not asked for ranges again


def test_a_server_that_refuses_what_is_not_there(served) -> None:
    served.absent = 403  # as buckets do that let nobody list
    with open_store(f"{served.url}/img.zarr") as store:
        assert find_roots(store) == [""]
        reader = FileMetadataReader()
        assert reader.read_many(store, [".zattrs", "zarr.json"]) == {"zarr.json": DATA["zarr.json"]}
        with pytest.raises(AccessRefused, match="refuses access"):
            reader.read_many(store, [".zattrs", ".zgroup"])
        with pytest.raises(AccessRefused):  # a chunk may be there and be refused: it is never made up
            store.extent("0/c/9/9")
    with open_store(f"{served.url}/nothing.zarr") as store, pytest.raises(AccessRefused):
        find_roots(store)


def test_slashes_in_a_row_are_one(served) -> None:
    with open_store(f"{served.url}//img.zarr//") as store:
        assert store.read("zarr.json") == DATA["zarr.json"]


def test_servers_that_fail_say_so(served) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        open_store(f"{served.url}/nothing.zip")
    with pytest.raises(UnsupportedOperation, match="query"):
        open_store(f"{served.url}/img.zarr?token=1")
    served.ranges = False
    with pytest.raises(StorageError, match="byte ranges; download it first"):
        open_store(f"{served.url}/img.zarr.zip")


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "refuses access"), (403, "refuses access"), (503, "answers 503 Service Unavailable")],
)
def test_what_a_server_answers_is_told_in_words(served, status: int, words: str) -> None:
    served.status = status
    with pytest.raises(StorageError, match=words):
        RemoteStore(f"{served.url}/img.zarr").read("zarr.json")


def test_a_silent_server_is_given_up(served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remote, "_SILENCE", timedelta(seconds=0.3))
    monkeypatch.setattr(_remote, "_RETRYING", timedelta(seconds=0.1))
    store = RemoteStore(f"{served.url}/img.zarr")
    served.delay = 1.0
    begun = time.monotonic()
    with pytest.raises(StorageError, match="does not answer; try again later"):
        store.read("zarr.json")
    assert time.monotonic() - begun < 5
    nobody = f"http://127.0.0.1:{unused_port()}/img.zarr"
    with pytest.raises(StorageError, match=r"cannot be reached; check the address"):
        RemoteStore(nobody).read("zarr.json")


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_s3(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.ozx", "w") as archive:
        for key, value in DATA.items():
            archive.writestr(key, value)
    objects = {f"set/img.zarr/{key}": value for key, value in DATA.items()}
    objects["set/a.ozx"] = (tmp_path / "a.ozx").read_bytes()
    with serve_s3(objects) as bucket:
        with open_store(f"{bucket}/set/img.zarr") as store:
            assert isinstance(store, RemoteStore)
            check(store)
            assert store.list_dir() == (["0", "with space"], ["zarr.json"])
            assert store.list_dir("0") == (["c"], ["zarr.json"])
            assert list(store.keys("0")) == ["0/c/0/0", "0/zarr.json"]
            assert list(store.keys()) == sorted(DATA)
        with open_store(f"{bucket}/set/a.ozx") as store:
            assert {k: store.read(k) for k in store.keys()} == DATA  # noqa: SIM118
        with open_store(f"{bucket}/set") as store:
            assert find_roots(store) == ["img.zarr"]
