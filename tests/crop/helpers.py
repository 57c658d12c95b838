"""Images with a bright voxel, and where it is in a crop of them."""

from __future__ import annotations

import numpy as np
from tests.support.ngff import image_keys

from napari_decant.images import open_image
from napari_decant.stores import MemoryStore

SCALES = {2: (0.4, 0.25), 3: (2.0, 0.5, 0.3)}


def blob(shape, at, width=1.5, dtype="u2"):
    """A smooth bright spot whose centre of mass is at a corner coordinate, on a dark ground that is not 0."""
    grid = np.meshgrid(*[np.arange(n) + 0.5 for n in shape], indexing="ij")
    widths = (width,) * len(shape) if isinstance(width, float) else width
    far = sum(((g - a) / w) ** 2 for g, a, w in zip(grid, at, widths, strict=True))
    return (1 + 30000 * np.exp(-far / 2)).astype(dtype)


def mean_pyramid(data, levels):
    """Levels by the mean of 2 x 2 (x 2) voxels; extents must divide."""
    made = [data]
    for _ in range(levels - 1):
        last = made[-1].astype(np.float64)
        for axis in range(data.ndim):
            pairs = last.shape[axis] // 2
            last = last.reshape(*last.shape[:axis], pairs, 2, *last.shape[axis + 1 :]).mean(axis + 1)
        made.append(np.rint(last).astype(data.dtype))
    return made


def pyramid_transforms(scale, origin, levels):
    """Scale and translation of each level of a mean pyramid: 0.5 * (factor - 1) * scale further each."""
    scales = [[s * 2**k for s in scale] for k in range(levels)]
    shifts = [[o + 0.5 * (2**k - 1) * s for s, o in zip(scale, origin, strict=True)] for k in range(levels)]
    return scales, shifts


def image_in_memory(levels, axes="zyx", scale=None, origin=None, chunks=None, attributes=None, **more):
    """An opened image over a store in memory."""
    rank = levels[0].ndim
    scale = scale or (1.0,) * rank
    scales, shifts = pyramid_transforms(scale, origin or (0.0,) * rank, len(levels))
    for i, name in enumerate(axes):
        if name in "tc":
            for k in range(len(levels)):
                scales[k][i], shifts[k][i] = scale[i], 0.0
    keys = image_keys(
        levels, axes, scales=scales, translations=shifts, chunks=chunks, attributes=attributes, **more
    )
    store = MemoryStore(keys)
    image = open_image(store)
    object.__setattr__(image, "_held", store)  # the name in memory lives as long as the store does
    return image


def center_of_mass(data, floor=None):
    """In index coordinates, brightness above the ground."""
    weight = np.clip(data.astype(np.float64) - (data.min() if floor is None else floor), 0, None)
    grid = np.meshgrid(*[np.arange(n) for n in data.shape], indexing="ij")
    return np.array([(g * weight).sum() / weight.sum() for g in grid])


def at_world(matrix, index):
    return matrix[:, :-1] @ np.asarray(index) + matrix[:, -1]
