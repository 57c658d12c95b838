"""Sizes, units, channels and times are read from every dialect and can be read from the archive."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from tests.support.described import pack_and_read
from tests.support.metatiff import ascii_tag, numbers_tag, planes_of, write_metatiff
from tests.test_axes_dialects import index_map, mm_head, ome, pixels_element

from napari_decant.archive import open_original, pack
from napari_decant.tiff.dialects import micrometers, seconds


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        *((name, 1) for name in ("um", "UM", "µm", "μm", "micron", "Microns", "micrometer", "micrometre")),
        *((name, 1) for name in (" micrometers ", "\\u00B5m", "\\u03bcm", "Âµm", "Î¼m")),
        *((name, 1e-3) for name in ("nm", "nanometer", "nanometres")),
        *((name, 1e3) for name in ("mm", "millimeter")),
        *((name, 1e4) for name in ("cm", "centimetre")),
        *((name, 1e6) for name in ("m", "meters")),
        *((name, 25_400) for name in ("inch", "in", "inches")),
        *((name, 1e-4) for name in ("Å", "\u212b", "angstrom")),
        ("pm", 1e-6),
    ],
)
def test_lengths_become_micrometers(unit: str, factor: float) -> None:
    assert micrometers(0.25, unit) == pytest.approx(0.25 * factor, rel=1e-15)


def test_lengths_are_rounded_once() -> None:
    assert micrometers(65.0, "nm") == 0.065
    assert micrometers(0.1, "cm") == 1000.0


@pytest.mark.parametrize("unit", ["", "pixel", "null", "px", "furlong", "sec", "\\u00B5", "µ" * 10_000])
def test_unknown_units_give_no_number(unit: str) -> None:
    assert micrometers(1.0, unit) is None


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf")])
def test_sizes_that_are_none(size: float) -> None:
    assert micrometers(size, "um") is None
    assert seconds(size, "s") is None


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("s", 1), ("sec", 1), ("ms", 1e-3), ("µs", 1e-6), ("min", 60), ("h", 3600), ("d", 86_400)],
)
def test_durations_become_seconds(unit: str, factor: float) -> None:
    assert seconds(2.5, unit) == pytest.approx(2.5 * factor, rel=1e-15)


def resolution(x: tuple[int, int], y: tuple[int, int], unit: int, byteorder: str = "<") -> dict[int, Any]:
    return {
        282: numbers_tag(5, *x, byteorder=byteorder),
        283: numbers_tag(5, *y, byteorder=byteorder),
        296: numbers_tag(3, unit, byteorder=byteorder),
    }


# In the order of the report: ImageJ writes the micro sign in the encoding of the machine.
_SPELLINGS = [b"um", b"micron", b"microns", rb"\u00B5m", "µm".encode("latin-1"), "µm".encode(), "μm".encode()]


@pytest.mark.parametrize("unit", _SPELLINGS)
def test_b_08_imagej_unit_counts_for_all_axes(tmp_path: Path, unit: bytes) -> None:
    text = b"ImageJ=1.54f\nimages=3\nslices=3\nunit=" + unit + b"\nspacing=2.5\n"
    tags = {270: ascii_tag(text), **resolution((20, 1), (25, 2), 1)}
    write_metatiff(tmp_path / "a.tif", planes_of((3, 5, 7)), tags)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.size("x") == (1 / 20, "micrometer")
    assert packed.size("y") == (2 / 25, "micrometer")
    assert packed.size("z") == (2.5, "micrometer")


@pytest.mark.parametrize("tag", [1, 3], ids=["no-unit-in-the-tag", "cm-in-the-tag"])
def test_b_08_centimetres_are_converted(tmp_path: Path, tag: int) -> None:
    text = "ImageJ=1.54f\nimages=3\nslices=3\nunit=cm\nspacing=0.5\n"
    tags = {270: ascii_tag(text), **resolution((50, 1), (50, 1), tag)}
    write_metatiff(tmp_path / "a.tif", planes_of((3, 5, 7)), tags)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.size("x") == (200.0, "micrometer")
    assert packed.size("z") == (5000.0, "micrometer")


def test_b_08_ome_units(tmp_path: Path) -> None:
    sizes = {
        "PhysicalSizeX": "65",
        "PhysicalSizeXUnit": "nm",
        "PhysicalSizeY": "0.13",
        "PhysicalSizeZ": "0.002",
    }
    element = pixels_element(
        "<TiffData/>", PhysicalSizeZUnit="mm", TimeIncrement="500", TimeIncrementUnit="ms", **sizes
    )
    write_metatiff(tmp_path / "a.ome.tif", planes_of((24, 5, 7)), {270: ascii_tag(ome(element))})
    packed = pack_and_read(tmp_path / "a.ome.tif")
    assert packed.size("x") == (0.065, "micrometer")
    assert packed.size("y") == (0.13, "micrometer")
    assert packed.size("z") == (2.0, "micrometer")
    assert packed.size("t") == (0.5, "second")


@pytest.mark.parametrize("declared", ['encoding="UTF-8"', 'encoding="ISO-8859-1"', ""])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_b_08_ome_micro_signs_in_any_encoding(tmp_path: Path, declared: str, encoding: str) -> None:
    element = pixels_element("<TiffData/>", PhysicalSizeX="0.1", PhysicalSizeXUnit="µm")
    xml = ome(element).replace('encoding="UTF-8"', declared).encode(encoding)
    write_metatiff(tmp_path / "a.ome.tif", planes_of((24, 5, 7)), {270: ascii_tag(xml)})
    assert pack_and_read(tmp_path / "a.ome.tif").size("x") == (0.1, "micrometer")


@pytest.mark.parametrize(
    ("tags", "x"),
    [
        (resolution((10_000, 1), (10_000, 1), 3), (1.0, "micrometer")),
        (resolution((300, 1), (300, 1), 2), (25_400 / 300, "micrometer")),
        (resolution((300, 1), (300, 1), 1), (1.0, None)),
        (resolution((72, 1), (72, 1), 2), (1.0, None)),  # what writers put for "none"
        (resolution((0, 1), (5, 0), 3), (1.0, None)),
        ({}, (1.0, None)),
    ],
    ids=["cm", "inch", "no-unit", "screen", "impossible", "none"],
)
def test_b_08_resolution_tags(tmp_path: Path, tags: dict[int, Any], x: tuple[float, str | None]) -> None:
    write_metatiff(tmp_path / "a.tif", planes_of((1, 5, 7)), tags)
    assert pack_and_read(tmp_path / "a.tif").size("x") == x


@pytest.mark.parametrize("unit", ["", "unit=pixel\n", "unit=null\n", "unit=parsnip\n"])
def test_b_08_no_unit_known_is_no_unit(tmp_path: Path, unit: str) -> None:
    text = f"ImageJ=1.54f\nimages=3\nslices=3\n{unit}spacing=2.5\n"
    tags = {270: ascii_tag(text), **resolution((20, 1), (20, 1), 1)}
    write_metatiff(tmp_path / "a.tif", planes_of((3, 5, 7)), tags)
    packed = pack_and_read(tmp_path / "a.tif")
    assert [packed.size(axis) for axis in "xyz"] == [(1.0, None)] * 3


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("finterval=2.5", (2.5, "second")),
        ("finterval=250\ntunit=ms", (0.25, "second")),
        ("fps=4", (0.25, "second")),
        ("finterval=0", (1.0, None)),
    ],
)
def test_imagej_time_steps(tmp_path: Path, line: str, step: tuple[float, str | None]) -> None:
    text = f"ImageJ=1.54f\nimages=3\nframes=3\n{line}\n"
    write_metatiff(tmp_path / "a.tif", planes_of((3, 5, 7)), {270: ascii_tag(text)})
    assert pack_and_read(tmp_path / "a.tif").size("t") == step


def test_b_01_one_directory_for_a_big_stack(tmp_path: Path) -> None:
    planes = planes_of((10, 8, 8))
    for lines in ("images=10\nslices=10", "images=10\nchannels=10", "images=10"):
        tiff = tmp_path / "a.tif"
        write_metatiff(tiff, planes, {270: ascii_tag(f"ImageJ=1.53t\n{lines}\n")}, byteorder=">", stack=True)
        packed = pack_and_read(tiff)
        assert packed.array.dtype == np.uint16
        assert (packed.array == planes).all()
        assert packed.axes == ("cyx" if "channels" in lines else "zyx")


def test_b_01_a_big_stack_cut_short(tmp_path: Path) -> None:
    planes = planes_of((10, 8, 8))
    tiff = tmp_path / "a.tif"
    write_metatiff(tiff, planes, {270: ascii_tag("ImageJ=1.53t\nimages=10\nslices=10\n")}, stack=True)
    tiff.write_bytes(tiff.read_bytes()[: -3 * 128 - 5])
    packed = pack_and_read(tiff)
    assert (packed.array == planes[:6]).all()
    assert packed.report.notes[0].startswith("4 of 10 declared frames absent")


@pytest.mark.parametrize("behind", [0, 5000], ids=["nothing-behind", "other-bytes-behind"])
def test_b_02_composite_in_grayscale_mode(tmp_path: Path, behind: int) -> None:
    planes = planes_of((1, 16, 16, 3))
    text = "ImageJ=1.53t\nimages=3\nchannels=3\nhyperstack=true\nmode=grayscale\n"
    tiff = tmp_path / "a.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(text)}, byteorder=">", planar=True, photometric=2)
    tiff.write_bytes(tiff.read_bytes() + b"\xee" * behind)
    packed = pack_and_read(tiff)
    assert packed.axes == "zyxc"
    assert (packed.array == planes).all()
    assert packed.decant["rgb"] is False
    assert [channel["color"] for channel in packed.channels] == ["FFFFFF"] * 3


@pytest.mark.parametrize(
    "data", ["<TiffData/>", "".join(f'<TiffData IFD="{t}" FirstT="{t}"/>' for t in range(50))]
)
def test_b_04_metadata_promises_more_frames(tmp_path: Path, data: str) -> None:
    planes = planes_of((7, 5, 7))
    xml = ome(pixels_element(data, sizes={"C": 1, "Z": 1, "T": 50}))
    write_metatiff(tmp_path / "a.ome.tif", planes, {270: ascii_tag(xml)})
    packed = pack_and_read(tmp_path / "a.ome.tif")
    assert packed.array.shape == (7, 5, 7)
    assert packed.axes == "tyx"
    assert (packed.array == planes).all()
    assert any(note.startswith("43 of 50 declared frames absent") for note in packed.report.notes)
    assert packed.acquisition["absent"] == [{"t": t} for t in range(7, 50)]


def test_b_04_a_time_point_cut_short(tmp_path: Path) -> None:
    planes = planes_of((7, 5, 7))
    text = "ImageJ=1.54f\nimages=12\nchannels=2\nframes=6\n"
    write_metatiff(tmp_path / "a.tif", planes, {270: ascii_tag(text)})
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.axes == "zyx"
    assert (packed.array == planes).all()
    assert packed.decant["true_axes"] == [["t", 6], ["c", 2]]
    assert packed.report.notes[0].startswith("5 of 12 declared frames absent")


def test_b_07_what_is_readable_without_restoring(tmp_path: Path) -> None:
    def page(i: int) -> dict[int, Any]:
        numbers = {
            "FrameIndex": i // 2, "ChannelIndex": i % 2, "SliceIndex": 0, "PositionIndex": 0,
            "Exposure-ms": 20 + 30 * (i % 2), "ElapsedTime-ms": 125.5 * i, "PositionName": "A1-Site_0",
            "PixelSizeUm": 0.325, "Camera-Property": "x" * 2000,
        }  # fmt: skip
        return {51123: ascii_tag(json.dumps(numbers))}

    summary = {
        "Channels": 2, "Slices": 1, "Frames": 3, "ChNames": ["DAPI", "GFP"],
        "ChColors": [-16776961, -16711936],
        "ChContrastMin": [10, 20], "ChContrastMax": [900, 150], "z-step_um": -1.5, "Interval_ms": 251.0,
        "StartTime": "2024-05-06 07:08:09", "Comment": "a comment",
    }  # fmt: skip
    rows = [(i % 2, 0, i // 2, 0) for i in range(6)]
    tiff = tmp_path / "a_MMStack_A1-Site_0.ome.tif"
    write_metatiff(tiff, planes_of((6, 8, 8)), page, head=mm_head("<", summary), tail=index_map("<", rows))
    packed = pack_and_read(tiff)
    assert packed.axes == "tczyx"[0:2] + "yx"
    assert packed.size("x") == packed.size("y") == (0.325, "micrometer")
    assert packed.size("t") == (0.251, "second")
    assert packed.acquisition == {
        "steps": {
            "t": {"size": 0.251, "unit": "second"},
            "x": {"size": 0.325, "unit": "micrometer"},
            "y": {"size": 0.325, "unit": "micrometer"},
            "z": {"size": 1.5, "unit": "micrometer"},
        },
        "channels": ["DAPI", "GFP"],
        "positions": ["A1-Site_0"],
        "date": "2024-05-06 07:08:09",
        "exposure_seconds": [0.02, 0.05] * 3,
        "plane_times_seconds": [0.1255 * i for i in range(6)],
    }
    assert [channel["color"] for channel in packed.channels] == ["0000FF", "00FF00"]
    windows = [(channel["window"]["start"], channel["window"]["end"]) for channel in packed.channels]
    assert windows == [(10, 900), (20, 150)]


def ij_extras(byteorder: str, count: int) -> dict[int, Any]:
    """Return ImageJ's tags: labels, ranges, lookup tables, and an overlay that nobody reads here."""
    utf16 = "utf-16-" + ("be" if byteorder == ">" else "le")
    ramp = bytes(range(256))
    luts = [bytes(256) + ramp + bytes(256), ramp[::-1] + bytes(256) + ramp[::-1]]
    labels = [f"c:{i % 2 + 1}/2 z:1/1 - {('DAPI', 'GFP')[i % 2]}".encode(utf16) for i in range(count)]
    ranges = struct.pack(byteorder + "4d", 5, 50, 70.5, 7000)
    kinds = [(b"labl", labels), (b"rang", [ranges]), (b"luts", luts), (b"over", [b"\1\2\3"])]
    head = b"IJIJ" if byteorder == ">" else b"JIJI"
    for kind, values in kinds:
        head += struct.pack(byteorder + "4sI", kind if byteorder == ">" else kind[::-1], len(values))
    values = [value for _, listed in kinds for value in listed]
    sizes = [len(head), *(len(value) for value in values)]
    data = head + b"".join(values)
    return {50838: numbers_tag(4, *sizes, byteorder=byteorder), 50839: (1, len(data), data)}


@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_b_07_imagej_channels(tmp_path: Path, byteorder: str) -> None:
    def page(i: int) -> dict[int, Any]:
        text = "ImageJ=1.54f\nimages=6\nchannels=2\nframes=3\nhyperstack=true\nmode=composite\n"
        return {270: ascii_tag(text), **ij_extras(byteorder, 6)} if i == 0 else {}

    write_metatiff(tmp_path / "a.tif", planes_of((6, 40, 40)), page, byteorder=byteorder)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.axes == "tcyx"
    assert [channel["label"] for channel in packed.channels] == ["DAPI", "GFP"]
    assert [channel["color"] for channel in packed.channels] == ["00FF00", "FF00FF"]
    assert [channel["inverted"] for channel in packed.channels] == [False, True]
    shown = [(channel["window"]["start"], channel["window"]["end"]) for channel in packed.channels]
    assert shown == [(5, 50), (70.5, 7000)]
    assert all(channel["window"]["min"] >= 1 for channel in packed.channels)  # the range of the pixels


def test_ome_channels_and_times(tmp_path: Path) -> None:
    def plane(t: int, c: int) -> str:
        exposure = f'ExposureTime="{c + 1}" ExposureTimeUnit="ms"'
        return f'<Plane TheT="{t}" TheC="{c}" TheZ="0" DeltaT="{t * 3}" {exposure}/>'

    inner = (
        '<Channel ID="C:0" Name="DAPI" Color="65535"/>'
        '<Channel ID="C:1" Name="Cy5" Color="-16776961"/><TiffData/>'
        + "".join(plane(t, c) for c in range(2) for t in range(3))
    )
    xml = ome(
        "<AcquisitionDate>2024-01-02T03:04:05</AcquisitionDate>"
        + pixels_element(inner, sizes={"C": 2, "Z": 1, "T": 3})
    )
    write_metatiff(tmp_path / "a.ome.tif", planes_of((6, 5, 7)), {270: ascii_tag(xml)})
    packed = pack_and_read(tmp_path / "a.ome.tif")
    assert [(c["label"], c["color"]) for c in packed.channels] == [("DAPI", "0000FF"), ("Cy5", "FF0000")]
    assert packed.acquisition["date"] == "2024-01-02T03:04:05"
    assert packed.acquisition["exposure_seconds"] == [0.001, 0.002] * 3
    assert packed.acquisition["plane_times_seconds"] == [0.0, 0.0, 3.0, 3.0, 6.0, 6.0]


def test_flattened_channels_are_named_apart_from_the_display(tmp_path: Path) -> None:
    image = pixels_element(
        '<Channel ID="C:0" Name="DAPI"/><Channel ID="C:1" Name="Cy5"/><TiffData IFD="{}" PlaneCount="8"/>',
        sizes={"C": 2, "Z": 2, "T": 2},
    )
    xml = ome(image.format(0) + '</Image><Image ID="Image:1">' + image.format(8))
    write_metatiff(tmp_path / "a.ome.tif", planes_of((16, 5, 7)), {270: ascii_tag(xml)})
    packed = pack_and_read(tmp_path / "a.ome.tif")
    assert packed.axes == "zyx"
    assert packed.decant["true_axes"] == [["p", 2], ["t", 2], ["z", 2], ["c", 2]]
    assert packed.acquisition["channels"] == ["DAPI", "Cy5"]
    assert [channel["label"] for channel in packed.channels] == ["0"]


def test_notes_are_kept_in_the_archive(tmp_path: Path) -> None:
    text = "ImageJ=1.54f\nimages=5\nframes=5\n"
    write_metatiff(tmp_path / "a.tif", planes_of((3, 5, 7)), {270: ascii_tag(text)})
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.decant["notes"] == list(packed.report.notes)
    assert packed.decant["notes"][0].startswith("2 of 5 declared frames absent")


def test_white_for_every_channel_is_no_choice(tmp_path: Path) -> None:
    inner = '<Channel ID="C:0" Color="-1"/><Channel ID="C:1" Color="-1"/><TiffData/>'
    xml = ome(pixels_element(inner, sizes={"C": 2, "Z": 1, "T": 1}))
    write_metatiff(tmp_path / "a.ome.tif", planes_of((2, 5, 7)), {270: ascii_tag(xml)})
    colors = [channel["color"] for channel in pack_and_read(tmp_path / "a.ome.tif").channels]
    assert len(set(colors)) == 2


def test_a_window_that_shows_nothing_is_not_taken_over(tmp_path: Path) -> None:
    text = "ImageJ=1.54f\nimages=1\nmin=1e9\nmax=2e9\n"
    write_metatiff(tmp_path / "a.tif", planes_of((1, 5, 7)), {270: ascii_tag(text)})
    window = pack_and_read(tmp_path / "a.tif").channels[0]["window"]
    assert (window["min"], window["max"]) == (1, 35)
    assert 1 <= window["start"] < window["end"] <= 35


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
def test_b_09_min_is_white_is_a_matter_of_display(tmp_path: Path, dtype: str) -> None:
    planes = planes_of((2, 5, 7), dtype)
    write_metatiff(tmp_path / "a.tif", planes, photometric=0)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.array.dtype == dtype
    assert (packed.array == planes).all()
    assert packed.channels[0]["inverted"] is True
    assert packed.decant["min_is_white"] is True


@pytest.mark.parametrize("planar", [False, True], ids=["interleaved", "planar"])
@pytest.mark.parametrize("tile", [(64, 64), None], ids=["tiles", "strips"])
def test_b_10_every_pixel_of_rgb(tmp_path: Path, planar: bool, tile: tuple[int, int] | None) -> None:
    rgb = planes_of((3, 136, 200, 3), np.uint16).astype(np.uint8)
    data = rgb.transpose(0, 3, 1, 2) if planar else rgb
    layout: dict[str, Any] = {"tile": tile} if tile else {"rowsperstrip": 1}
    tiff = tmp_path / "a.tif"
    tifffile.imwrite(
        tiff,
        data,
        photometric="rgb",
        planarconfig="separate" if planar else "contig",
        metadata=None,
        **layout,
    )
    packed = pack_and_read(tiff)
    assert packed.axes == "zyxc"
    assert (packed.array == rgb).all()
    decoded = tifffile.imread(tiff)
    assert (packed.array == (decoded.transpose(0, 2, 3, 1) if planar else decoded)).all()


@pytest.mark.parametrize("planar", [False, True], ids=["interleaved", "planar"])
@pytest.mark.parametrize("codec", ["deflate", "jpeg2000"])
def test_b_10_compressed_rgb_is_read_from_the_archive(tmp_path: Path, planar: bool, codec: str) -> None:
    rgb = planes_of((3, 136, 200, 3), np.uint16).astype(np.uint8)
    data = rgb.transpose(0, 3, 1, 2) if planar else rgb
    options: dict[str, Any] = {"planarconfig": "separate" if planar else "contig", "metadata": None}
    options["compressionargs"] = {"reversible": True} if codec == "jpeg2000" else None
    tiff = tmp_path / "a.tif"
    tifffile.imwrite(tiff, data, photometric="rgb", tile=(64, 64), compression=codec, **options)
    report = pack(tiff)
    assert (report.mode, report.reason) == ("verbatim", "compressed")
    with open_original(report.archive) as original, tifffile.TiffFile(original) as opened:
        found = opened.asarray()
    assert (found == data).all()


def test_a_08_rgb_is_recorded_as_rgb(tmp_path: Path) -> None:
    write_metatiff(tmp_path / "a.tif", planes_of((1, 5, 7, 3), np.uint8))
    packed = pack_and_read(tmp_path / "a.tif")
    assert (packed.decant["samples"], packed.decant["rgb"]) == (3, True)
    assert [(c["label"], c["color"]) for c in packed.channels] == [
        ("R", "FF0000"),
        ("G", "00FF00"),
        ("B", "0000FF"),
    ]
    full = {"min": 0, "max": 255, "start": 0, "end": 255}
    assert all(c["window"] == full and c["active"] for c in packed.channels)


def test_a_08_fluorescence_stays_three_layers(tmp_path: Path) -> None:
    inner = "".join(f'<Channel ID="C:{i}" Name="{n}"/>' for i, n in enumerate(("DAPI", "GFP", "mCherry")))
    xml = ome(pixels_element(inner + "<TiffData/>", sizes={"C": 3, "Z": 1, "T": 1}))
    write_metatiff(tmp_path / "a.ome.tif", planes_of((3, 5, 7)), {270: ascii_tag(xml)})
    packed = pack_and_read(tmp_path / "a.ome.tif")
    assert packed.axes == "cyx"
    assert (packed.decant["samples"], packed.decant["rgb"]) == (1, False)
    assert [channel["label"] for channel in packed.channels] == ["DAPI", "GFP", "mCherry"]


@pytest.mark.parametrize("photometric", [1, 5], ids=["grey", "cmyk"])
def test_samples_that_are_no_colours(tmp_path: Path, photometric: int) -> None:
    planes = planes_of((1, 5, 7, 4), np.uint8)
    write_metatiff(tmp_path / "a.tif", planes, photometric=photometric)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.axes == "zyxc"
    assert packed.decant["rgb"] is False
    assert [channel["label"] for channel in packed.channels] == ["0", "1", "2", "3"]


def test_lsm_channels_and_times(tmp_path: Path) -> None:
    names = b"".join(struct.pack("<I", len(n) + 1) + n + b"\0" for n in (b"Ch1", b"ChS2", b"T3"))
    table = bytes([255, 0, 0, 0, 0, 255, 0, 0, 1, 2, 3, 0])
    colors = struct.pack("<6I", 24 + len(table) + len(names), 3, 3, 24, 24 + len(table), 0) + table + names
    stamps = struct.pack("<2i3d", 8 + 24, 3, 10.0, 12.5, 15.0)
    head = colors.ljust(128, b"\0") + stamps
    info = bytearray(512)
    struct.pack_into("<2I6i", info, 0, 67127628, 512, 12, 8, 1, 3, 3, 1)
    struct.pack_into("<H", info, 88, 3)
    struct.pack_into("<I", info, 108, 8)
    struct.pack_into("<I", info, 132, 8 + 128)
    planes = planes_of((3, 8, 12, 3), np.uint8)
    tags = {34412: (1, len(info), bytes(info))}
    write_metatiff(tmp_path / "a.lsm", planes, tags, planar=True, thumbnails=True, head=head)
    packed = pack_and_read(tmp_path / "a.lsm")
    assert packed.axes == "tyxc"
    shown = [(c["label"], c["color"]) for c in packed.channels]
    assert shown == [("Ch1", "FF0000"), ("ChS2", "00FF00"), ("T3", "010203")]
    assert packed.acquisition["plane_times_seconds"] == [0.0, 2.5, 5.0]
    with tifffile.TiffFile(tmp_path / "a.lsm") as opened:
        assert opened.series[0].axes == "TCYX"
        assert (opened.series[0].asarray() == packed.array.reshape(planes.shape).transpose(0, 3, 1, 2)).all()


def test_lsm_lines_at_several_depths(tmp_path: Path) -> None:
    info = bytearray(512)
    struct.pack_into("<2I6i", info, 0, 67127628, 512, 12, 1, 50, 1, 1, 1)
    struct.pack_into("<3d", info, 40, 0.25e-6, 0.0, 1.5e-6)
    struct.pack_into("<H", info, 88, 1)
    planes = planes_of((1, 50, 12), np.uint8)
    write_metatiff(tmp_path / "a.lsm", planes, {34412: (1, len(info), bytes(info))})
    packed = pack_and_read(tmp_path / "a.lsm")
    assert packed.axes == "zyx"
    assert packed.report.notes == ()
    assert packed.size("y") == (1.5, "micrometer")
    assert packed.size("x") == (0.25, "micrometer")


def test_lsm_of_two_channels_keeps_their_depth_elsewhere(tmp_path: Path) -> None:
    info = bytearray(512)
    struct.pack_into("<2I6i", info, 0, 67127628, 512, 12, 8, 1, 2, 2, 2)
    planes = planes_of((2, 8, 12, 2))
    tags = {34412: (1, len(info), bytes(info)), 258: (3, 2, struct.pack("<I", 8))}
    write_metatiff(tmp_path / "a.lsm", planes, tags, planar=True, head=struct.pack("<2H", 16, 16))
    packed = pack_and_read(tmp_path / "a.lsm")
    assert packed.axes == "tyxc"
    assert (packed.array == planes).all()
