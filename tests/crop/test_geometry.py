"""Turned crops hold what scipy finds where their voxels lie, at every level and scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.crop.helpers import at_world, image_in_memory
from tests.support.placing import coarsest, expected, scenes, sheared, turn, values_at, world_of

from napari_decant.images.crop import Cutter, Region, WorldMap, crop, place, placement_of, source_of_image
from napari_decant.spatial import Sampler

CUTTER = Cutter(64 << 20, device="cpu", workers=2)


def agrees(found, wanted, unsure):
    """Equal for nearest, but for coordinates on a border; within rounding for linear."""
    assert found.shape == wanted.shape
    if found.dtype.kind in "iu":
        assert np.abs(found.astype(np.float64) - wanted)[~unsure].max(initial=0) <= 0.5001
    else:
        allowed = 1e-5 * max(1.0, np.abs(wanted).max())
        assert np.abs(found - wanted)[~unsure].max(initial=0) <= allowed


@settings(deadline=None, max_examples=120)
@given(scenes())
def test_any_turned_box_of_any_image_holds_what_lies_there(scene):
    source = scene.source
    resolution = scene.sized.resolve(source)
    assert resolution.level == (coarsest(scene) if scene.level == "auto" else scene.level)
    wanted, unsure = expected(scene, resolution)
    agrees(CUTTER.cut(source, resolution), wanted, unsure)
    placement = placement_of(source, resolution, WorldMap.physical(source))
    middle = (np.asarray(resolution.shape) - 1) / 2
    scale = max(1.0, np.abs(scene.region.center).max())
    np.testing.assert_allclose(at_world(placement.matrix, middle), scene.region.center, atol=1e-9 * scale)
    np.testing.assert_allclose(
        placement.matrix[:, :-1], turn(scene.region.angles) * np.asarray(scene.spacing), atol=1e-9
    )


@settings(deadline=None, max_examples=120)
@given(sheared())
def test_any_matrix_at_any_level_takes_what_lies_there(case):
    scene, sized = case
    source = scene.source
    resolution = sized.resolve(source)
    world = world_of(scene, sized)
    agrees(CUTTER.cut(source, resolution), *values_at(scene, resolution.level, world))
    placement = placement_of(source, resolution, WorldMap.physical(source))
    for corner in ((0,) * world.shape[-1], tuple(n - 1 for n in sized.shape)):
        np.testing.assert_allclose(at_world(placement.matrix, corner), world[corner], atol=1e-8 * 100)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("at", ["middle", "near an edge"])
def test_a_bright_voxel_of_a_level_is_found_where_it_lies_in_the_world(rank, level, at):
    shape = (24, 40, 48)[-rank:]
    levels = [np.full(tuple(n >> k for n in shape), 10, "u2") for k in range(3)]
    spot = tuple(n // 2 + 1 if at == "middle" else 1 for n in levels[level].shape)
    levels[level][spot] = 60000
    scale, origin = (2.0, 0.5, 0.3)[-rank:], (-3.0, 10.0, 4.0)[-rank:]
    image = image_in_memory(levels, "zyx"[-rank:], scale, origin, chunks=(5, 8, 16)[-rank:])
    own = np.asarray(image.scales[level])
    world = own * spot + np.asarray(image.translations[level])
    source = source_of_image(image)
    for kind in ("nearest", "linear"):
        sized = place(
            Region(tuple(world + 0.3 * own), tuple(9 * own), (33.0, -12.0, 20.0) if rank == 3 else (33.0,)),
            source,
            WorldMap.physical(source),
            spacing=tuple(0.25 * own),
            level=level,
            sampler=Sampler(kind, "constant", 10.0),
        )
        report = crop(image, sized, device="cpu")
        weight = report.array.astype(float) - 10
        found = [(g * weight).sum() / weight.sum() for g in np.indices(weight.shape)]
        miss = at_world(report.placement.matrix, found) - world
        assert np.abs(miss / own).max() < 0.15, (kind, miss / own)
