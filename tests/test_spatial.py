"""A query becomes the right level, map and bounds, or is refused for the right reason."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from tests.support.images import image_of

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.spatial import (
    IndexQuery,
    Sampler,
    SpatialQuery,
    level_crop,
    oblique_plane,
    physical_crop,
    pick_level,
    reference_crop,
    rotated_crop,
    rotation_matrix,
)

EXAMPLES = {
    e["name"]: e for e in json.loads((Path(__file__).parent / "data/spatial_examples.json").read_text())
}


def described(example):
    expected = example["expected"]
    levels = [
        {"shape": level["shape"], "ratio": ratio, "origin": origin}
        for level, ratio, origin in zip(
            example["levels"], expected["R_per_level"], expected["origin_per_level"], strict=True
        )
    ]
    return image_of([SimpleNamespace(unit=None, **axis) for axis in example["axes"]], levels)


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name):
    example, expected = EXAMPLES[name], EXAMPLES[name]["expected"]
    image = described(example)
    raw = example["query"]
    query = SpatialQuery(raw["output_to_reference"], Sampler(**raw["sampler"]), raw["level"])
    if expected["error"]:
        with pytest.raises(UsageError, match="the output needs indices 1 to 64 of axis 'y'"):
            query.resolve(image, example["output_shape"])
        return
    resolved = query.resolve(image, example["output_shape"])
    assert resolved.level == expected["level"]
    found = resolved.output_to_source
    assert [list(row) for row in found.linear] == expected["output_to_source"]["linear"]
    assert list(found.offset) == expected["output_to_source"]["offset"]
    exact = [[Fraction(x) for x in row] for row in expected["output_to_source"]["linear_exact"]]
    assert [[Fraction(x) for x in row] for row in found.linear] == exact
    assert [Fraction(x) for x in found.offset] == [
        Fraction(x) for x in expected["output_to_source"]["offset_exact"]
    ]
    assert [list(b) for b in resolved.source_bounds_index] == expected["source_bounds_index"]
    assert [list(b) for b in resolved.read_bounds_index] == expected["read_bounds_index"]
    assert resolved.requires_resampling == expected["requires_resampling"]
    for point in expected["sample_points"]:
        s = found(np.asarray(point["j"]) + 0.5)
        np.testing.assert_allclose(s, point["s"], rtol=1e-14)


@pytest.mark.parametrize("name", EXAMPLES)
def test_level_rule_of_worked_examples(name):
    example, expected = EXAMPLES[name], EXAMPLES[name]["expected"]
    image = described(example)
    linear = np.asarray(example["query"]["output_to_reference"])[:, :-1]
    spatial = [i for i, axis in enumerate(example["axes"]) if axis["type"] == "space"]
    assert pick_level(image, linear, spatial) == expected["level"]


PYRAMID = [{"shape": (64, 64)}, {"shape": (32, 32), "ratio": (2, 2)}, {"shape": (16, 16), "ratio": (4, 4)}]


def test_level_rule_allows_64_eps_and_no_more():
    image = image_of("yx", PYRAMID)
    for factor, level in ((1 - 32 * 2.0**-52, 1), (1 - 100 * 2.0**-52, 0)):
        query = SpatialQuery([[2 * factor, 0, 4], [0, 2 * factor, 4]])
        assert query.resolve(image, (4, 4)).level == level


def test_shear_and_anisotropy_count_in_the_level_rule():
    image = image_of("yx", PYRAMID)
    # both columns are 4 long, but the map squeezes by less than 2 in one direction
    sheared = SpatialQuery([[4, 3.5, 0], [0, 2, 0]], Sampler("linear", "clamp"))
    smallest = np.linalg.svd([[4, 3.5], [0, 2]], compute_uv=False)[-1]
    assert smallest < 2
    assert sheared.resolve(image, (3, 3)).level == 0
    assert SpatialQuery([[4, 0, 0], [0, 2, 0]]).resolve(image, (3, 3)).level == 1


def test_a_named_level_is_taken_or_refused_never_replaced():
    image = image_of("yx", PYRAMID)
    assert (
        SpatialQuery([[1, 0, 0], [0, 1, 0]], Sampler("linear", "clamp"), 2).resolve(image, (4, 4)).level == 2
    )
    for level in (3, -1):
        with pytest.raises(UsageError, match="levels 0 to 2"):
            SpatialQuery([[1, 0, 0], [0, 1, 0]], level=level).resolve(image, (4, 4))


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        ([[1, 0, 0]], "shape"),
        ([1, 0, 0], "shape"),
        ([[1, 0, math.nan], [0, 1, 0]], "not finite"),
        ([[1, math.inf, 0], [0, 1, 0]], "not finite"),
        ([["a", 0, 0], [0, 1, 0]], "numbers"),
    ],
)
def test_bad_matrices_are_refused_when_made(matrix, match):
    with pytest.raises(UsageError, match=match):
        SpatialQuery(matrix)


@pytest.mark.parametrize(
    "linear",
    [
        [[1, 1], [1, 1]],
        [[0, 0], [0, 1]],
        [[1, 2], [1 + 1e-15, 2]],
        [[1e-20, 1e-20], [3, 3]],
        [[1, 0], [1, 64 * 2.0**-52]],
    ],
)
def test_singular_maps_are_refused(linear):
    image = image_of("yx", PYRAMID)
    with pytest.raises(UsageError, match="singular"):
        SpatialQuery(np.column_stack([linear, [8, 8]]), Sampler("linear", "clamp")).resolve(image, (2, 2))


def test_maps_that_are_only_badly_scaled_are_not_singular():
    image = image_of("yx", PYRAMID)
    query = SpatialQuery([[1e-12, 0, 8], [0, 1, 8]], Sampler("linear", "clamp"))
    assert query.resolve(image, (2, 2)).level == 0
    # rank is judged after scaling rows: three axes, one of them tiny
    volume = image_of("zyx", [{"shape": (9, 9, 9)}])
    matrix = [[1e-9, 2e-9, 0, 4], [0, 1, 0, 4], [1, 0, 1, 4]]
    assert SpatialQuery(matrix, Sampler("linear", "clamp")).resolve(volume, (2, 2, 2)).requires_resampling


def test_rank_shape_and_reach_are_checked():
    image = image_of("yx", PYRAMID)
    identity = [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(UsageError, match="rank 2 and the output 3"):
        SpatialQuery(identity).resolve(image, (1, 2, 3))
    with pytest.raises(UsageError, match="rank 2"):
        SpatialQuery(identity).resolve(image_of("zyx", [{"shape": (4, 4, 4)}]), (1, 2, 3))
    for shape in ((0, 4), (2**52, 4), (1.5, 4)):
        with pytest.raises(UsageError, match="output shape"):
            SpatialQuery(identity).resolve(image, shape)
    with pytest.raises(UsageError, match=r"2\*\*52"):
        SpatialQuery([[1, 0, 2.0**53], [0, 1, 0]], Sampler("nearest", "clamp")).resolve(image, (4, 4))
    big = SpatialQuery(identity, Sampler("nearest", "clamp")).resolve(image, (2**52 - 1, 1))
    assert big.source_bounds_index[0] == (0, 2**52 - 1)
    with pytest.raises(UsageError, match="level"):
        SpatialQuery(identity, level="finest")


def test_axes_that_are_not_spatial_stay_as_they_are():
    image = image_of("tyx", [{"shape": (5, 32, 32)}])
    for linear, match in (
        ([[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], "'t' is not spatial"),
        ([[1, 0, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0]], "'t' is not spatial"),
        ([[1, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], "'t' is not spatial"),
        ([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0]], "whole offset"),
    ):
        with pytest.raises(UnsupportedOperation, match=match):
            SpatialQuery(linear).resolve(image, (1, 4, 4))
    # the boundary rule is for spatial axes; time stays inside whatever it says
    outside = SpatialQuery([[1, 0, 0, 3], [0, 1, 0, 0], [0, 0, 1, 0]], Sampler("nearest", "constant", 9))
    with pytest.raises(UsageError, match="axis 't' needs indices 3 to 5"):
        outside.resolve(image, (3, 4, 4))
    custom = image_of([SimpleNamespace(name="angle", type=None), *image.axes[1:]], [{"shape": (5, 32, 32)}])
    moved = SpatialQuery([[1, 0, 0, 3], [0, 1, 0, 0], [0, 0, 1, 0]]).resolve(custom, (2, 4, 4))
    assert moved.source_bounds_index[0] == (3, 5)
    assert not moved.requires_resampling


def test_images_that_break_the_strict_rules_only_take_index_queries():
    image = image_of("yx", PYRAMID, strict_error="its scale is 0 along y")
    with pytest.raises(UnsupportedOperation, match="its scale is 0 along y; use an IndexQuery"):
        SpatialQuery([[1, 0, 0], [0, 1, 0]]).resolve(image, (4, 4))
    assert IndexQuery([slice(2, 5)]).resolve(image).shape == (3, 64)


@pytest.mark.parametrize(
    "settings_",
    [
        {"filter": "cubic"},
        {"boundary": "wrap"},
        {"filter": None},
        {"constant_value": 3},
        {"boundary": "constant", "constant_value": math.nan},
        {"boundary": "constant", "constant_value": "x"},
        {"boundary": "clamp", "constant_value": 1},
    ],
)
def test_unknown_sampler_settings_are_refused(settings_):
    with pytest.raises(UsageError):
        Sampler(**settings_)


def test_boundary_rules_shape_the_read_bounds():
    image = image_of("yx", [{"shape": (64, 64)}])
    matrix = [[1, 0, -9.25], [0, 1, 60.5]]
    constant = SpatialQuery(matrix, Sampler("linear", "constant", 7)).resolve(image, (4, 8))
    assert constant.source_bounds_index == ((-10, -5), (60, 69))
    assert constant.read_bounds_index == ((0, 0), (60, 64))
    clamp = SpatialQuery(matrix, Sampler("linear", "clamp")).resolve(image, (4, 8))
    assert clamp.read_bounds_index == ((0, 1), (60, 64))
    with pytest.raises(UsageError, match="boundary 'constant' or 'clamp'"):
        SpatialQuery(matrix, Sampler("linear", "error")).resolve(image, (4, 8))


def test_an_aligned_crop_of_any_level_is_a_copy_and_nothing_else_is():
    levels = [{"shape": (90, 90)}, {"shape": (30, 30), "ratio": (3.0, 3.0), "origin": (-1.0, 0.25)}]
    image = image_of("yx", levels)
    for begin in itertools.product((0, 1, 7, 20), repeat=2):
        crop = level_crop(image, 1, begin, [b + 9 for b in begin])
        resolved = crop.resolve(image)
        assert not resolved.requires_resampling
        assert resolved.output_to_source.offset == tuple(map(float, begin))
        assert resolved.read_bounds_index == tuple((b, b + 9) for b in begin)
    near = SpatialQuery([[1, 0, 1e-9], [0, 1, 0]], Sampler("nearest", "error")).resolve(image, (4, 4))
    assert near.requires_resampling


def test_resolutions_are_values_that_outlive_the_image_and_travel():
    image = image_of("yx", PYRAMID)
    query = SpatialQuery([[1, 0, 3], [0, 1, 5]], Sampler("linear", "clamp"))
    resolved = query.resolve(image, (4, 6))
    image.levels.clear()
    again = pickle.loads(pickle.dumps(resolved))
    assert again == resolved
    assert hash(again) == hash(resolved)
    assert (again.uri, again.path, again.shape) == ("memory://described", "0", (4, 6))
    assert pickle.loads(pickle.dumps(query)) == query


def test_resolving_from_many_threads_gives_the_same():
    image = image_of("yx", PYRAMID)
    query = SpatialQuery([[2, 0.1, 3], [-0.1, 2, 5]], Sampler("linear", "clamp"))
    with ThreadPoolExecutor(8) as pool:
        results = set(pool.map(lambda _: query.resolve(image, (9, 9)), range(200)))
    assert len(results) == 1


coefficient = st.floats(-3, 3, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-3)


@settings(deadline=None, max_examples=150)
@given(
    matrix=st.lists(
        st.tuples(coefficient, coefficient, coefficient, st.floats(-50, 50)), min_size=3, max_size=3
    ),
    shape=st.tuples(*[st.integers(1, 6)] * 3),
    name=st.sampled_from(["nearest", "linear"]),
)
def test_bounds_are_exactly_what_sampling_touches(matrix, shape, name):
    """The box encloses every contributing index and each of its faces is touched."""
    image = image_of("zyx", [{"shape": (20, 20, 20)}])
    try:
        resolved = SpatialQuery(matrix, Sampler(name, "clamp")).resolve(image, shape)
    except UsageError:  # singular
        assume(False)
    j = np.stack(np.meshgrid(*[np.arange(n) + 0.5 for n in shape], indexing="ij"))
    for axis, (row, b) in enumerate(
        zip(resolved.output_to_source.linear, resolved.output_to_source.offset, strict=True)
    ):
        s = ((row[0] * j[0] + row[1] * j[1]) + row[2] * j[2]) + b
        low, high = (np.floor(s), np.floor(s)) if name == "nearest" else (np.floor(s - 0.5), np.ceil(s - 0.5))
        assert resolved.source_bounds_index[axis] == (int(low.min()), int(high.max()) + 1)


def test_index_queries_take_slices_and_lists():
    image = image_of("tyx", [{"shape": (5, 32, 30)}, {"shape": (5, 16, 15), "ratio": (1, 2, 2)}])
    resolved = IndexQuery([[3, 0, -1, 0], slice(None, None, -2), 7]).resolve(image)
    assert resolved.shape == (4, 16, 1)
    assert [list(axis.to_array()) for axis in resolved.selection] == [
        [3, 0, 4, 0],
        list(range(31, 0, -2)),
        [7],
    ]
    assert resolved.source_bounds_index == ((0, 5), (1, 32), (7, 8))
    assert not resolved.requires_resampling
    coarse = IndexQuery([np.array([1]), slice(2, 9)], level=1).resolve(image, shape=(1, 7, 15))
    assert (coarse.level, coarse.path, coarse.shape) == (1, "1", (1, 7, 15))
    assert pickle.loads(pickle.dumps(coarse)) == coarse


@pytest.mark.parametrize(
    ("selection", "level", "shape", "match"),
    [
        ([[5]], 0, None, "out of range"),
        ([-6], 0, None, "out of range"),
        ([slice(0, 1)] * 4, 0, None, "4 selectors"),
        ([slice(None)], 2, None, "level 2"),
        ([slice(0, 2)], 0, (3, 32, 30), "differs"),
        ([[1.5]], 0, None, "neither"),
        (["x"], 0, None, "neither"),
        ([[[1]]], 0, None, "neither"),
        ([slice(0, 4, 0)], 0, None, "step 0"),
        ([slice(0.5, 4)], 0, None, "integers"),
        (slice(0, 3), 0, None, "sequence"),
    ],
)
def test_bad_index_queries_are_refused(selection, level, shape, match):
    image = image_of("tyx", [{"shape": (5, 32, 30)}])
    with pytest.raises(UsageError, match=match):
        IndexQuery(selection, level).resolve(image, shape)


def test_a_reference_crop_may_be_coarser():
    image = image_of("tyx", [{"shape": (5, 64, 64)}, {"shape": (5, 32, 32), "ratio": (1, 2, 2)}])
    crop = reference_crop(image, (1, 8, 16), (3, 40, 48), spacing=2)
    assert crop.shape == (2, 16, 16)
    resolved = crop.resolve(image)
    assert (resolved.level, resolved.requires_resampling) == (1, False)
    assert resolved.read_bounds_index == ((1, 3), (4, 20), (8, 24))


def test_a_physical_crop_is_exact_where_its_decimals_are():
    image = image_of(
        "cyx", [{"shape": (2, 640, 640), "scale": (1, 0.1, 0.3), "translation": (0, 0.05, 10.15)}]
    )
    # corner of voxel k lies at translation + (k - 0.5) * scale
    for k in (0, 3, 12, 77, 201):
        crop = physical_crop(image, (round(0.1 * k, 10), round(10 + 0.3 * k, 10)), (1.2, 3.6), index={"c": 1})
        resolved = crop.resolve(image)
        assert crop.shape == (1, 12, 12)
        assert not resolved.requires_resampling
        assert resolved.read_bounds_index == ((1, 2), (k, k + 12), (k, k + 12))
    whole = physical_crop(image, (0.1, 10.3), (1.2, 3.6))
    assert whole.shape == (2, 12, 12)  # an axis that is not named means its full extent
    coarse = physical_crop(image, (0, 10), (6.4, 19.2), spacing=(0.2, 0.6)).resolve(image)
    assert coarse.output_to_source.linear[1][1] == 2.0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda image: physical_crop(image, (0, 0, 0), (1, 1)), "origin"),
        (lambda image: physical_crop(image, (0, 0), (0, 1)), "size"),
        (lambda image: physical_crop(image, (0, 0), (1, 1), spacing=(0, 1)), "spacing"),
        (lambda image: physical_crop(image, (0, 0), (1, 1), index={"x": 3}), "no non-spatial"),
        (lambda image: rotated_crop(image, (0, 0), (4, 4), (1, 2, 3)), "3 angles"),
        (lambda image: rotated_crop(image, (0, 0), (4, 4), (1, 2)), "neither one nor three"),
        (lambda image: rotated_crop(image, (0, 0), (4, 4), 1, units="mm"), "units"),
        (lambda image: oblique_plane(image, (0, 0, 0), (1, 0, 0), (4, 4)), "three spatial axes"),
        (lambda image: level_crop(image, 0, (0, 0), (1, 1)), "3 axes"),
        (lambda image: level_crop(image, 0, (0, 3, 0), (1, 3, 4)), "empty"),
        (lambda image: level_crop(image, 4, (0, 3, 0), (1, 9, 4)), "level 4"),
    ],
)
def test_bad_requests_are_refused(call, match):
    with pytest.raises(UsageError, match=match):
        call(image_of("cyx", [{"shape": (2, 64, 64)}]))


@settings(deadline=None, max_examples=50)
@given(st.tuples(*[st.floats(-360, 360)] * 3))
def test_angles_are_intrinsic_z_y_x(angles):
    expected = Rotation.from_euler("ZYX", angles, degrees=True).as_matrix()[::-1, ::-1]
    np.testing.assert_allclose(rotation_matrix(angles), expected, atol=1e-12)


def test_quarter_turns_are_exact():
    assert rotation_matrix(90).tolist() == [[0, 1], [-1, 0]]
    image = image_of("yx", [{"shape": (64, 64), "scale": (0.5, 0.5)}])
    resolved = rotated_crop(image, (32, 20), (10, 6), 90, units="reference").resolve(image)
    assert [abs(x) for row in resolved.output_to_source.linear for x in row] == [0, 1, 1, 0]
    assert resolved.source_bounds_index == ((29, 35), (15, 25))


def test_turning_an_anisotropic_image_keeps_lengths_angles_and_the_centre():
    image = image_of("zyx", [{"shape": (40, 100, 100), "scale": (2.0, 0.5, 0.25), "translation": (3, 1, -2)}])
    center = (40.0, 25.0, 10.0)
    crop = rotated_crop(image, center, (8, 10, 12), (20, -35, 50), spacing=0.75)
    matrix = np.asarray(crop.query.output_to_reference)
    to_physical = np.diag([2.0, 0.5, 0.25])
    steps = to_physical @ matrix[:, :3]
    np.testing.assert_allclose(steps.T @ steps, 0.75**2 * np.eye(3), atol=1e-12)
    middle = matrix @ [4, 5, 6, 1]
    np.testing.assert_allclose(to_physical @ (middle - 0.5) + [3, 1, -2], center, atol=1e-12)


def test_a_plane_contains_its_centre_and_is_at_right_angles_to_its_normal():
    image = image_of("czyx", [{"shape": (2, 40, 100, 100), "scale": (1, 2.0, 0.5, 0.5)}])
    normal = np.array([1.0, 2.0, -0.5])
    crop = oblique_plane(image, (30, 20, 22), normal, (20, 30), spacing=0.5, index={"c": (0, 1)})
    assert crop.shape == (1, 1, 20, 30)
    matrix = np.asarray(crop.query.output_to_reference)[1:]
    steps = np.diag([2.0, 0.5, 0.5]) @ matrix[:, 1:4]
    np.testing.assert_allclose(steps[:, 1:].T @ normal, 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=0), 0.5)
    middle = matrix @ [0, 0.5, 10, 15, 1]
    np.testing.assert_allclose(np.diag([2.0, 0.5, 0.5]) @ (middle - 0.5), [30, 20, 22], atol=1e-12)
    straight = oblique_plane(
        image, (7.5, 16, 16), (1, 0, 0), (20, 30), units="reference", spacing=(2, 0.5, 0.5)
    )
    matrix = np.asarray(straight.query.output_to_reference)
    assert matrix[:, :4].tolist() == np.eye(4).tolist()
    with pytest.raises(UsageError, match="parallel"):
        oblique_plane(image, (1, 1, 1), (1, 0, 0), (4, 4), up=(3, 0, 0))
