"""What sampling is made of: coordinates of runs, the cells that samples lie in, and weighing.

Compiled with numba. Runs of samples go through short loops over small arrays, which the compiler
turns into vector instructions; only gathering elements goes one by one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload


def _stamp() -> int:
    """Return a number that changes with the sources that kernels are made of.

    numba looks only at the file of a cached function, not at what it calls. Kernels close over this
    number, which makes it part of their key, so that an update never runs what an older one compiled.
    """
    digest = hashlib.sha256()
    for name in ("_kernel_parts.py", "_kernels.py", "_tile_marks.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return int.from_bytes(digest.digest()[:6], "little")


STAMP = _stamp()
RUN = 128  # samples worked on together: their values stay in the first cache
_MAGIC = 6755399441055744.0  # 1.5 * 2**52: added to a whole number, it leaves that in the low bits
_MAGIC_BITS = np.float64(_MAGIC).view(np.int64)
jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
_part: Any = numba.njit(
    nogil=True, error_model="numpy"
)  # compiled into the kernels, whose key the stamp is in


def to_sum(value: Any, unit: Any) -> Any:
    """Convert a value to the accumulator's type."""


@overload(to_sum, inline="always")
def _to_sum_for(value, unit):  # type: ignore[no-untyped-def]
    if isinstance(value, types.Complex):
        return lambda value, unit: value
    if unit == types.float32:
        return lambda value, unit: np.float32(value)
    return lambda value, unit: np.float64(value)


def type_of(value: Any) -> Any:
    """Element type for an array of such values."""


@overload(type_of, inline="always")
def _type_of_for(value):  # type: ignore[no-untyped-def]
    found = {
        types.float32: np.float32,
        types.float64: np.float64,
        types.complex64: np.complex64,
        types.complex128: np.complex128,
    }[value]
    return lambda value: found


@_part
def whole_parts(t, a, b, half, p, low, least, most, w, g, m):  # type: ignore[no-untyped-def]
    """Fractions and whole parts of the sample coordinates of a run, less ``half``.

    Whole parts count from ``low`` and are kept within [least, most]; ``t`` holds the terms that do
    not change along the run.
    """
    for j in range(m):
        s = ((t + a * p[j]) + b) - half
        whole = np.floor(s)
        w[j] = s - whole
        whole = whole - low
        whole = whole if whole > least else least
        g[j] = whole if whole < most else most


@_part
def clamp(g, w, first, last, m):  # type: ignore[no-untyped-def]
    """At and beyond an edge take the edge's element alone."""
    for j in range(m):
        outside = g[j] < first or g[j] >= last
        w[j] = w[j] * 0 if outside else w[j]
        g[j] = g[j] if g[j] > first else first
        g[j] = g[j] if g[j] < last else last


@_part
def places(gz, gy, gx, sz, sy, sx, at, m):  # type: ignore[no-untyped-def]
    """Where elements lie from the first one, as integers in a float's bits (see `unplaced`)."""
    for j in range(m):
        at[j] = ((gz[j] * sz + gy[j] * sy) + gx[j] * sx) + _MAGIC


@_part
def unplaced(base):  # type: ignore[no-untyped-def]
    """Take back what the bits of `places` have beyond the integer."""
    return base - _MAGIC_BITS


@_part
def slot(slots, slot_low, slot_dims, kz, ky, kx):  # type: ignore[no-untyped-def]
    """Where a chunk begins in the pool: -1 if it is absent, -2 if no sample of the tile needs it."""
    z = kz - slot_low[0]
    y = ky - slot_low[1]
    x = kx - slot_low[2]
    if z < 0 or y < 0 or x < 0 or z >= slot_dims[0] or y >= slot_dims[1] or x >= slot_dims[2]:
        return np.int64(-2)
    return slots[(z * slot_dims[1] + y) * slot_dims[2] + x]


@_part
def pair(index, chunk, n, stride, boundary):  # type: ignore[no-untyped-def]
    """For the neighbours ``index`` and ``index + 1`` along an axis: where both keep their chunks.

    Returns the first and one past the last such index, both chunks, and what their offsets within
    the chunks have beyond ``index * stride``; an empty range where one lies outside. At the last
    index the neighbour has no weight, or is the edge again, so the element itself stands in.
    """
    k = index // chunk
    last = min((k + 1) * chunk, n) - 1
    if index < 0 or index >= n or (boundary == 1 and index == n - 1):
        return np.int64(0), np.int64(0), k, k, np.int64(0), np.int64(0)
    low = -k * chunk * stride
    if index < last:
        return k * chunk, last, k, k, low, low + stride
    if index + 1 < n:
        return index, index + 1, k, k + 1, low, stride - (k + 1) * chunk * stride
    return index, index + 1, k, k, low, low


@_part
def cell(  # type: ignore[no-untyped-def]
    slots, slot_low, slot_dims, z1, z2, y1, y2, x1, x2, dz1, dz2, dy1, dy2, dx1, dx2, extra, found
):
    """Where index 0 would be for each of eight neighbours; False if one of them is absent."""
    z1 -= slot_low[0]
    z2 -= slot_low[0]
    y1 -= slot_low[1]
    y2 -= slot_low[1]
    x1 -= slot_low[2]
    x2 -= slot_low[2]
    # the lower neighbours' chunk is always there; upper ones that nobody weighs may lie outside the box
    zs = z2 < slot_dims[0]
    ys = y2 < slot_dims[1]
    xs = x2 < slot_dims[2]
    z1 *= slot_dims[1] * slot_dims[2]
    z2 *= slot_dims[1] * slot_dims[2]
    y1 *= slot_dims[2]
    y2 *= slot_dims[2]
    lowest = slots[np.uint64(z1 + y1 + x1)]
    s1 = slots[np.uint64(z1 + y1 + x2)] if xs else np.int64(-2)
    s2 = slots[np.uint64(z1 + y2 + x1)] if ys else np.int64(-2)
    s3 = slots[np.uint64(z1 + y2 + x2)] if ys and xs else np.int64(-2)
    s4 = slots[np.uint64(z2 + y1 + x1)] if zs else np.int64(-2)
    s5 = slots[np.uint64(z2 + y1 + x2)] if zs and xs else np.int64(-2)
    s6 = slots[np.uint64(z2 + y2 + x1)] if zs and ys else np.int64(-2)
    s7 = slots[np.uint64(z2 + y2 + x2)] if zs and ys and xs else np.int64(-2)
    if lowest < 0 or s1 == -1 or s2 == -1 or s3 == -1 or s4 == -1 or s5 == -1 or s6 == -1 or s7 == -1:
        return False
    instead = lowest + dz1 + dy1 + dx1 + extra  # nobody weighs it: any element does
    found[0] = instead
    found[1] = s1 + dz1 + dy1 + dx2 + extra if s1 >= 0 else instead
    found[2] = s2 + dz1 + dy2 + dx1 + extra if s2 >= 0 else instead
    found[3] = s3 + dz1 + dy2 + dx2 + extra if s3 >= 0 else instead
    found[4] = s4 + dz2 + dy1 + dx1 + extra if s4 >= 0 else instead
    found[5] = s5 + dz2 + dy1 + dx2 + extra if s5 >= 0 else instead
    found[6] = s6 + dz2 + dy2 + dx1 + extra if s6 >= 0 else instead
    found[7] = s7 + dz2 + dy2 + dx2 + extra if s7 >= 0 else instead
    return True


@_part
def corners(  # type: ignore[no-untyped-def]
    pool, slots, slot_low, slot_dims, strides, extra, index, n, chunk, fill, constant, unit, found
):
    """Values of the eight neighbours one by one: beside absent chunks and the source's edge."""
    for k in range(8):
        z = index[0] + (k >> 2 & 1)
        y = index[1] + (k >> 1 & 1)
        x = index[2] + (k & 1)
        found[k] = constant
        if z < 0 or z >= n[0] or y < 0 or y >= n[1] or x < 0 or x >= n[2]:
            continue
        base = slot(slots, slot_low, slot_dims, z // chunk[0], y // chunk[1], x // chunk[2])
        if base >= 0:
            inner = z % chunk[0] * strides[0] + y % chunk[1] * strides[1] + x % chunk[2] * strides[2]
            found[k] = to_sum(pool[base + extra + inner], unit)
        else:
            found[k] = to_sum(fill, unit)


@_part
def widen(raw, v, unit, m):  # type: ignore[no-untyped-def]
    """Convert elements to sums."""
    for j in range(m):
        v[j] = to_sum(raw[j], unit)


def extremes(values: Any, low: Any, high: Any, m: Any, like: Any) -> Any:
    """Least and greatest of eight floats: rounding must not leave the source's range."""


@overload(extremes)
def _extremes_for(values, low, high, m, like):  # type: ignore[no-untyped-def]
    if not isinstance(like, types.Float):
        return lambda values, low, high, m, like: None

    def find(values, low, high, m, like):  # type: ignore[no-untyped-def]
        for j in range(m):
            low[j] = values[0, j]
            high[j] = values[0, j]
        for k in range(1, 8):
            row = values[k]
            for j in range(m):
                low[j] = row[j] if row[j] < low[j] else low[j]
                high[j] = row[j] if row[j] > high[j] else high[j]

    return find


def mix(a: Any, b: Any, w: Any, unit: Any, m: Any, like: Any) -> Any:
    """``a = (1 - w) * a + w * b``, without ``b`` where it has no weight: 0 * inf would be NaN."""


@overload(mix)
def _mix_for(a, b, w, unit, m, like):  # type: ignore[no-untyped-def]
    if isinstance(like, types.Integer):

        def mix_all(a, b, w, unit, m, like):  # type: ignore[no-untyped-def]
            for j in range(m):
                a[j] = (unit - w[j]) * a[j] + w[j] * b[j]

        return mix_all

    def mix_some(a, b, w, unit, m, like):  # type: ignore[no-untyped-def]
        for j in range(m):
            mixed = (unit - w[j]) * a[j] + w[j] * b[j]
            a[j] = mixed if w[j] > 0 else a[j]

    return mix_some


def write(v: Any, low: Any, high: Any, row: Any, m: Any, like: Any) -> Any:
    """Write sums: floats within what they are made of, small integers rounded half to even."""


@overload(write)
def _write_for(v, low, high, row, m, like):  # type: ignore[no-untyped-def]
    if isinstance(like, types.Integer):
        info = np.iinfo(str(like))
        least, most = np.float32(info.min), np.float32(info.max)

        def write_integers(v, low, high, row, m, like):  # type: ignore[no-untyped-def]
            for j in range(m):
                value = np.rint(v[j])
                value = value if value > least else least
                value = value if value < most else most
                row[j] = np.int32(value)

        return write_integers
    if isinstance(like, types.Float):

        def write_floats(v, low, high, row, m, like):  # type: ignore[no-untyped-def]
            for j in range(m):
                value = v[j] if not v[j] < low[j] else low[j]  # NaN passes both
                row[j] = value if not value > high[j] else high[j]

        return write_floats

    def write_all(v, low, high, row, m, like):  # type: ignore[no-untyped-def]
        for j in range(m):
            row[j] = v[j]

    return write_all
