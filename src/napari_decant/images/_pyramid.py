"""The one pyramid rule: every level is half the size of the one before, by the mean or the maximum.

A level has ``ceil(n / 2)`` voxels along a halved axis. A block at the edge takes only the voxels that
exist. Integers are summed exactly and rounded half to even; the data type is kept. The centre of a voxel
moves by ``0.5 * (factor - 1) * scale`` a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UnsupportedOperation, UsageError

__all__ = ["Method", "PyramidBuilder", "downsample", "halved_shape", "level_factors", "level_scales"]

Method = Literal["mean", "max"]

LEAST_LEVELS, SMALL_ENOUGH = 3, 256


def halved_shape(shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    """Shape of the next level."""
    return tuple(-(-n // f) for n, f in zip(shape, factors, strict=True))


def level_factors(
    shape: Sequence[int], halved: Sequence[bool], levels: int | None = None
) -> list[tuple[int, ...]]:
    """Factors from each level to the next.

    Parameters
    ----------
    shape : sequence of int
        Of level 0.
    halved : sequence of bool
        Which axes are spatial. One of a single voxel has nothing to halve and keeps factor 1.
    levels : int, optional
        How many levels in all. By default three, or as many more as it takes until no spatial axis is longer
        than 256.

    Returns
    -------
    list of tuple of int
        One entry less than there are levels; each factor is 1 or 2.
    """
    found: list[tuple[int, ...]] = []
    current = tuple(shape)
    while True:
        if levels is not None:
            if len(found) + 1 >= levels:
                return found
        elif len(found) + 1 >= LEAST_LEVELS:
            longest = max((n for n, h in zip(current, halved, strict=True) if h), default=1)
            if longest <= SMALL_ENOUGH:
                return found
        factors = tuple(2 if h and n > 1 else 1 for n, h in zip(current, halved, strict=True))
        found.append(factors)
        current = halved_shape(current, factors)


def level_scales(
    scale: Sequence[float], translation: Sequence[float], factors: Sequence[Sequence[int]]
) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Scale and translation of every level, in physical units, level 0 first."""
    levels = [(tuple(map(float, scale)), tuple(map(float, translation)))]
    for step in factors:
        s, t = levels[-1]
        # written as one product a level, so that powers of two stay exact
        levels.append(
            (
                tuple(a * f for a, f in zip(s, step, strict=True)),
                tuple(b + 0.5 * (f - 1) * a for a, b, f in zip(s, t, step, strict=True)),
            )
        )
    return levels


def downsample(
    block: NDArray[Any],
    factors: Sequence[int],
    method: Method = "mean",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Halve a block along the axes whose factor is 2.

    Parameters
    ----------
    block : array
        Begins at an even index along every halved axis; an odd length means that the array ends there.
    factors : sequence of int
        1 or 2 for each axis.
    method : {"mean", "max"}
        For images and for labels.
    out : array of the halved shape and the block's data type, optional
        Filled and returned; may be strided.

    Returns
    -------
    array
        Shape ``ceil(n / factor)``.

    Raises
    ------
    UnsupportedOperation
        The data type has no mean, or complex numbers are to be compared.
    """
    if any(f not in (1, 2) for f in factors) or len(factors) != block.ndim:
        raise UsageError(f"factors {tuple(factors)} do not fit {block.ndim} axes; each is 1 or 2")
    shape = halved_shape(block.shape, factors)
    if out is None:
        out = np.empty(shape, block.dtype)
    elif out.shape != shape or out.dtype != block.dtype:
        raise UsageError(f"out is {out.dtype} {out.shape}; {block.dtype} {shape} is needed")
    axes = [axis for axis, f in enumerate(factors) if f == 2 and block.shape[axis] > 1]
    kind = block.dtype.kind
    if kind not in "biufc" or (method == "max" and kind == "c"):
        raise UnsupportedOperation(f"levels of {block.dtype} values cannot be made by the {method}")
    if not axes:
        out[...] = block
    elif method == "max":
        for axis in axes:
            block = _maxima(block, axis)
        out[...] = block
    elif kind in "fc":
        with np.errstate(all="ignore"):  # NaN and infinite voxels stay what they are
            out[...] = _float_mean(block, axes)
    elif kind != "b" and block.dtype.itemsize == 8:
        out[...] = _wide_mean(block, axes)
    else:
        out[...] = _integer_mean(block, axes)
    return out


def _halves(block: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """First and second of each pair along an axis, and the odd one at the end (empty if there is none)."""
    n = block.shape[axis]
    even = n - n % 2

    def part(*bounds: int | None) -> NDArray[Any]:
        return block[(slice(None),) * axis + (slice(*bounds),)]

    return part(0, even, 2), part(1, even, 2), part(even, n)


def _paired(block: NDArray[Any], axis: int, dtype: Any) -> tuple[NDArray[Any], Any, Any]:
    """A result array with views of its pairs and of its odd last one."""
    shape = list(block.shape)
    shape[axis] = -(-shape[axis] // 2)
    result = np.empty(shape, dtype)
    pairs = block.shape[axis] // 2
    lead = (slice(None),) * axis
    return result, result[(*lead, slice(0, pairs))], result[(*lead, slice(pairs, None))]


def _maxima(block: NDArray[Any], axis: int) -> NDArray[Any]:
    first, second, last = _halves(block, axis)
    result, pairs, odd = _paired(block, axis, block.dtype)
    np.maximum(first, second, out=pairs)
    odd[...] = last
    return result


def _sums(block: NDArray[Any], axis: int, dtype: Any) -> NDArray[Any]:
    """Sums of pairs; the odd last one counts twice, so that all sums have the same number of terms."""
    first, second, last = _halves(block, axis)
    result, pairs, odd = _paired(block, axis, dtype)
    np.add(first, second, out=pairs, dtype=dtype)
    np.add(last, last, out=odd, dtype=dtype)
    return result


def _rounded(sums: NDArray[Any], bits: int) -> NDArray[Any]:
    """``sums / 2**bits`` rounded half to even, in place."""
    odd = sums >> bits
    odd &= 1
    sums += odd
    sums += (1 << (bits - 1)) - 1
    sums >>= bits
    return sums


def _integer_mean(block: NDArray[Any], axes: list[int]) -> NDArray[Any]:
    if block.dtype.kind == "b":
        block = block.view(np.uint8)
    small = block.dtype.itemsize < 4 and 8 * block.dtype.itemsize + len(axes) < 32
    kind = "i" if block.dtype.kind == "i" else "u"
    dtype = np.dtype(f"{kind}{4 if small else 8}")
    # leading axes first: their pairs lie in whole rows, and the rows are fewer when the last one is summed
    for axis in axes:
        block = _sums(block, axis, dtype)
    return _rounded(block, len(axes))


def _wide_mean(block: NDArray[Any], axes: list[int]) -> NDArray[Any]:
    """64-bit integers, whose sums would not fit: quotients and remainders are summed apart."""
    bits = len(axes)
    high, low = block >> bits, block & ((1 << bits) - 1)
    for axis in axes:
        high, low = _sums(high, axis, block.dtype), _sums(low, axis, block.dtype)
    whole = high + (low >> bits)
    rest = low & ((1 << bits) - 1)
    half = 1 << (bits - 1)
    up = (rest > half) | ((rest == half) & ((whole & 1) == 1))
    result: NDArray[Any] = whole + up.astype(block.dtype)
    return result


def _float_mean(block: NDArray[Any], axes: list[int]) -> NDArray[Any]:
    dtype = np.dtype(np.complex128 if block.dtype.kind == "c" else np.float64)
    for axis in axes:
        first, second, last = _halves(block, axis)
        result, pairs, odd = _paired(block, axis, dtype)
        # halved before they are added, so that the largest numbers do not overflow
        np.multiply(first, 0.5, out=pairs, dtype=dtype)
        pairs += np.multiply(second, 0.5, dtype=dtype)
        odd[...] = last
        block = result
    return block


class PyramidBuilder:
    """Builds all levels of a stack whose planes come one after the other, holding one plane a level.

    Parameters
    ----------
    shape : sequence of int
        Of the whole stack; planes come along its first axis.
    dtype : dtype
    halved : sequence of bool
        Which axes are spatial.
    levels : int, optional
        How many in all, level 0 included; see `level_factors`.
    method : {"mean", "max"}

    Attributes
    ----------
    factors : list of tuple of int
        From each level to the next.
    shapes : list of tuple of int
        Of every level.

    Examples
    --------
    >>> builder = PyramidBuilder((5, 4, 4), "uint16", (True, True, True), levels=3)
    >>> for plane in np.ones((5, 1, 4, 4), "uint16"):
    ...     for level, start, slab in builder.push(plane):
    ...         print(level, start, slab.shape)
    1 0 (1, 2, 2)
    1 1 (1, 2, 2)
    2 0 (1, 1, 1)
    1 2 (1, 2, 2)
    2 1 (1, 1, 1)
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        halved: Sequence[bool],
        *,
        levels: int | None = None,
        method: Method = "mean",
    ) -> None:
        self.factors = level_factors(shape, halved, levels)
        self.shapes = [tuple(shape)]
        for factors in self.factors:
            self.shapes.append(halved_shape(self.shapes[-1], factors))
        self.dtype, self.method = np.dtype(dtype), method
        self._seen = [0] * len(self.shapes)
        self._kept: list[NDArray[Any] | None] = [None] * len(self.shapes)

    def push(self, slab: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Take the next planes of level 0 and yield what they complete of the other levels.

        Parameters
        ----------
        slab : array, shape ``(planes, *shape[1:])``
            Any number of planes.

        Yields
        ------
        level, start, block : int, int, array
            Planes ``start`` to ``start + len(block)`` of a level, each once and in order.

        Raises
        ------
        UsageError
            The slab does not fit, or there are more planes than the shape says.
        """
        if slab.shape[1:] != self.shapes[0][1:] or slab.dtype != self.dtype:
            raise UsageError(
                f"a slab of {slab.dtype} {slab.shape} does not fit {self.dtype} {self.shapes[0]}"
            )
        if self._seen[0] + len(slab) > self.shapes[0][0]:
            raise UsageError(f"more than {self.shapes[0][0]} planes were given")
        yield from self._add(0, slab)

    def _add(self, level: int, slab: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
        self._seen[level] += len(slab)
        if level == len(self.factors) or not len(slab):
            return
        kept = self._kept[level]
        if kept is not None:
            slab = np.concatenate([kept, slab])
        usable = len(slab)
        if self.factors[level][0] == 2 and self._seen[level] < self.shapes[level][0]:
            usable -= usable % 2
        self._kept[level] = slab[usable:].copy() if usable < len(slab) else None
        if usable:
            block = downsample(slab[:usable], self.factors[level], self.method)
            start = self._seen[level + 1]
            yield level + 1, start, block
            yield from self._add(level + 1, block)
