"""Metadata made to do harm costs neither time nor memory nor another file, and packing goes on without it."""

from __future__ import annotations

import json
import os
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.described import pack_and_read
from tests.support.metatiff import ascii_tag, numbers_tag, planes_of, write_metatiff
from tests.test_axes_dialects import index_map, lsm_info, mm_head, ome, pixels_element

from napari_decant.archive import pack
from napari_decant.archive._describe import describe
from napari_decant.archive._layout import plan_file
from napari_decant.archive._source import Source

_LOL = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
_DOCTYPES = {
    "entities": f'<!DOCTYPE OME [<!ENTITY l0 "lol">{_LOL}]>',
    "external": '<!DOCTYPE OME [<!ENTITY l9 SYSTEM "file://SECRET">]>',
    "external-dtd": '<!DOCTYPE OME SYSTEM "file://SECRET">',
    "parameter": '<!DOCTYPE OME [<!ENTITY % p SYSTEM "file://SECRET"> %p;]>',
}


@pytest.mark.parametrize("kind", _DOCTYPES)
@pytest.mark.parametrize("where", ["ome", "metaseries"])
def test_s_04_document_types_are_refused(tmp_path: Path, kind: str, where: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("never to be seen")
    doctype = _DOCTYPES[kind].replace("SECRET", str(secret))
    text = "&l9;" if "l9" in doctype else ""
    body = f"<OME>{text}</OME>" if where == "ome" else f"<MetaData>{text}</MetaData>"
    # A MetaSeries description starts with its element, so the document type can only come behind it.
    xml = f"<?xml version='1.0'?>{doctype}{body}" if where == "ome" else f"<MetaData>{doctype}</MetaData>"
    planes = planes_of((2, 5, 7))
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(xml)})
    began = time.process_time()
    packed = pack_and_read(tiff)
    assert time.process_time() - began < 5
    assert packed.axes == "zyx"
    assert (packed.array == planes).all()
    assert any("metadata could not be read" in note for note in packed.report.notes)
    assert "never to be seen" not in json.dumps(packed.attributes)


def test_no_link_to_another_file_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def watched(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(Path(path).name)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", watched)
    data = '<TiffData IFD="0"><UUID FileName="../../etc/other.ome.tif">urn:uuid:9</UUID></TiffData>'
    more = '<TiffData IFD="1"><UUID FileName="b.ome.tif">urn:uuid:8</UUID></TiffData>'
    xml = ome(pixels_element(data + more, sizes={"C": 1, "Z": 2, "T": 1}), root='UUID="urn:uuid:1"')
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes_of((2, 5, 7)), {270: ascii_tag(xml)})
    (tmp_path / "b.ome.tif").write_bytes(b"not to be read")
    (tmp_path / "NDTiff.index").write_bytes(b"not to be read")
    report = pack(tiff, tmp_path)
    assert report.mode == "byte-exact"
    assert "a.ome.tif" in opened
    assert not {"other.ome.tif", "b.ome.tif", "NDTiff.index"} & set(opened)


def described(path: Path) -> tuple[Any, float, int]:
    """Describe a file; return the description, seconds and the most memory taken."""
    with Source(path) as source:
        layout = plan_file(source.read_at, source.size)
        assert layout.planes
        tracemalloc.start()
        began = time.process_time()
        description = describe(source.file, layout)
        taken = time.process_time() - began
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return description, taken, peak


def write(path: Path, tags: dict[int, Any], planes: int = 3, **options: Any) -> Path:
    write_metatiff(path, planes_of((planes, 5, 7)), tags, **options)
    return path


def _many_elements(path: Path) -> Path:
    return write(path, {270: ascii_tag("<OME>" + "<a/>" * 1_100_000 + "</OME>")})


def _deep(path: Path) -> Path:
    return write(path, {270: ascii_tag("<OME>" + "<a>" * 500_000)})


def _long_name(path: Path) -> Path:
    return write(
        path,
        {270: ascii_tag(f'<OME><Image Name="{"n" * 20_000_000}">' + pixels_element("") + "</Image></OME>")},
    )


def _pages_again_and_again(path: Path) -> Path:
    data = '<TiffData IFD="0" PlaneCount="999999999"/>' * 50_000
    return write(path, {270: ascii_tag(ome(pixels_element(data, sizes={"C": 1, "Z": 1, "T": 1 << 30})))})


def _huge_sizes(path: Path) -> Path:
    sizes = {"C": 1 << 30, "Z": 1 << 30, "T": 1 << 30}
    return write(path, {270: ascii_tag(ome(pixels_element("<TiffData/>", sizes=sizes)))})


def _many_images(path: Path) -> Path:
    return write(path, {270: ascii_tag("<OME>" + "<Image/>" * 500_000 + "</OME>")})


def _imagej_counts(path: Path) -> Path:
    text = "ImageJ=1\nimages=999999999\nchannels=999999999\nslices=999999999\nframes=999999999\n"
    tags = {
        50838: numbers_tag(4, 800, *[4_000_000_000] * 1000),
        50839: (1, 20, b"IJIJ" + b"labl\xff\xff\xff\xff" * 2),
    }
    return write(path, {270: ascii_tag(text + "a=b\n" * 200_000), **tags})


def _deep_json(path: Path) -> Path:
    return write(path, {51123: ascii_tag('{"Axes": ' + "[" * 400_000)})


def _wide_json(path: Path) -> Path:
    return write(path, {51123: ascii_tag(json.dumps({"Axes": {f"a{i}": i for i in range(60_000)}}))})


def _mm_map(path: Path) -> Path:
    def tail(offsets: Any) -> tuple[int, bytes]:
        return 12, struct.pack("<2I", 3453623, 0xFFFFFFFF) + b"\xff" * 2_000_000

    return write(path, {}, head=mm_head("<", {"Frames": 1 << 30, "Slices": 1 << 30}), tail=tail)


def _mm_summary(path: Path) -> Path:
    head = struct.pack("<8I", 54773648, 0, 0, 0, 0, 0, 2355492, 0xFFFFFFF0)
    return write(path, {}, head=head)


def _uic(path: Path) -> Path:
    tags = {
        33628: numbers_tag(4, 6, 0xFFFFFFF0, count=0x7FFFFFFF),
        33629: numbers_tag(5, 1, 1, count=0x7FFFFFFF),
    }
    return write(path, tags, stack=True)


def _lsm(path: Path) -> Path:
    info = lsm_info(-1, -1, -5, 2**31 - 1, 2**31 - 1, positions=2**31 - 1, interval=float("nan"))
    struct.pack_into("<I", info, 108, 8)
    struct.pack_into("<I", info, 132, 40)
    head = struct.pack("<6I", 0xFFFFFFFF, 4096, 4096, 0, 24, 0) + bytes(8)
    head += struct.pack("<2i", 8 + 8 * 100_000_000, 100_000_000)
    return write(path, {34412: (1, len(info), bytes(info))}, head=head)


def _shaped(path: Path) -> Path:
    return write(path, {270: ascii_tag('{"shape": [' + "9, " * 20_000 + '5, 7], "axes": 5}')})


_ATTACKS: list[Callable[[Path], Path]] = [
    _many_elements, _deep, _long_name, _pages_again_and_again, _huge_sizes, _many_images, _imagej_counts,
    _deep_json, _wide_json, _mm_map, _mm_summary, _uic, _lsm, _shaped,
]  # fmt: skip


@pytest.mark.parametrize("attack", _ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
def test_hostile_metadata_is_cheap(tmp_path: Path, attack: Callable[[Path], Path]) -> None:
    description, taken, peak = described(attack(tmp_path / "a.tif"))
    assert taken < 10, f"{taken:.1f} s"  # traced, which slows Python down several times
    assert peak < 128 << 20, f"{peak >> 20} MiB"
    assert description.axes.planes >= 1
    assert sorted(description.order) == list(range(description.axes.planes))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_damaged_metadata_never_stops_packing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    info = lsm_info(7, 5, 3, 1, 1, positions=0, interval=1.0)
    texts = [
        ome(pixels_element('<Channel Color="1"/><TiffData IFD="0"/><Plane TheT="0" DeltaT="1"/>')).encode(),
        b"ImageJ=1.54f\nimages=3\nslices=3\nunit=micron\nspacing=2.5\nfinterval=3\nmin=1\nmax=2\n",
        b'{"shape": [3, 5, 7], "axes": "TYX"}',
        b"<MetaData><prop id='z-position' value='1'/></MetaData>",
        json.dumps({"Axes": {"z": 1, "channel": "a"}, "Exposure-ms": 3}).encode(),
        bytes(info),
    ]
    codes = [270, 270, 270, 270, 51123, 34412]
    which = data.draw(st.integers(0, len(texts) - 1))
    text = bytearray(texts[which])
    for _ in range(data.draw(st.integers(1, 6))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    text = text[: data.draw(st.integers(1, len(text)))]
    planes = planes_of((3, 5, 7))
    path = tmp_path_factory.mktemp("damaged") / "a.tif"
    tags = {codes[which]: (2, len(text), bytes(text))}
    if which == 4:
        rows = [(0, 0, t, 0) for t in range(3)]
        write_metatiff(path, planes, tags, head=mm_head("<", {"Frames": 3}), tail=index_map("<", rows))
    else:
        write_metatiff(path, planes, tags)
    packed = pack_and_read(path)
    assert packed.array.size == planes.size
    assert sorted(packed.array.ravel()) == sorted(planes.ravel())


def test_a_directory_of_many_pages_is_read_once(tmp_path: Path) -> None:
    text = ome(pixels_element("<TiffData/>", sizes={"C": 1, "Z": 1, "T": 20_000}))
    planes = np.ones((20_000, 2, 2), np.uint8)
    path = tmp_path / "a.tif"
    write_metatiff(path, planes, lambda i: {270: ascii_tag(text)} if i == 0 else {})
    description, taken, _ = described(path)
    assert description.axes.plane_order == ("t",)
    assert taken < 2
