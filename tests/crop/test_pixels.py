"""A bright voxel is at its own place in the world in every crop: turned, from any level, however sampled."""

from __future__ import annotations

import numpy as np
import pytest
from tests.crop.helpers import SCALES, at_world, blob, center_of_mass, image_in_memory, mean_pyramid

from napari_decant.errors import BudgetExceeded, Cancelled, UnsupportedOperation, UsageError
from napari_decant.images.crop import (
    CropArray,
    Cutter,
    Region,
    WorldMap,
    crop,
    measure_crop,
    place,
    placement_of,
    source_of_arrays,
    source_of_image,
)
from napari_decant.progress import CancelToken
from napari_decant.spatial import Sampler


def spot_image(rank, levels=3, dtype="u2"):
    """A volume or plane with a spot, with anisotropic voxels; also the spot's physical position."""
    shape = (32, 96, 128)[-rank:]
    at = (15.0, 50.0, 70.0)[-rank:]
    data = mean_pyramid(blob(shape, at, (1.2, 2.0, 3.0)[-rank:], dtype), levels)
    scale, origin = SCALES[rank], (-3.0, 10.0, 4.0)[-rank:]
    image = image_in_memory(data, "zyx"[-rank:], scale, origin, chunks=(8, 16, 32)[-rank:])
    physical = np.array([s * (a - 0.5) + o for s, a, o in zip(scale, at, origin, strict=True)])
    return image, physical


def cut(source, sized, memory=64 << 20, dtype=None):
    resolution = sized.resolve(source)
    with Cutter(memory) as cutter:
        return cutter.cut(source, resolution, dtype=dtype), placement_of(
            source, resolution, WorldMap.physical(source)
        )


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("level", [0, 1, 2, "auto"])
@pytest.mark.parametrize("turn", [0.0, 30.0, 200.0])
def test_the_spot_stays_where_it_is(rank, level, turn):
    image, physical = spot_image(rank)
    source = source_of_image(image)
    angles = (turn,) if rank == 2 else (turn, turn / 5, -turn / 10)
    size = (36.0, 16.0, 14.0)[-rank:]
    region = Region(tuple(physical + 0.7), size, angles)
    sampler = Sampler("linear", "constant")
    sized = place(region, source, WorldMap.physical(source), level=level, spacing="native", sampler=sampler)
    made, placement = cut(source, sized)
    found = at_world(placement.matrix, center_of_mass(made))
    voxel = np.array(SCALES[rank]) * 2 ** (level if level != "auto" else 0)
    assert np.abs(found - physical).max() < 0.25 * voxel.max(), (found, physical)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("angles", [(0.0, 0.0, 0.0), (33.0, 0.0, 0.0), (20.0, 15.0, 40.0)])
def test_one_bright_voxel_is_the_brightest_of_the_crop_at_the_same_place(rank, angles):
    shape, at = (20, 40, 48)[-rank:], (9, 21, 30)[-rank:]
    data = np.full(shape, 7, "u2")
    data[at] = 60000
    scale = SCALES[rank]
    source = source_of_arrays([data], "zyx"[-rank:], scale=scale)
    world = WorldMap.physical(source)
    physical = np.array(scale) * at
    region = Region(tuple(physical), tuple(np.array(scale) * 9), angles if rank == 3 else angles[:1])
    for kind in ("nearest", "linear"):
        sized = place(
            region, source, world, spacing=min(scale) / 3, sampler=Sampler(kind, "constant"), snap=False
        )
        made, placement = cut(source, sized)
        found = at_world(placement.matrix, center_of_mass(made, floor=7 if kind == "nearest" else 8))
        assert np.abs(found - physical).max() <= 0.51 * min(scale) / 3 + 1e-9


def test_a_straight_crop_is_a_copy_of_voxels_at_every_level():
    image, _ = spot_image(3)
    source = source_of_image(image)
    world = WorldMap.physical(source)
    for number, level in enumerate(image.levels):
        whole = world.whole(source.shape)
        sized = place(whole, source, world, level=number)
        resolution = sized.resolve(source)
        assert not resolution.requires_resampling
        made, placement = cut(source, sized)
        np.testing.assert_array_equal(made, np.asarray(level))
        assert placement.affine is None
        np.testing.assert_allclose(placement.scale, image.scales[number])
        np.testing.assert_allclose(placement.translation, image.translations[number])


@pytest.mark.parametrize("planned", [True, False])
def test_pieces_slices_and_the_whole_are_the_same_pixels(planned):
    image, physical = spot_image(3, 2)
    source = source_of_image(image)
    if not planned:
        source = source_of_arrays(
            [np.asarray(level) for level in image.levels], "zyx", scale=image.scales[0],
            translation=image.translations[0],
        )  # fmt: skip
    region = Region(tuple(physical), (20.0, 15.0, 12.0), (25.0, 10.0, 5.0))
    sized = place(region, source, WorldMap.physical(source), sampler=Sampler("linear", "clamp"))
    resolution = sized.resolve(source)
    with Cutter(64 << 20) as large, Cutter(2 << 20) as small:
        whole = large.cut(source, resolution)
        array = CropArray(source, resolution, small)
        seen = []
        made = array.read(lambda event: seen.append(event.done))
        np.testing.assert_array_equal(made, whole)
        assert seen[0] == 0
        assert seen[-1] == whole.nbytes
        assert sorted(seen) == seen
        np.testing.assert_array_equal(array[2:7, ::3, -4], whole[2:7, ::3, -4])
        np.testing.assert_array_equal(array[..., ::-2], whole[..., ::-2])
        assert array[0:0].shape == (0, *whole.shape[1:])
        assert array[3, 4, 5] == whole[3, 4, 5]


def test_an_array_far_larger_than_memory_is_sliced_where_the_crop_needs_it():
    class Endless:
        """A petabyte of numbers that are made when they are asked for."""

        shape, dtype, ndim = (1 << 16, 1 << 17, 1 << 17), np.dtype("u1"), 3
        most = 0

        def __getitem__(self, key):
            grids = np.ogrid[key]
            made = sum(grids) % 251 + 1
            Endless.most = max(Endless.most, made.size)
            return made.astype("u1")

    source = source_of_arrays([Endless()], "zyx")
    world = WorldMap.physical(source)
    region = Region((30000.0, 60000.0, 60000.0), (1.0, 1500.0, 1500.0), (10.0, 50.0, 20.0))
    sized = place(region, source, world, sampler=Sampler("nearest", "error"))
    resolution = sized.resolve(source)
    assert np.prod([float(b - a) for a, b in resolution.read_bounds_index]) > 1e9
    with Cutter(16 << 20) as cutter:
        made = cutter.cut(source, resolution)
    assert Endless.most <= 6 << 20
    index = np.floor(resolution.output_to_source(np.array([0.5, 700.5, 300.5])))
    assert made[0, 700, 300] == int(index.sum()) % 251 + 1


def test_limits_cancel_and_devices_are_refused_in_words():
    image, _ = spot_image(3, 1)
    source = source_of_image(image)
    world = WorldMap.physical(source)
    sized = place(world.whole(source.shape), source, world)
    with pytest.raises(BudgetExceeded, match="memory"), Cutter(1 << 20) as cutter:
        CropArray(source, sized.resolve(source), cutter).read()
    with pytest.raises(BudgetExceeded, match="memory"):
        Cutter(100)
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        crop(image, sized, cancel=token)
    with pytest.raises(UnsupportedOperation, match="no GPU can be used"):
        crop(image, sized, device="cuda")
    with pytest.raises(UsageError, match="device"):
        crop(image, sized, device="abacus")
    outside = place(Region((0.0, 10.0, 10.0), (500.0, 5.0, 5.0), (0.0, 0.0, 0.0)), source, world)
    with pytest.raises(UsageError, match="move it inside or use the boundary"):
        crop(image, outside)


def test_facts_are_those_of_the_plan_and_estimates_are_marked():
    image, _ = spot_image(3, 1)
    source = source_of_image(image)
    world = WorldMap.physical(source)
    sized = place(world.whole(source.shape), source, world)
    with Cutter(64 << 20) as cutter:
        facts = measure_crop(cutter, source, sized.resolve(source))
        assert facts.chunks == 4 * 6 * 4
        assert facts.stored_bytes == facts.decoded_bytes == facts.output_bytes == 32 * 96 * 128 * 2
        assert facts.exact
        assert not facts.resampled
        array = source_of_arrays([np.asarray(image.levels[0])], "zyx")
        plain = measure_crop(cutter, array, place(world.whole(source.shape), source, world).resolve(array))
        assert plain.chunks is None
        assert plain.decoded_bytes == facts.decoded_bytes
