"""Sampling the tiles of one output from decoded chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._convert import accumulator_of, convert_into
from napari_decant.engine._plan import Plan, TiledOutput
from napari_decant.spatial import BOUNDARIES, Sampler, SpatialResolution

__all__ = ["TileSampler", "kernel_values", "pool_dtype"]


def pool_dtype(
    native: np.dtype[Any], output: TiledOutput | SpatialResolution, target: np.dtype[Any]
) -> np.dtype[Any]:
    """Return the element type in which chunks are held for sampling.

    Few types, so that few kernels are compiled: nearest moves bits and keeps the type; linear keeps
    8 and 16-bit images that stay what they are, and widens everything else to its sums' type.
    """
    if output.sampler.filter == "linear":
        kept = native == target and native in (np.uint8, np.uint16)
        return native if kept else accumulator_of(native)
    value = output.sampler.constant_value
    if output.sampler.boundary == "constant" and native != target and native.kind in "biu":
        # a constant beyond the source's type still reaches an output that can hold it
        limits = np.iinfo(native) if native.kind != "b" else np.iinfo(np.uint8)
        if value != round(value) or not limits.min <= value <= limits.max:
            return np.dtype(np.float64)
    return native


def kernel_values(
    sampler: Sampler, dtype: np.dtype[Any], fill: Any
) -> tuple[np.dtype[Any], Any, Any, tuple[Any, ...]]:
    """Return the types and values that a kernel takes.

    Parameters
    ----------
    sampler : Sampler
    dtype : dtype
        In which elements are held, see `pool_dtype`.
    fill : scalar
        Value of elements that are not stored.

    Returns
    -------
    view : dtype
        As what the kernel sees the elements.
    fill, constant : scalar
    unit : tuple
        One, in the type of weights; empty for nearest.
    """
    if sampler.filter == "linear":
        sums = accumulator_of(dtype)
        single = sums in (np.float32, np.complex64)
        one: tuple[Any, ...] = (np.float32(1) if single else np.float64(1),)
        return dtype, dtype.type(fill), sums.type(sampler.constant_value), one
    own = np.empty(1, dtype)
    convert_into(np.array([sampler.constant_value], np.complex128 if dtype.kind == "c" else np.float64), own)
    # only bits are moved, so types of one size share one compiled kernel
    bits = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(dtype.itemsize)
    view = np.dtype(bits) if bits else dtype
    return view, np.array([fill]).astype(dtype).view(view)[0], own.view(view)[0], ()


class TileSampler:
    """Samples one output of a plan; any number of threads may sample different tiles.

    Parameters
    ----------
    plan : Plan
    output : TiledOutput
        One of its outputs.
    out : array, shape ``output.shape``
        Written to, converted to its type.
    """

    def __init__(self, plan: Plan, output: TiledOutput, out: NDArray[Any]) -> None:
        from napari_decant.engine import _kernels

        meta = plan.arrays[output.array].meta
        self.output, self.out = output, out
        self.dtype = pool_dtype(meta.native_dtype, output, out.dtype)
        self._linear = output.sampler.filter == "linear"
        self._kernel = _kernels.sample_linear if self._linear else _kernels.sample_nearest
        axes, pad = output.spatial_axes, 3 - len(output.spatial_axes)
        self._extent = np.ones(3, np.int64)
        self._chunk = np.ones(3, np.int64)
        self._strides = np.zeros(3, np.int64)
        strides = np.cumprod([1, *meta.chunk_shape[:0:-1]])[::-1] if meta.rank else np.zeros(0, np.int64)
        self._extent[pad:] = np.asarray(meta.shape)[list(axes)]
        self._chunk[pad:] = np.asarray(meta.chunk_shape)[list(axes)]
        self._strides[pad:] = strides[list(axes)]
        self._positions = np.zeros((len(plan.chunk_index), 3), np.int64)
        self._positions[:, pad:] = plan.chunk_index[:, list(axes)]
        self._other_strides = strides[list(output.other_axes)]
        self._other_chunk = np.asarray(meta.chunk_shape, np.int64)[list(output.other_axes)]
        self._other_start = np.asarray(output.other_start, np.int64)
        self._boundary = BOUNDARIES.index(output.sampler.boundary)
        self._choose_types(meta.fill_value)

    def _choose_types(self, fill: Any) -> None:
        """Decide in which types the kernel reads and writes."""
        self._direct = self.out.dtype == self.dtype
        self._view, self._fill, self._constant, self._unit = kernel_values(
            self.output.sampler, self.dtype, fill
        )

    def sample(self, tile: int, buffer: NDArray[np.uint8], begins: NDArray[np.int64]) -> None:
        """Write one tile.

        Parameters
        ----------
        tile : int
        buffer : uint8 array
            Decoded chunks.
        begins : int64 array, shape (chunks,)
            Byte offset of every chunk of the plan in ``buffer``; negative where it is absent.
        """
        output = self.output
        chunks = output.tile_chunks[output.tile_first[tile] : output.tile_first[tile + 1]]
        low, dims = np.zeros(3, np.int64), np.ones(3, np.int64)
        slots = np.full(1, -2, np.int64)
        if len(chunks):
            where = self._positions[chunks]
            low = where.min(axis=0)
            dims = where.max(axis=0) - low + 1
            slots = np.full(int(dims.prod()), -2, np.int64)
            where -= low
            at = begins[chunks]
            slots[(where[:, 0] * dims[1] + where[:, 1]) * dims[2] + where[:, 2]] = np.where(
                at >= 0, at // self.dtype.itemsize, -1
            )
        source = output.tile_other[tile] + self._other_start
        extra = int(((source % self._other_chunk) * self._other_strides).sum())
        first = output.tile_start[tile] + output.grid_start
        region = self._region(tile)
        target = region.view(self._view) if self._direct else np.empty(region.shape, self._view)
        self._kernel(
            buffer[: len(buffer) // 16 * 16].view(self._view), slots, low, dims, self._strides, extra,
            output.linear, output.offset, first, self._extent, self._chunk, self._boundary,
            self._fill, self._constant, *self._unit, target,
        )  # fmt: skip
        if not self._direct:
            convert_into(target.view(self.dtype), region)

    def release(self) -> None:
        """Let go of the output, of which every tile is written."""
        self.out = np.empty(0, self.out.dtype)

    def _region(self, tile: int) -> NDArray[Any]:
        """View the tile in the output, with three axes."""
        output, pad = self.output, 3 - len(self.output.spatial_axes)
        index: list[Any] = [0] * len(output.shape)
        for axis, at in zip(output.other_axes, output.tile_other[tile].tolist(), strict=True):
            index[axis] = at
        starts, sizes = output.tile_start[tile].tolist(), output.tile_shape[tile].tolist()
        for at, axis in enumerate(output.spatial_axes, pad):
            index[axis] = slice(starts[at], starts[at] + sizes[at])
        region: NDArray[Any] = self.out[tuple(index)]
        return region[(None,) * pad] if pad else region
