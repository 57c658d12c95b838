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
    """Convert a sum to the output's type: rounded half to even and clamped for small integers."""


def _limited(value: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """Keep a float within the corners it is made of: rounding must not leave the source's range."""


@overload(_limited, inline="always")
def _limited_for(value, a, b, c, d, e, f, g, h):  # type: ignore[no-untyped-def]
    if not isinstance(value, types.Float):
        return lambda value, a, b, c, d, e, f, g, h: value

    def limit(value, a, b, c, d, e, f, g, h):  # type: ignore[no-untyped-def]
        low = min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))
        high = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))
        if value < low:  # never true for NaN
            return low
        if value > high:
            return high
        return value

    return limit


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
    low, high = info.min, info.max

    def convert(value, like):  # type: ignore[no-untyped-def]
        return min(max(np.int64(np.rint(value)), low), high)

    return convert


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
def _corners(  # type: ignore[no-untyped-def]
    pool, slots, slot_dims, z, y, x, low, high, zc, yc, xc, zo, yo, xo, extra, fill, constant, unit
):
    """Values at the eight corners of a cell that crosses chunks or the source's edge."""
    found = np.full(8, constant)
    for k in range(8):
        a = z[k >> 2 & 1]
        b = y[k >> 1 & 1]
        c = x[k & 1]
        if a < low[0] or a > high[0] or b < low[1] or b > high[1] or c < low[2] or c > high[2]:
            continue
        a -= low[0]
        b -= low[1]
        c -= low[2]
        base = slots[(zc[a] * slot_dims[1] + yc[b]) * slot_dims[2] + xc[c]]
        found[k] = (
            _to_sum(fill, unit) if base < 0 else _to_sum(pool[base + extra + zo[a] + yo[b] + xo[c]], unit)
        )
    return found


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
                if boundary == 2:
                    z0 = min(max(z0, zl), zh)
                    z1 = min(max(z1, zl), zh)
                    y0 = min(max(y0, yl), yh)
                    y1 = min(max(y1, yl), yh)
                    x0 = min(max(x0, xl), xh)
                    x1 = min(max(x1, xl), xh)
                inside = boundary != 1 or (
                    z0 >= zl and z1 <= zh and y0 >= yl and y1 <= yh and x0 >= xl and x1 <= xh
                )
                base = np.int64(-1)
                if inside:
                    cz = zc[z0 - zl]
                    cy = yc[y0 - yl]
                    cx = xc[x0 - xl]
                    if cz == zc[z1 - zl] and cy == yc[y1 - yl] and cx == xc[x1 - xl]:
                        base = slots[(cz * slot_dims[1] + cy) * slot_dims[2] + cx]
                if base >= 0:
                    a = base + zo[z0 - zl] + extra
                    b = base + zo[z1 - zl] + extra
                    c = yo[y0 - yl]
                    d = yo[y1 - yl]
                    e = xo[x0 - xl]
                    f = xo[x1 - xl]
                    v000 = _to_sum(pool[a + c + e], unit)
                    v001 = _to_sum(pool[a + c + f], unit)
                    v010 = _to_sum(pool[a + d + e], unit)
                    v011 = _to_sum(pool[a + d + f], unit)
                    v100 = _to_sum(pool[b + c + e], unit)
                    v101 = _to_sum(pool[b + c + f], unit)
                    v110 = _to_sum(pool[b + d + e], unit)
                    v111 = _to_sum(pool[b + d + f], unit)
                else:
                    found = _corners(
                        pool, slots, slot_dims, (z0, z1), (y0, y1), (x0, x1), (zl, yl, xl), (zh, yh, xh),
                        zc, yc, xc, zo, yo, xo, extra, fill, constant, unit,
                    )  # fmt: skip
                    v000 = found[0]
                    v001 = found[1]
                    v010 = found[2]
                    v011 = found[3]
                    v100 = found[4]
                    v101 = found[5]
                    v110 = found[6]
                    v111 = found[7]
                # a neighbour without weight is left out: 0 * inf would be NaN
                s00 = v000
                s01 = v010
                s10 = v100
                s11 = v110
                if wx > 0:
                    q = unit - wx
                    s00 = q * v000 + wx * v001
                    s01 = q * v010 + wx * v011
                    s10 = q * v100 + wx * v101
                    s11 = q * v110 + wx * v111
                if wy > 0:
                    q = unit - wy
                    s00 = q * s00 + wy * s01
                    s10 = q * s10 + wy * s11
                if wz > 0:
                    s00 = (unit - wz) * s00 + wz * s10
                out[j0, j1, j2] = _to_out(_limited(s00, v000, v001, v010, v011, v100, v101, v110, v111), like)
