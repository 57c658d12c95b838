"""What the crop tool shows follows from what the user wants and what there is, and from nothing else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from tests.crop.helpers import blob, image_in_memory, mean_pyramid

from napari_decant.gui.crop import Intent, LayerFacts, changed, preview_of, resolve
from napari_decant.gui.crop._make import cut_pictures, files_of
from napari_decant.gui.crop._preview import preview_share
from napari_decant.gui.crop._resolve import in_mode
from napari_decant.images.crop import Cutter, Region, WorldMap, source_of_arrays, source_of_image
from napari_decant.progress import CancelToken

SCALE = (2.0, 0.5, 0.5)


def facts(key="a", shape=(32, 64, 64), levels=3, dtype="u2", is_label=False, axes="zyx", scale=SCALE, **more):
    data = mean_pyramid(blob(shape[-3:], [n / 2 for n in shape[-3:]], 3.0, dtype), levels)
    source = source_of_arrays(data, axes, scale=scale, is_label=is_label, name=key)
    return LayerFacts(key, key, source, WorldMap.physical(source), **more)


def box(**changes):
    given = {"center": (31.0, 15.75, 15.75), "size": (20.0, 8.0, 12.0), "angles": (0.0, 0.0, 0.0)} | changes
    return Region(**given)


def wish(**changes):
    return Intent(**({"layers": ("a",), "region": box()} | changes))


def test_a_straight_box_is_copied_and_said_so():
    snapshot = resolve(wish(), [facts()])
    assert snapshot.ready
    (cut,) = snapshot.cuts
    assert cut.shape == (10, 16, 24)
    assert not cut.resolution.requires_resampling
    assert snapshot.headline == "10 × 16 × 24 voxels, level 0: voxels are copied unchanged"
    assert cut.nbytes == 10 * 16 * 24 * 2


def test_a_turned_box_is_resampled_at_the_level_that_the_spacing_asks_for():
    turned = wish(region=box(angles=(23.0, 0.0, 0.0)), grid="custom", pitch=1.0)
    snapshot = resolve(turned, [facts()])
    assert snapshot.cuts[0].resolution.level == 0  # z is coarser than the spacing already
    isotropic = facts(scale=(0.5, 0.5, 0.5), shape=(64, 64, 64))
    snapshot = resolve(replace(turned, region=box(center=(15.0,) * 3, angles=(23.0, 0.0, 0.0))), [isotropic])
    assert snapshot.cuts[0].resolution.level == 1
    assert snapshot.headline == "20 × 8 × 12 voxels, level 1, turned 23°: resampled, interpolated"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_level_is_cut_by_copying_too(level):
    snapshot = resolve(wish(grid="level", level=level, mode="whole"), [facts()])
    (cut,) = snapshot.cuts
    assert cut.shape == tuple(n >> level for n in (32, 64, 64))
    assert not cut.resolution.requires_resampling


def test_isotropic_spacing_takes_the_smallest():
    snapshot = resolve(wish(grid="isotropic"), [facts()])
    assert snapshot.cuts[0].shape == (40, 16, 24)
    assert snapshot.cuts[0].resolution.requires_resampling


def test_labels_are_never_interpolated_and_images_are():
    layers = [facts(), facts("b", is_label=True, dtype="u4")]
    snapshot = resolve(wish(layers=("a", "b"), region=box(angles=(10.0, 5.0, 0.0))), layers)
    assert [cut.resolution.sampler.filter for cut in snapshot.cuts] == ["linear", "nearest"]
    assert "from 2 layers" in snapshot.headline


def test_layers_of_other_scales_are_cut_from_the_same_place_of_the_world():
    coarse = facts("b", shape=(16, 32, 32), scale=(4.0, 1.0, 1.0))
    snapshot = resolve(wish(layers=("a", "b")), [facts(), coarse])
    assert [cut.shape for cut in snapshot.cuts] == [(10, 16, 24), (5, 8, 12)]
    assert snapshot.ready


def test_nothing_chosen_nothing_drawn_and_nothing_there():
    assert "Open an image" in resolve(Intent(), []).problem("layers")
    assert "Choose a layer" in resolve(Intent(), [facts()]).problem("layers")
    drawn = resolve(wish(region=None), [facts()])
    assert "Draw a box" in drawn.problem("region")
    assert not drawn.ready
    gone = resolve(wish(layers=("gone",)), [facts()])
    assert "Choose a layer" in gone.problem("layers")


def test_every_problem_is_said_beside_the_control_that_caused_it():
    layer = facts()
    far = box(center=(900.0, 0.0, 0.0))
    assert "outside a" in resolve(wish(region=far), [layer]).problem("region")
    assert "move it inside" in resolve(
        wish(region=box(size=(90.0, 1.0, 1.0)), outside="refuse"), [layer]
    ).problem("outside")
    assert "levels 0 to 2" in resolve(wish(grid="level", level=5), [layer]).problem("grid")
    assert "above 0" in resolve(wish(grid="custom", pitch=0.0), [layer]).problem("grid")
    assert "unknown" in resolve(wish(dtype="text"), [layer]).problem("dtype")
    assert "No GPU" in resolve(wish(device="cuda"), [layer]).problem("device")
    broken = LayerFacts("x", "points", None, None, problem="it holds points")
    assert "points: it holds points" in resolve(wish(layers=("a", "x")), [layer, broken]).problem("layers")
    assert "fill" not in (resolve(wish(), [layer]).problem("outside") or "")


def test_a_flat_layer_beside_a_deep_one():
    flat = facts("b", shape=(64, 64), axes="yx", scale=(0.5, 0.5), levels=1)
    both = resolve(wish(layers=("a", "b")), [facts(), flat])
    assert [cut.shape for cut in both.cuts] == [(10, 16, 24), (16, 24)]
    tilted = resolve(wish(layers=("a", "b"), region=box(angles=(0.0, 20.0, 0.0))), [facts(), flat])
    assert "b is flat" in tilted.problem("region")
    drawn = Region((15.75, 15.75), (8.0, 12.0), (0.0,))
    deep = resolve(wish(region=drawn), [facts()])
    assert deep.cuts[0].shape == (32, 16, 24)
    assert deep.region.rank == 3
    assert "three spatial axes" in resolve(wish(layers=("b",), mode="plane"), [flat]).problem("region")


def test_filling_does_not_darken_the_edge_of_an_image_that_is_cut_whole():
    source = source_of_arrays([np.full((8, 8), 100, "u2")], "yx")
    layer = LayerFacts("a", "a", source, WorldMap.physical(source))
    snapshot = resolve(wish(mode="whole", grid="custom", pitch=0.5), [layer])
    (cut,) = snapshot.cuts
    with Cutter() as cutter:
        assert (cutter.cut(source, cut.resolution) == 100).all()
    beyond = resolve(
        wish(region=Region((3.5, 3.5), (12.0, 12.0), (20.0,)), grid="custom", pitch=0.5), [layer]
    )
    with Cutter() as cutter:
        made = cutter.cut(source, beyond.cuts[0].resolution)
    assert made.min() == 0
    assert made.max() == 100


def test_moments_channels_and_the_shown_ones():
    data = np.stack([np.full((2, 16, 32, 32), v, "u1") for v in (3, 4, 5)])
    image = image_in_memory([data], "tczyx", (1.0, 1.0, *SCALE), chunks=(1, 1, 16, 16, 16))
    source = source_of_image(image)
    layer = LayerFacts("a", "a", source, WorldMap.physical(source), fixed={"c": (1, 2)}, shown={"t": 2})
    everything = resolve(wish(mode="whole"), [layer])
    assert everything.cuts[0].resolution.shape == (3, 1, 16, 32, 32)
    assert "3 t" in everything.headline
    shown = resolve(wish(mode="whole", moments="shown"), [layer])
    assert shown.cuts[0].resolution.shape == (1, 1, 16, 32, 32)
    with Cutter() as cutter:
        assert (cutter.cut(source, shown.cuts[0].resolution) == 5).all()


def test_a_preview_is_small_coarse_and_from_the_middle():
    image = image_in_memory(
        mean_pyramid(blob((64, 256, 256), (32.0, 128.0, 128.0), 9.0), 4),
        "zyx",
        (0.5, 0.5, 0.5),
        chunks=(16, 32, 32),
    )
    source = source_of_image(image)
    layer = LayerFacts("a", "a", source, WorldMap.physical(source))
    for angles in ((0.0, 0.0, 0.0), (30.0, 20.0, 10.0)):
        region = Region((15.75, 63.75, 63.75), (31.0, 100.0, 120.0), angles)
        snapshot = resolve(wish(region=region), [layer])
        preview = preview_of(snapshot, snapshot.cuts[0], 32)
        resolution = preview.resolve(source)
        assert resolution.shape == (1, 27, 32)
        assert resolution.level == 2
        with Cutter() as cutter:
            made = cutter.cut(source, resolution)
        assert abs(np.unravel_index(made.argmax(), made.shape)[1] - 13) <= 1


def test_planes_far_apart_do_not_make_a_preview_read_the_finest_level():
    image = image_in_memory(
        mean_pyramid(blob((16, 256, 256), (8.0, 128.0, 128.0), 9.0), 3),
        "zyx",
        (8.0, 0.1, 0.1),
        chunks=(16, 64, 64),
    )
    source = source_of_image(image)
    layer = LayerFacts("a", "a", source, WorldMap.physical(source))
    snapshot = resolve(wish(mode="whole"), [layer])
    assert preview_of(snapshot, snapshot.cuts[0], 64).resolve(source).level == 2


def test_snapshots_are_frozen_and_tell_what_changed():
    layers = [facts()]
    first = resolve(wish(), layers)
    with pytest.raises(FrozenInstanceError):
        first.region = None
    assert changed(None, first) == {"intent", "layers", "region", "cuts", "problems"}
    assert changed(first, resolve(wish(), layers)) == frozenset()
    assert changed(first, resolve(wish(device="cuda"), layers)) == {"intent", "problems"}
    assert changed(first, resolve(wish(region=box(size=(20.0, 8.0, 8.0))), layers)) == {
        "intent",
        "region",
        "cuts",
    }


def test_the_state_needs_no_qt():
    code = (
        "import sys; import napari_decant.gui.crop as c; c.resolve(c.Intent(), []); c.preview_of; c.Drag;"
        "print([m for m in sys.modules if m.split('.')[0] in ('qtpy', 'PyQt6', 'napari', 'vispy')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_another_kind_of_region_keeps_what_it_can():
    layers = [facts()]
    plane = in_mode(resolve(wish(), layers), "plane", None)
    assert plane.region.size == (0.5, 8.0, 12.0)  # one voxel of the finest axis
    assert plane.grid == "isotropic"
    assert resolve(plane, layers).cuts[0].shape[0] == 1
    again = in_mode(resolve(plane, layers), "box", box(size=(64.0, 4.0, 4.0)))
    assert again.region.size == (64.0, 8.0, 12.0)
    assert in_mode(resolve(wish(region=None), layers), "box", box()).region == box()
    assert in_mode(resolve(wish(), layers), "whole", None).region == box()


def test_a_picture_of_an_image_without_levels_shows_its_middle_only():
    class Lazy:
        shape, dtype, ndim, size = (1 << 15, 1 << 15), np.dtype("u2"), 2, 1 << 30
        asked: ClassVar[list[int]] = []

        def __getitem__(self, key):
            made = np.ones([k.stop - k.start for k in key], "u2")
            self.asked.append(made.nbytes)
            return made

    source = source_of_arrays([Lazy()], "yx", name="lazy")
    layer = LayerFacts("lazy", "lazy", source, WorldMap.physical(source))
    snapshot = resolve(Intent(layers=("lazy",), mode="whole"), [layer])
    with Cutter(1 << 30) as cutter:
        pictures = cut_pictures(cutter, snapshot, 256, CancelToken())
    assert 0 < pictures.share < 0.2
    assert sum(Lazy.asked) < 40 << 20
    assert pictures.planes[0][1].shape == (256, 256)
    assert preview_share(resolve(wish(), [facts()])) == 1.0


def test_channels_become_one_file_in_their_order_whatever_that_of_the_layers():
    planes = np.stack([blob((32, 32), (10.0, 10.0), 3.0)] * 3)
    source = source_of_arrays([planes], "cyx", name="cells")
    layers = [
        LayerFacts(n, f"cells - {n}", source, WorldMap.physical(source), fixed={"c": (n, n + 1)})
        for n in (2, 1, 0)
    ]
    region = Region((15.5, 15.5), (8.0, 8.0), (0.0,))
    snapshot = resolve(Intent(layers=(0, 1, 2), region=region), layers)
    (job,) = files_of(snapshot, Path("out.zarr"))
    assert job.cut.resolution.shape == (3, 8, 8)
    apart = resolve(Intent(layers=(0, 2), region=region), layers)
    assert [job.target.name for job in files_of(apart, Path("a/out.ome.tif"))] == [
        "out cells - 0.ome.tif",
        "out cells - 2.ome.tif",
    ]
