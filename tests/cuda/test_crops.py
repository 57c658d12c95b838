"""Crops on a GPU: taken where it can be used, told where it cannot, and the same pixels either way."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from tests.crop.helpers import blob, image_in_memory, mean_pyramid
from tests.plugin.helpers import write_folder
from tests.support import fakecupy
from tests.support.ngff import image_keys

from napari_decant.cli import main
from napari_decant.errors import DeviceUnavailable
from napari_decant.images import open_image
from napari_decant.images.crop import (
    Cutter,
    Region,
    WorldMap,
    crop,
    gpu_problem,
    place,
    plan_crop,
    source_of_arrays,
    source_of_image,
)
from napari_decant.spatial import Sampler

PIXELS = mean_pyramid(blob((24, 64, 80), (11.0, 30.0, 44.0), (3.0, 5.0, 6.0)), 2)
SCALE = (2.0, 0.5, 0.5)


@pytest.fixture
def image():
    return image_in_memory(PIXELS, "zyx", SCALE, chunks=(8, 16, 16))


@pytest.fixture(autouse=True)
def nothing_remembered():
    gpu_problem.cache_clear()
    yield
    gpu_problem.cache_clear()


def query_of(image, angles=(20.0, -15.0, 40.0), kind="linear"):
    source = source_of_image(image)
    region = Region((22.0, 15.0, 22.0), (30.0, 14.0, 18.0), angles)
    return place(region, source, WorldMap.physical(source), sampler=Sampler(kind, "constant", 3.0))


@pytest.mark.parametrize("kind", ["nearest", "linear"])
def test_what_is_turned_goes_to_the_gpu_and_is_the_same(gpu, image, kind):
    assert gpu_problem() is None
    query = query_of(image, kind=kind)
    cpu, made = crop(image, query, device="cpu"), crop(image, query)
    assert (cpu.facts.device, cpu.facts.device_reason) == ("CPU", "the CPU was asked for")
    assert made.facts.device == "Pretended GPU"
    assert any(name.startswith(kind) for name in gpu.launches)
    np.testing.assert_array_equal(made.array, cpu.array)
    assert made.array.any()
    assert plan_crop(image, query, device="cuda").facts.device == "Pretended GPU"


def test_copies_stay_with_the_cpu_unless_the_gpu_is_asked_for(gpu, image):
    straight = query_of(image, (0.0, 0.0, 0.0))
    made = crop(image, straight)
    assert made.facts.device == "CPU"
    assert "copied" in made.facts.device_reason
    assert not gpu.launches
    asked = crop(image, straight, device="cuda")
    assert gpu.launches
    np.testing.assert_array_equal(asked.array, made.array)


def test_a_full_gpu_leaves_it_to_the_cpu_with_a_warning(gpu, image, caplog):
    query = query_of(image)
    wanted = crop(image, query, device="cpu").array
    with Cutter(64 << 20) as cutter:
        source = source_of_image(image)
        resolution = query.resolve(source)
        assert cutter.device(source, resolution)[0] == "Pretended GPU"
        gpu.total = gpu.used  # another program took the rest
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                np.testing.assert_array_equal(cutter.cut(source, resolution), wanted)
        assert len(cutter.troubles) == 1
        assert "Pretended GPU has no memory left" in cutter.troubles[0]
    assert [r.levelname for r in caplog.records] == ["WARNING"]  # once, not for every piece


def test_a_warning_stands_in_the_report_and_on_the_command_line(gpu, tmp_path, capsys):
    folder = write_folder(tmp_path / "a.zarr", image_keys(PIXELS[:1], "zyx", scales=[list(SCALE)]))
    words = ["crop", folder, "-o", tmp_path / "b.zarr", "--rotate", "30", "--boundary", "clamp", "--quiet"]
    words = [str(word) for word in words]
    assert main([*words, "--dry-run"]) == 0
    assert "on Pretended GPU" in capsys.readouterr().out
    gpu.lockable = 0
    assert main([*words, "--json"]) == 0
    seen = capsys.readouterr()
    facts = json.loads(seen.out)["facts"]
    assert facts["device"] == "Pretended GPU"
    assert "the CPU does it instead" in facts["warnings"][0]
    assert facts["warnings"][0].startswith("the CPU does it instead: this machine has no ")
    assert "page-locked" in facts["warnings"][0]
    assert len(facts["warnings"]) == 1
    assert main([*words, "--overwrite", "--device", "cuda"]) == 3
    assert "page-locked" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    seen = capsys.readouterr()
    assert "the CPU does it instead" in seen.err
    made = open_image(tmp_path / "b.zarr")
    assert np.asarray(made.levels[0]).any()
    made.close()


def test_a_gpu_that_fails_is_left_alone_for_the_rest(gpu, image):
    query = query_of(image)
    wanted = crop(image, query, device="cpu").array
    with Cutter(64 << 20) as cutter:
        source = source_of_image(image)
        resolution = query.resolve(source)
        cutter.device(source, resolution)
        gpu.broken = True
        np.testing.assert_array_equal(cutter.cut(source, resolution), wanted)
        uploads = gpu.uploads
        np.testing.assert_array_equal(cutter.cut(source, resolution), wanted)
        assert gpu.uploads == uploads
        assert "cudaErrorIllegalAddress" in cutter.troubles[0]


def test_without_a_gpu_auto_says_why_and_cuda_refuses(monkeypatch, compiler, image):
    gpu = fakecupy.installed(monkeypatch, compiler)
    gpu.status = 100
    made = crop(image, query_of(image))
    assert made.facts.device == "CPU"
    assert made.facts.device_reason == "no GPU can be used: no NVIDIA GPU was found"
    assert made.facts.warnings == ()
    assert gpu_problem() == "no NVIDIA GPU was found"
    with pytest.raises(DeviceUnavailable, match="no GPU can be used: no NVIDIA GPU was found; or use"):
        crop(image, query_of(image), device="cuda")


def test_too_little_room_on_the_gpu_is_told_in_words_of_the_crop(gpu, image):
    gpu.total = 2 << 10
    with pytest.raises(DeviceUnavailable, match=r"Pretended GPU has no room for .* use the device 'cpu'"):
        crop(image, query_of(image), device="cuda")
    made = crop(image, query_of(image))
    assert "max_device_bytes" in made.facts.warnings[0]


def test_arrays_that_are_sliced_are_cut_by_the_cpu(gpu):
    source = source_of_arrays([PIXELS[0]], "zyx", scale=SCALE)
    query = place(
        Region((22.0, 15.0, 22.0), (30.0, 14.0, 18.0), (20.0, 0.0, 0.0)),
        source,
        WorldMap.physical(source),
        sampler=Sampler("linear", "constant"),
    )
    resolution = query.resolve(source)
    with Cutter(64 << 20) as cutter:
        assert cutter.device(source, resolution) == ("CPU", "only Zarr images are cut on a GPU")
        cutter.cut(source, resolution)
    assert not gpu.launches
    with Cutter(64 << 20, device="cuda") as cutter, pytest.raises(DeviceUnavailable, match="no Zarr image"):
        cutter.cut(source, resolution)
