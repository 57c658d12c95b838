"""Turned crops by the kernels, compiled for this machine, hold what scipy finds where their voxels lie."""

from __future__ import annotations

from hypothesis import given, settings
from tests.crop.test_geometry import agrees
from tests.support.cuda import plan_of
from tests.support.placing import expected, scenes, sheared, values_at, world_of


@settings(deadline=None, max_examples=60)
@given(scene=scenes(dtypes=("u1", "u2", "f4")))
def test_any_turned_box_of_any_image_holds_what_lies_there(executor, scene):
    resolution = scene.sized.resolve(scene.source)
    (found,) = executor.run(plan_of(resolution))
    wanted, unsure = expected(scene, resolution)
    agrees(found, wanted, unsure)


@settings(deadline=None, max_examples=60)
@given(case=sheared(dtypes=("u1", "u2", "f4")))
def test_any_matrix_at_any_level_takes_what_lies_there(executor, case):
    scene, sized = case
    resolution = sized.resolve(scene.source)
    (found,) = executor.run(plan_of(resolution))
    agrees(found, *values_at(scene, resolution.level, world_of(scene, sized)))
