"""The reader: which paths are ours, and that every form of an image gives the same layers."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from npe2 import PluginManager
from tests.plugin.helpers import handles_of, write_folder, write_zip
from tests.support.archivewriter import write_nested
from tests.support.ngff import group_keys, image_keys, ramp
from tests.support.tiffspec import TiffSpec
from tests.support.tiffwriter import write_tiff

from napari_decant.archive import pack
from napari_decant.errors import DecantError, FormatError, StorageError
from napari_decant.plugin import get_reader, sample_data, view
from napari_decant.plugin._layers import LayerData
from napari_decant.plugin._open import read_layers
from napari_decant.plugin._opened import opened_behind

Told = Callable[[], list[str]]
NAMES = ["a.zarr.zip", "a.ome.zarr.zip", "a.ozx", "A.OZX"]


def read(path: Path) -> list[LayerData]:
    """Read as napari does where there is no window."""
    reader = get_reader(str(path))
    assert reader is not None, path
    return list(reader(str(path)))


def pixels(layer: LayerData) -> list[np.ndarray]:
    data = layer[0] if layer[1]["multiscale"] else [layer[0]]
    return [np.asarray(level) for level in data]


def assert_same_layers(found: list[LayerData], wanted: list[LayerData]) -> None:
    assert len(found) == len(wanted)
    for (data, keywords, kind), (_, others, other_kind) in zip(found, wanted, strict=True):
        assert kind == other_kind
        assert {**keywords, "metadata": None} == {**others, "metadata": None}
        assert data is not None
    for mine, theirs in zip(found, wanted, strict=True):
        for a, b in zip(pixels(mine), pixels(theirs), strict=True):
            np.testing.assert_array_equal(a, b)


# --- which paths are ours -------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "image.zarr", image_keys([ramp((3, 6, 5))], name="nuclei"))


@pytest.mark.parametrize("name", [*NAMES, "a.b.v2.zarr.zip", "A.ZARR.ZIP", "A.Ome.Zarr.Zip"])
def test_npe2_offers_every_file_name_to_us(tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / name, image_keys([ramp((3, 6, 5))]))
    manager = PluginManager.instance()
    manager.discover()
    offered = [reader.command for reader in manager.iter_compatible_readers([str(path)])]
    assert "napari-decant.read" in offered
    assert get_reader(str(path)) is not None


def test_folders_are_ours_only_with_an_image_in_them(tmp_path: Path, image: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "named.zarr").mkdir()
    assert get_reader(str(image)) is not None
    assert get_reader([str(image), str(image)]) is not None
    assert get_reader(str(tmp_path / "plain")) is None
    assert get_reader(str(tmp_path / "named.zarr")) is None
    assert get_reader([str(image), str(tmp_path / "plain")]) is None


def test_what_is_not_ours_gets_none_and_never_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.zarr.zip").write_text("no zip at all")
    (tmp_path / "empty.ozx").touch()
    write_zip(tmp_path / "other.zip", {"a.txt": b"text"})
    paths = ["text.zarr.zip", "empty.ozx", "other.zip", "missing.zarr.zip", "missing.zarr", "a\0b.ozx", ""]
    for path in paths:
        assert get_reader(str(tmp_path / path) if path else path) is None, path
    assert get_reader([]) is None
    assert get_reader("https://example.org/a.tif") is None
    assert get_reader("ftp://example.org/a.zarr") is None
    assert get_reader("https://example.org/a.zarr/") is not None
    assert get_reader("s3://bucket/a.OZX") is not None


def test_looking_at_a_path_opens_no_zip_and_imports_nothing_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_zip(tmp_path / "a.ozx", image_keys([ramp((3, 6, 5))]))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    before = set(sys.modules)
    assert get_reader(str(path)) is not None
    assert not {"zarr", "napari_decant.images"} & (set(sys.modules) - before)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_not_ours(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.ozx", {"a": b"b"})
    path.chmod(0)
    assert get_reader(str(path)) is None


# --- every container gives what the folder gives --------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_01_zipped_images_open_like_the_folder(
    tmp_path: Path, version: str, method: int, name: str
) -> None:
    data = ramp((3, 64, 64), "uint8")
    keys = image_keys(
        [data, data[:, ::2, ::2]],
        version=version,
        chunks=(1, 32, 32),
        name="nuclei",
        scales=[(2.0, 0.25, 0.25), (2.0, 0.5, 0.5)],
    )
    folder = read(write_folder(tmp_path / "a.zarr", keys))
    (layer,) = folder
    assert layer[1]["name"] == "nuclei"
    assert layer[1]["scale"] == (2.0, 0.25, 0.25)
    assert layer[1]["multiscale"] is True
    np.testing.assert_array_equal(pixels(layer)[0], data)
    assert_same_layers(read(write_zip(tmp_path / name, keys, method=method)), folder)


# --- one folder too many --------------------------------------------------------------------------


def test_a_02_an_image_one_folder_down_opens_with_a_notice(tmp_path: Path, told: Told) -> None:
    keys = image_keys([ramp((3, 6, 5))], name="nuclei")
    nested = {"img.zarr/": b"", "img.zarr/0/": b"", **{f"img.zarr/{key}": data for key, data in keys.items()}}
    noise = {"__MACOSX/img.zarr/._zarr.json": b"\0\5\x16\7", ".DS_Store": b"x", "img.zarr/.DS_Store": b"x"}
    layers = read(write_zip(tmp_path / "a.zarr.zip", nested, more=noise))
    assert_same_layers(layers, read(write_zip(tmp_path / "b.zarr.zip", keys)))
    (message,) = told()
    assert "the image lies in the folder 'img.zarr'" in message
    assert "not at its root" in message


def test_a_02_two_stores_in_one_zip_are_a_choice_and_no_guess(tmp_path: Path, told: Told) -> None:
    both = {f"one.zarr/{key}": data for key, data in image_keys([ramp((3, 6, 5))], name="one").items()}
    both |= {f"two.zarr/{key}": data for key, data in image_keys([ramp((4, 8))], "yx", name="two").items()}
    path = write_zip(tmp_path / "both.zarr.zip", both)
    asked = []

    def choose(message: str, entries):
        asked.append((message, [(e.name, e.shape, e.dtype) for e in entries]))
        return [entries[1]]

    layers = read_layers(str(path), choose=choose)
    ((message, entries),) = asked
    assert message == f"{path} holds 2 images. Choose what to open:"
    assert entries == [("one", (3, 6, 5), "uint16"), ("two", (4, 8), "uint16")]
    assert [layer[1]["name"] for layer in layers] == ["two"]
    assert told() == [f"{path} holds 2 images; 1 of them opened"]


# --- read-only, untouched, let go -----------------------------------------------------------------


def test_a_03_a_read_only_archive_in_a_read_only_folder_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(pages=4, rows_per_strip=5))
    path = pack(tiff.path, folder).archive
    path.chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(folder.iterdir()))
        (layer,) = read(path)
        np.testing.assert_array_equal(np.asarray(layer[0]), tiff.array)
        assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(folder.iterdir())) == before
    finally:
        folder.chmod(0o700)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts handles in /proc")
@pytest.mark.parametrize(
    "spec", [TiffSpec(pages=3), TiffSpec(pages=3, deflate=True)], ids=["exact", "verbatim"]
)
def test_a_03_the_handle_goes_with_the_layer_and_comes_back_if_need_be(
    tmp_path: Path, spec: TiffSpec
) -> None:
    tiff = write_tiff(tmp_path / "a.tif", spec)
    path = pack(tiff.path).archive
    (layer,) = read(path)
    np.testing.assert_array_equal(layer[0][0], tiff.array[0])
    assert handles_of(path) == 1
    found = opened_behind(layer[0])
    assert found is not None
    found[0].close()
    assert handles_of(path) == 0
    np.testing.assert_array_equal(layer[0][2], tiff.array[2])  # a removed layer was added again
    assert handles_of(path) == 1
    found[0].close()
    moved = path.rename(tmp_path / "moved.zarr.zip")
    with pytest.raises(StorageError, match="does not exist"):
        np.asarray(layer[0][1:2])
    other = pack(write_tiff(tmp_path / "b.tif", TiffSpec(pages=5)).path).archive
    other.rename(path)
    with pytest.raises(DecantError, match="changed since it was opened"):
        np.asarray(layer[0][1:2])
    moved.unlink()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts handles in /proc")
def test_a_03_layers_that_go_out_of_use_let_go_by_themselves(tmp_path: Path) -> None:
    path = pack(write_tiff(tmp_path / "a.tif", TiffSpec(pages=3)).path).archive
    layers = read(path)
    np.asarray(layers[0][0])
    assert handles_of(path) == 1
    del layers
    assert handles_of(path) == 0


# --- several images -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_04_every_image_of_a_series_opens_with_its_name(tmp_path: Path, told: Told, version: str) -> None:
    first, second = ramp((2, 9, 8), "uint8"), ramp((7, 6))
    keys = image_keys([first], "zyx", version=version, path="0", name="overview")
    keys |= image_keys([second], "yx", version=version, path="1", name="detail")
    keys |= group_keys("", {"bioformats2raw.layout": 3}, version)
    keys |= group_keys("OME", {"series": ["0", "1"]}, version)
    keys["OME/METADATA.ome.xml"] = b'<OME><Image ID="Image:0" Name="overview"/><Image Name="detail"/></OME>'
    path = write_folder(tmp_path / "series.zarr", keys)
    asked = []

    def choose(message: str, entries):
        asked.extend((entry.name, entry.shape, entry.dtype) for entry in entries)
        return entries

    layers = read_layers(str(path), choose=choose)
    assert asked == [("0 - overview", (2, 9, 8), "uint8"), ("1 - detail", (7, 6), "uint16")]
    assert [layer[1]["name"] for layer in layers] == ["overview", "detail"]
    np.testing.assert_array_equal(pixels(layers[0])[0], first)
    np.testing.assert_array_equal(pixels(layers[1])[0], second)
    assert told() == [f"{path} holds 2 images; all are opened"]
    assert_same_layers(read(path), layers)  # where nobody can be asked, all open
    assert read_layers(str(path), choose=lambda message, entries: ()) == []


def test_one_image_that_cannot_be_shown_does_not_hide_the_others(tmp_path: Path, told: Told) -> None:
    keys = image_keys([ramp((6, 5))], "yx", path="good", name="good")
    keys |= image_keys([ramp((7,))], "x", path="line", name="line")
    path = write_folder(tmp_path / "a.zarr", keys | group_keys("", {}))
    (layer,) = read(path)
    assert layer[1]["name"] == "good"
    (message,) = told()
    assert message.startswith(f"{path} holds 2 images; 1 of them opened; line has the shape (7,)")


def test_a_folder_of_labels_alone_opens_them_all(tmp_path: Path) -> None:
    keys = group_keys("labels", {"labels": ["cells", "nuclei"]})
    values = {
        name: (ramp((8, 6)) % 5).astype("int32") + number for number, name in enumerate(("cells", "nuclei"))
    }
    for name, data in values.items():
        keys |= image_keys([data], "yx", path=f"labels/{name}", name=name, ome={"image-label": {}})
    layers = read(write_folder(tmp_path / "a.zarr", keys) / "labels")
    assert [(layer[1]["name"], layer[2]) for layer in layers] == [("cells", "labels"), ("nuclei", "labels")]
    for layer, data in zip(layers, values.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(layer[0]), data)


def test_a_nested_series_lists_its_members(tmp_path: Path) -> None:
    first = write_tiff(tmp_path / "one.tif", TiffSpec(pages=2))
    second = write_tiff(tmp_path / "two.tif", TiffSpec(pages=3, deflate=True, height=9))
    members = [("d/one.tif", first), ("d/two.tif", second), ("notes.txt", b"no image")]
    path = write_nested(tmp_path / "n.zarr", members)
    asked = []

    def choose(message: str, entries):
        asked.extend((entry.name, entry.shape, entry.error is None) for entry in entries)
        return [entry for entry in entries if entry.error is None]

    layers = read_layers(str(path), choose=choose)
    assert asked == [
        ("d/one.tif", (2, 12, 17), True),
        ("d/two.tif", (3, 9, 17), True),
        ("notes.txt", (), False),
    ]
    np.testing.assert_array_equal(pixels(layers[0])[0], first.array)
    np.testing.assert_array_equal(pixels(layers[1])[0], second.array)


# --- archives kept verbatim, and what cannot be shown ---------------------------------------------------


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_file_kept_verbatim_shows_through_its_tiff(tmp_path: Path, unpacked: bool) -> None:
    tiff = write_tiff(tmp_path / "a.tif", TiffSpec(pages=4, deflate=True, rows_per_strip=5, height=40))
    report = pack(tiff.path)
    assert report.mode == "verbatim"
    path = report.archive
    if unpacked:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "a.zarr")
        path = tmp_path / "a.zarr"
    (layer,) = read(path)
    assert layer[1]["name"] == "a.tif"
    assert layer[0].chunks[0] == 1
    np.testing.assert_array_equal(np.asarray(layer[0]), tiff.array)


def test_what_cannot_be_shown_says_why(tmp_path: Path) -> None:
    (tmp_path / "notes.tif").write_bytes(b"no image")
    with pytest.raises(DecantError, match=r"keeps notes\.tif as it is, which cannot be shown.*restore"):
        read(pack(tmp_path / "notes.tif").archive)
    cut = pack(write_tiff(tmp_path / "a.tif", TiffSpec(pages=4)).path).archive
    cut.write_bytes(cut.read_bytes()[:-30])
    with pytest.raises(FormatError, match="no end record"):
        read(cut)
    with pytest.raises(DecantError, match="holds no image"):
        read(write_zip(tmp_path / "none.ozx", group_keys("", {})))
    for shape, axes in (((5,), "x"), ((3, 0, 4), "zyx")):
        ones = [1] * len(shape)
        keys = image_keys([np.ones(shape, "u1")], axes, chunks=ones, scales=[ones])
        with pytest.raises(DecantError, match="nothing can be shown"):
            read(write_folder(tmp_path / f"{axes}.zarr", keys))


def test_the_sample_opens() -> None:
    layers = sample_data()
    assert [layer[1]["colormap"] for layer in layers] == ["#00ffff", "#ff00ff", "#ffff00"]
    assert [np.asarray(layer[0]).shape for layer in layers] == [(350, 350)] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="displays have names on Linux")
def test_view_without_a_display_says_so(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DecantError, match="no display"):
        view([image])
