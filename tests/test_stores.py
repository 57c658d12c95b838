"""A store gives exactly the bytes of its keys, from any thread, and never anything outside its root."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from napari_decant.errors import BudgetExceeded, MissingKey, StorageError, UnsafeInput, UnsupportedOperation
from napari_decant.stores import (
    FileMetadataReader,
    FolderStore,
    MemoryStore,
    MetadataBudget,
    Store,
    ZipStore,
    find_roots,
    open_store,
)
from napari_decant.stores._atomic import storage_error

UNSAFE_KEYS = ["../x", "a/../../x", "/abs", "C:\\x", "C:/x", "..\\x", "\\\\srv\\s\\x", "a\0b", ""]
UNSAFE_KEYS += ["a//b", "a/", "./a", "a" * 5000]


def contents(count: int = 40) -> dict[str, bytes]:
    rng = np.random.default_rng(7)
    data = {f"0/c/{i // 8}/{i % 8}": rng.bytes(500 + 37 * i) for i in range(count)}
    data |= {"zarr.json": b"{}", "0/zarr.json": b'{"a": 1}', "a.b": b"x", "a/b": b"y", "empty": b""}
    return data


def write_folder(root: Path, data: dict[str, bytes]) -> Path:
    for key, value in data.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    return root


def write_zip(path: Path, data: dict[str, bytes], method: int = zipfile.ZIP_STORED, prefix: str = "") -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, value in data.items():
            archive.writestr(prefix + key, value)
    return path


@pytest.fixture(params=["folder", "stored", "deflated", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    data = contents()
    if request.param == "folder":
        opened: Store = FolderStore(write_folder(tmp_path / "s", data))
    elif request.param == "memory":
        opened = MemoryStore(data)
    else:
        method = zipfile.ZIP_STORED if request.param == "stored" else zipfile.ZIP_DEFLATED
        opened = open_store(write_zip(tmp_path / "s.zarr.zip", data, method))
    with opened:
        yield opened


def test_every_key_reads_back(store: Store) -> None:
    data = contents()
    assert list(store.keys()) == sorted(data)
    assert list(store.keys("0/c/1")) == sorted(k for k in data if k.startswith("0/c/1/"))
    for key, value in data.items():
        assert store.read(key) == value
        where = store.extent(key)
        assert where is not None
        assert where.length == len(value)
        out = bytearray(len(value))
        store.read_file_into(where.file, where.offset, memoryview(out))
        assert bytes(out) == value
    assert store.read("0/c/3/1", 10, 50) == data["0/c/3/1"][10:50]
    assert store.read("0/c/3/1", 10, 10**9) == data["0/c/3/1"][10:]


def test_listing(store: Store) -> None:
    assert store.list_dir() == (["0", "a"], ["a.b", "empty", "zarr.json"])
    assert store.list_dir("0") == (["c"], ["zarr.json"])
    assert store.list_dir("0/c/") == ([str(i) for i in range(5)], [])
    assert store.list_dir("nothing") == ([], [])
    assert store.exists("0/zarr.json")
    assert not store.exists("0")


def test_absent_and_oversized_keys(store: Store) -> None:
    assert store.extent("0/c/99/0") is None
    assert store.read_optional("0/c/99/0") is None
    with pytest.raises(MissingKey, match="0/c/99/0"):
        store.read("0/c/99/0")
    with pytest.raises(UnsafeInput, match="500 bytes"):
        store.read("0/c/0/0", limit=499)


def test_reads_past_the_end_are_errors(store: Store) -> None:
    where = store.extent("0/c/4/7")
    assert where is not None
    with pytest.raises(StorageError):
        store.read_file(where.file, where.offset, 1 << 40)


@pytest.mark.parametrize("key", UNSAFE_KEYS)
def test_keys_never_leave_the_store(store: Store, key: str) -> None:
    for ask in (store.extent, store.read, store.read_optional):
        with pytest.raises(UnsafeInput):
            ask(key)
    if key.rstrip("/") and key != "a/":
        with pytest.raises(UnsafeInput):
            store.list_dir(key)


def test_closed_stores_refuse_and_close_twice(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.read("0/zarr.json")


def test_pickled_store_reads_the_same(store: Store) -> None:
    with pickle.loads(pickle.dumps(store)) as again:
        assert again.uri == store.uri
        assert {k: again.read(k) for k in again.keys()} == contents()  # noqa: SIM118 (not a dict)


@pytest.mark.parametrize("kind", ["folder", "stored", "deflated"])
def test_32_threads_read_random_keys_right(tmp_path: Path, kind: str) -> None:
    """Field report A-10."""
    rng = np.random.default_rng(1)
    data = {f"0/{i}": rng.bytes(int(rng.integers(1, 20_000))) for i in range(500)}
    if kind == "folder":
        location = write_folder(tmp_path / "s", data)
    else:
        method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
        location = write_zip(tmp_path / "s.zip", data, method)
    hashes = {key: hashlib.sha256(value).digest() for key, value in data.items()}
    wrong: list[str] = []
    with open_store(location) as store:

        def work(seed: int) -> None:
            mine = np.random.default_rng(seed)
            try:
                for i in mine.integers(0, 500, 150):
                    if hashlib.sha256(store.read(f"0/{i}")).digest() != hashes[f"0/{i}"]:
                        wrong.append(f"0/{i}")  # noqa: PERF401
            except Exception as error:  # noqa: BLE001
                wrong.append(repr(error))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        code = (
            "import pickle,sys,hashlib; s=pickle.load(sys.stdin.buffer);"
            "print(hashlib.sha256(b''.join(hashlib.sha256(s.read(f'0/{i}')).digest() for i in"
            " range(500))).hexdigest())"
        )
        state = pickle.dumps(store)
        out = subprocess.run([sys.executable, "-c", code], input=state, capture_output=True, check=True)
    everything = hashlib.sha256(b"".join(hashes[f"0/{i}"] for i in range(500))).hexdigest()
    assert out.stdout.decode().strip() == everything


def test_closing_while_others_read_gives_right_bytes_or_an_error(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", {"k": b"\x5a" * 200_000})
    for _ in range(5):
        store = open_store(path)
        seen: list[object] = []
        started = threading.Event()

        def work(store: Store = store, seen: list[object] = seen, started: threading.Event = started) -> None:
            for _ in range(400):
                try:
                    seen.append(store.read("k") == b"\x5a" * 200_000)
                except StorageError:
                    return
                started.set()

        thread = threading.Thread(target=work)
        thread.start()
        started.wait(10)
        store.close()
        with open(os.devnull, "rb"):  # takes the freed descriptor number, if it was freed too early
            thread.join()
        assert all(seen)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files through /proc")
def test_read_only_zip_is_left_alone_and_released(tmp_path: Path) -> None:
    """Field report A-03."""
    folder = tmp_path / "readonly"
    folder.mkdir()
    path = write_zip(folder / "s.zarr.zip", contents())
    before = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
    path.chmod(0o444)
    folder.chmod(0o555)
    try:

        def handles() -> int:
            links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
            return links.count(str(path))

        store = open_store(path)
        assert store.read("a/b") == b"y"
        assert handles() == 1
        store.close()
        assert handles() == 0
        store = open_store(path)
        del store  # the last layer is gone
        assert handles() == 0
        assert os.listdir(folder) == ["s.zarr.zip"]
        assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) == before
    finally:
        folder.chmod(0o755)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files through /proc")
def test_folder_keeps_few_files_open(tmp_path: Path) -> None:
    data = {f"c/{i}": b"%d" % i for i in range(300)}
    with FolderStore(write_folder(tmp_path / "s", data), max_open_files=10) as store:
        before = len(os.listdir("/proc/self/fd"))
        assert all(store.read(key) == value for key, value in data.items())
        assert len(os.listdir("/proc/self/fd")) <= before + 11
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "k").write_bytes(b"secret")
    root = write_folder(tmp_path / "s", {"in/k": b"inside"})
    (root / "file").symlink_to(secret / "k")
    (root / "folder").symlink_to(secret)
    (root / "ok").symlink_to(root / "in")
    (root / "okfile").symlink_to("in/k")
    (root / "dangling").symlink_to(root / "nowhere")
    with FolderStore(root) as store:
        assert store.read("ok/k") == b"inside"
        assert store.read("okfile") == b"inside"
        assert store.extent("dangling") is None
        for key in ("file", "folder/k"):
            with pytest.raises(UnsafeInput, match="link"):
                store.read(key)
        with pytest.raises(UnsafeInput, match="link"):
            store.list_dir("folder")
        (root / "in" / "loop").symlink_to(root / "in")
        with pytest.raises(UnsafeInput, match="contains it"):
            list(store.keys("in"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "s", {"k": b"1"})
    os.mkfifo(root / "pipe")
    with FolderStore(root) as store, pytest.raises(UnsafeInput, match="regular"):
        store.read("pipe")


def test_windows_fallback_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from napari_decant.stores import _positional

    for name in ("pread", "preadv"):
        monkeypatch.delattr(os, name, raising=False)
    path = write_zip(tmp_path / "s.zip", contents())
    with open_store(path) as store:
        assert store._file._handle._lock is not None  # type: ignore[attr-defined]
        assert {k: store.read(k) for k in store.keys()} == contents()  # noqa: SIM118
    assert _positional.LocalFile(path).read_at(0, 2) == b"PK"


def test_open_store_knows_locations(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "ä b", contents())
    for location in (root, str(root), root.as_uri()):
        with open_store(location) as store:
            assert isinstance(store, FolderStore)
            assert store.read("a/b") == b"y"
    zipped = write_zip(tmp_path / "image.OZX", contents())
    renamed = write_zip(tmp_path / "no suffix", contents())
    for location in (zipped, zipped.as_uri(), renamed):
        with open_store(location) as store:
            assert isinstance(store, ZipStore)
            assert store.read("a/b") == b"y"
    memory = MemoryStore({"k": b"v"}, name="m1")
    assert open_store("memory://m1") is memory
    assert open_store(memory) is memory
    tiff = tmp_path / "a.tif"
    tiff.write_bytes(b"II*\0\x08\0\0\0")
    with pytest.raises(UnsupportedOperation, match=r"a\.tif"):
        open_store(tiff)
    with pytest.raises(StorageError, match="does not exist"):
        open_store(tmp_path / "nothing")
    with pytest.raises(StorageError, match="memory://gone"):
        open_store("memory://gone")


def test_outer_folder_is_found_and_never_guessed(tmp_path: Path) -> None:
    """Field report A-02."""
    data = contents()
    noise = {"__MACOSX/._img.zarr": b"n", ".DS_Store": b"n", "__MACOSX/img.zarr/zarr.json": b"{}"}
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("img.zarr/", b"")
        archive.writestr("img.zarr/0/", b"")
        for key, value in (noise | {f"img.zarr/{k}": v for k, v in data.items()}).items():
            archive.writestr(key, value)
    with open_store(path) as store:
        assert find_roots(store) == ["img.zarr"]
    with open_store(write_zip(tmp_path / "b.zip", {"x/a/.zgroup": b"{}", "x/b/zarr.json": b"{}"})) as store:
        assert find_roots(store) == ["x/a", "x/b"]
    with open_store(write_zip(tmp_path / "c.zip", data)) as store:
        assert find_roots(store) == [""]
    with open_store(write_zip(tmp_path / "d.zip", {"readme.txt": b"x"})) as store:
        assert find_roots(store) == []


def test_metadata_reader_charges_before_reading(store: Store) -> None:
    reader = FileMetadataReader(concurrency=8)
    budget = MetadataBudget(10)
    assert reader.read_many(store, ["zarr.json", "0/zarr.json", "gone", "zarr.json"], budget) == {
        "zarr.json": b"{}",
        "0/zarr.json": b'{"a": 1}',
    }
    assert budget.spent == 10
    with pytest.raises(BudgetExceeded, match="max_metadata_bytes") as caught:
        reader.read(store, "a.b", budget)
    assert (caught.value.need, caught.value.limit) == (11, 10)
    assert reader.read(store, "empty", budget) == b""


def test_100000_entries_open_in_well_under_a_second(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(100_000):
            archive.writestr(zipfile.ZipInfo(f"0/c/{i // 1000}/{i % 1000}"), b"%d" % i)
    started = time.perf_counter()
    with open_store(path) as store:
        elapsed = time.perf_counter() - started
        assert store.read("0/c/99/999") == b"99999"
    assert elapsed < 2.0  # about 0.3 s on an idle core


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full .*free some space"),
        (errno.EROFS, "is read-only: .*choose another folder"),
        (errno.EACCES, "no permission .*change the permissions"),
        (errno.ENAMETOOLONG, "too long .*shorten it"),
        (errno.EIO, "failed: Input/output error"),
    ],
)
def test_what_the_system_says_becomes_a_sentence_with_a_way_out(
    tmp_path: Path, code: int, words: str
) -> None:
    target = tmp_path / "cell.tif.zarr.zip"
    said = str(storage_error("writing", target, OSError(code, os.strerror(code))))
    assert re.search(words, said)
    assert str(target) in said
