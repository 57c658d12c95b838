"""Sampling one tile from decoded chunks. Compiled with numba; imported only where something is resampled.

Every executor computes ``s = ((a0*(j0+0.5) + a1*(j1+0.5)) + a2*(j2+0.5)) + b`` in float64, in this
order, without stepping and without fused operations (``fastmath`` stays off), so nearest agrees bit
for bit. Linear weights and sums have the accumulator's type.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from napari_decant.engine._tile_marks import touched_range

__all__ = ["sample_linear", "sample_nearest"]

_jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy")


def _to_sum(value: Any, unit: Any) -> Any:
    """Convert a value to the accumulator's type."""


def _to_out(value: Any, like: Any) -> Any:
    """Convert a sum to the output's type: rounded half to even and clamped for integers."""


@overload(_to_sum, inline="always")
def _to_sum_for(value, unit):  # type: ignore[no-untyped-def]
    if isinstance(value, types.Complex):
        return lambda value, unit: value
    if unit == types.float32:
        return lambda value, unit: np.float32(value)
    return lambda value, unit: np.float64(value)


@overload(_to_out, inline="always")
def _to_out_for(value, like):  # type: ignore[no-untyped-def]
    if not isinstance(like, types.Integer):
        return lambda value, like: value
    info = np.iinfo(str(like))
    low_value, high_value = float(info.min), float(info.max)
    # one type on every branch: mixing signed and unsigned 64 bits would make floats of them
    if info.min < 0:
        low_s, high_s = np.int64(info.min), np.int64(info.max)

        def signed(value, like):  # type: ignore[no-untyped-def]
            rounded = np.rint(value)
            if rounded <= low_value:
                return low_s
            if rounded >= high_value:
                return high_s
            return np.int64(rounded)

        return signed
    low_u, high_u = np.uint64(info.min), np.uint64(info.max)

    def unsigned(value, like):  # type: ignore[no-untyped-def]
        rounded = np.rint(value)
        if rounded <= low_value:
            return low_u
        if rounded >= high_value:
            return high_u
        return np.uint64(rounded)

    return unsigned


@_jit
def _table(low, high, chunk, stride, base):  # type: ignore[no-untyped-def]
    """For every index of a range: which chunk of the tile's box, and the offset within it."""
    count = max(high - low + 1, 0)
    which = np.empty(count, np.int64)
    inner = np.empty(count, np.int64)
    for k in range(count):
        at = (low + k) // chunk
        which[k] = at - base
        inner[k] = (low + k - at * chunk) * stride
    return which, inner


@_jit
def sample_nearest(  # type: ignore[no-untyped-def]
    pool,
    slots,
    slot_low,
    slot_dims,
    strides,
    extra,
    linear,
    offset,
    first,
    n,
    chunk,
    boundary,
    fill,
    constant,
    out,
):
    """Take the element at ``floor(s)`` of each sample; see `sample_linear` for the arguments."""
    count = np.array(out.shape, np.int64)
    zl, zh, _ = touched_range(linear, offset, 0, first, count, False, boundary, n[0])
    yl, yh, _ = touched_range(linear, offset, 1, first, count, False, boundary, n[1])
    xl, xh, _ = touched_range(linear, offset, 2, first, count, False, boundary, n[2])
    zc, zo = _table(zl, zh, chunk[0], strides[0], slot_low[0])
    yc, yo = _table(yl, yh, chunk[1], strides[1], slot_low[1])
    xc, xo = _table(xl, xh, chunk[2], strides[2], slot_low[2])
    for j0 in range(count[0]):
        p0 = np.float64(first[0] + j0) + 0.5
        for j1 in range(count[1]):
            p1 = np.float64(first[1] + j1) + 0.5
            tz = linear[0, 0] * p0 + linear[0, 1] * p1
            ty = linear[1, 0] * p0 + linear[1, 1] * p1
            tx = linear[2, 0] * p0 + linear[2, 1] * p1
            for j2 in range(count[2]):
                p2 = np.float64(first[2] + j2) + 0.5
                z = np.int64(np.floor((tz + linear[0, 2] * p2) + offset[0]))
                y = np.int64(np.floor((ty + linear[1, 2] * p2) + offset[1]))
                x = np.int64(np.floor((tx + linear[2, 2] * p2) + offset[2]))
                if boundary == 2:
                    z = min(max(z, zl), zh)
                    y = min(max(y, yl), yh)
                    x = min(max(x, xl), xh)
                elif z < zl or z > zh or y < yl or y > yh or x < xl or x > xh:
                    out[j0, j1, j2] = constant
                    continue
                z -= zl
                y -= yl
                x -= xl
                base = slots[(zc[z] * slot_dims[1] + yc[y]) * slot_dims[2] + xc[x]]
                if base < 0:
                    out[j0, j1, j2] = fill
                else:
                    out[j0, j1, j2] = pool[base + extra + zo[z] + yo[y] + xo[x]]


@_jit
def _fetch(pool, slots, slot_dims, zc, yc, xc, inner, fill):  # type: ignore[no-untyped-def]
    base = slots[(zc * slot_dims[1] + yc) * slot_dims[2] + xc]
    if base < 0:
        return fill
    return pool[base + inner]


@_jit
def sample_linear(  # type: ignore[no-untyped-def]
    pool,
    slots,
    slot_low,
    slot_dims,
    strides,
    extra,
    linear,
    offset,
    first,
    n,
    chunk,
    boundary,
    fill,
    constant,
    unit,
    out,
):
    """Weigh the neighbours of each sample.

    Parameters
    ----------
    pool : array, shape (elements,)
        Decoded chunks, one after the other.
    slots : int64 array, shape (box,)
        Where each chunk of the tile's box begins in ``pool``; -1 for one that is absent and reads as fill.
    slot_low, slot_dims : int64 arrays, shape (3,)
        First chunk and extent of that box.
    strides : int64 array, shape (3,); extra : int
        Elements between neighbours within a chunk, and the constant part of the axes not sampled.
    linear, offset, first, n, chunk
        Map, first grid point of the tile, extents of source and chunks along the sampled axes.
    boundary : int
        0 error, 1 constant, 2 clamp.
    fill, constant
        Values of absent chunks and of elements outside, as accumulators.
    unit : float32 or float64
        One, in the type of weights.
    out : array, shape (tile)
        In the pool's type, or the accumulator's.
    """
    count = np.array(out.shape, np.int64)
    zl, zh, _ = touched_range(linear, offset, 0, first, count, True, boundary, n[0])
    yl, yh, _ = touched_range(linear, offset, 1, first, count, True, boundary, n[1])
    xl, xh, _ = touched_range(linear, offset, 2, first, count, True, boundary, n[2])
    zc, zo = _table(zl, zh, chunk[0], strides[0], slot_low[0])
    yc, yo = _table(yl, yh, chunk[1], strides[1], slot_low[1])
    xc, xo = _table(xl, xh, chunk[2], strides[2], slot_low[2])
    like = out[0, 0, 0]
    for j0 in range(count[0]):
        p0 = np.float64(first[0] + j0) + 0.5
        for j1 in range(count[1]):
            p1 = np.float64(first[1] + j1) + 0.5
            tz = linear[0, 0] * p0 + linear[0, 1] * p1
            ty = linear[1, 0] * p0 + linear[1, 1] * p1
            tx = linear[2, 0] * p0 + linear[2, 1] * p1
            for j2 in range(count[2]):
                p2 = np.float64(first[2] + j2) + 0.5
                fz = ((tz + linear[0, 2] * p2) + offset[0]) - 0.5
                fy = ((ty + linear[1, 2] * p2) + offset[1]) - 0.5
                fx = ((tx + linear[2, 2] * p2) + offset[2]) - 0.5
                gz = np.floor(fz)
                gy = np.floor(fy)
                gx = np.floor(fx)
                wz = _to_sum(fz - gz, unit)
                wy = _to_sum(fy - gy, unit)
                wx = _to_sum(fx - gx, unit)
                z0 = np.int64(gz)
                y0 = np.int64(gy)
                x0 = np.int64(gx)
                z1 = z0 + (1 if fz > gz else 0)
                y1 = y0 + (1 if fy > gy else 0)
                x1 = x0 + (1 if fx > gx else 0)
                outside = False
                if boundary == 2:
                    z0 = min(max(z0, zl), zh)
                    z1 = min(max(z1, zl), zh)
                    y0 = min(max(y0, yl), yh)
                    y1 = min(max(y1, yl), yh)
                    x0 = min(max(x0, xl), xh)
                    x1 = min(max(x1, xl), xh)
                elif boundary == 1:
                    outside = (
                        z0 < zl or z1 > zh or y0 < yl or y1 > yh or x0 < xl or x1 > xh
                        or z1 < zl or z0 > zh or y1 < yl or y0 > yh or x1 < xl or x0 > xh
                    )  # fmt: skip
                if outside:
                    v000 = constant
                    v001 = constant
                    v010 = constant
                    v011 = constant
                    v100 = constant
                    v101 = constant
                    v110 = constant
                    v111 = constant
                    for k in range(8):
                        z = z1 if k & 4 else z0
                        y = y1 if k & 2 else y0
                        x = x1 if k & 1 else x0
                        if z < zl or z > zh or y < yl or y > yh or x < xl or x > xh:
                            continue
                        z -= zl
                        y -= yl
                        x -= xl
                        v = _to_sum(
                            _fetch(
                                pool,
                                slots,
                                slot_dims,
                                zc[z],
                                yc[y],
                                xc[x],
                                extra + zo[z] + yo[y] + xo[x],
                                fill,
                            ),
                            unit,
                        )
                        if k == 0:
                            v000 = v
                        elif k == 1:
                            v001 = v
                        elif k == 2:
                            v010 = v
                        elif k == 3:
                            v011 = v
                        elif k == 4:
                            v100 = v
                        elif k == 5:
                            v101 = v
                        elif k == 6:
                            v110 = v
                        else:
                            v111 = v
                else:
                    z0 -= zl
                    z1 -= zl
                    y0 -= yl
                    y1 -= yl
                    x0 -= xl
                    x1 -= xl
                    cz0 = zc[z0]
                    cy0 = yc[y0]
                    cx0 = xc[x0]
                    cz1 = zc[z1]
                    cy1 = yc[y1]
                    cx1 = xc[x1]
                    a = zo[z0] + extra
                    b = zo[z1] + extra
                    base = slots[(cz0 * slot_dims[1] + cy0) * slot_dims[2] + cx0]
                    if cz0 == cz1 and cy0 == cy1 and cx0 == cx1 and base >= 0:
                        a += base
                        b += base
                        v000 = _to_sum(pool[a + yo[y0] + xo[x0]], unit)
                        v001 = _to_sum(pool[a + yo[y0] + xo[x1]], unit)
                        v010 = _to_sum(pool[a + yo[y1] + xo[x0]], unit)
                        v011 = _to_sum(pool[a + yo[y1] + xo[x1]], unit)
                        v100 = _to_sum(pool[b + yo[y0] + xo[x0]], unit)
                        v101 = _to_sum(pool[b + yo[y0] + xo[x1]], unit)
                        v110 = _to_sum(pool[b + yo[y1] + xo[x0]], unit)
                        v111 = _to_sum(pool[b + yo[y1] + xo[x1]], unit)
                    else:
                        v000 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz0, cy0, cx0, a + yo[y0] + xo[x0], fill), unit
                        )
                        v001 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz0, cy0, cx1, a + yo[y0] + xo[x1], fill), unit
                        )
                        v010 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz0, cy1, cx0, a + yo[y1] + xo[x0], fill), unit
                        )
                        v011 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz0, cy1, cx1, a + yo[y1] + xo[x1], fill), unit
                        )
                        v100 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz1, cy0, cx0, b + yo[y0] + xo[x0], fill), unit
                        )
                        v101 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz1, cy0, cx1, b + yo[y0] + xo[x1], fill), unit
                        )
                        v110 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz1, cy1, cx0, b + yo[y1] + xo[x0], fill), unit
                        )
                        v111 = _to_sum(
                            _fetch(pool, slots, slot_dims, cz1, cy1, cx1, b + yo[y1] + xo[x1], fill), unit
                        )
                # a neighbour without weight is left out: 0 * inf would be NaN
                if wx > 0:
                    q = unit - wx
                    v000 = q * v000 + wx * v001
                    v010 = q * v010 + wx * v011
                    v100 = q * v100 + wx * v101
                    v110 = q * v110 + wx * v111
                if wy > 0:
                    q = unit - wy
                    v000 = q * v000 + wy * v010
                    v100 = q * v100 + wy * v110
                if wz > 0:
                    v000 = (unit - wz) * v000 + wz * v100
                out[j0, j1, j2] = _to_out(v000, like)
