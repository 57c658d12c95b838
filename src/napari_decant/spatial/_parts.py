"""Parts of a resolved output, for outputs that are made piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from napari_decant.errors import UsageError
from napari_decant.spatial._query import contributing_bounds, sample_range
from napari_decant.spatial._resolution import AxisIndices, IndexResolution, SpatialResolution

__all__ = ["part_of"]


def part_of[T: (SpatialResolution, IndexResolution)](
    resolution: T, start: Sequence[int], stop: Sequence[int]
) -> T:
    """Return the box ``[start, stop)`` of a resolved output as a resolution of its own.

    Its elements are bit for bit those of the whole: a part keeps the map and moves along the grid.

    Raises
    ------
    UsageError
        The box is empty or leaves the output.
    """
    shape = resolution.shape
    if len(start) != len(shape) or len(stop) != len(shape):
        raise UsageError(
            f"the part from {tuple(start)} to {tuple(stop)} has another rank than the output {shape}"
        )
    if not all(0 <= a < b <= n for a, b, n in zip(start, stop, shape, strict=True)):
        raise UsageError(
            f"the part from {tuple(start)} to {tuple(stop)} is empty or leaves the output {shape}"
        )
    extent = tuple(b - a for a, b in zip(start, stop, strict=True))
    if isinstance(resolution, IndexResolution):
        chosen = tuple(
            AxisIndices(axis.start + axis.step * a, axis.step, b - a)
            if axis.indices is None
            else AxisIndices(0, 1, b - a, axis.indices[a:b])
            for axis, a, b in zip(resolution.selection, start, stop, strict=True)
        )
        return replace(resolution, shape=extent, selection=chosen)
    grid = tuple(g + a for g, a in zip(resolution.grid_start, start, strict=True))
    low, high = sample_range(resolution.output_to_source, grid, extent)
    bounds = contributing_bounds(low, high, resolution.sampler, resolution.spatial_axes)
    # outside the array only where the whole was allowed to be: no source shape is needed to clip again
    inside = [
        (min(max(a, lo), hi), min(max(b, lo), hi))
        if resolution.sampler.boundary != "clamp"
        else (min(max(a, lo), hi - 1), min(max(b - 1, lo), hi - 1) + 1)
        for (a, b), (lo, hi) in zip(bounds, resolution.read_bounds_index, strict=True)
    ]
    return replace(
        resolution, shape=extent, grid_start=grid, source_bounds_index=bounds, read_bounds_index=tuple(inside)
    )
