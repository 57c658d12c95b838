"""Blocks of a level compared with what lies under them: their mean, their maximum, or something else."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine import ZarrArray
from napari_decant.standard._facts import ImageFacts, LevelFacts

__all__ = ["Method", "Sample", "compare_levels"]

Method = Literal["mean", "max", "decimated", "constant", "other"]

BLOCK = (16, 32, 32)
"""Voxels of the coarse level in one sample, along z, y, x at most."""
SAMPLES, TRIES = 3, 8
LONGEST = 256
"""Voxels of the fine level under one sample along an axis, at most."""
LARGEST_CHUNK = 256 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """What one pair of levels turned out to be.

    Attributes
    ----------
    path : str
        Of the coarse level.
    methods : frozenset of str
        Every method that explains all the blocks; empty if none does, ``{"constant"}`` if each block has
        one value.
    worst : float
        Largest difference from the mean.
    where : str
        A block that no mean explains.
    blocks : int
        How many were compared.
    reason : str
        Why nothing was compared.
    """

    path: str
    methods: frozenset[str] = frozenset()
    worst: float = 0.0
    where: str = ""
    blocks: int = 0
    reason: str = ""


def compare_levels(facts: ImageFacts) -> Iterator[Sample]:
    """Compare each level with the one before it, and with level 0 where that does not explain it.

    Raises
    ------
    DecantError
        A chunk cannot be read.
    """
    levels = facts.ordered
    for fine, coarse in itertools.pairwise(levels):
        sample = _compare(facts, fine, coarse)
        if fine is not levels[0] and not sample.methods and not sample.reason:
            direct = _compare(facts, levels[0], coarse)
            sample = direct if direct.methods else sample
        yield sample


def _factors(fine: LevelFacts, coarse: LevelFacts, space: list[int]) -> tuple[int, ...] | None:
    factors = []
    for i, (n, m) in enumerate(zip(fine.shape, coarse.shape, strict=True)):
        if i not in space:
            if n != m:
                return None
            factors.append(1)
            continue
        factor = max(1, round(n / m)) if m else 1
        if m not in (n // factor, -(-n // factor)):
            return None
        factors.append(factor)
    return tuple(factors)


def _compare(facts: ImageFacts, fine: LevelFacts, coarse: LevelFacts) -> Sample:
    space = facts.spatial(len(fine.shape))
    factors = _factors(fine, coarse, space)
    if factors is None:
        return Sample(coarse.path, reason=f"{coarse.path} is no whole fraction of {fine.path}")
    if math.prod(factors) == 1:
        return Sample(coarse.path, reason=f"{coarse.path} has the size of {fine.path}")
    if max(factors) > LONGEST:
        return Sample(coarse.path, reason=f"{coarse.path} is too much smaller than {fine.path} to sample")
    for level in (fine, coarse):
        if level.meta is not None and level.meta.chunk_nbytes > LARGEST_CHUNK:
            return Sample(coarse.path, reason=f"chunks of {level.path} are too large to sample")
    if not all(coarse.shape):
        return Sample(coarse.path, reason=f"{coarse.path} is empty")
    arrays = facts.arrays[fine.path], facts.arrays[coarse.path]
    return _sample(arrays, coarse.path, factors, space)


def _sample(
    arrays: tuple[ZarrArray, ZarrArray], path: str, factors: tuple[int, ...], space: list[int]
) -> Sample:
    explained: set[str] = {"mean", "max", "decimated"}
    worst, where, blocks, varied = 0.0, "", 0, 0
    random = np.random.default_rng(zlib.crc32(path.encode()))
    for _ in range(TRIES):
        box = _place(random, arrays, factors, space)
        coarse = arrays[1].read(box)
        under = tuple(slice(s.start * f, s.stop * f) for s, f in zip(box, factors, strict=True))
        fine = arrays[0].read(under)
        blocks += 1
        if fine.size == 0 or ((fine == fine.flat[0]).all() and (coarse == fine.flat[0]).all()):
            continue
        methods, off = _explain(fine, coarse, factors)
        if not methods and (_lacks(arrays[0], under) or _lacks(arrays[1], box)):
            continue  # fill values stand for what is absent, which B2 says
        varied += 1
        explained &= methods
        if off > worst:
            worst, where = off, f"from {[s.start for s in box]}"
        if varied >= SAMPLES or not explained:
            break
    if not varied:
        explained = {"constant"}
    return Sample(path, frozenset(explained), worst, where, blocks)


def _lacks(array: ZarrArray, box: tuple[slice, ...]) -> bool:
    """Whether a chunk that a block touches is not stored."""
    ranges = [
        range(s.start // c, -(-min(s.stop, n) // c))
        for s, c, n in zip(box, array.meta.chunk_shape, array.shape, strict=True)
    ]
    return any(array.chunk_extent(index) is None for index in itertools.product(*ranges))


def _place(
    random: np.random.Generator,
    arrays: tuple[ZarrArray, ZarrArray],
    factors: tuple[int, ...],
    space: list[int],
) -> tuple[slice, ...]:
    """A random block of the coarse level that has all its voxels in the fine one."""
    box = []
    for i, (n, m, f) in enumerate(zip(arrays[0].shape, arrays[1].shape, factors, strict=True)):
        full = max(1, min(m, n // f))
        length = min(full, LONGEST // f, dict(zip(space[::-1], BLOCK[::-1], strict=False)).get(i, 1))
        start = int(random.integers(0, full - length + 1))
        box.append(slice(start, start + length))
    return tuple(box)


def _explain(fine: NDArray[Any], coarse: NDArray[Any], factors: tuple[int, ...]) -> tuple[set[str], float]:
    """Which methods make ``coarse`` of ``fine``, and how far it is from the mean."""
    trimmed = tuple(slice(0, c * f) for c, f in zip(coarse.shape, factors, strict=True))
    fine = fine[trimmed]
    if any(n < c * f for n, c, f in zip(fine.shape, coarse.shape, factors, strict=True)):
        # an axis of one voxel under a factor of two: nothing to average along it
        factors = tuple(
            f if n >= c * f else 1 for n, c, f in zip(fine.shape, coarse.shape, factors, strict=True)
        )
    split: list[int] = []
    for c, f in zip(coarse.shape, factors, strict=True):
        split += [c, f]
    inner = tuple(range(1, 2 * coarse.ndim, 2))
    blocks = fine.reshape(split)
    with np.errstate(all="ignore"):  # NaN and infinite voxels
        return _matches(blocks, fine, coarse, factors, inner)


def _matches(
    blocks: NDArray[Any],
    fine: NDArray[Any],
    coarse: NDArray[Any],
    factors: tuple[int, ...],
    inner: tuple[int, ...],
) -> tuple[set[str], float]:
    if fine.dtype.kind == "c":
        mean: NDArray[Any] = blocks.mean(axis=inner, dtype=np.complex128)
        off = float(np.abs(mean - coarse).max())
        bound = 1e-5 * max(1e-30, float(np.abs(fine).max()))
        return ({"mean"} if off <= bound else set()), off
    mean = blocks.mean(axis=inner, dtype=np.float64)
    gap = np.abs(mean - coarse.astype(np.float64))
    off = float(np.nanmax(gap)) if not np.isnan(gap).all() else 0.0
    top = float(np.nanmax(np.abs(fine.astype(np.float64)), initial=0.0))
    # Any rounding of one step, and of a second step where levels were made of rounded ones.
    exact = fine.dtype.kind in "iub"
    bound = 1.0 if exact else max(1e-5, 2 * float(np.finfo(fine.dtype).eps)) * top
    if fine.dtype.kind in "iu" and fine.dtype.itemsize == 8:
        bound += top * 2**-50
    methods = {"mean"} if off <= bound else set()
    if np.array_equal(blocks.max(axis=inner), coarse, equal_nan=fine.dtype.kind == "f"):
        methods.add("max")
    picked = [fine[tuple(slice(o if f > 1 else 0, None, f) for f in factors)] for o in (0, 1)]
    if any(np.array_equal(p, coarse, equal_nan=fine.dtype.kind == "f") for p in picked):
        methods.add("decimated")
    return methods, off
