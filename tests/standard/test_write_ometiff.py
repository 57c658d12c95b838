"""OME-TIFF that other programs read, with pixels, sizes, names and levels in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.ngff import ramp

from napari_decant.errors import (
    BudgetExceeded,
    Cancelled,
    IntegrityError,
    TargetExists,
    UnsupportedOperation,
    UsageError,
)
from napari_decant.images import ImageToWrite, downsample, open_image, write_ome_tiff
from napari_decant.images import _write_ometiff as writing
from napari_decant.ngff import Axis, Channel
from napari_decant.progress import CancelToken


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pixels_come_back_through_tifffile(data: st.DataObject, tmp_path: Path) -> None:
    axes = data.draw(st.sampled_from(["yx", "zyx", "tczyx", "cyx", "yxc"]))
    most = {"t": 3, "c": 3, "z": 4}
    shape = tuple(data.draw(st.integers(1, most.get(a, 60))) for a in axes)
    dtype = data.draw(st.sampled_from(["uint8", "uint16", "int16", "float32"]))
    pixels = ramp(shape, dtype)
    target = tmp_path / "a.ome.tif"
    write_ome_tiff(target, ImageToWrite(pixels, axes), overwrite=True)
    found = tifffile.imread(target)
    wanted = pixels.transpose([axes.index(a) for a in "tczyx" if a in axes])
    np.testing.assert_array_equal(np.squeeze(found), np.squeeze(wanted))


def test_metadata_and_levels(tmp_path: Path) -> None:
    pixels = ramp((2, 3, 700, 1100))
    axes = [
        Axis("c", "channel"),
        Axis("z", "space", "micrometer"),
        Axis("y", "space", "nm"),
        Axis("x", "space", "nm"),
    ]
    image = ImageToWrite(
        pixels,
        axes,
        scale=(1, 2.5, 250, 125),
        translation=(0, 0, 1000, 0),
        channels=[Channel("DNA"), Channel("actin")],
    )
    report = write_ome_tiff(tmp_path / "a.ome.tif", image)
    assert (report.planes, report.verified) == (6, True)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as opened:
        assert opened.is_ome
        (series,) = opened.series
        assert (series.axes, series.shape) == ("CZYX", pixels.shape)
        assert [level.shape[-2:] for level in series.levels] == [
            (700, 1100),
            (350, 550),
            (175, 275),
            (88, 138),
        ]
        level = pixels
        for stored in series.levels:
            np.testing.assert_array_equal(stored.asarray(), level)
            level = downsample(level, (1, 1, 2, 2))
        text = opened.ome_metadata or ""
    for words in ('PhysicalSizeX="0.125"', 'PhysicalSizeZ="2.5"', 'Name="DNA"', 'PositionY="1.0"'):
        assert words in text
    back = open_image(tmp_path / "a.ome.tif")
    assert [round(s, 9) for s in back.scales[0][-3:]] == [2.5, 0.25, 0.125]
    assert [c.label for c in back.channels] == ["DNA", "actin"]
    back.close()


@pytest.mark.parametrize("odd", ["\x01", "\ud800", "\ufffe", "\x0b"])
def test_names_that_xml_cannot_hold_lose_only_those_characters(tmp_path: Path, odd: str) -> None:
    image = ImageToWrite(
        ramp((2, 20, 30)),
        [Axis("c", "channel"), Axis("y", "space", "micrometer"), Axis("x", "space", "micrometer")],
        scale=(1, 0.5, 0.25),
        name=f"a{odd}<&>ü",
        channels=[Channel(f"DNA{odd}"), Channel("actin")],
    )
    write_ome_tiff(tmp_path / "a.ome.tif", image)
    opened = open_image(tmp_path / "a.ome.tif")
    assert (opened.name, [channel.label for channel in opened.channels]) == ("a <&>ü", ["DNA", "actin"])
    assert opened.scales[0][-2:] == (0.5, 0.25)
    opened.close()


def test_channels_without_a_name_or_colour_leave_the_others_theirs(tmp_path: Path) -> None:
    channels = [Channel("DNA", "0000FF"), Channel(), Channel("actin", "FF0000")]
    write_ome_tiff(tmp_path / "a.ome.tif", ImageToWrite(ramp((3, 20, 30)), "cyx", channels=channels))
    opened = open_image(tmp_path / "a.ome.tif")
    assert [channel.label for channel in opened.channels] == ["DNA", "1", "actin"]
    assert [channel.color for channel in opened.channels] == ["0000FF", "FFFFFF", "FF0000"]
    opened.close()


def test_planes_larger_than_a_band_are_written_in_bands(tmp_path: Path) -> None:
    pixels = ramp((2, 1300, 600))
    image = ImageToWrite(pixels, "zyx")
    with pytest.raises(BudgetExceeded, match="a row of tiles"):
        write_ome_tiff(tmp_path / "a.tif", image, memory=1 << 20)
    assert list(tmp_path.iterdir()) == []
    write_ome_tiff(tmp_path / "a.tif", image, compression="zstd", memory=3 << 20)
    with tifffile.TiffFile(tmp_path / "a.tif") as opened:
        np.testing.assert_array_equal(opened.series[0].asarray(), pixels)
        np.testing.assert_array_equal(opened.series[0].levels[1].asarray(), downsample(pixels, (1, 2, 2)))


def test_colour(tmp_path: Path) -> None:
    pixels = ramp((80, 90, 3), "uint8")
    write_ome_tiff(tmp_path / "a.tif", ImageToWrite(pixels, "yxc", rgb=True))
    with tifffile.TiffFile(tmp_path / "a.tif") as opened:
        assert opened.pages[0].photometric == tifffile.PHOTOMETRIC.RGB
        np.testing.assert_array_equal(np.squeeze(opened.series[0].asarray()), pixels)


def test_nothing_is_left_of_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = ImageToWrite(ramp((40, 50)), "yx")
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        write_ome_tiff(tmp_path / "a.tif", image, cancel=token)
    with pytest.raises(UnsupportedOperation, match="int64"):
        write_ome_tiff(tmp_path / "a.tif", ImageToWrite(ramp((4, 5), "int64"), "yx"))
    with pytest.raises(UsageError):
        write_ome_tiff(tmp_path / "a.zarr", image)
    with pytest.raises(UsageError):
        write_ome_tiff(tmp_path / "a.tif", image, compression="jpeg")
    with monkeypatch.context() as patch:
        digests = iter(range(100))
        patch.setattr(writing, "digest_of", lambda block: bytes([next(digests)]))
        with pytest.raises(IntegrityError, match="read back"):
            write_ome_tiff(tmp_path / "a.tif", image)
    assert list(tmp_path.iterdir()) == []
    write_ome_tiff(tmp_path / "a.tif", image)
    with pytest.raises(TargetExists):
        write_ome_tiff(tmp_path / "a.tif", image)
