"""What a viewer gets of OME-Zarr: the right pixels in the right place, named, scaled and coloured."""

from __future__ import annotations

import gc
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.ngff import group_keys, image_keys, ramp
from tests.support.servers import serve_http, serve_s3

from napari_decant.errors import BudgetExceeded, ChoiceNeeded, StorageError, UnsupportedOperation
from napari_decant.images import (
    ArrayLimits,
    ChunkCache,
    Image,
    LazyArray,
    count_chunks,
    list_images,
    open_image,
    register_opener,
    sample_contrast,
)
from napari_decant.images import _open as opening
from napari_decant.stores import MemoryStore

VERSIONS = ["0.4", "0.5"]


def opened(keys: dict[str, bytes], **kwargs: Any) -> Image:
    return open_image(MemoryStore(keys), **kwargs)


def write(root: Path, keys: dict[str, bytes]) -> Path:
    for key, value in keys.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(value)
    return root


class CountingStore(MemoryStore):
    """Remembers which keys were read."""

    def __init__(self, data: dict[str, bytes]) -> None:
        super().__init__(data)
        self.reads: list[str] = []

    def read_file(self, file: str, offset: int, length: int) -> bytes:
        self.reads.append(file)
        return super().read_file(file, offset, length)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip", "a.ome.zarr.zip", "a.ozx", "A.OZX"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_container_shows_the_same(tmp_path: Path, version: str, name: str, method: int) -> None:
    """Field report A-01."""
    data = ramp((3, 64, 64), "uint8")
    keys = image_keys([data, data[:, ::2, ::2]], "zyx", version=version, chunks=(1, 40, 40), name="stack")
    path = tmp_path / name
    if name.endswith(".zarr"):
        write(path, keys)
    else:
        with zipfile.ZipFile(path, "w", method) as archive:
            for key, value in keys.items():
                archive.writestr(key, value)
    image = open_image(path)
    assert (image.name, image.shape, image.dtype, image.warnings) == ("stack", (3, 64, 64), np.uint8, ())
    assert np.array_equal(image.levels[0], data)
    assert np.array_equal(image.levels[1][1], data[1, ::2, ::2])
    (layer,) = image.layers()
    assert (layer.axis_labels, layer.scale, layer.units) == (
        ("z", "y", "x"),
        (1.0, 1.0, 1.0),
        ("micrometer",) * 3,
    )
    image.close()


def test_channels_become_layers_with_their_own_scale_and_units() -> None:
    """Field report A-07."""
    data = ramp((2, 3, 8, 8))
    shared = {"coordinateTransformations": [{"type": "scale", "scale": [1, 2, 0.1625, 0.1625]}]}
    omero = {
        "channels": [
            {"label": "DAPI", "color": "0000FF", "window": {"start": 5, "end": 300, "min": 0, "max": 65535}},
            {"label": "GFP", "color": "00FF00", "active": False},
        ]
    }
    image = opened(image_keys([data], "czyx", multiscale=shared, scales=[[1, 1, 1, 1]], ome={"omero": omero}))
    first, second = image.layers()
    for i, layer in enumerate((first, second)):
        assert np.array_equal(layer.levels[0], data[i])
        assert np.array_equal(layer.levels[0][1, 2:5, ::-1], data[i, 1, 2:5, ::-1])
        assert (layer.axis_labels, layer.scale) == (("z", "y", "x"), (2.0, 0.1625, 0.1625))
        assert layer.units == ("micrometer",) * 3
    assert [layer.name.rpartition(" ")[2] for layer in (first, second)] == ["DAPI", "GFP"]
    assert (first.color, first.contrast_limits, first.contrast_range) == ("0000FF", (5, 300), (0, 65535))
    assert (second.color, second.contrast_limits, second.visible) == ("00FF00", None, False)


def test_colour_pictures_and_channels_are_told_apart() -> None:
    """Field report A-08."""
    data = ramp((3, 6, 5), "uint8")
    window = {"start": 0, "end": 255, "min": 0, "max": 255}
    rgb = {"channels": [{"color": c, "window": window} for c in ("FF0000", "00FF00", "0000FF")]}
    image = opened(image_keys([data], "cyx", version="0.4", ome={"omero": rgb}))
    (layer,) = image.layers()
    assert layer.rgb
    assert np.array_equal(layer.levels[0], np.moveaxis(data, 0, -1))
    assert np.array_equal(layer.levels[0][2:4, 1], np.moveaxis(data, 0, -1)[2:4, 1])
    assert (layer.axis_labels, len(layer.scale)) == (("y", "x"), 2)
    named = {
        "channels": [
            {"label": n, "color": c} for n, c in zip("abc", ("0000FF", "00FF00", "FF0000"), strict=True)
        ]
    }
    control = opened(image_keys([data.astype("uint16")], "cyx", ome={"omero": named}))
    assert [layer.rgb for layer in control.layers()] == [False] * 3
    packed = ramp((4, 6, 5, 3), "uint16")
    archive = opened(image_keys([packed], "zyxc", version="0.4", attributes={"decant": {"samples": 3}}))
    assert archive.is_rgb
    assert np.array_equal(archive.levels[0], packed)
    plain = opened(image_keys([ramp((6, 5, 3), "uint8")], "yx", scales=[[1, 1]]))
    assert plain.is_rgb


def test_labels_keep_their_colours_and_are_never_split() -> None:
    data = ramp((2, 8, 8), "int32")
    info = {"image-label": {"colors": [{"label-value": 3, "rgba": [1, 2, 3, 4]}]}}
    keys = image_keys([ramp((8, 8))], "yx") | image_keys([data], "cyx", path="labels/cells", ome=info)
    keys |= group_keys("labels", {"labels": ["cells"]})
    image = opened(keys)
    assert (image.labels, image.label_paths) == (("cells",), ("labels/cells",))
    cells = opened(keys, image=image.label_paths[0])
    (layer,) = cells.layers()
    assert layer.is_labels
    assert cells.label is not None
    assert cells.label.colors == {3: (1, 2, 3, 4)}
    assert np.array_equal(layer.levels[0], data)
    floats = opened(image_keys([ramp((4, 4)).astype("float32")], "yx", ome=info))
    assert not floats.is_labels
    assert "float32" in floats.warnings[-1]


@pytest.mark.parametrize(
    ("version", "separator", "v2_keys"), [("0.4", ".", False), ("0.4", None, False), ("0.5", ".", True)]
)
def test_the_arrays_own_metadata_say_how_chunks_are_named(
    version: str, separator: str | None, v2_keys: bool
) -> None:
    """Field report A-05."""
    data = ramp((40, 40))
    keys = image_keys([data], "yx", version=version, chunks=(16, 16), separator=separator, v2_keys=v2_keys)
    image = opened(keys)
    assert np.array_equal(image.levels[0], data)
    assert image.warnings == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_misnamed_chunks_are_not_shown_as_zeros_in_silence(version: str) -> None:
    """Field report A-05, second half."""
    keys = image_keys([ramp((40, 40))], "yx", version=version, chunks=(16, 16), separator=".")
    document = "0/.zarray" if version == "0.4" else "0/zarr.json"
    wrong = keys | {document: keys[document].replace(b'"."', b'"/"')}
    assert any("names with '.'" in text for text in opened(wrong).warnings)
    keys = image_keys([ramp((40, 40))], "yx", version=version, chunks=(16, 16))
    wrong = keys | {document: keys[document].replace(b'"/"', b'"."')}
    assert any("names with '/'" in text for text in opened(wrong).warnings)


@pytest.mark.parametrize(("fill", "shown"), [(None, 0), (7, 7)])
def test_an_absent_chunk_reads_as_fill(fill: int | None, shown: int) -> None:
    """Field report A-06."""
    data = ramp((64, 64))
    keys = image_keys([data], "yx", version="0.4", chunks=(32, 32), fill_value=fill)
    del keys["0/1/0"]
    expected = data.copy()
    expected[32:, :32] = shown
    image = opened(keys)
    assert np.array_equal(image.levels[0], expected)
    (count,) = count_chunks(image)
    assert (count.present, count.expected, str(count)) == (3, 4, "1 of 4 chunks absent")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("separator", ["/", "."])
def test_chunks_are_counted_and_strangers_are_not(version: str, separator: str) -> None:
    keys = image_keys([ramp((40, 30))], "yx", version=version, chunks=(16, 16), separator=separator)
    keys |= {"0/Thumbs.db": b"x", "0/9/9": b"x", "0/c/9/9": b"x", "0/00/0": b"x"}
    (count,) = count_chunks(opened(keys))
    assert (count.present, count.expected, count.absent) == (6, 6, 0)


@pytest.mark.parametrize("dtype", [">u2", ">f4", ">i2"])
@pytest.mark.parametrize("version", VERSIONS)
def test_big_endian_pixels_have_their_values(dtype: str, version: str) -> None:
    """Field report A-11."""
    data = (np.arange(1, 32 * 32 + 1).reshape(32, 32) - (500 if "u" not in dtype else 0)).astype(dtype)
    array = opened(image_keys([data], "yx", version=version, chunks=(20, 20))).levels[0]
    assert array.dtype.isnative
    assert np.array_equal(array, data)


def test_one_z_step_reads_one_chunk_per_channel() -> None:
    """Field report A-09."""
    data = ramp((2, 16, 32, 32))
    store = CountingStore(image_keys([data, data[..., ::2, ::2]], "czyx", chunks=(1, 1, 32, 32)))
    layers = open_image(store, cache=ChunkCache(1 << 20)).layers()
    for z in (3, 4):
        store.reads.clear()
        for i, layer in enumerate(layers):
            assert np.array_equal(layer.levels[0][z], data[i, z])
        assert store.reads == [f"0/c/0/{z}/0/0", f"0/c/1/{z}/0/0"]
    store.reads.clear()
    assert np.array_equal(layers[1].levels[0][3, 5:9], data[1, 3, 5:9])
    assert store.reads == []  # it is kept


def test_contrast_is_measured_on_the_coarsest_level_only() -> None:
    data = np.full((2, 64, 64), 1000, "uint16")
    data[:, ::2, ::2] = np.linspace(200, 800, 1024).reshape(32, 32)
    store = CountingStore(image_keys([data, data[:, ::2, ::2]], "zyx", chunks=(1, 32, 32)))
    (layer,) = open_image(store).layers()
    store.reads.clear()
    low, high = layer.measure_contrast()
    assert 199 <= low < 205
    assert 795 < high <= 801
    assert {key.split("/")[0] for key in store.reads} == {"1"}


def test_contrast_of_a_large_single_level_reads_a_few_chunks() -> None:
    keys = image_keys([np.zeros((1, 1), "uint16")], "zyx", scales=[[1, 1, 1]])
    document = json.loads(keys["0/zarr.json"])
    document |= {"shape": [1000, 512, 512], "dimension_names": ["z", "y", "x"]}
    document["chunk_grid"]["configuration"]["chunk_shape"] = [1, 512, 512]
    plane = ramp((1, 512, 512)).tobytes()
    keys = {"zarr.json": keys["zarr.json"], "0/zarr.json": json.dumps(document).encode()}
    keys |= {f"0/c/{z}/0/0": plane for z in range(1000)}
    store = CountingStore(keys)
    array = open_image(store).levels[0]
    store.reads.clear()
    low, high = sample_contrast(array)
    assert 1 <= low < 200
    assert 65_000 < high <= 65_535
    assert len({key for key in store.reads if "/c/" in key}) <= 8


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((4, 4), "u1"),
        np.full((4, 4), 7, "u2"),
        np.full((4, 4), np.nan, "f4"),
        np.full((4, 4), -3.0, "f4"),
    ],
)
def test_contrast_limits_always_increase(values: np.ndarray) -> None:
    low, high = sample_contrast(opened(image_keys([values], "yx")).levels[0])
    assert np.isfinite([low, high]).all()
    assert low < high


def test_levels_that_cannot_be_shown_together_are_left_out_or_ordered() -> None:
    fine, coarse = ramp((16, 16)), ramp((8, 8))
    image = opened(image_keys([coarse, fine], "yx", scales=[[2, 2], [1, 1]]))
    assert [level.shape for level in image.levels] == [(16, 16), (8, 8)]
    assert image.scales == ((1.0, 1.0), (2.0, 2.0))
    assert any("finest first" in text for text in image.warnings)
    mixed = opened(image_keys([fine, coarse.astype("float64")], "yx"))
    assert [level.dtype for level in mixed.levels] == [np.uint16, np.uint16]
    assert np.array_equal(mixed.levels[1], coarse)


@pytest.mark.parametrize(("shape", "words"), [((1, 8, 8), "1 channels where"), ((2, 0, 8), "is empty")])
def test_a_level_without_some_channel_or_any_pixel_is_left_out(shape: tuple[int, ...], words: str) -> None:
    keys = image_keys([ramp((2, 16, 16)), ramp((2, 8, 8)), ramp((2, 4, 4))], "cyx")
    keys["1/zarr.json"] = json.dumps(json.loads(keys["1/zarr.json"]) | {"shape": shape}).encode()
    image = opened(keys)
    assert [level.shape for level in image.levels] == [(2, 16, 16), (2, 4, 4)]
    assert any(words in text for text in image.warnings)
    for number, layer in enumerate(image.layers()):
        assert np.array_equal(layer.levels[1], ramp((2, 4, 4))[number])


def test_several_images_are_a_choice(tmp_path: Path) -> None:
    keys = group_keys("", {"bioformats2raw.layout": 3})
    keys |= image_keys([ramp((4, 4))], "yx", path="0") | image_keys([ramp((2, 6, 6))], "zyx", path="1")
    root = write(tmp_path / "series.zarr", keys)
    with pytest.raises(ChoiceNeeded) as caught:
        open_image(root)
    entries = list_images(root)
    assert tuple(entries) == caught.value.choices
    for entry in entries:
        assert open_image(root, image=entry).shape == entry.shape
    assert open_image(root, image="1").shape == (2, 6, 6)


def test_http_zip_and_s3_show_the_same_pixels(tmp_path: Path) -> None:
    data = ramp((4, 40, 40))
    keys = image_keys([data], "zyx", version="0.4", chunks=(1, 16, 16))
    write(tmp_path / "a.zarr", keys)
    with zipfile.ZipFile(tmp_path / "a.ozx", "w") as archive:
        for key, value in keys.items():
            archive.writestr(key, value)
    with serve_http(tmp_path) as server:
        for name in ("a.zarr", "a.ozx"):
            image = open_image(f"{server.url}/{name}")
            assert np.array_equal(image.levels[0][1:3, 10:30, 5:20], data[1:3, 10:30, 5:20])
            image.close()
    with serve_s3({f"a.zarr/{k}": v for k, v in keys.items()}) as bucket:
        assert np.array_equal(open_image(f"{bucket}/a.zarr").levels[0], data)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files through /proc")
def test_the_file_is_held_as_long_as_an_array_lives(tmp_path: Path) -> None:
    """Field report A-03."""
    path = tmp_path / "a.zarr.zip"
    data = ramp((4, 4))
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in image_keys([data], "yx").items():
            archive.writestr(key, value)

    def handles() -> int:
        return [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")].count(
            str(path)
        )

    array = open_image(path).levels[0]
    gc.collect()
    assert np.array_equal(array, data)
    view = array.transpose()
    del array
    gc.collect()
    assert handles() == 1
    assert np.array_equal(view, data.T)
    del view
    gc.collect()
    assert handles() == 0
    image = open_image(path)
    image.close()
    assert handles() == 0
    with pytest.raises(StorageError, match="closed"):
        np.asarray(image.levels[0])
    for wrong in ("nothing", "../0"):
        with pytest.raises(Exception, match=r"nothing|\.\."):
            open_image(path, image=wrong)
    list_images(path)
    gc.collect()
    assert handles() == 0


def test_a_registered_opener_comes_first_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(opening, "_openers", dict(opening._openers))
    image = opened(image_keys([ramp((4, 4))], "yx"))

    class Source:
        def list_images(self) -> list[Any]:
            return []

        def open(self, which: str | None) -> Image:
            return image

        def close(self) -> None: ...

    register_opener("mine", lambda place, cache, limits: Source() if place.name.endswith(".mine") else None)
    assert open_image("whatever.mine") is image
    other = tmp_path / "x.txt"
    other.write_text("text")
    with pytest.raises(UnsupportedOperation, match=r"x\.txt"):
        open_image(other)
    with pytest.raises(StorageError, match="does not exist"):
        open_image(tmp_path / "gone.zarr")


def test_limits_refuse_before_reading() -> None:
    data = ramp((64, 64))
    image = opened(image_keys([data], "yx", chunks=(16, 16)), limits=ArrayLimits(max_array_bytes=4096))
    array = image.levels[0]
    with pytest.raises(BudgetExceeded, match="max_array_bytes") as caught:
        np.asarray(array)
    assert (caught.value.need, caught.value.limit) == (8192, 4096)
    with pytest.raises(BudgetExceeded):
        array[:]
    assert np.array_equal(array[:32], data[:32])


def test_a_huge_declared_image_costs_nothing_to_open() -> None:
    keys = image_keys([ramp((4, 4))], "yx")
    document = json.loads(keys["0/zarr.json"]) | {"shape": [2**45, 2**45]}
    document["chunk_grid"]["configuration"]["chunk_shape"] = [1024, 1024]
    image = opened(keys | {"0/zarr.json": json.dumps(document).encode()})
    assert image.shape == (2**45, 2**45)
    assert not image.levels[0][2**44 : 2**44 + 3, :5].any()
    with pytest.raises(BudgetExceeded):
        np.asarray(image.levels[0])


def test_threads_share_chunks_and_each_is_decoded_once() -> None:
    data = ramp((8, 64, 64))
    store = CountingStore(image_keys([data], "zyx", chunks=(1, 64, 64)))
    array = open_image(store, cache=ChunkCache(1 << 20)).levels[0]
    store.reads.clear()
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            z, y = int(rng.integers(8)), int(rng.integers(60))
            if not np.array_equal(array[z, y : y + 4, ::3], data[z, y : y + 4, ::3]):
                wrong.append(f"{z}/{y}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sorted(store.reads) == [f"0/c/{z}/0/0" for z in range(8)]


def test_napari_projects_and_converts_such_a_layer() -> None:
    from napari.layers import Image as NapariImage
    from napari.layers import Labels
    from napari.layers._layer_actions import _convert_dtype, _project_data

    data = ramp((3, 16, 16))
    array = opened(image_keys([data], "zyx")).levels[0]
    layer = NapariImage(array, contrast_limits=(0, 1000))
    assert layer.data is array
    for mode in ("max", "mean"):
        assert np.array_equal(_project_data(layer.data, axis=0, mode=mode), getattr(data, mode)(0))

    class Layers(list[Any]):
        class selection:  # noqa: N801
            active = Labels(opened(image_keys([ramp((16, 16), "int32")], "yx")).levels[0])

    _convert_dtype(Layers(), "int64")  # type: ignore[arg-type]
    converted = Layers.selection.active.data
    assert converted.dtype == np.int64
    assert np.array_equal(converted, ramp((16, 16)))
    assert isinstance(converted, LazyArray)
