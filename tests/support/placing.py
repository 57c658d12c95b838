"""Turned boxes in images with any scales, and what scipy finds at the places where their voxels lie.

Worked out from definitions alone: a voxel's centre lies at ``scale * index + translation`` of its level, and
a box is turned about z, then y, then x. Nothing of the product's own geometry is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy import ndimage
from scipy.spatial.transform import Rotation

from napari_decant.images import open_image
from napari_decant.images.crop import Region, WorldMap, place, source_of_image
from napari_decant.spatial import Sampler, SizedQuery, SpatialQuery
from napari_decant.stores import MemoryStore

from .ngff import image_keys

__all__ = ["Scene", "coarsest", "expected", "scenes", "sheared", "turn", "values_at", "world_of"]

DTYPES = ["u1", "u2", "i2", "u4", "f4", "f8"]


@dataclass
class Scene:
    """A query for an opened image, and all that it takes to check it."""

    image: object
    levels: list
    scales: list
    shifts: list
    region: Region
    spacing: tuple
    level: object
    sampler: Sampler

    @property
    def source(self):
        return source_of_image(self.image)

    @property
    def sized(self):
        world = WorldMap.physical(self.source)
        return place(
            self.region,
            self.source,
            world,
            spacing=self.spacing,
            level=self.level,
            sampler=self.sampler,
            snap=False,
        )


def turn(angles):
    """Directions of a turned box, one a column, axes in the order (z, y, x) or (y, x)."""
    rank = 3 if len(angles) == 3 else 2
    whole = Rotation.from_euler("ZYX", (*angles, 0.0, 0.0)[:3], degrees=True).as_matrix()
    return whole[::-1, ::-1][-rank:, -rank:]


def _values(shape, dtype, seed):
    flat = 1 + (np.arange(int(np.prod(shape))) * 7919 + 31 * seed) % 113
    return flat.astype(dtype).reshape(shape)


@st.composite
def scenes(draw, kinds=("nearest", "linear"), dtypes=tuple(DTYPES)):
    """A random image with its levels, and a random box in it or across its border."""
    rank = draw(st.sampled_from([2, 3]))
    count = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(5, 9)) * 4 for _ in range(rank))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    label = dtype.kind == "u" and draw(st.booleans())
    kind = "nearest" if label else draw(st.sampled_from(kinds))
    base = [draw(st.sampled_from([0.1, 0.25, 0.3, 0.7, 1.0, 2.0, 5.5])) for _ in range(rank)]
    origin = [draw(st.sampled_from([0.0, -3.0, 10.0, 0.37, -12.125])) for _ in range(rank)]
    centred = draw(st.booleans())  # else the first centres of all levels coincide
    halved = [True] * rank if rank == 2 else [draw(st.booleans()), True, True]
    levels, scales, shifts = [], [], []
    for number in range(count):
        factor = [2**number if h else 1 for h in halved]
        levels.append(_values(tuple(n // f for n, f in zip(shape, factor, strict=True)), dtype, number))
        scales.append([s * f for s, f in zip(base, factor, strict=True)])
        step = [0.5 * (f - 1) * s if centred else 0.0 for s, f in zip(base, factor, strict=True)]
        shifts.append([o + d for o, d in zip(origin, step, strict=True)])
    keys = image_keys(
        levels,
        "zyx"[-rank:],
        scales=scales,
        translations=shifts,
        chunks=tuple(draw(st.sampled_from([3, 7, 16])) for _ in range(rank)),
        ome={"image-label": {}} if label else None,
    )
    store = MemoryStore(keys)
    image = open_image(store)
    object.__setattr__(image, "_held", store)  # the name in memory lives as long as the store does
    center = tuple(o + s * n * draw(st.floats(0.1, 0.9)) for o, s, n in zip(origin, base, shape, strict=True))
    spacing = tuple(s * draw(st.sampled_from([0.6, 1.0, 1.7, 2.1, 4.3])) for s in base)
    size = tuple(p * draw(st.integers(3, 14)) for p in spacing)
    angles = tuple(round(draw(st.floats(-180, 180)), 2) for _ in range(1 if rank == 2 else 3))
    level = draw(st.one_of(st.just("auto"), st.integers(0, count - 1)))
    boundary = draw(st.sampled_from(["constant", "clamp"]))
    sampler = Sampler(kind, boundary, 9.0 if boundary == "constant" else 0.0)
    return Scene(image, levels, scales, shifts, Region(center, size, angles), spacing, level, sampler)


def coarsest(scene):
    """The level that ``auto`` means: the coarsest of which every output step passes a voxel at least."""
    step = turn(scene.region.angles) * np.asarray(scene.spacing)
    fits = [
        np.linalg.svd(step / np.asarray(scale)[:, None], compute_uv=False).min() >= 1 - 1e-12
        for scale in scene.scales
    ]
    return max((number for number, good in enumerate(fits) if good), default=0)


@st.composite
def sheared(draw, **options):
    """A scene, and a query of any invertible matrix in place of its box: sheared, mirrored, scaled."""
    scene = draw(scenes(**options))
    rank = len(scene.levels[0].shape)
    matrix = np.array([[round(draw(st.floats(-2, 2)), 3) for _ in range(rank)] for _ in range(rank)])
    assume(abs(np.linalg.det(matrix)) > 0.05)
    offset = [round(draw(st.floats(-2, 30)), 3) for _ in range(rank)]
    shape = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    query = SpatialQuery(np.column_stack([matrix, offset]), scene.sampler, scene.level)
    return scene, SizedQuery(query, shape)


def world_of(scene, sized):
    """Where the centres of an output lie: corners of the reference are half a voxel before centres."""
    matrix = np.asarray(sized.query.output_to_reference)
    grid = np.stack(np.meshgrid(*[np.arange(n) + 0.5 for n in sized.shape], indexing="ij"), -1)
    corners = grid @ matrix[:, :-1].T + matrix[:, -1]
    return (corners - 0.5) * np.asarray(scene.scales[0]) + np.asarray(scene.shifts[0])


def expected(scene, resolution):
    """Values at the centres of the box's voxels, and which of them are too near to a border to tell."""
    region = scene.region
    directions = turn(region.angles) * np.asarray(scene.spacing)
    middle = (np.asarray(resolution.shape, float) - 1) / 2
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in resolution.shape], indexing="ij"), -1) - middle
    return values_at(scene, resolution.level, grid @ directions.T + np.asarray(region.center))


def values_at(scene, level, world):
    """What scipy finds at points of the world, and which of them are too near to a border to tell."""
    index = (world - np.asarray(scene.shifts[level])) / np.asarray(scene.scales[level])
    mode = "nearest" if scene.sampler.boundary == "clamp" else "grid-constant"
    order = 1 if scene.sampler.filter == "linear" else 0
    made = ndimage.map_coordinates(
        scene.levels[level].astype(np.float64),
        np.moveaxis(index, -1, 0),
        order=order,
        mode=mode,
        cval=scene.sampler.constant_value,
    )
    unsure = (np.abs(index - np.floor(index) - 0.5) < 1e-7).any(-1)
    return made, unsure & (order == 0)
