"""Files of every program put their planes where the program meant them to be."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from tests.support.described import pack_and_read
from tests.support.metatiff import ascii_tag, numbers_tag, planes_of, write_metatiff

SIZES = {"C": 2, "Z": 3, "T": 4}


def ome(pixels: str, *, root: str = "", before: str = "", type_: str = "uint16") -> str:
    schema = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="{schema}" {root}>{before}'
        f'<Image ID="Image:0" Name="first">{pixels.replace("TYPE", type_)}</Image></OME>'
    )


def pixels_element(inner: str, order: str = "XYCZT", sizes: dict[str, int] | None = None, **more: str) -> str:
    attributes = {f"Size{axis}": str(n) for axis, n in (sizes or SIZES).items()} | more
    listed = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    start = f'<Pixels ID="Pixels:0" DimensionOrder="{order}" Type="TYPE" SizeX="7" SizeY="5" {listed}>'
    return f"{start}{inner}</Pixels>"


@pytest.mark.parametrize("dims", ["".join(p) for p in permutations("CZT")])
def test_ome_dimension_orders(tmp_path: Path, dims: str) -> None:
    planes = planes_of((24, 5, 7))
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(ome(pixels_element("<TiffData/>", "XY" + dims)))})
    packed = pack_and_read(tiff)
    assert packed.axes == "tczyx"
    assert packed.array.shape == (4, 2, 3, 5, 7)
    for i, plane in enumerate(planes):
        at = dict(zip(dims, np.unravel_index(i, [SIZES[d] for d in dims], order="F"), strict=True))
        assert (packed.array[at["T"], at["C"], at["Z"]] == plane).all()
    with tifffile.TiffFile(tiff) as opened:
        series = opened.series[0]
        assert (
            packed.array.transpose(*("TCZYX".index(axis) for axis in series.axes)) == series.asarray()
        ).all()


def test_ome_directories_in_any_order(tmp_path: Path) -> None:
    planes = planes_of((24, 5, 7))
    places = np.random.default_rng(3).permutation(24)
    data = "".join(
        f'<TiffData IFD="{ifd}" PlaneCount="1" FirstC="{n % 2}" FirstZ="{n // 2 % 3}" FirstT="{n // 6}"/>'
        for ifd, n in enumerate(places)
    )
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(ome(pixels_element(data)))}, byteorder=">")
    packed = pack_and_read(tiff)
    for ifd, n in enumerate(places):
        assert (packed.array[n // 6, n % 2, n // 2 % 3] == planes[ifd]).all()


@pytest.mark.parametrize("planar", [False, True], ids=["chunky", "planar"])
def test_ome_samples_are_the_trailing_axis(tmp_path: Path, planar: bool) -> None:
    planes = planes_of((4, 5, 7, 3), np.uint8)
    sizes = {"C": 3, "Z": 2, "T": 2}
    xml = ome(
        pixels_element('<Channel ID="C:0" SamplesPerPixel="3"/><TiffData/>', sizes=sizes), type_="uint8"
    )
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(xml)}, planar=planar, photometric=2)
    packed = pack_and_read(tiff)
    assert packed.axes == "tzyxc"
    assert (packed.array.reshape(planes.shape) == planes).all()
    assert packed.decant["rgb"] is True


def test_ome_channels_of_samples_get_an_axis_of_their_own(tmp_path: Path) -> None:
    planes = planes_of((4, 5, 7, 3), np.uint8)
    channel = '<Channel ID="C:{}" SamplesPerPixel="3"/>'
    sizes = {"C": 6, "Z": 1, "T": 2}
    inner = channel.format(0) + channel.format(1) + '<TiffData IFD="0" PlaneCount="4"/>'
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(ome(pixels_element(inner, sizes=sizes), type_="uint8"))})
    packed = pack_and_read(tiff)
    assert packed.axes == "t ch y x c"
    assert (packed.array.reshape(planes.shape) == planes).all()


def test_ome_pyramids_below_the_pages(tmp_path: Path) -> None:
    data = planes_of((2, 3, 64, 64))
    tiff = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(tiff, ome=True) as writer:
        options: dict[str, Any] = {"photometric": "minisblack", "tile": (16, 16)}
        writer.write(data, subifds=2, metadata={"axes": "CZYX"}, **options)
        writer.write(data[..., ::2, ::2], subfiletype=1, **options)
        writer.write(data[..., ::4, ::4], subfiletype=1, **options)
    packed = pack_and_read(tiff)
    assert packed.axes == "czyx"
    assert (packed.array == data).all()


_LABELS = "".join(f"<Label>{i}</Label>" for i in range(3))


@pytest.mark.parametrize(
    "along", ['Start="0" Step="500" End="1000"/>', f">{_LABELS}</ModuloAlongT>"], ids=["steps", "labels"]
)
def test_a_dimension_inside_another(tmp_path: Path, along: str) -> None:
    element = pixels_element("<TiffData/>", "XYTZC", sizes={"C": 1, "Z": 2, "T": 6})
    xml = ome("<AnnotationRef ID='A:0'/>" + element).removesuffix("</OME>") + (
        "<StructuredAnnotations>"
        '<XMLAnnotation ID="A:0" Namespace="openmicroscopy.org/omero/dimension/modulo">'
        f'<Value><Modulo><ModuloAlongT Type="lifetime" {along}</Modulo></Value></XMLAnnotation>'
        "</StructuredAnnotations></OME>"
    )
    planes = planes_of((12, 5, 7))
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(xml)})
    packed = pack_and_read(tiff)
    assert packed.axes == "t lifetime z y x"
    assert (packed.array == planes.reshape(2, 2, 3, 5, 7).transpose(1, 2, 0, 3, 4)).all()
    with tifffile.TiffFile(tiff) as opened:
        series = opened.series[0]
        assert series.axes == "ZTHYX"
        assert (packed.array.transpose(2, 0, 1, 3, 4) == series.asarray()).all()


def test_images_of_one_kind_are_positions(tmp_path: Path) -> None:
    planes = planes_of((6, 5, 7))
    sizes = {"C": 1, "Z": 3, "T": 1}
    second = '</Image><Image ID="Image:1" Name="second"><StageLabel Name="B2"/>' + pixels_element(
        '<TiffData IFD="3" PlaneCount="3"/>', sizes=sizes
    )
    xml = ome(
        '<StageLabel Name="A1"/>' + pixels_element('<TiffData IFD="0" PlaneCount="3"/>', sizes=sizes) + second
    )
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(xml)})
    packed = pack_and_read(tiff)
    assert packed.axes == "pzyx"
    assert (packed.array.reshape(planes.shape) == planes).all()
    assert packed.acquisition["positions"] == ["A1", "B2"]


def test_a_companion_is_named_and_not_read(tmp_path: Path) -> None:
    planes = planes_of((3, 5, 7))
    (tmp_path / "set.companion.ome").write_text(
        ome(pixels_element("<TiffData/>", sizes={"C": 3, "Z": 1, "T": 1}))
    )
    binary = '<BinaryOnly MetadataFile="set.companion.ome" UUID="urn:uuid:1"/>'
    tiff = tmp_path / "a.ome.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(f'<OME UUID="urn:uuid:2">{binary}</OME>')})
    packed = pack_and_read(tiff)
    assert packed.axes == "zyx"
    assert (packed.array == planes).all()
    assert any("set.companion.ome" in note for note in packed.report.notes)


@pytest.mark.parametrize("name", ["b.ome.tif", "renamed.tif"])
def test_one_file_of_an_ome_set(tmp_path: Path, name: str) -> None:
    data = "".join(
        f'<TiffData IFD="{i % 2}" PlaneCount="1" FirstT="{i}"><UUID FileName="{"ab"[i // 2]}.ome.tif">'
        f"urn:uuid:{i // 2}</UUID></TiffData>"
        for i in range(4)
    )
    xml = ome(pixels_element(data, sizes={"C": 1, "Z": 1, "T": 4}), root='UUID="urn:uuid:1"')
    planes = planes_of((2, 5, 7))
    tiff = tmp_path / name
    write_metatiff(tiff, planes, {270: ascii_tag(xml)})
    packed = pack_and_read(tiff)
    assert packed.axes == "tyx"
    assert (packed.array == planes).all()
    assert packed.acquisition["first_index"] == {"t": 2}
    assert any("one of 2 of an OME-TIFF set (a.ome.tif)" in note for note in packed.report.notes)
    assert not any("absent" in note for note in packed.report.notes)


IMAGEJ = {"c": "channels", "z": "slices", "t": "frames"}


@pytest.mark.parametrize("order", ["", *("".join(p) for p in permutations("czt"))])
@pytest.mark.parametrize("stack", [False, True], ids=["pages", "one-directory"])
def test_imagej_hyperstacks(tmp_path: Path, order: str, stack: bool) -> None:
    sizes = {"c": 2, "z": 3, "t": 4}
    lines = [
        "ImageJ=1.54f",
        "images=24",
        *(f"{IMAGEJ[axis]}={n}" for axis, n in sizes.items()),
        "hyperstack=true",
    ]
    text = "\n".join(lines + ([f"order={order}"] if order else []))
    planes = planes_of((24, 5, 7))
    tiff = tmp_path / "a.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(text)}, byteorder=">", stack=stack)
    packed = pack_and_read(tiff)
    assert packed.axes == "tczyx"
    dims = order or "czt"
    for i, plane in enumerate(planes):
        at = dict(zip(dims, np.unravel_index(i, [sizes[d] for d in dims], order="F"), strict=True))
        assert (packed.array[at["t"], at["c"], at["z"]] == plane).all()


@pytest.mark.parametrize(("key", "axis"), [("channels", "c"), ("slices", "z"), ("frames", "t"), ("", "z")])
def test_imagej_stacks_of_one_dimension(tmp_path: Path, key: str, axis: str) -> None:
    planes = planes_of((4, 5, 7), np.float32)
    tiff = tmp_path / "a.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(f"ImageJ=1.54f\nimages=4\n{key}=4\n")})
    packed = pack_and_read(tiff)
    assert packed.axes == f"{axis}yx"
    assert (packed.array == planes).all()


def test_imagej2_names_its_axes(tmp_path: Path) -> None:
    text = "SCIFIO=0.46.0\naxes=X,Y,Time,Channel\nlengths=7,5,3,2\nimages=6\nchannels=1\nslices=1\nframes=1\n"
    planes = planes_of((6, 5, 7))
    tiff = tmp_path / "a.tif"
    write_metatiff(tiff, planes, {270: ascii_tag(text)})
    packed = pack_and_read(tiff)
    assert packed.axes == "tcyx"
    assert (packed.array == planes.reshape(2, 3, 5, 7).swapaxes(0, 1)).all()


def index_map(order: str, rows: Sequence[tuple[int, int, int, int]]) -> Any:
    """Return a writer of an MMStack's map: channel, slice, frame, position, offset."""

    def tail(offsets: Sequence[int]) -> tuple[int, bytes]:
        table = b"".join(
            struct.pack(order + "5I", *row, offset) for row, offset in zip(rows, offsets, strict=True)
        )
        return 12, struct.pack(order + "2I", 3453623, len(rows)) + table

    return tail


def mm_head(order: str, summary: dict[str, Any], first: int = 54773648) -> bytes:
    text = json.dumps(summary).encode()
    return struct.pack(order + "8I", first, 0, 0, 0, 0, 0, 2355492, len(text)) + text


@pytest.mark.parametrize("order", ["<", ">"])
def test_micromanager_stacks_follow_their_map(tmp_path: Path, order: str) -> None:
    rows = [(c, z, t, 0) for t in range(3) for c in range(2) for z in range(2)]
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    planes = planes_of((12, 5, 7))
    tiff = tmp_path / "run_MMStack_Pos0.ome.tif"
    summary = {
        "Channels": 2,
        "Slices": 2,
        "Frames": 3,
        "ChNames": ["DAPI", "GFP"],
        "MicroManagerVersion": "1.4",
    }
    write_metatiff(
        tiff, planes, byteorder=order, head=mm_head(order, summary), tail=index_map(order, shuffled)
    )
    packed = pack_and_read(tiff)
    assert packed.axes == "tczyx"
    for plane, (c, z, t, _) in zip(planes, shuffled, strict=True):
        assert (packed.array[t, c, z] == plane).all()
    assert [channel["label"] for channel in packed.channels] == ["DAPI", "GFP"]


def test_micromanager_without_a_map_goes_by_the_pages(tmp_path: Path) -> None:
    def page(i: int) -> dict[int, Any]:
        numbers = {"FrameIndex": i // 4, "SliceIndex": i % 2, "ChannelIndex": i // 2 % 2, "PositionIndex": 0}
        return {51123: ascii_tag(json.dumps(numbers))}

    planes = planes_of((8, 5, 7))
    tiff = tmp_path / "a_MMStack.ome.tif"
    write_metatiff(tiff, planes, page, head=mm_head("<", {"Frames": 2, "Slices": 2, "Channels": 2}))
    packed = pack_and_read(tiff)
    assert packed.axes == "tczyx"
    assert (packed.array.reshape(planes.shape) == planes).all()


def test_micromanager_positions_in_one_file(tmp_path: Path) -> None:
    rows = [(0, z, 0, p) for p in range(2) for z in range(3)]
    planes = planes_of((6, 5, 7))
    tiff = tmp_path / "a_MMStack.tif"
    summary = {"Positions": 5, "Slices": 3}
    write_metatiff(tiff, planes, head=mm_head("<", summary), tail=index_map("<", rows))
    packed = pack_and_read(tiff)
    assert packed.axes == "pzyx"
    assert packed.report.notes == ()


def ndtiff(path: Path, axes: Sequence[dict[str, Any]], planes: np.ndarray) -> None:
    summary = b'{"PixelSize_um": 0.5, "z-step_um": 2}'
    head = struct.pack("<5I", 483729, 3, 3, 2355492, len(summary)) + summary
    write_metatiff(path, planes, lambda i: {51123: ascii_tag(json.dumps({"Axes": axes[i]}))}, head=head)


def test_ndtiff_axes(tmp_path: Path) -> None:
    axes = [
        {"time": t, "z": z, "channel": c} for z in range(-1, 2) for t in range(2) for c in ("DAPI", "FITC")
    ]
    planes = planes_of((12, 5, 7))
    ndtiff(tmp_path / "a_NDTiffStack.tif", axes, planes)
    packed = pack_and_read(tmp_path / "a_NDTiffStack.tif")
    assert packed.axes == "tczyx"
    for plane, at in zip(planes, axes, strict=True):
        assert (packed.array[at["time"], ["DAPI", "FITC"].index(at["channel"]), at["z"] + 1] == plane).all()
    assert [channel["label"] for channel in packed.channels] == ["DAPI", "FITC"]
    assert packed.acquisition["first_index"] == {"z": -1}
    assert packed.size("z") == (2.0, "micrometer")


def test_ndtiff_tiles_with_gaps_stay_in_file_order(tmp_path: Path) -> None:
    axes = [{"row": 0, "column": 0}, {"row": 1, "column": 1}]
    planes = planes_of((2, 5, 7))
    ndtiff(tmp_path / "a_NDTiffStack.tif", axes, planes)
    packed = pack_and_read(tmp_path / "a_NDTiffStack.tif")
    assert packed.axes == "zyx"
    assert (packed.array == planes).all()
    assert packed.decant["true_axes"] == [["row", 2], ["column", 2]]
    assert packed.acquisition["place_axes"] == ["row", "column"]
    assert packed.acquisition["places"] == [[0, 0], [1, 1]]
    assert packed.size("z") == (1.0, None)


def lsm_info(
    x: int, y: int, z: int, c: int, t: int, *, positions: int = 0, interval: float = 0.0
) -> bytearray:
    info = bytearray(512)
    struct.pack_into("<2I6i", info, 0, 67127628, 512, x, y, z, c, t, 1)
    struct.pack_into("<3d", info, 40, 0.2e-6, 0.2e-6, 1.5e-6)
    struct.pack_into("<d", info, 112, interval)
    struct.pack_into("<2i", info, 264, positions, 0)
    return info


@pytest.mark.parametrize("positions", [0, 2])
def test_lsm_planes_without_their_thumbnails(tmp_path: Path, positions: int) -> None:
    info = lsm_info(7, 5, 3, 2, 4, positions=positions, interval=2.5)
    planes = planes_of((12 * max(1, positions), 8, 12, 2), np.uint8)
    tiff = tmp_path / "a.lsm"
    tags = {34412: (1, len(info), bytes(info))}
    write_metatiff(tiff, planes, tags, planar=True, thumbnails=True)
    packed = pack_and_read(tiff)
    if positions:  # p, t, z, y, x and c are more than NGFF holds
        assert packed.decant["true_axes"] == [["p", 2], ["t", 4], ["z", 3]]
    else:
        assert packed.axes == "tzyxc"
        assert packed.size("z") == (1.5, "micrometer")
        assert packed.size("t") == (2.5, "second")
    assert (packed.array.reshape(planes.shape) == planes).all()
    assert packed.size("x")[0] == pytest.approx(0.2, rel=1e-12)
    assert packed.decant["rgb"] is False


def stk(
    path: Path, planes: np.ndarray, rows: Sequence[tuple[int, int, int, int]], waves: Sequence[int] = ()
) -> None:
    """Write a stack with (z distance, thousandths), (day, millisecond) of each plane."""
    table = [value for a, b, day, ms in rows for value in (a, b, day, ms, day, ms)]
    tags = {
        33628: numbers_tag(4, 9, 255, 15, 35, count=2),
        33629: numbers_tag(5, *table, count=len(rows)),
    }
    if waves:
        tags[33630] = numbers_tag(5, *(v for w in waves for v in (w, 1)), count=len(waves))
    write_metatiff(path, planes, tags, stack=True)


def test_stk_stacks_run_along_z(tmp_path: Path) -> None:
    planes = planes_of((5, 5, 7))
    stk(tmp_path / "a.stk", planes, [(250, 1000, 2455000, 1000 * i) for i in range(5)])
    packed = pack_and_read(tmp_path / "a.stk")
    assert packed.axes == "zyx"
    assert (packed.array == planes).all()
    with tifffile.TiffFile(tmp_path / "a.stk") as opened:
        assert (opened.series[0].axes, (opened.series[0].asarray() == packed.array).all()) == ("ZYX", True)


def test_stk_stacks_run_along_time(tmp_path: Path) -> None:
    planes = planes_of((5, 5, 7))
    midnight = [(0, 1, 2455000 + (i > 2), 86_395_000 + 2000 * i - 86_400_000 * (i > 2)) for i in range(5)]
    stk(tmp_path / "a.stk", planes, midnight)
    packed = pack_and_read(tmp_path / "a.stk")
    assert packed.axes == "tyx"
    assert packed.size("t") == (2.0, "second")
    assert packed.acquisition["plane_times_seconds"] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_stk_wavelengths_are_channels(tmp_path: Path) -> None:
    planes = planes_of((6, 5, 7))
    stk(tmp_path / "a.stk", planes, [(1, 2, 2455000, i) for i in range(6)], waves=[488, 561] * 3)
    packed = pack_and_read(tmp_path / "a.stk")
    assert packed.axes == "czyx"
    assert (packed.array == planes.reshape(3, 2, 5, 7).swapaxes(0, 1)).all()
    assert [channel["label"] for channel in packed.channels] == ["488 nm", "561 nm"]


def test_metaseries_pages_by_illumination_and_height(tmp_path: Path) -> None:
    def page(i: int) -> dict[int, Any]:
        setting, height = ("DAPI", "GFP")[i % 2], i // 2 * 1.5
        return {
            270: ascii_tag(
                "<MetaData><prop id='Description' type='string' value='Exposure: 50 ms&#13;&#10;'/>"
                "<prop id='spatial-calibration-x' type='float' value='0.65'/>"
                "<prop id='spatial-calibration-y' type='float' value='0.65'/>"
                "<prop id='spatial-calibration-units' type='string' value='um'/><PlaneInfo>"
                f"<prop id='_IllumSetting_' type='string' value='{setting}'/>"
                f"<prop id='z-position' type='float' value='{height}'/></PlaneInfo></MetaData>"
            )
        }

    planes = planes_of((6, 5, 7))
    write_metatiff(tmp_path / "a.tif", planes, page)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.axes == "czyx"
    assert (packed.array == planes.reshape(3, 2, 5, 7).swapaxes(0, 1)).all()
    assert [channel["label"] for channel in packed.channels] == ["DAPI", "GFP"]
    assert packed.size("x") == (0.65, "micrometer")
    assert packed.acquisition["exposure_seconds"] == 0.05


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((2, 3, 4, 5, 7), "TCZYX", "tczyx"),
        ((4, 2, 5, 7), "ZTYX", "tzyx"),
        ((6, 5, 7), None, "zyx"),
        ((2, 3, 5, 7), None, "zyx"),
    ],
)
def test_stacks_of_tifffile(tmp_path: Path, shape: tuple[int, ...], axes: str | None, expected: str) -> None:
    data = planes_of(shape)
    tiff = tmp_path / "a.tif"
    tifffile.imwrite(tiff, data, photometric="minisblack", metadata={"axes": axes} if axes else {})
    packed = pack_and_read(tiff)
    assert packed.axes == expected
    if axes:
        assert (packed.array == data.transpose(*(axes.index(a) for a in expected.upper()))).all()
    else:
        assert (packed.array == data.reshape(packed.array.shape)).all()
    assert ("true_axes" in packed.decant) == (axes is None and len(shape) == 4)


def test_plain_pages_are_a_stack(tmp_path: Path) -> None:
    planes = planes_of((3, 5, 7, 4), np.uint8)
    write_metatiff(tmp_path / "a.tif", planes, planar=True, photometric=2)
    packed = pack_and_read(tmp_path / "a.tif")
    assert packed.axes == "zyxc"
    assert (packed.array == planes).all()
