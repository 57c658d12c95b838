"""A damaged or hostile zip file is refused with one clear reason, cheaply; honest odd ones open."""

from __future__ import annotations

import io
import os
import stat
import struct
import time
import warnings
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_decant.errors import DecantError, FormatError, UnsafeInput, UnsupportedOperation
from napari_decant.stores import (
    BytesFile,
    ZipLimits,
    ZipStore,
    open_store,
    read_zip_directory,
    salvage_entries,
)


def zip_bytes(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.comment = comment
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def raw_zip(entries: list[dict[str, object]], kernel: bytes | None = None) -> bytes:
    """Write a zip by hand; each entry may lie about anything, and have a ``comment``."""
    body, directory = bytearray(kernel or b""), bytearray()
    for entry in entries:
        name, data = entry["name"], entry.get("data", b"")
        assert isinstance(name, bytes)
        assert isinstance(data, bytes)
        flags, method = entry.get("flags", 0x800), entry.get("method", 0)
        size, compressed = entry.get("size", len(data)), entry.get("compressed", len(data))
        crc, mode = entry.get("crc", zlib.crc32(data)), entry.get("mode", 0)
        offset = entry.get("offset", len(body))
        if "offset" not in entry:
            own = entry.get("own_name", name)
            assert isinstance(own, bytes)
            body += struct.pack(
                "<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 0x21, crc, compressed, size, len(own), 0
            )
            body += own + data
        comment = entry.get("comment", b"")
        assert isinstance(mode, int)
        assert isinstance(comment, bytes)
        directory += struct.pack(
            "<4s4H4L5H2L", b"PK\1\2", 0x0314, 20, flags, method, 0x210000, crc, compressed, size, len(name),
            0, len(comment), 0, 0, mode << 16, offset,
        ) + name + comment  # fmt: skip
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    return bytes(body + directory + end)


def opened(data: bytes, **kwargs: object) -> ZipStore:
    return ZipStore(BytesFile(data, "test.zip"), **kwargs)  # type: ignore[arg-type]


GOOD = zip_bytes({"zarr.json": b"{}", "0/c/0": b"pixels" * 100}, comment=b"hello")


def test_entries_state_the_facts() -> None:
    store = opened(GOOD)
    assert store.comment == b"hello"
    entry = store.entry("0/c/0")
    assert (entry.name, entry.method, entry.crc, entry.size, entry.compressed_size, entry.index) == (
        "0/c/0", 0, zlib.crc32(b"pixels" * 100), 600, 600, 1,
    )  # fmt: skip
    assert GOOD[entry.header_offset :].startswith(b"PK\3\4")
    assert GOOD[store.data_offset(entry) :].startswith(b"pixels")
    assert store.check_local_header(entry) == store.data_offset(entry)
    assert [e.name for e in store.entries] == ["zarr.json", "0/c/0"]


@pytest.mark.parametrize("cut", [1, 22, len(GOOD) // 2, len(GOOD) - 3])
def test_truncated_archive_says_so(tmp_path: Path, cut: int) -> None:
    """Field report C-02."""
    path = tmp_path / "cut.ozx"
    path.write_bytes(GOOD[:-cut])
    with pytest.raises(FormatError, match="incomplete"):
        open_store(path)


def test_2_gib_of_zeros_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "zeros.ozx"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    started = time.perf_counter()
    with pytest.raises(FormatError, match="incomplete"):
        open_store(path)
    assert time.perf_counter() - started < 1.0


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_intact_entries_of_a_cut_archive_are_listed(method: int) -> None:
    """Field report C-02: what is left, with its state."""
    entries = {f"0/{i}": bytes((i * j) % 251 for j in range(3000)) for i in range(1, 6)}
    data = zip_bytes(entries, method)
    third = opened(data).entry("0/3")
    cut = BytesFile(data[: third.header_offset + 50])
    assert [(e.name, e.state) for e in salvage_entries(cut)] == [
        ("0/1", "intact"),
        ("0/2", "intact"),
        ("0/3", "cut"),
    ]
    flipped = bytearray(data)
    flipped[opened(data).data_offset(third) + 5] ^= 1
    assert {e.name: e.state for e in salvage_entries(BytesFile(bytes(flipped)))}["0/3"] == "damaged"
    assert {e.state for e in salvage_entries(BytesFile(data))} == {"intact"}
    assert next(data[e.data_offset : e.data_offset + e.size] for e in salvage_entries(BytesFile(data))) == (
        entries["0/1"]
        if method == zipfile.ZIP_STORED
        else data[opened(data).data_offset(0) :][: opened(data).entries[0].compressed_size]
    )
    assert list(salvage_entries(BytesFile(b"\0" * 1000))) == []
    big = io.BytesIO()
    with zipfile.ZipFile(big, "w") as archive, archive.open("a", "w", force_zip64=True) as entry:
        entry.write(b"sixty-four")
    assert [(e.name, e.size, e.state) for e in salvage_entries(BytesFile(big.getvalue()[:-10]))] == [
        ("a", 10, "intact")
    ]


@pytest.mark.parametrize(
    "name", [b"../x", b"a/../../x", b"/abs", b"C:\\x", b"..\\x", b"\\\\srv\\s\\x", b"a\0b", b"a//b", b""]
)
def test_unsafe_names_refuse_the_file_and_are_listed(name: bytes) -> None:
    """Field report S-01."""
    data = raw_zip([{"name": b"zarr.json", "data": b"{}"}, {"name": name, "data": b"evil"}])
    with pytest.raises(UnsafeInput, match="unsafe entry names"):
        opened(data)
    listed = read_zip_directory(BytesFile(data))
    assert [n for n, _ in listed.unsafe] == [name.decode()]
    assert listed.names == ["zarr.json", name.decode()]


def test_link_entries_are_refused() -> None:
    data = raw_zip(
        [{"name": b"d", "data": b"/tmp", "mode": stat.S_IFLNK | 0o777}, {"name": b"d/x", "data": b"evil"}]
    )
    with pytest.raises(UnsafeInput, match="'d' is a link"):
        opened(data)


def test_name_said_to_be_utf8_but_is_not() -> None:
    """Field report S-06."""
    with pytest.raises(FormatError, match=r"damaged.*UTF-8"):
        opened(raw_zip([{"name": b"\xff\xfe", "data": b"x"}]))


def test_old_names_are_read_as_every_zip_tool_does() -> None:
    assert opened(raw_zip([{"name": b"\x84.txt", "data": b"x", "flags": 0}])).read("ä.txt") == b"x"


def test_overlapping_entries_are_unsafe() -> None:
    """Field report S-02: 50 entries over one kernel of data."""
    kernel = zip_bytes({"0": b"\0" * 10_000}, zipfile.ZIP_DEFLATED)
    kernel = kernel[: kernel.index(b"PK\1\2")]
    packed = len(kernel) - 31
    entries: list[dict[str, object]] = [
        {"name": b"0", "offset": 0, "method": 8, "size": 10_000, "compressed": packed} for _ in range(50)
    ]
    with pytest.raises(UnsafeInput, match="overlapping"):
        opened(raw_zip(entries, kernel))


@pytest.mark.parametrize("method", [0, 8])
def test_a_small_file_that_declares_4_gib(method: int) -> None:
    data = raw_zip([{"name": b"a", "data": b"tiny", "method": method, "size": 0xFFFFFFF0, "compressed": 4}])
    with pytest.raises(FormatError, match=r"two sizes differ|no deflate stream"):
        opened(data)
    data = raw_zip([{"name": b"a", "data": b"tiny", "size": 0xFFFFFFF0, "compressed": 0xFFFFFFF0}])
    with pytest.raises(FormatError, match="past the directory"):
        opened(data)


@pytest.mark.parametrize(
    ("declared", "reason"), [(999, "more than"), (1001, "instead of"), (50_000, "instead of")]
)
def test_deflated_entry_never_passes_its_declared_size(declared: int, reason: str) -> None:
    raw = bytes(i % 251 for i in range(1000))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(raw) + packer.flush()
    entry = {"name": b"a", "data": packed, "method": 8, "size": declared, "crc": zlib.crc32(raw)}
    with pytest.raises(FormatError, match=reason):
        opened(raw_zip([entry])).read("a")
    good = {**entry, "size": 1000}
    assert opened(raw_zip([good])).read("a") == raw
    with pytest.raises(FormatError, match="CRC"):
        opened(raw_zip([{**good, "crc": 1}])).read("a")
    with pytest.raises(FormatError, match="does not inflate"):
        opened(raw_zip([{**good, "data": b"\xff" * len(packed)}])).read("a")
    with pytest.raises(UnsafeInput, match="not inflated"):
        opened(raw_zip([good]), limits=ZipLimits(max_inflated_bytes=999)).read("a")


def test_duplicate_names_warn_or_are_refused() -> None:
    data = raw_zip([{"name": b"k", "data": b"old"}, {"name": b"k", "data": b"new"}])
    store = opened(data)
    assert store.read("k") == b"new"
    assert store.entries.duplicates == ("k",)
    assert "more than once" in store.warnings[0]
    with pytest.raises(FormatError, match="more than once"):
        opened(data, strict=True)


def test_encrypted_and_exotic_entries_leave_the_others_readable() -> None:
    store = opened(
        raw_zip(
            [
                {"name": b"secret", "data": b"x", "flags": 1},
                {"name": b"odd", "data": b"x", "method": 93},
                {"name": b"ok", "data": b"fine"},
            ]
        )
    )
    assert store.read("ok") == b"fine"
    with pytest.raises(UnsupportedOperation, match="encrypted"):
        store.read("secret")
    with pytest.raises(UnsupportedOperation, match="Zstandard"):
        store.read("odd")


def test_local_header_must_agree_with_the_directory() -> None:
    store = opened(raw_zip([{"name": b"a", "own_name": b"b", "data": b"x"}]))
    with pytest.raises(FormatError, match="another name"):
        store.read("a")
    data = bytearray(GOOD)
    data[14] ^= 1  # the CRC in the first local header
    with pytest.raises(FormatError, match="another CRC"):
        opened(bytes(data)).read("zarr.json")
    data = bytearray(GOOD)
    data[28] = 200  # a longer extra field moves the data into the next entry
    with pytest.raises(FormatError, match="runs into the next"):
        opened(bytes(data)).read("zarr.json")


def test_caps_come_before_allocation() -> None:
    with pytest.raises(UnsafeInput, match="2 entries"):
        opened(GOOD, limits=ZipLimits(max_entries=1))
    with pytest.raises(UnsafeInput, match="directory of"):
        opened(GOOD, limits=ZipLimits(max_directory_bytes=10))
    lying = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFE, 0xFFFE, 0xFFFFFFF0, 0, 0)
    with pytest.raises(FormatError, match=r"damaged|claims"):
        opened(lying)


def test_zip64_and_data_descriptors_open(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, archive.open("a", "w", force_zip64=True) as entry:
        entry.write(b"sixty-four" * 10)
    assert opened(buffer.getvalue()).read("a") == b"sixty-four" * 10

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += bytes(data)  # type: ignore[call-overload]
            return len(bytes(data))  # type: ignore[call-overload]

    stream = Stream()
    with zipfile.ZipFile(stream, "w") as archive:  # not seekable: sizes follow the data
        archive.writestr("a", b"streamed" * 20)
        archive.writestr("b", b"second")
    store = opened(bytes(stream.data))
    assert (store.read("a"), store.read("b")) == (b"streamed" * 20, b"second")


def test_sparse_zip_beyond_4_gib(tmp_path: Path) -> None:
    path = tmp_path / "big.zip"
    start = (4 << 30) + 12_345
    try:
        with path.open("wb") as file:
            file.truncate(start)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("far", b"far away")
    except OSError:
        pytest.skip("no sparse files here")
    assert os.stat(path).st_size > start
    with open_store(path) as store:
        assert store.entry("far").header_offset == start  # type: ignore[attr-defined]
        assert store.read("far") == b"far away"


def test_nested_archive_is_not_opened() -> None:
    inner = zip_bytes({"zarr.json": b"{}"})
    store = opened(zip_bytes({"inner.ozx": inner}))
    assert list(store.keys()) == ["inner.ozx"]
    assert store.read("inner.ozx") == inner


@settings(deadline=None, max_examples=150)
@given(
    at=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 40),
)
def test_any_damage_gives_an_error_of_ours_or_the_right_size(at: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(GOOD)
    for place, value in at:
        data[place] = value
    try:
        store = opened(bytes(data[: len(data) - cut]))
        for entry in store.entries:
            if not entry.is_dir:
                assert len(store.read(entry.name)) == store.entry(entry.name).size
    except DecantError:
        pass


def test_zipfile_agrees_on_what_it_wrote() -> None:
    names = {f"a/{i}/b-{i}": bytes([i]) * i for i in range(60)}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with warnings.catch_warnings():
            data = zip_bytes(names, method)
        store = opened(data)
        assert {k: store.read(k) for k in store.keys()} == names  # noqa: SIM118


@pytest.mark.parametrize("odd", [b"PK\1\2 in a name", "Zeichen \u00e9".encode("cp437"), "\u4e2d".encode()])
def test_names_that_no_shortcut_reads(odd: bytes) -> None:
    """The directory is read in columns; what looks odd there is read one by one, with the same result."""
    flags = 0x800 if odd == "\u4e2d".encode() else 0
    entries = [
        {"name": b"a/%d" % n, "data": b"x" * n, "flags": 0, "comment": b"PK\1\2" * (n % 2)} for n in range(5)
    ]
    data = raw_zip([*entries, {"name": odd, "data": b"odd", "flags": flags}])
    with zipfile.ZipFile(io.BytesIO(data)) as known, ZipStore(BytesFile(data)) as store:
        assert list(store.entries.names) == known.namelist()
        assert not list(store.check_headers())
        for name in known.namelist():
            assert store.read(name) == known.read(name)
            assert store.crc(name) == known.getinfo(name).CRC
