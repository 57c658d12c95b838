"""A TIFF that is opened, cropped or exported directly states what its archive would state."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from tests.support.described import pack_and_read
from tests.support.metatiff import ascii_tag, numbers_tag, planes_of, write_metatiff
from tests.test_axes_dialects import index_map, mm_head, ndtiff

from napari_decant import pack
from napari_decant.images import _tiff_facts, open_image
from napari_decant.tiff import list_pages

Facts = tuple[dict[str, tuple[float, str]], list[str | None]]


def opened_facts(path: Path) -> Facts:
    with closing(open_image(path, image="0")) as image:
        sizes = {
            axis.name: (scale, axis.unit)
            for axis, scale in zip(image.axes, image.scales[0], strict=True)
            if axis.unit is not None
        }
        return sizes, [channel.label for channel in image.channels]


def stack_of_metamorph(path: Path) -> Path:
    path = path.with_suffix(".stk")
    head = struct.pack("<3I", 65, 100, 2) + b"um"  # a calibration at 8, its unit at 16
    table = [value for i in range(6) for value in (3, 2, 2455000, 100 * i, 2455000, 100 * i)]
    tags = {
        33628: numbers_tag(4, 4, 8, 5, 8, 6, 16, count=3),
        33629: numbers_tag(5, *table, count=6),
        33630: numbers_tag(5, *(488, 1) * 6, count=6),
    }
    write_metatiff(path, planes_of((6, 5, 7)), tags, stack=True, head=head)
    return path


def metaseries(path: Path) -> Path:
    text = (
        "<MetaData><prop id='spatial-calibration-x' type='float' value='0.65'/>"
        "<prop id='spatial-calibration-y' type='float' value='0.7'/>"
        "<prop id='spatial-calibration-units' type='string' value='um'/>"
        "<PlaneInfo><prop id='_IllumSetting_' type='string' value='DAPI'/></PlaneInfo></MetaData>"
    )
    write_metatiff(path, planes_of((1, 5, 7)), {270: ascii_tag(text)})
    return path


def micromanager(path: Path) -> Path:
    rows = [(c, z, t, 0) for t in range(3) for z in range(2) for c in range(2)]
    summary = {"Channels": 2, "Slices": 2, "Frames": 3, "ChNames": ["DAPI", "GFP"], "PixelSize_um": 0.25}
    summary |= {"z-step_um": -1.5, "Interval_ms": 2000, "MicroManagerVersion": "1.4"}
    text = "ImageJ=1.53\nimages=12\nchannels=2\nslices=2\nframes=3\nhyperstack=true\n"
    write_metatiff(
        path,
        planes_of((12, 5, 7)),
        {270: ascii_tag(text)},
        head=mm_head("<", summary),
        tail=index_map("<", rows),
    )
    return path


def nd_tiff(path: Path) -> Path:
    ndtiff(path, [{"z": 0}, {"z": 1}], planes_of((2, 5, 7)))
    return path


def imagej(path: Path) -> Path:
    metadata: dict[str, Any] = {"axes": "TZCYX", "unit": "um", "spacing": 2.5, "finterval": 3.0}
    metadata["Labels"] = ["red", "green"] * 6
    data = planes_of((12, 5, 7)).reshape(2, 3, 2, 5, 7)
    tifffile.imwrite(path, data, imagej=True, resolution=(4, 2), metadata=metadata)
    return path


def ome(path: Path) -> Path:
    path = path.with_suffix(".ome.tif")
    metadata = {
        "axes": "CZYX",
        "PhysicalSizeX": 250,
        "PhysicalSizeXUnit": "nm",
        "PhysicalSizeY": 0.5,
        "PhysicalSizeZ": 2,
    }
    metadata |= {"PhysicalSizeY": 0.5, "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(path, planes_of((6, 5, 7)).reshape(2, 3, 5, 7), metadata=metadata)
    return path


def inches(path: Path) -> Path:
    tifffile.imwrite(path, planes_of((1, 5, 7))[0], resolution=(300, 300), resolutionunit=2, metadata=None)
    return path


WRITERS = (stack_of_metamorph, metaseries, micromanager, nd_tiff, imagej, ome, inches)


@pytest.mark.parametrize("write", WRITERS)
def test_an_opened_file_states_what_its_archive_states(tmp_path: Path, write: Any) -> None:
    tiff = write(tmp_path / "a.tif")
    sizes, names = opened_facts(tiff)
    packed = pack_and_read(tiff)
    assert {"x", "y"} <= sizes.keys()
    assert sizes == {axis: packed.size(axis) for axis in sizes}
    labels = [c["label"] for c in packed.channels]
    if labels != [str(i) for i in range(len(labels))]:
        assert names == labels


def test_each_image_of_a_file_has_its_own_sizes_and_names(tmp_path: Path) -> None:
    tiff = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(tiff) as writer:
        for size, name in ((0.5, "DAPI"), (0.25, "GFP")):
            metadata = {"axes": "ZYX", "PhysicalSizeX": size, "Name": f"of {name}", "Channel": {"Name": name}}
            writer.write(planes_of((3, 5, 7)), metadata=metadata)
    for number, (size, name) in enumerate(((0.5, "DAPI"), (0.25, "GFP"))):
        with closing(open_image(tiff, image=str(number))) as image:
            assert (image.name, image.scales[0][-1], image.channels[0].label) == (f"of {name}", size, name)


def test_metadata_that_cannot_be_read_are_said_and_the_pixels_shown(tmp_path: Path) -> None:
    tiff = tmp_path / "a.tif"
    planes = planes_of((1, 5, 7))
    write_metatiff(tiff, planes, {270: ascii_tag("<MetaData><prop id='a' value='1'></MetaData>")})
    with closing(open_image(tiff)) as image:
        assert np.array_equal(np.asarray(image.levels[0][:]).reshape(planes.shape), planes)
        assert any("MetaSeries metadata could not be read" in text for text in image.warnings)


def mapped(path: Path, places: list[tuple[int, int, int, int]]) -> Path:
    """A stack of Micro-Manager whose reader shows it flat, with the places of its planes in a map."""
    summary = {"Channels": 2, "Slices": 2, "Frames": 3, "ChNames": ["DAPI", "GFP"], "PixelSize_um": 0.25}
    head = mm_head("<", summary | {"z-step_um": 1.5, "Interval_ms": 2000})
    write_metatiff(path, planes_of((len(places), 5, 7)), {}, head=head, tail=index_map("<", places))
    return path


ORDERED = [(c, z, t, 0) for t in range(3) for z in range(2) for c in range(2)]
SHUFFLED = [ORDERED[i] for i in np.random.default_rng(4).permutation(12)]


@pytest.mark.parametrize(
    ("write", "axes"),
    [
        (lambda path: mapped(path, ORDERED), "t c z y x"),
        (lambda path: mapped(path, SHUFFLED), "t c z y x"),
        (lambda path: mapped(path, [(0, 0, t, 0) for t in range(3)]), "t y x"),
        (lambda path: mapped(path, [(c, z, 0, 0) for c in range(2) for z in range(2)]), "c z y x"),
        (nd_tiff, "z y x"),
        (
            lambda path: ndtiff(
                path, [{"time": t, "view": v} for v in range(2) for t in range(3)], planes_of((6, 5, 7))
            ),
            "t view y x",
        ),
    ],
    ids=["in order", "shuffled", "times", "channels and z", "ndtiff", "custom axis"],
)
def test_a_stack_that_its_reader_shows_flat_has_the_axes_of_its_archive(
    tmp_path: Path, write: Any, axes: str
) -> None:
    tiff = tmp_path / "a.tif"
    write(tiff)
    with tifffile.TiffFile(tiff) as told:
        assert told.series[0].axes == "IYX"
    with closing(open_image(tiff)) as image, closing(open_image(pack(tiff).archive)) as archived:
        assert " ".join(axis.name for axis in image.axes) == axes
        assert image.axes == archived.axes
        assert image.scales[0] == archived.scales[0]
        names = [channel.label for channel in image.channels]
        assert names == [channel.label for channel in archived.channels] or names == [None]
        whole = np.asarray(archived.levels[0])
        np.testing.assert_array_equal(np.asarray(image.levels[0]), whole)
        np.testing.assert_array_equal(image.levels[0][..., 1:4, ::2], whole[..., 1:4, ::2])
        last = tuple(n - 1 for n in image.shape)
        assert image.levels[0][last] == whole[last]


def test_planes_that_fill_no_grid_stay_a_stack(tmp_path: Path) -> None:
    with closing(open_image(mapped(tmp_path / "a.tif", ORDERED[:11]))) as image:
        assert image.shape == (11, 5, 7)
        np.testing.assert_array_equal(np.asarray(image.levels[0]), planes_of((11, 5, 7)))


@pytest.mark.parametrize(("write", "walks"), [(imagej, False), (inches, False), (ome, True), (nd_tiff, True)])
def test_page_links_are_followed_again_only_where_metadata_number_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, walks: bool
) -> None:
    calls: list[int] = []

    def counted(read: Any, size: int) -> list[int]:
        calls.append(size)
        return list_pages(read, size)

    monkeypatch.setattr(_tiff_facts, "list_pages", counted)
    sizes, _ = opened_facts(write(tmp_path / "a.tif"))
    assert sizes
    assert len(calls) == int(walks)
