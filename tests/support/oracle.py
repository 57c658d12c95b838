"""What a query must give, computed densely with numpy from the whole source array."""

from __future__ import annotations

import numpy as np


def coordinates(resolution):
    """Sample coordinates, shape (rank, *output shape), in the order of operations that is fixed."""
    affine, start = resolution.output_to_source, resolution.grid_start
    grid = np.meshgrid(
        *[np.arange(a, a + n) + 0.5 for a, n in zip(start, resolution.shape, strict=True)], indexing="ij"
    )
    result = []
    for i, (row, b) in enumerate(zip(affine.linear, affine.offset, strict=True)):
        axes = resolution.spatial_axes if i in resolution.spatial_axes else (i,)
        total = row[axes[0]] * grid[axes[0]]
        for axis in axes[1:]:
            total = total + row[axis] * grid[axis]
        result.append(total + b)
    return np.stack(result)


def fetch(source, index, sampler, constant):
    """Elements at integer positions (rank, ...), as the boundary rule says."""
    shape = np.array(source.shape).reshape((-1,) + (1,) * (index.ndim - 1))
    inside = ((index >= 0) & (index < shape)).all(axis=0)
    values = source[tuple(np.clip(index, 0, shape - 1))]
    if sampler.boundary == "constant":
        return np.where(inside, values, constant)
    assert sampler.boundary == "clamp" or inside.all()
    return values


def nearest(source, resolution):
    """Elements at floor(s), in the source's type."""
    index = np.floor(coordinates(resolution)).astype(np.int64)
    constant = source.dtype.type(0)
    if resolution.sampler.boundary == "constant":
        value = resolution.sampler.constant_value
        if source.dtype.kind in "iu":
            limits = np.iinfo(source.dtype)
            value = min(max(int(np.rint(value)), limits.min), limits.max)
        constant = source.dtype.type(value)
    return fetch(source, index, resolution.sampler, constant)


def linear(source, resolution):
    """Weighted neighbours in double precision, and the magnitude of the largest contributor."""
    s = coordinates(resolution) - 0.5
    low = np.floor(s)
    weight = s - low
    spatial = resolution.spatial_axes
    index = np.floor(coordinates(resolution)).astype(np.int64)
    wide = source.astype(np.complex128 if source.dtype.kind == "c" else np.float64)
    total = np.zeros(resolution.shape, wide.dtype)
    largest = np.zeros(resolution.shape)
    for corner in range(2 ** len(spatial)):
        w = np.ones(resolution.shape)
        at = index.copy()
        for bit, axis in enumerate(spatial):
            high = corner >> bit & 1
            at[axis] = low[axis] + high
            w = w * (weight[axis] if high else 1 - weight[axis])
        used = w != 0
        at = np.where(
            used, at, np.clip(at, 0, np.array(source.shape).reshape((-1,) + (1,) * (at.ndim - 1)) - 1)
        )
        value = fetch(wide, at, resolution.sampler, resolution.sampler.constant_value)
        total += np.where(used, w * np.where(used, value, 0), 0)
        largest = np.maximum(largest, np.where(used, np.abs(value), 0))
    return total, largest


def converted(values, dtype):
    """Rounded half to even and clamped."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" and values.dtype.kind == "f":
        limits = np.iinfo(dtype)
        return (
            np.array([min(max(int(v), limits.min), limits.max) for v in np.rint(values).ravel()])
            .astype(dtype)
            .reshape(values.shape)
        )
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        clipped = [min(max(int(v), limits.min), limits.max) for v in values.ravel()]
        return np.array(clipped, dtype).reshape(values.shape)
    return values.astype(dtype)
