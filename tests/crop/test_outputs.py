"""Crops in files of every kind: the pixels, their place, and nothing left of what does not finish."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tifffile
from tests.crop.helpers import blob, image_in_memory, mean_pyramid
from tests.plugin.helpers import write_folder
from tests.support.ngff import image_keys

from napari_decant.errors import Cancelled, UnsupportedOperation
from napari_decant.images import open_image
from napari_decant.images.crop import (
    CONVENTION,
    Region,
    SavedQuery,
    WorldMap,
    crop,
    place,
    source_of_image,
)
from napari_decant.images.crop import _write as writing
from napari_decant.progress import CancelToken
from napari_decant.spatial import Sampler

SUFFIXES = [".zarr", ".ozx", ".ome.tif"]
SCALE, ORIGIN = (2.0, 0.5, 0.3), (-3.0, 10.0, 4.0)
BOX = {"turned": (30.0, 10.0, -20.0), "straight": (0.0, 0.0, 0.0), "mirrored about x": (180.0, 0.0, 0.0)}


def pixels(shape=(32, 96, 128)):
    noise = (1 + np.arange(np.prod(shape)) * 7919 % 997).reshape(shape).astype("u2")
    return blob(shape, tuple(n * 0.5 for n in shape), tuple(n / 8 for n in shape)) + noise


@pytest.fixture(scope="module")
def image():
    omero = {"channels": [{"color": "FF00FF", "label": "dye", "window": {"start": 5, "end": 900}}]}
    return image_in_memory(
        mean_pyramid(pixels(), 2), "zyx", SCALE, ORIGIN, chunks=(8, 32, 32), ome={"omero": omero}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An image on a disk that takes a moment to turn."""
    keys = image_keys([pixels((64, 256, 320))], "zyx", scales=[list(SCALE)], chunks=(16, 64, 64))
    return write_folder(tmp_path_factory.mktemp("source") / "cells.zarr", keys)


def query(image, angles=BOX["turned"], size=(36.0, 20.0, 15.0), **more):
    source = source_of_image(image)
    world = WorldMap.physical(source)
    center = world.whole([source.shape[i] for i in source.spatial]).center
    sampler = Sampler("nearest" if image.is_labels else "linear", "constant", 7.0)
    rank = len(source.spatial)
    region = Region(center, size[-rank:], angles if rank == 3 else angles[:1])
    return place(region, source, world, sampler=sampler, **more)


def whole_map(layer):
    """The position of every element of a layer, as a viewer works it out."""
    own = np.column_stack([np.diag(layer.scale), layer.translate])
    if layer.affine is None:
        return own
    after = np.asarray(layer.affine)
    return np.column_stack([after[:-1, :-1] @ own[:, :-1], after[:-1, :-1] @ own[:, -1] + after[:-1, -1]])


def read_back(path):
    """Pixels and map of the spatial axes of the only layer."""
    opened = open_image(path)
    (layer,) = opened.layers()
    spatial = [i for i, axis in enumerate(layer.axes) if axis.type == "space"]
    found = np.asarray(layer.levels[0])
    matrix = whole_map(layer)[np.ix_(spatial, [*spatial, len(layer.axes)])]
    opened.close()
    return found.reshape([found.shape[i] for i in spatial]), matrix


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("angles", BOX.values(), ids=BOX)
def test_pixels_and_place_come_back(image, tmp_path, suffix, angles):
    wanted = crop(image, query(image, angles))
    events = []
    report = crop(
        image, query(image, angles), tmp_path / f"a{suffix}", memory=1 << 30, progress=events.append
    )
    assert {event.stage for event in events} == {"crop"}
    assert [event.done for event in events] == sorted(event.done for event in events)
    assert events[-1].done == events[-1].total >= wanted.array.nbytes
    assert report.target == tmp_path / f"a{suffix}"
    assert report.placement == wanted.placement
    found, matrix = read_back(report.target)
    np.testing.assert_array_equal(found, wanted.array)
    assert found.min() > 0
    np.testing.assert_allclose(matrix, wanted.placement.matrix, atol=1e-9)
    assert os.listdir(tmp_path) == [f"a{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_plane_of_any_direction_keeps_its_place_in_the_volume(image, tmp_path, suffix):
    sized = query(image, (25.0, 35.0, 10.0), (0.1, 20.0, 15.0))
    wanted = crop(image, sized)
    assert wanted.array.shape[0] == 1
    crop(image, sized, tmp_path / f"a{suffix}")
    found, matrix = read_back(tmp_path / f"a{suffix}")
    np.testing.assert_array_equal(found, wanted.array)
    np.testing.assert_allclose(matrix, wanted.placement.matrix, atol=1e-9)
    # and what is cut out of it lies there too
    again = open_image(tmp_path / f"a{suffix}")
    assert len(source_of_image(again).spatial) == 3
    linear = np.asarray(WorldMap.physical(source_of_image(again)).linear)
    np.testing.assert_allclose(linear, wanted.placement.matrix[:, :-1], atol=1e-9)
    again.close()


def test_a_tiff_says_where_it_lies_in_words_that_others_can_read(image, tmp_path):
    report = crop(image, query(image), tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tif:
        document = tifffile.xml2dict(tif.ome_metadata)["OME"]
        np.testing.assert_array_equal(tif.series[0].asarray(), crop(image, query(image)).array)
    note = document["StructuredAnnotations"]["CommentAnnotation"]
    assert note["Namespace"] == "napari-decant"
    record = json.loads(note["Value"])
    assert record["affine"]["convention"] == CONVENTION
    assert record["affine"]["axes"] == ["z", "y", "x"]
    np.testing.assert_allclose(record["affine"]["matrix"], report.placement.matrix)
    kept = SavedQuery.from_json(record["crop"]["query"])
    assert kept.fit(source_of_image(image)) == query(image)
    channel = document["Image"]["Pixels"]["Channel"]
    assert (channel["Name"], channel["Color"] & 0xFFFFFFFF) == ("dye", 0xFF00FFFF)


def test_lengths_in_a_tiff_are_micrometers_in_the_record_too(tmp_path):
    data = pixels((48, 64))
    units = [{"name": name, "type": "space", "unit": "nanometer"} for name in "yx"]
    keys = image_keys([data], units, scales=[[500.0, 250.0]], translations=[[1000.0, 0.0]])
    opened = open_image(write_folder(tmp_path / "nm.zarr", keys))
    wanted = crop(opened, query(opened, (30.0,), (8000.0, 6000.0)), tmp_path / "a.ome.tif")
    found, matrix = read_back(tmp_path / "a.ome.tif")
    np.testing.assert_allclose(matrix, wanted.placement.matrix / 1000)
    assert found.shape == (16, 24)
    opened.close()


def test_labels_colours_channels_and_times_in_a_tiff(tmp_path):
    labels = np.zeros((40, 40), "u4")
    labels[10:30, 12:25] = 4000000001
    held = image_in_memory([labels], "yx", (0.5, 0.5), ome={"image-label": {}})
    crop(held, query(held, (30.0,), (12.0, 14.0)), tmp_path / "labels.ome.tif")
    again = open_image(tmp_path / "labels.ome.tif")
    assert again.is_labels
    assert set(np.unique(np.asarray(again.levels[0]))) == {0, 4000000001}
    again.close()
    planes = np.stack([pixels((3, 40, 48)) + k for k in range(4)]).reshape(2, 2, 3, 40, 48)
    ome = {"omero": {"channels": [{"color": "FF0000", "label": "a"}, {"color": "00FF00", "label": "b"}]}}
    five = image_in_memory([planes], "tczyx", (1.0, 1.0, 2.0, 0.5, 0.5), chunks=(1, 1, 2, 16, 16), ome=ome)
    sized = query(five, BOX["straight"], (6.0, 10.0, 12.0))
    wanted = crop(five, sized).array
    crop(five, sized, tmp_path / "five.ome.tif")
    again = open_image(tmp_path / "five.ome.tif")
    np.testing.assert_array_equal(np.asarray(again.levels[0]), wanted)
    assert wanted.shape == (2, 2, 3, 20, 24)
    assert [layer.color for layer in again.layers()] == ["FF0000", "00FF00"]
    again.close()


def test_what_a_tiff_cannot_hold_is_refused_before_a_pixel_is_read(tmp_path):
    held = image_in_memory([pixels((20, 20)).astype("i8")], "yx")
    with pytest.raises(UnsupportedOperation, match=r"no int64; convert .* or write \.zarr"):
        crop(held, query(held, (0.0,), (5.0, 5.0)), tmp_path / "a.tif")
    assert os.listdir(tmp_path) == []


def test_a_volume_becomes_a_tiff_without_decoding_a_chunk_for_every_plane(image, tmp_path, monkeypatch):
    """Planes are written one by one, but chunks are several planes deep."""
    cut = []
    kept = writing.Slabs._cut
    monkeypatch.setattr(
        writing.Slabs, "_cut", lambda self, a, b: cut.append((a[0], b[0])) or kept(self, a, b)
    )
    crop(image, query(image, BOX["straight"], (64.0, 48.0, 38.4)), tmp_path / "a.ome.tif")
    assert cut == [(0, 32)]
    cut.clear()
    crop(image, query(image), tmp_path / "b.ome.tif", memory=65 << 20)  # the least: 64 MiB are the engine's
    found, _ = read_back(tmp_path / "b.ome.tif")
    np.testing.assert_array_equal(found, crop(image, query(image)).array)
    assert len(cut) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("share", [0.0, 0.4, 0.8])
def test_cancelling_at_any_point_leaves_nothing_within_two_seconds(folder, tmp_path, suffix, share):
    opened, token = open_image(folder), CancelToken()
    asked = []

    def progress(event):
        if event.done >= share * event.total and not asked:
            asked.append(time.monotonic())
            threading.Thread(target=token.cancel).start()

    with pytest.raises(Cancelled):
        crop(
            opened,
            query(opened, size=(128.0, 128.0, 96.0)),
            tmp_path / f"a{suffix}",
            progress=progress,
            cancel=token,
        )
    assert time.monotonic() - asked[0] < 2
    assert os.listdir(tmp_path) == []
    opened.close()


def verb(folder, target, *more):
    words = ["crop", folder, "-o", target, "--rotate", "20", "--boundary", "clamp", "--quiet", *more]
    return [sys.executable, "-m", "napari_decant.cli", *map(str, words)]


@pytest.mark.skipif(os.name == "nt", reason="limits of a process are POSIX")
@pytest.mark.parametrize("suffix", [".ozx", ".ome.tif"])
def test_a_disk_that_fills_leaves_no_file_and_the_same_command_goes_on(folder, tmp_path, suffix):
    target = tmp_path / f"a{suffix}"
    shell = ["sh", "-c", 'ulimit -f 800; exec "$@"', "sh"]  # no file larger than 400 or 800 kB
    failed = subprocess.run([*shell, *verb(folder, target)], capture_output=True, text=True)
    assert failed.returncode == 4, failed.stderr
    assert str(tmp_path) in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert not target.exists()
    assert set(os.listdir(tmp_path)) <= {f".a{suffix}.partial"}
    subprocess.run(verb(folder, target), check=True, capture_output=True)
    assert os.listdir(tmp_path) == [f"a{suffix}"]
    opened = open_image(folder)
    found, _ = read_back(target)
    assert found.shape == opened.shape
    assert found.min() > 0
    opened.close()


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize("suffix", [".zarr", ".ome.tif"])
def test_a_killed_crop_leaves_no_file_of_its_name(folder, tmp_path, suffix):
    target = tmp_path / f"a{suffix}"
    with subprocess.Popen(verb(folder, target), stderr=subprocess.PIPE) as running:
        while running.poll() is None and not os.listdir(tmp_path):
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL, running.returncode
    assert not target.exists()
    assert all(name.startswith(".") and name.endswith(".partial") for name in os.listdir(tmp_path))
    subprocess.run(verb(folder, target), check=True, capture_output=True)
    found, _ = read_back(target)
    assert found.min() > 0


def test_a_saved_query_makes_a_tiff_of_other_images_from_the_command_line(image, folder, tmp_path):
    SavedQuery.of(query(image), source_of_image(image), "f4", spatial_only=True).save(tmp_path / "q.json")
    command = [sys.executable, "-m", "napari_decant.cli", "crop", folder, "-o", tmp_path / "a.ome.tif"]
    command += ["--query", tmp_path / "q.json", "--json"]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    opened = open_image(folder)
    wanted = crop(opened, SavedQuery.load(tmp_path / "q.json"))
    found, _ = read_back(tmp_path / "a.ome.tif")
    np.testing.assert_array_equal(found, wanted.array)
    assert told["facts"]["dtype"] == found.dtype.name == "float32"
    opened.close()
