"""Field reports D-01 to D-05 and D-07: what went wrong elsewhere, and must not here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from tests.crop.helpers import (
    at_world,
    blob,
    center_of_mass,
    image_in_memory,
    mean_pyramid,
    pyramid_transforms,
)
from tests.support.ngff import image_keys

from napari_decant.images import open_image
from napari_decant.images.crop import (
    Cutter,
    Region,
    SavedQuery,
    WorldMap,
    place,
    placement_of,
    source_of_arrays,
    source_of_image,
)
from napari_decant.spatial import Sampler
from napari_decant.stores import MemoryStore

LINEAR = Sampler("linear", "clamp")


def cut(source, region, world=None, **options):
    """The crop, where it lies, and how it was resolved."""
    world = world or WorldMap.physical(source)
    resolution = place(region, source, world, **options).resolve(source)
    with Cutter(64 << 20) as cutter:
        return cutter.cut(source, resolution), placement_of(source, resolution, world), resolution


def box(low, high, angle=0.0):
    low, high = np.asarray(low, float), np.asarray(high, float)
    angles = (angle,) if len(low) == 2 else (angle, 0.0, 0.0)
    return Region(tuple((low + high) / 2), tuple(high - low), angles)


def test_d01_scale_translate_and_a_crop_of_a_crop():
    ramp = (1 + np.arange(64 * 64)).reshape(64, 64).astype("u2")
    source = source_of_arrays([ramp], "yx", scale=(2.0, 0.5), translation=(10.0, -3.0))
    # the box around voxels 8 to 40 and 16 to 48, in world units
    first, placement, resolution = cut(
        source, box((10 + 2 * 7.5, -3 + 0.5 * 15.5), (10 + 2 * 39.5, -3 + 0.5 * 47.5))
    )
    np.testing.assert_array_equal(first, ramp[8:40, 16:48])
    assert not resolution.requires_resampling
    assert placement.translation == (26.0, 5.0)
    again = source_of_arrays([first], "yx", scale=placement.scale, translation=placement.translation)
    second, placement, _ = cut(again, box((10 + 2 * 9.5, -3 + 0.5 * 19.5), (10 + 2 * 19.5, -3 + 0.5 * 29.5)))
    np.testing.assert_array_equal(second, ramp[10:20, 20:30])
    assert placement.translation == (10 + 2.0 * 10, -3 + 0.5 * 20)
    np.testing.assert_array_equal(first, ramp[8:40, 16:48])  # the first crop is its own


def test_d01_a_large_box_has_as_many_pixels_as_were_drawn():
    data = (1 + np.arange(1000 * 600) % 65535).reshape(1000, 600).astype("u2")
    source = source_of_arrays([data], "yx", scale=(0.325, 0.325))
    made, _, _ = cut(source, box((0.325 * 49.5, 0.325 * 19.5), (0.325 * 949.5, 0.325 * 519.5)))
    assert made.shape == (900, 500)
    np.testing.assert_array_equal(made, data[50:950, 20:520])


def test_d02_all_levels_are_cropped_alike_each_in_its_place():
    levels = mean_pyramid((1 + np.arange(256 * 256) % 60000).reshape(256, 256).astype("u2"), 3)
    source = source_of_image(image_in_memory(levels, "yx", (0.5, 0.5), chunks=(32, 32)))
    region = box((0.5 * 63.5, 0.5 * 31.5), (0.5 * 127.5, 0.5 * 95.5))
    for number, level in enumerate(levels):
        step = 2**number
        made, placement, _ = cut(source, region, level=number)
        np.testing.assert_array_equal(made, level[64 // step : 128 // step, 32 // step : 96 // step])
        shift = 0.5 * 0.5 * (step - 1)
        np.testing.assert_allclose(placement.translation, (0.5 * 64 + shift, 0.5 * 32 + shift))


def test_d02_a_box_smaller_than_a_coarse_pixel_is_never_empty():
    levels = mean_pyramid((1 + np.arange(256 * 256) % 60000).reshape(256, 256).astype("u2"), 3)
    source = source_of_image(image_in_memory(levels, "yx", (1.0, 1.0), chunks=(64, 64)))
    shapes = [cut(source, box((99.5, 99.5), (102.5, 102.5)), level=level)[0].shape for level in range(3)]
    assert shapes[0] == (3, 3)
    assert all(min(shape) >= 1 for shape in shapes)


def test_d02_an_axis_that_the_query_does_not_name_is_taken_whole():
    data = (1 + np.arange(5 * 20 * 30)).reshape(5, 20, 30).astype("u2")
    source = source_of_arrays([data], "zyx")
    saved = SavedQuery.from_json(
        {"output_to_reference": [[1, 0, 4], [0, 1, 10]], "shape": [3, 3], "axes": ["y", "x"]}
    )
    resolution = saved.fit(source).resolve(source)
    with Cutter() as cutter:
        np.testing.assert_array_equal(cutter.cut(source, resolution), data[:, 4:7, 10:13])


def bar(angle):
    """An image with one bright bar of 10 x 20 pixels, turned by an angle about its centre."""
    y, x = np.mgrid[0:120, 0:140] + 0.5
    a = np.radians(angle)
    u = np.cos(a) * (x - 70) - np.sin(a) * (y - 55)
    v = np.sin(a) * (x - 70) + np.cos(a) * (y - 55)
    return np.where((np.abs(u) < 10) & (np.abs(v) < 5), 1000, 10).astype("u2")


@pytest.mark.parametrize("angle", [30.0, -30.0])
def test_d03_a_box_turned_around_a_bar_gives_the_bar_straight(angle):
    data = bar(-angle)  # a box turned by +angle goes x towards y
    source = source_of_arrays([data], "yx")
    region = Region((54.5, 69.5), (20.0, 30.0), (angle,))
    made, placement, _ = cut(source, region, sampler=Sampler("nearest", "error"))
    assert made.shape == (20, 30)
    bright = made > 500
    rows, columns = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
    assert abs(len(rows) - 10) <= 2
    assert abs(len(columns) - 20) <= 2
    assert bright[7:13, 7:23].all()
    assert placement.affine is not None
    found = at_world(placement.matrix, center_of_mass(bright.astype(float)))
    np.testing.assert_allclose(found, center_of_mass((data > 500).astype(float)), atol=0.3)


def test_d03_an_image_that_is_turned_itself_and_a_straight_box():
    data = bar(30)
    source = source_of_arrays([data], "yx")
    # the layer lies in the world turned by -30 degrees about the bar: there the bar is straight
    angle = np.radians(-30)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    for candidate in (turn, turn.T):
        world = WorldMap.of(candidate, np.array([54.5, 69.5]) - candidate @ [54.5, 69.5])
        made, placement, _ = cut(source, box((44.5, 54.5), (64.5, 84.5)), world, sampler=LINEAR)
        bright = made > 500
        found = at_world(placement.matrix, center_of_mass(bright.astype(float)))
        np.testing.assert_allclose(found, (54.5, 69.5), atol=0.3)
        if bright[7:13, 7:23].all():
            break
    else:
        pytest.fail("in neither direction is the bar straight")
    assert placement.affine is None  # the crop is straight in the world


def test_d03_an_oblique_box_in_three_dimensions():
    shape, turn = (60, 70, 80), (25.0, 15.0, -20.0)
    region = Region((30.0, 34.0, 40.0), (12.0, 20.0, 30.0), turn)
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"), -1)
    inside = np.abs((grid - region.center) @ region.rotation) < np.array([3, 5, 10])
    data = np.where(inside.all(-1), 1000, 10).astype("u2")
    made, placement, _ = cut(source_of_arrays([data], "zyx"), region, sampler=Sampler("nearest", "error"))
    bright = made > 500
    assert made.shape == (12, 20, 30)
    assert bright[4:8, 6:14, 6:24].all()
    assert not bright[:2].any()
    assert not bright[:, :4].any()
    assert not bright[..., :4].any()
    np.testing.assert_allclose(at_world(placement.matrix, (np.array(made.shape) - 1) / 2), region.center)


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("kind", ["nearest", "linear"])
def test_d04_a_constant_image_stays_constant_to_its_very_edge(factor, kind):
    source = source_of_arrays([np.full((8, 8), 100, "u2")], "yx")
    whole = WorldMap.physical(source).whole(source.shape)
    made, _, _ = cut(source, whole, spacing=factor, sampler=Sampler(kind, "clamp"))
    assert made.shape == (round(8 / factor),) * 2
    assert (made == 100).all()


@pytest.mark.parametrize("factor", [0.5, 0.25])
def test_d04_a_bright_pixel_does_not_move(factor):
    data = np.zeros((9, 9), "f4")
    data[3, 5] = 1000
    source = source_of_arrays([data], "yx", scale=(2.0, 2.0))
    whole = WorldMap.physical(source).whole(source.shape)
    made, placement, _ = cut(source, whole, spacing=2 * factor, sampler=LINEAR)
    np.testing.assert_allclose(at_world(placement.matrix, center_of_mass(made)), (6.0, 10.0), atol=1e-6)


@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_d05_no_value_leaves_the_range_of_the_image(dtype):
    step = np.zeros((40, 40), dtype)
    step[:, 20:] = 65535
    source = source_of_arrays([step], "yx")
    made, _, _ = cut(source, Region((20.0, 20.0), (20.0, 20.0), (33.0,)), spacing=0.37, sampler=LINEAR)
    assert made.dtype == dtype
    assert made.min() == 0
    assert made.max() == 65535
    assert ((made > 0) & (made < 65535)).any()


def test_d05_labels_keep_their_numbers_and_are_never_interpolated():
    labels = np.zeros((30, 30), "u4")
    labels[4:20, 3:11], labels[10:25, 14:22], labels[2:9, 18:29] = 1, 7, 4000000001
    source = source_of_arrays([labels], "yx", is_label=True)
    region = Region((15.0, 15.0), (24.0, 24.0), (41.0,))
    made, _, _ = cut(source, region, spacing=0.6, sampler=Sampler("nearest", "constant"))
    assert made.dtype == np.uint32
    assert set(np.unique(made)) == {0, 1, 7, 4000000001}
    with pytest.raises(Exception, match="labels"):
        place(region, source, WorldMap.physical(source), sampler=LINEAR).resolve(source)


def shifted_pyramid(with_translations):
    data = mean_pyramid(blob((64, 64), (30.0, 41.0), 6.0), 3)
    scales, shifts = pyramid_transforms((0.5, 0.5), (0.0, 0.0), 3)
    keys = image_keys(
        data, "yx", scales=scales, translations=shifts if with_translations else None, chunks=(16, 16)
    )
    store = MemoryStore(keys)
    return open_image(store), store


def test_d07_with_translations_every_level_gives_the_same_place():
    image, _store = shifted_pyramid(True)
    source = source_of_image(image)
    region = box((0.0, 4.0), (29.0, 31.0))
    for level in range(3):
        made, placement, _ = cut(source, region, level=level)
        found = at_world(placement.matrix, center_of_mass(made))
        assert np.abs(found - (0.5 * 29.5, 0.5 * 40.5)).max() < 0.05


def test_d07_without_translations_the_metadata_are_followed():
    image, _store = shifted_pyramid(False)
    source = source_of_image(image)
    made, placement, _ = cut(source, box((0.0, 4.0), (29.0, 31.0)), level=2)
    found = at_world(placement.matrix, center_of_mass(made))
    # level 2's voxels are said to begin 1.5 voxels of level 0 earlier than they do
    np.testing.assert_allclose(found, (0.5 * 29.5 - 0.75, 0.5 * 40.5 - 0.75), atol=0.1)


def test_d07_a_channel_axis_neither_moves_nor_scales():
    planes = np.stack([blob((64, 64), (30.0, 41.0), 6.0), blob((64, 64), (20.0, 31.0), 6.0)])
    levels = [planes, np.rint(ndimage.zoom(planes.astype(float), (1, 0.5, 0.5), order=1)).astype("u2")]
    source = source_of_image(image_in_memory(levels, "cyx", (1.0, 0.5, 0.5), chunks=(1, 16, 16)))
    made, placement, resolution = cut(source, box((0.0, 4.0), (29.0, 31.0)), level=1)
    assert made.shape[0] == 2
    assert resolution.output_to_source.offset[0] == 0
    assert placement.translation[0] == 0
    one, _, _ = cut(source, box((0.0, 4.0), (29.0, 31.0)), index={"c": (1, 2)})
    assert one.shape[0] == 1
    np.testing.assert_array_equal(one[0], planes[1][:58, 8:62])


def test_d07_an_image_whose_axes_the_world_exchanges():
    data = (1 + np.arange(20 * 30 * 40)).reshape(20, 30, 40).astype("u2")
    source = source_of_arrays([data], "zyx")
    cycle = np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])  # world z is the image's y, and so on
    world = WorldMap.of(cycle, [0.0, 0.0, 0.0])
    region = box((3.5, 9.5, 1.5), (9.5, 19.5, 5.5))  # y 4 to 10, x 10 to 20, z 2 to 6 of the image
    made, placement, _ = cut(source, region, world, sampler=Sampler("nearest", "error"))
    np.testing.assert_array_equal(made, data[2:6, 4:10, 10:20].transpose(1, 2, 0))
    np.testing.assert_allclose(placement.matrix, [[1, 0, 0, 4], [0, 1, 0, 10], [0, 0, 1, 2]])
