"""A TIFF shows the pixels and sizes that it states, lazily, whatever its layout; a hostile one is refused."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from tests.support.ngff import ramp
from tests.support.servers import serve_http

from napari_decant.errors import ChoiceNeeded, DecantError, FormatError, UnsafeInput, UsageError
from napari_decant.images import Image, list_images, open_image, unit_name

STACK = ramp((3, 70, 50))

LAYOUTS: dict[str, dict[str, Any]] = {
    "one strip": {},
    "strips": {"rowsperstrip": 7},
    "tiles": {"tile": (32, 32)},
    "big endian": {"byteorder": ">"},
    "BigTIFF": {"bigtiff": True, "rowsperstrip": 9},
    "deflate": {"compression": "zlib", "rowsperstrip": 16},
    "deflate, predictor": {"compression": "zlib", "predictor": True, "tile": (16, 48)},
    "LZW": {"compression": "lzw"},
    "zstd": {"compression": "zstd", "tile": (32, 16)},
    "not contiguous": {"contiguous": False, "metadata": None},
}


def write(path: Path, data: np.ndarray, **options: Any) -> Path:
    tifffile.imwrite(path, data, photometric=options.pop("photometric", "minisblack"), **options)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_shows_its_pixels(tmp_path: Path, layout: str) -> None:
    image = open_image(write(tmp_path / "a.tif", STACK, **LAYOUTS[layout]))
    assert (image.shape, image.dtype, image.name, image.warnings) == (STACK.shape, np.uint16, "a.tif", ())
    assert np.array_equal(image.levels[0], STACK)
    assert np.array_equal(image.levels[0][1, 13:41, ::-3], STACK[1, 13:41, ::-3])
    (layer,) = image.layers()
    assert not layer.rgb
    image.close()


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("tile", [None, (32, 32)])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_colour_is_colour(tmp_path: Path, planar: str, tile: Any, compression: str | None) -> None:
    """Field report B-10."""
    data = ramp((3, 40, 50, 3), "uint8")
    stored = data if planar == "contig" else np.moveaxis(data, -1, 1)
    path = write(
        tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planar, tile=tile, compression=compression
    )
    image = open_image(path)
    (layer,) = image.layers()
    assert layer.rgb
    assert np.array_equal(layer.levels[0], data)
    assert len(layer.scale) == 3


def test_pyramid_levels_lie_over_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.ome.tif"
    fine, coarse = ramp((64, 64)), ramp((32, 32))
    with tifffile.TiffWriter(path) as writer:
        writer.write(
            fine,
            subifds=1,
            tile=(16, 16),
            metadata={"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5},
        )
        writer.write(coarse, subfiletype=1, tile=(16, 16))
    image = open_image(path)
    assert [level.shape for level in image.levels] == [(64, 64), (32, 32)]
    assert np.array_equal(image.levels[1], coarse)
    assert image.scales == ((0.5, 0.5), (1.0, 1.0))
    assert image.translations == ((0.0, 0.0), (0.25, 0.25))


def test_imagej_hyperstack_has_axes_sizes_and_ranges(tmp_path: Path) -> None:
    data = ramp((2, 3, 2, 20, 10))
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, data, imagej=True, resolution=(1 / 0.25, 1 / 0.5),
        metadata={
            "axes": "TZCYX", "unit": "um", "spacing": 2.5, "finterval": 3.0,
            "Ranges": (5.0, 500.0, 1.0, 99.0),
        },
    )  # fmt: skip
    image = open_image(path)
    assert [axis.name for axis in image.axes] == ["t", "z", "c", "y", "x"]
    first, second = image.layers()
    assert np.array_equal(first.levels[0], data[:, :, 0])
    assert np.array_equal(second.levels[0], data[:, :, 1])
    assert first.scale == pytest.approx((3.0, 2.5, 0.5, 0.25))
    assert first.units == ("second", "micrometer", "micrometer", "micrometer")
    assert (first.contrast_limits, second.contrast_limits) == ((5.0, 500.0), (1.0, 99.0))


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("um", 1), ("micron", 1), ("microns", 1), ("\\u00B5m", 1), ("µm", 1), ("nm", 1e-3), ("mm", 1e3),
        ("cm", 1e4), ("inch", 25400),
    ],
)  # fmt: skip
def test_units_of_imagej_in_every_spelling(tmp_path: Path, unit: str, factor: float) -> None:
    """Field report B-08: cm is converted, not relabelled."""
    path = tmp_path / "a.tif"
    text = f"ImageJ=1.54f\nimages=2\nslices=2\nunit={unit}\nspacing=2.5\n"
    with tifffile.TiffWriter(path, byteorder=">") as writer:
        for i in range(2):
            writer.write(
                ramp((8, 8)), description=text.encode("latin-1") if i == 0 else None, metadata=None,
                resolution=(2, 4), resolutionunit=1, contiguous=False,
            )  # fmt: skip
    (layer,) = open_image(path).layers()
    assert layer.units == ("micrometer",) * 3
    assert layer.scale == pytest.approx((2.5 * factor, 0.25 * factor, 0.5 * factor))


@pytest.mark.parametrize("unit", ["pixel", "", "furlong"])
def test_no_known_unit_is_no_unit(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, ramp((2, 8, 8)), imagej=True, resolution=(2, 2), metadata={"unit": unit, "axes": "ZYX"}
    )
    (layer,) = open_image(path).layers()
    assert (layer.units, layer.scale) == ((None,) * 3, (1.0,) * 3)
    dpi = write(tmp_path / "b.tif", ramp((8, 8)), resolution=(72, 72), resolutionunit=2)
    assert open_image(dpi).layers()[0].units == (None, None)


def test_ome_sizes_names_and_colours(tmp_path: Path) -> None:
    path = tmp_path / "a.ome.tif"
    data = ramp((2, 3, 8, 8))
    tifffile.imwrite(
        path, data,
        metadata={
            "axes": "CZYX", "Name": "embryo", "PhysicalSizeX": 325.0, "PhysicalSizeXUnit": "nm",
            "PhysicalSizeY": 325.0, "PhysicalSizeYUnit": "nm", "PhysicalSizeZ": 2.0,
            "Channel": {"Name": ["DAPI", "GFP"], "Color": [65535, -16776961]},
        },
    )  # fmt: skip
    image = open_image(path)
    first, second = image.layers()
    assert (image.name, first.name, second.name) == ("embryo", "embryo - DAPI", "embryo - GFP")
    assert (first.color, second.color) == ("0000FF", "FF0000")
    assert first.scale == pytest.approx((2.0, 0.325, 0.325))
    assert first.units == ("micrometer",) * 3
    assert np.array_equal(second.levels[0], data[1])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_min_is_white_is_shown_inverted_and_never_altered(tmp_path: Path, dtype: str) -> None:
    """Field report B-09."""
    data = ramp((8, 8), dtype)
    (layer,) = open_image(write(tmp_path / "a.tif", data, photometric="miniswhite")).layers()
    assert layer.inverted
    assert np.array_equal(layer.levels[0], data)


def imagej_header(planes: int, side: int) -> bytes:
    """Everything before the pixels: one IFD, for the first plane; ImageJ writes so above 4 GB."""
    text = f"ImageJ=1.54f\nimages={planes}\nslices={planes}\n\0".encode()
    tags = [
        (256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1),
        (270, 2, len(text), 0), (273, 4, 1, 0), (277, 3, 1, 1), (278, 4, 1, side),
        (279, 4, 1, side * side * 2),
    ]  # fmt: skip
    start = 8 + 2 + 12 * len(tags) + 4
    ifd = struct.pack(">H", len(tags))
    for code, kind, count, value in tags:
        held = {270: start, 273: start + len(text)}.get(code, value)
        ifd += struct.pack(">HHI", code, kind, count)
        ifd += struct.pack(">HH", held, 0) if kind == 3 else struct.pack(">I", held)
    return b"MM\0*" + struct.pack(">I", 8) + ifd + struct.pack(">I", 0) + text


def imagej_with_one_page(path: Path, planes: int) -> np.ndarray:
    data = ramp((planes, 8, 8))
    path.write_bytes(imagej_header(planes, 8) + data.astype(">u2").tobytes())
    return data


def test_an_imagej_stack_with_a_single_page_shows_all_planes(tmp_path: Path) -> None:
    """Field report B-01."""
    data = imagej_with_one_page(tmp_path / "a.tif", 10)
    image = open_image(tmp_path / "a.tif")
    assert image.shape == (10, 8, 8)
    assert np.array_equal(image.levels[0], data)
    assert np.array_equal(image.levels[0][7], data[7])


def test_a_file_cut_short_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", STACK, rowsperstrip=7, compression="zlib", metadata=None)
    with tifffile.TiffFile(path) as tif:
        offset = tif.pages[2].dataoffsets[4]
    path.write_bytes(path.read_bytes()[: offset + 10])
    with pytest.raises(DecantError, match=r"cut short|cannot be read|no TIFF"):
        np.asarray(open_image(path).levels[0])
    data = imagej_with_one_page(tmp_path / "b.tif", 10)
    assert data.any()
    raw = (tmp_path / "b.tif").read_bytes()
    (tmp_path / "b.tif").write_bytes(raw[:-100])
    image = open_image(tmp_path / "b.tif")
    assert np.array_equal(image.levels[0], data[0])
    assert "declares 10 planes and holds 1" in image.warnings[0]


def test_several_images_are_a_choice_but_thumbnails_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    first, second = ramp((40, 40)), ramp((30, 50), "uint8")
    with tifffile.TiffWriter(path) as writer:
        for data in (first, second):
            writer.write(data, photometric="minisblack", metadata=None)
    with pytest.raises(ChoiceNeeded) as caught:
        open_image(path)
    entries = list_images(path)
    assert tuple(entries) == caught.value.choices
    assert [(e.path, e.shape, e.dtype) for e in entries] == [
        ("0", (40, 40), "uint16"),
        ("1", (30, 50), "uint8"),
    ]
    assert np.array_equal(open_image(path, image=entries[1]).levels[0], second)
    for wrong in ("2", "x", "-1"):
        with pytest.raises(UsageError):
            open_image(path, image=wrong)
    with tifffile.TiffWriter(path) as writer:
        for data in (first, second[:3, :3]):
            writer.write(data, photometric="minisblack", metadata=None)
    image = open_image(path)
    assert np.array_equal(image.levels[0], first)
    assert "2 images" in image.warnings[0]


def test_absent_planes_are_not_invented(tmp_path: Path) -> None:
    """Field report B-04."""
    path = tmp_path / "a.ome.tif"
    data = ramp((7, 8, 8))
    tifffile.imwrite(path, data, metadata={"axes": "TYX"})
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'SizeT="7"', b'SizeT="9"', 1))
    image = open_image(path)
    assert image.shape[0] == 7
    assert np.array_equal(image.levels[0], data)


def test_a_strip_that_inflates_to_a_gigabyte_stops(tmp_path: Path) -> None:
    """Field report S-03."""
    path = write(tmp_path / "a.tif", ramp((64, 64), "uint8"), compression="zlib", metadata=None)
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b"\7" * (1 << 20)) for _ in range(512)) + packer.flush()
    with tifffile.TiffFile(path) as tif:
        page = tif.pages[0]
        tags = {code: page.tags[code].valueoffset for code in (273, 279)}
    raw = bytearray(path.read_bytes())
    raw[tags[273] : tags[273] + 4] = struct.pack("<I", len(raw))
    raw[tags[279] : tags[279] + 4] = struct.pack("<I", len(bomb))
    path.write_bytes(bytes(raw) + bomb)
    import tracemalloc

    tracemalloc.start()
    try:
        np.asarray(open_image(path).levels[0])
    except FormatError as error:
        assert "a.tif" in str(error)  # noqa: PT017
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 64 << 20


def test_xml_entities_are_never_expanded(tmp_path: Path) -> None:
    """Field report S-04."""
    data = ramp((8, 8))
    evil = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "' + "a" * 100 + '">]><OME><Image Name="&a;"/></OME>'
    path = write(tmp_path / "a.ome.tif", data, description=evil, metadata=None)
    image = open_image(path)
    assert np.array_equal(image.levels[0], data)
    assert "entities" in image.warnings[0]
    assert image.name == "a.ome.tif"


@pytest.mark.parametrize("claim", ['SizeT="{}"', 'SizeT="1"><TiffData PlaneCount="{}" IFD="0"/'])
def test_planes_that_are_only_declared_cost_nothing(tmp_path: Path, claim: str) -> None:
    text = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0">'
        '<Pixels ID="P:0" DimensionOrder="XYZCT" SizeX="30" SizeY="20" SizeZ="1" SizeC="1" Type="uint16" '
        + claim.format(10**13)
        + "></Pixels></Image></OME>"
    )
    data = ramp((20, 30), np.uint16)
    path = write(tmp_path / "a.ome.tif", data, description=text, metadata=None)
    image = open_image(path)  # a list of as many would not fit into any memory
    assert np.array_equal(np.asarray(image.levels[0]), data)
    assert "10,000,000,000,000 planes" in image.warnings[0]


@pytest.mark.parametrize("back_to", [0, 2])
def test_links_without_an_end_end(tmp_path: Path, back_to: int) -> None:
    """Pages of two kinds, so that their number cannot be guessed from the first ones."""
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as out:
        for side in (8, 9, 8, 9):
            out.write(ramp((side, 7), np.uint16), metadata=None)
    with tifffile.TiffFile(path) as tif:
        offsets = [page.offset for page in tif.pages]
    raw = bytearray(path.read_bytes())
    link = offsets[3] + 2 + 12 * struct.unpack_from("<H", raw, offsets[3])[0]
    struct.pack_into("<I", raw, link, offsets[back_to])
    path.write_bytes(raw)
    with pytest.raises((FormatError, ChoiceNeeded)):
        open_image(path)


@pytest.mark.parametrize(("kind", "value"), [(9, b"\xff\xff\xff\xff"), (11, struct.pack("<f", 30))])
def test_a_width_that_is_no_count_is_no_image(tmp_path: Path, kind: int, value: bytes) -> None:
    path = write(tmp_path / "a.tif", ramp((20, 30), np.uint16), metadata=None)
    raw = bytearray(path.read_bytes())
    at = (
        raw.index(struct.pack("<HHI", 256, 4, 1))
        if struct.pack("<HHI", 256, 4, 1) in raw
        else raw.index(struct.pack("<HHI", 256, 3, 1))
    )
    raw[at : at + 12] = struct.pack("<HHI", 256, kind, 1) + value
    path.write_bytes(raw)
    with pytest.raises(FormatError):
        open_image(path)


def test_what_is_no_image_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0" + struct.pack("<I", 4))
    with pytest.raises(FormatError, match=r"a\.tif"):
        open_image(path)
    huge = write(tmp_path / "b.tif", ramp((16, 16), "uint8"), tile=(16, 16), metadata=None)
    raw = bytearray(huge.read_bytes())
    with tifffile.TiffFile(huge) as tif:
        for code in (322, 323):
            tag = tif.pages[0].tags[code]
            raw[tag.offset + 2 : tag.offset + 12] = struct.pack("<HII", 4, 1, 1 << 20)
    huge.write_bytes(raw)
    with pytest.raises(UnsafeInput, match="tiles or strips"):
        open_image(huge)


def test_tiff_over_http(tmp_path: Path) -> None:
    write(tmp_path / "a.tif", STACK, tile=(16, 16), compression="zlib")
    with serve_http(tmp_path) as server:
        image: Image = open_image(f"{server.url}/a.tif")
        assert np.array_equal(image.levels[0][1:, 20:60, :30], STACK[1:, 20:60, :30])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Microns", "micrometer"), ("µm", "micrometer"), ("μm", "micrometer"),
        ("\u00c2\u00b5m", "micrometer"),
        ("metre", "meter"), ("Nanometers", "nanometer"), ("sec", "second"), ("hours", "hour"),
        ("Millimetres", "millimeter"), ("\\u00B5m", "micrometer"), ("\u212b", "angstrom"), ("as", None),
        (None, None), ("", None), ("pixel", None), ("px", None), ("s/m", None),
    ],
)  # fmt: skip
def test_unit_names(text: str | None, name: str | None) -> None:
    assert unit_name(text) == name


def test_an_imagej_stack_beyond_4_gib(tmp_path: Path) -> None:
    """Field report B-01, slow variant: a sparse file with data in its first and last plane only."""
    path = tmp_path / "big.tif"
    side, planes = 16_384, 9
    head = imagej_header(planes, side)
    last = ramp((side,))
    try:
        with path.open("wb") as file:
            file.write(head + ramp((side,)).astype(">u2").tobytes())
            file.truncate(len(head) + planes * side * side * 2)
            file.seek(-last.nbytes, 2)
            file.write(last.astype(">u2").tobytes())
    except OSError:
        pytest.skip("no sparse files here")
    image = open_image(path)
    assert image.shape == (planes, side, side)
    assert image.levels[0].nbytes > 4 << 30
    assert np.array_equal(image.levels[0][0, 0], ramp((side,)))
    assert np.array_equal(image.levels[0][planes - 1, side - 1], last)
