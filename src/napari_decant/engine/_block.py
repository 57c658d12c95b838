"""Sampling a resolved output from a block of the source in memory: for arrays that no plan reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._convert import check_conversion, convert_into
from napari_decant.engine._sampling import kernel_values, pool_dtype
from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.spatial import BOUNDARIES, SpatialResolution

__all__ = ["sample_block"]


def sample_block(
    block: NDArray[Any], resolution: SpatialResolution, source_shape: Sequence[int], out: NDArray[Any]
) -> None:
    """Make the output of a resolution, or of a part of one, from the elements that it reads.

    The same kernels as those of the executors, so the same values bit for bit.

    Parameters
    ----------
    block : array
        The elements within ``resolution.read_bounds_index``, in native byte order.
    resolution : SpatialResolution
    source_shape : sequence of int
        Extents of the whole source array.
    out : array, shape ``resolution.shape``
        Filled; values are converted to its element type: rounded half to even and clamped.

    Raises
    ------
    UsageError
        ``block`` or ``out`` has another shape.
    UnsupportedOperation
        Values that cannot be interpolated, or complex ones asked for as real ones.
    """
    wanted = tuple(b - a for a, b in resolution.read_bounds_index)
    if block.shape != wanted or out.shape != resolution.shape:
        raise UsageError(
            f"a block of shape {block.shape} and an output of shape {out.shape} were given where the query"
            f" reads {wanted} and makes {resolution.shape}"
        )
    check_conversion(block.dtype, out.dtype)
    if not resolution.requires_resampling:
        convert_into(block, out)
        return
    if resolution.sampler.filter == "linear" and block.dtype.kind == "b":
        raise UnsupportedOperation(
            f"{resolution.uri} holds true and false, with no values between them; use the filter nearest"
        )
    _sample(block, resolution, source_shape, out)


def _sample(
    block: NDArray[Any], resolution: SpatialResolution, source_shape: Sequence[int], out: NDArray[Any]
) -> None:
    from napari_decant.engine import _kernels

    sampler, axes = resolution.sampler, resolution.spatial_axes
    others = [i for i in range(block.ndim) if i not in axes]
    pad = 3 - len(axes)
    held = pool_dtype(block.dtype, resolution, out.dtype)
    view, fill, constant, unit = kernel_values(sampler, held, 0)
    linear, offset = np.eye(3), np.zeros(3)
    linear[pad:, pad:] = np.asarray(resolution.output_to_source.linear)[np.ix_(axes, axes)]
    offset[pad:] = np.asarray(resolution.output_to_source.offset)[list(axes)]
    first, extent, low, size = (np.zeros(3, np.int64) for _ in range(4))
    extent[:], size[:] = 1, 1
    for at, axis in enumerate(axes, pad):
        first[at] = resolution.grid_start[axis]
        extent[at] = source_shape[axis]
        low[at] = resolution.read_bounds_index[axis][0]
        size[at] = block.shape[axis]
    # the whole source as a single chunk of which only the block is there: it begins at ``shift``
    strides = np.array([size[1] * size[2], size[2], 1], np.int64)
    shift = -int((low * strides).sum())
    slots, zeros, ones = np.zeros(1, np.int64), np.zeros(3, np.int64), np.ones(3, np.int64)
    kernel = _kernels.sample_linear if sampler.filter == "linear" else _kernels.sample_nearest
    arranged = block.transpose([*others, *axes]).reshape((*[block.shape[i] for i in others], *size))
    target = out.transpose([*others, *axes])
    for index in itertools.product(*(range(n) for n in target.shape[: len(others)])):
        region = target[index][(None,) * pad] if pad else target[index]
        direct = out.dtype == held
        made = region.view(view) if direct else np.empty(region.shape, view)
        pool = np.ascontiguousarray(arranged[index], held).reshape(-1)
        kernel(
            pool.view(view), slots, zeros, ones, strides, shift, linear, offset, first, extent, extent,
            BOUNDARIES.index(sampler.boundary), fill, constant, *unit, made,
        )  # fmt: skip
        if not direct:
            convert_into(made.view(held), region)
