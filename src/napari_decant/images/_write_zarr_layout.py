"""Chunks, shards and levels by the array standard, for any extents; see ``spec/array-standard.md``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from napari_decant.images._pyramid import halved_shape, level_factors, level_scales

__all__ = ["AXES", "SPATIAL", "ArrayLayout", "LevelLayout", "choose_chunk", "choose_shard", "plan_levels"]

AXES: Final = ("t", "c", "z", "y", "x")
SPATIAL: Final = (False, False, True, True, True)
EDGE: Final = 128
LEAST_CHUNK: Final = 512 << 10  # voxels, as if each were one byte
LEAST_SHARD: Final = 1 << 30
MOST_SHARD: Final = 5 * 10**9
LONGEST: Final = 2048
TIMES: Final = 16
MOST_CHUNKS: Final = 1 << 20  # in one shard, whose index stays in memory while it is written

T, C, Z, Y, X = range(5)


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """One level: t, c, z, y, x everywhere.

    Attributes
    ----------
    shape, chunk, shard : tuple of int
    scale, translation : tuple of float
        Position of voxel centres in physical units.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    shard: tuple[int, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]

    @property
    def chunk_grid(self) -> tuple[int, ...]:
        """Chunks along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk, strict=True))

    @property
    def shard_grid(self) -> tuple[int, ...]:
        """Shards along each axis."""
        return tuple(-(-n // s) for n, s in zip(self.shape, self.shard, strict=True))

    @property
    def chunks_per_shard(self) -> tuple[int, ...]:
        """Chunks of one shard along each axis."""
        return tuple(s // c for s, c in zip(self.shard, self.chunk, strict=True))


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """All levels of an image.

    Attributes
    ----------
    levels : tuple of LevelLayout
    factors : tuple of tuple of int
        From each level to the next.
    itemsize : int
        Bytes of one voxel.
    """

    levels: tuple[LevelLayout, ...]
    factors: tuple[tuple[int, ...], ...]
    itemsize: int


def choose_chunk(shape: Sequence[int]) -> tuple[int, ...]:
    """The chunk of level 0.

    128 along z, y and x and 1 along t and c. Where that is less than 512 KiB (a voxel counts as a byte), t
    grows by powers of two as far as there are time points; where they do not suffice it stays at 1 and y and
    x grow, then z, then c, then t after all. An image that is smaller has one chunk.

    Parameters
    ----------
    shape : sequence of int
        t, c, z, y, x.
    """
    if math.prod(shape) < LEAST_CHUNK:
        return tuple(shape)
    chunk = [1, 1, *(min(EDGE, n) for n in shape[Z:])]
    spatial = math.prod(chunk)
    if spatial >= LEAST_CHUNK:
        return tuple(chunk)
    times = 1 << (-(-LEAST_CHUNK // spatial) - 1).bit_length()
    if times <= shape[T]:
        chunk[T] = times
        return tuple(chunk)
    for axes in ((Y, X), (Z,), (C,), (T,)):
        while math.prod(chunk) < LEAST_CHUNK and any(chunk[a] < shape[a] for a in axes):
            for a in axes:
                chunk[a] = min(2 * chunk[a], shape[a])
    return tuple(chunk)


def _multiple(extent: int, chunk: int) -> int:
    return -(-extent // chunk) * chunk


def _clipped(shard: Sequence[int], shape: Sequence[int], itemsize: int) -> int:
    return math.prod(min(s, n) for s, n in zip(shard, shape, strict=True)) * itemsize


def choose_shard(
    shape: Sequence[int], chunk: Sequence[int], itemsize: int, within: Sequence[int] | None = None
) -> tuple[int, ...]:
    """The shard of a level: 1 GiB at least where the array has it, below 5 GB where chunks allow it.

    First whole in space, 2048 at most, and 16 time points. If that is 5 GB or more, time points are given up
    where one volume fits, else space is divided along z, then y, then x. If it is less than 1 GiB, t grows,
    then c, and space beyond 2048 only where nothing else is left.

    Parameters
    ----------
    shape, chunk : sequence of int
        t, c, z, y, x.
    itemsize : int
        Bytes of a voxel.
    within : sequence of int, optional
        The shard of the level before. This one then covers whole ones of that level, so that a job which
        has all of this shard has all of those.
    """
    space = [_multiple(min(shape[a], max(LONGEST, chunk[a])), chunk[a]) for a in (Z, Y, X)]
    if within is not None:
        space = [_multiple(min(shape[a], within[a]), chunk[a]) for a in (Z, Y, X)]
    times = _multiple(min(TIMES, shape[T]), chunk[T])
    shard = [times, chunk[C], *space]
    if within is not None:
        shard[T] = _multiple(max(shard[T], within[T]), within[T])
        shard[C] = max(shard[C], within[C])
        while _clipped(shard, shape, itemsize) >= MOST_SHARD and shard[T] > within[T]:
            shard[T] = _multiple(shard[T] // 2, within[T])
    elif _clipped(shard, shape, itemsize) >= MOST_SHARD:
        _shrink(shard, shape, chunk, itemsize)
    _grow(shard, shape, chunk, itemsize)
    return tuple(shard)


def _shrink(shard: list[int], shape: Sequence[int], chunk: Sequence[int], itemsize: int) -> None:
    def too_large() -> bool:
        return _clipped(shard, shape, itemsize) >= MOST_SHARD

    volume = [chunk[T], *shard[1:]]
    if all(shard[a] >= shape[a] for a in (Z, Y, X)) and _clipped(volume, shape, itemsize) < MOST_SHARD:
        while too_large():
            shard[T] = _multiple(shard[T] // 2, chunk[T])
        return
    for axis in (Z, Y, X):
        if too_large() and shard[axis] > chunk[axis]:
            extent = min(shard[axis], shape[axis])
            rest = _clipped(shard, shape, itemsize) // extent
            most = max(1, (MOST_SHARD - 1) // (rest * chunk[axis])) * chunk[axis]
            parts = -(-extent // most)
            shard[axis] = min(most, _multiple(-(-extent // parts), chunk[axis]))
    while too_large() and shard[T] > chunk[T]:
        shard[T] = _multiple(shard[T] // 2, chunk[T])


def _grow(shard: list[int], shape: Sequence[int], chunk: Sequence[int], itemsize: int) -> None:
    """Take in more until 1 GiB is reached, by whole multiples of what the shard has."""

    def full() -> bool:
        per = math.prod(s // c for s, c in zip(shard, chunk, strict=True))
        enough = _clipped(shard, shape, itemsize) >= LEAST_SHARD
        return enough or (per >= MOST_CHUNKS and math.prod(shape) * itemsize < LEAST_SHARD)

    for axis in (T, C):
        first = shard[axis]
        while not full() and shard[axis] < shape[axis]:
            shard[axis] = min(2 * shard[axis], _multiple(shape[axis], first))
    while not full() and (open_axes := [a for a in (X, Y, Z) if shard[a] < shape[a]]):
        axis = min(open_axes, key=lambda a: shard[a])
        shard[axis] = min(2 * shard[axis], _multiple(shape[axis], chunk[axis]))


def plan_levels(
    shape: Sequence[int],
    itemsize: int,
    *,
    scale: Sequence[float] = (1.0,) * 5,
    translation: Sequence[float] = (0.0,) * 5,
    levels: int | None = None,
) -> ArrayLayout:
    """Lay out every level of an image.

    Parameters
    ----------
    shape : sequence of int
        t, c, z, y, x of level 0.
    itemsize : int
        Bytes of a voxel.
    scale, translation : sequence of float
        Of level 0.
    levels : int, optional
        How many; see `level_factors`.
    """
    factors = level_factors(shape, SPATIAL, levels)
    transforms = level_scales(scale, translation, factors)
    current = tuple(shape)
    base = choose_chunk(current)
    found: list[LevelLayout] = []
    for number, (s, t) in enumerate(transforms):
        chunk = tuple(min(c, n) for c, n in zip(base, current, strict=True))
        shard = choose_shard(current, chunk, itemsize, found[-1].shard if found else None)
        found.append(LevelLayout(current, chunk, shard, s, t))
        if number < len(factors):
            current = halved_shape(current, factors[number])
    return ArrayLayout(tuple(found), tuple(factors), itemsize)
