"""Sampling one tile from decoded chunks. Compiled with numba; imported only where something is resampled.

Every executor computes ``s = ((a0*(j0+0.5) + a1*(j1+0.5)) + a2*(j2+0.5)) + b`` in float64, in this
order, without stepping and without fused operations (``fastmath`` stays off), so nearest agrees bit
for bit. Linear weights and sums have the accumulator's type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from napari_decant.engine._kernel_parts import (
    RUN,
    STAMP,
    cell,
    clamp,
    corners,
    extremes,
    jit,
    mix,
    pair,
    places,
    slot,
    type_of,
    unplaced,
    whole_parts,
    widen,
    write,
)
from napari_decant.engine._tile_marks import touched_range

__all__ = ["sample_linear", "sample_nearest"]


def _compile_nearest(stamp: int) -> Any:
    """Return the kernel for nearest; the stamp is part of its key in numba's cache."""

    @jit
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
        if stamp < 0:
            return
        sz, sy, sx = strides
        count = np.array(out.shape, np.int64)
        zl, zh, _ = touched_range(linear, offset, 0, first, count, False, boundary, n[0])
        yl, yh, _ = touched_range(linear, offset, 1, first, count, False, boundary, n[1])
        xl, xh, _ = touched_range(linear, offset, 2, first, count, False, boundary, n[2])
        beyond = 0.0 if boundary == 2 else 1.0  # what lies outside is the edge, or told from it
        a0, a1, a2 = linear[0, 2], linear[1, 2], linear[2, 2]
        p = np.empty(RUN, np.float64)
        w = np.empty(RUN, np.float64)
        gz = np.empty(RUN, np.float64)
        gy = np.empty(RUN, np.float64)
        gx = np.empty(RUN, np.float64)
        place = np.empty(RUN, np.float64)
        at = place.view(np.int64)
        # the chunk that the last sample lay in, as a box of whole parts
        z0 = z1 = y0 = y1 = x0 = x1 = 0.0
        base = np.int64(0)
        absent = False
        for begin in range(0, out.shape[2], RUN):
            m = min(RUN, out.shape[2] - begin)
            for j2 in range(m):
                p[j2] = np.float64(first[2] + begin + j2) + 0.5
            for j0 in range(out.shape[0]):
                p0 = np.float64(first[0] + j0) + 0.5
                for j1 in range(out.shape[1]):
                    p1 = np.float64(first[1] + j1) + 0.5
                    t = linear[0, 0] * p0 + linear[0, 1] * p1
                    whole_parts(t, a0, offset[0], 0.0, p, np.float64(zl), -beyond, zh - zl + beyond, w, gz, m)
                    t = linear[1, 0] * p0 + linear[1, 1] * p1
                    whole_parts(t, a1, offset[1], 0.0, p, np.float64(yl), -beyond, yh - yl + beyond, w, gy, m)
                    t = linear[2, 0] * p0 + linear[2, 1] * p1
                    whole_parts(t, a2, offset[2], 0.0, p, np.float64(xl), -beyond, xh - xl + beyond, w, gx, m)
                    places(gz, gy, gx, np.float64(sz), np.float64(sy), np.float64(sx), place, m)
                    row = out[j0, j1, begin:]
                    for j in range(m):
                        if (
                            gz[j] < z0
                            or gz[j] >= z1
                            or gy[j] < y0
                            or gy[j] >= y1
                            or gx[j] < x0
                            or gx[j] >= x1
                        ):
                            z = np.int64(gz[j]) + zl
                            y = np.int64(gy[j]) + yl
                            x = np.int64(gx[j]) + xl
                            if z < 0 or z >= n[0] or y < 0 or y >= n[1] or x < 0 or x >= n[2]:
                                row[j] = constant
                                continue
                            kz = z // chunk[0]
                            ky = y // chunk[1]
                            kx = x // chunk[2]
                            z0 = np.float64(kz * chunk[0] - zl)
                            y0 = np.float64(ky * chunk[1] - yl)
                            x0 = np.float64(kx * chunk[2] - xl)
                            z1 = np.float64(min((kz + 1) * chunk[0], n[0]) - zl)
                            y1 = np.float64(min((ky + 1) * chunk[1], n[1]) - yl)
                            x1 = np.float64(min((kx + 1) * chunk[2], n[2]) - xl)
                            base = slot(slots, slot_low, slot_dims, kz, ky, kx)
                            absent = base < 0
                            base += extra + (zl - kz * chunk[0]) * sz
                            base = unplaced(base + (yl - ky * chunk[1]) * sy + (xl - kx * chunk[2]) * sx)
                        if absent:
                            row[j] = fill
                        else:
                            row[j] = pool[np.uint64(at[j] + base)]

    return sample_nearest


def _compile_linear(stamp: int) -> Any:
    """Return the kernel for linear; the stamp is part of its key in numba's cache."""

    @jit
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
            Where each chunk of the tile's box begins in ``pool``: -1 for one that is absent and reads as
            fill, -2 for one that no sample needs.
        slot_low, slot_dims : int64 arrays, shape (3,)
            First chunk and extent of that box.
        strides : int64 array, shape (3,); extra : int
            Elements between neighbours within a chunk, and the constant part of the axes not sampled.
        linear, offset, first, n, chunk
            Map, first grid point of the tile, extents of source and chunks along the sampled axes.
        boundary : int
            0 error, 1 constant, 2 clamp.
        fill, constant
            Values of absent chunks, in the pool's type, and of elements outside, as a sum.
        unit : float32 or float64
            One, in the type of weights.
        out : array, shape (tile)
            In the pool's type.
        """
        if stamp < 0:
            return
        sz, sy, sx = strides
        like = pool[0]
        count = np.array(out.shape, np.int64)
        zl, zh, _ = touched_range(linear, offset, 0, first, count, True, boundary, n[0])
        yl, yh, _ = touched_range(linear, offset, 1, first, count, True, boundary, n[1])
        xl, xh, _ = touched_range(linear, offset, 2, first, count, True, boundary, n[2])
        a0, a1, a2 = linear[0, 2], linear[1, 2], linear[2, 2]
        # views are made once: each costs as much as some samples
        p = np.empty(RUN, np.float64)
        gz = np.empty(RUN, np.float64)
        gy = np.empty(RUN, np.float64)
        gx = np.empty(RUN, np.float64)
        place = np.empty(RUN, np.float64)
        at = place.view(np.int64)
        wz = np.empty(RUN, type_of(unit))
        wy = np.empty(RUN, type_of(unit))
        wx = np.empty(RUN, type_of(unit))
        raw = np.empty((8, RUN), pool.dtype)  # elements are gathered as they are and widened together
        values = np.empty((8, RUN), type_of(constant))
        flat_raw = raw.reshape(8 * RUN)
        flat_values = values.reshape(8 * RUN)
        v0, v1, v2, v3 = values[0], values[1], values[2], values[3]
        v4, v5, v6, v7 = values[4], values[5], values[6], values[7]
        edges = np.empty((RUN, 8), type_of(constant))
        edge = np.empty(RUN, np.int64)
        low = np.empty(RUN, type_of(constant))
        high = np.empty(RUN, type_of(constant))
        found = np.empty(8, np.int64)
        raw[:] = like
        more = unplaced(extra + zl * sz + yl * sy + xl * sx)
        # the cell that the last sample lay in: while whole parts stay in a box, neighbours keep their chunks
        z0 = z1 = y0 = y1 = x0 = x1 = 0.0
        b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = np.int64(0)
        for begin in range(0, out.shape[2], RUN):
            m = min(RUN, out.shape[2] - begin)
            for j2 in range(m):
                p[j2] = np.float64(first[2] + begin + j2) + 0.5
            for j0 in range(out.shape[0]):
                p0 = np.float64(first[0] + j0) + 0.5
                for j1 in range(out.shape[1]):
                    p1 = np.float64(first[1] + j1) + 0.5
                    t = linear[0, 0] * p0 + linear[0, 1] * p1
                    whole_parts(t, a0, offset[0], 0.5, p, np.float64(zl), -2.0, zh - zl + 1.0, wz, gz, m)
                    t = linear[1, 0] * p0 + linear[1, 1] * p1
                    whole_parts(t, a1, offset[1], 0.5, p, np.float64(yl), -2.0, yh - yl + 1.0, wy, gy, m)
                    t = linear[2, 0] * p0 + linear[2, 1] * p1
                    whole_parts(t, a2, offset[2], 0.5, p, np.float64(xl), -2.0, xh - xl + 1.0, wx, gx, m)
                    if boundary == 2:
                        clamp(gz, wz, np.float64(-zl), np.float64(n[0] - 1 - zl), m)
                        clamp(gy, wy, np.float64(-yl), np.float64(n[1] - 1 - yl), m)
                        clamp(gx, wx, np.float64(-xl), np.float64(n[2] - 1 - xl), m)
                    places(gz, gy, gx, np.float64(sz), np.float64(sy), np.float64(sx), place, m)
                    singles = 0
                    for j in range(m):
                        if (
                            gz[j] < z0
                            or gz[j] >= z1
                            or gy[j] < y0
                            or gy[j] >= y1
                            or gx[j] < x0
                            or gx[j] >= x1
                        ):
                            z = np.int64(gz[j]) + zl
                            y = np.int64(gy[j]) + yl
                            x = np.int64(gx[j]) + xl
                            cz, lz, kz0, kz1, dz0, dz1 = pair(z, chunk[0], n[0], sz, boundary)
                            cy, ly, ky0, ky1, dy0, dy1 = pair(y, chunk[1], n[1], sy, boundary)
                            cx, lx, kx0, kx1, dx0, dx1 = pair(x, chunk[2], n[2], sx, boundary)
                            z0, z1 = np.float64(cz - zl), np.float64(lz - zl)
                            y0, y1 = np.float64(cy - yl), np.float64(ly - yl)
                            x0, x1 = np.float64(cx - xl), np.float64(lx - xl)
                            if (
                                z0 >= z1
                                or y0 >= y1
                                or x0 >= x1
                                or not cell(
                                    slots, slot_low, slot_dims, kz0, kz1, ky0, ky1, kx0, kx1,
                                    dz0, dz1, dy0, dy1, dx0, dx1, more, found,
                                )
                            ):  # fmt: skip
                                z1 = z0  # the next sample looks again
                                corners(
                                    pool, slots, slot_low, slot_dims, strides, extra, (z, y, x), n, chunk,
                                    fill, constant, unit, edges[singles],
                                )  # fmt: skip
                                edge[singles] = j
                                singles += 1
                                continue
                            b0, b1, b2, b3 = found[0], found[1], found[2], found[3]
                            b4, b5, b6, b7 = found[4], found[5], found[6], found[7]
                        a = at[j]
                        raw[0, j] = pool[np.uint64(a + b0)]
                        raw[1, j] = pool[np.uint64(a + b1)]
                        raw[2, j] = pool[np.uint64(a + b2)]
                        raw[3, j] = pool[np.uint64(a + b3)]
                        raw[4, j] = pool[np.uint64(a + b4)]
                        raw[5, j] = pool[np.uint64(a + b5)]
                        raw[6, j] = pool[np.uint64(a + b6)]
                        raw[7, j] = pool[np.uint64(a + b7)]
                    widen(flat_raw, flat_values, unit, 8 * RUN)
                    for i in range(singles):
                        for k in range(8):
                            values[k, edge[i]] = edges[i, k]
                    extremes(values, low, high, m, like)
                    mix(v0, v1, wx, unit, m, like)
                    mix(v2, v3, wx, unit, m, like)
                    mix(v4, v5, wx, unit, m, like)
                    mix(v6, v7, wx, unit, m, like)
                    mix(v0, v2, wy, unit, m, like)
                    mix(v4, v6, wy, unit, m, like)
                    mix(v0, v4, wz, unit, m, like)
                    write(v0, low, high, out[j0, j1, begin:], m, like)

    return sample_linear


sample_nearest = _compile_nearest(STAMP)
sample_linear = _compile_linear(STAMP)
