"""Scale and translation of levels, and their place in the reference level's index space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from napari_decant.ngff._findings import Findings, finite, number

__all__ = ["IDENTITY", "ScaleTranslation", "compose", "parse_transforms", "reference_map", "snap"]

EPSILON = 2.0**-52

ScaleTranslation = tuple[tuple[float, ...], tuple[float, ...]]
"""Per axis: factor, and offset applied after it, in physical units."""

IDENTITY: ScaleTranslation = ((), ())


def identity(rank: int) -> ScaleTranslation:
    """Scale 1 and translation 0 on every axis."""
    return (1.0,) * rank, (0.0,) * rank


def compose(outer: ScaleTranslation, inner: ScaleTranslation) -> ScaleTranslation:
    """``outer(inner(i))`` of two scale-translations of equal rank."""
    scale = tuple(a * b for a, b in zip(outer[0], inner[0], strict=True))
    shift = tuple(a * b + c for a, b, c in zip(outer[0], inner[1], outer[1], strict=True))
    return scale, shift


def _vector(value: Any, rank: int) -> list[Any] | None:
    if isinstance(value, list) and len(value) == rank and all(number(v) is not None for v in value):
        return value
    return None


def _one(item: Any, rank: int, where: str, findings: Findings) -> tuple[str, ScaleTranslation]:
    """One entry of ``coordinateTransformations`` as its kind and what it does."""
    unchanged = identity(rank)
    kind = findings.get(item, "type", where) if isinstance(item, dict) else None
    if kind not in ("scale", "translation"):
        if kind != "identity":
            findings.tolerate(
                f"{where} has a transformation of type {str(kind)[:40]!r}, which is not applied"
            )
        return "identity", unchanged
    if "path" in item and kind not in item:
        findings.tolerate(f"{where} keeps its {kind} in another array, which is not read")
        return "identity", unchanged
    values = _vector(findings.get(item, kind, where), rank)
    if values is None:
        findings.tolerate(f"the {kind} of {where} is no list of {rank} numbers and is not applied")
        return "identity", unchanged
    if kind == "translation":
        shift = [finite(v) for v in values]
        if None in shift:
            findings.tolerate(f"the translation of {where} is not finite; 0 is taken instead")
        return kind, (unchanged[0], tuple(v if v is not None else 0.0 for v in shift))
    factors = []
    for v in values:
        factor = finite(v)
        if factor is None or factor <= 0:
            findings.tolerate(f"the scale of {where} has {v}; 1 is taken instead")
            factor = 1.0
        factors.append(factor)
    return kind, (tuple(factors), unchanged[1])


def parse_transforms(value: Any, rank: int, where: str, findings: Findings) -> ScaleTranslation | None:
    """Compose ``coordinateTransformations`` in their order; None where there are none.

    Scales that are 0, negative or not finite read as 1. Anything but one scale with an optional
    translation after it is noted as not strict.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        findings.tolerate(f"coordinateTransformations of {where} are no list and are ignored")
        return None
    total, kinds = identity(rank), []
    for item in value[:64]:
        kind, step = _one(item, rank, where, findings)
        kinds.append(kind)
        total = compose(step, total)
    if kinds not in (["scale"], ["scale", "translation"]):
        findings.refuse(
            f"{where} has the transformations {kinds}; one scale, then at most one translation, belong there"
        )
    if not all(math.isfinite(v) and v > 0 for v in total[0]) or not all(map(math.isfinite, total[1])):
        findings.tolerate(f"the transformations of {where} overflow and are ignored")
        return None
    return total


def snap(value: float, tolerance: float) -> float:
    """Nearest multiple of 1/256 if it is within ``tolerance``, else the value itself."""
    nearest = round(value * 256) / 256 if math.isfinite(value * 256) else value
    return nearest if abs(value - nearest) <= tolerance else value


def reference_map(
    level: ScaleTranslation, reference: ScaleTranslation
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Map corner coordinates of a level to corner coordinates of level 0.

    ``R = S / S0`` and ``origin = (T - T0) / S0 + (1 - R) / 2``, each moved to the nearest multiple of
    1/256 where it misses it by a rounding error only (spatial queries, "NGFF interpretation").

    Returns
    -------
    scale_to_reference, origin_reference_index : tuple of float
        ``reference_corner = scale_to_reference * level_corner + origin_reference_index``.
    """
    if level == reference:
        return identity(len(level[0]))
    ratios, origins = [], []
    for s, t, s0, t0 in zip(*level, *reference, strict=True):
        ratio = snap(s / s0, 64 * EPSILON * (s / s0))
        origin = (t - t0) / s0 + (1 - ratio) / 2
        ratios.append(ratio)
        origins.append(snap(origin, 64 * EPSILON * ((abs(t) + abs(t0)) / s0 + ratio)))
    return tuple(ratios), tuple(origins)


def shape_ratio(shape: Sequence[int], reference: Sequence[int]) -> ScaleTranslation:
    """What a level's size alone says, for versions that keep no transformations."""
    scale = tuple(r / n if n and r else 1.0 for n, r in zip(shape, reference, strict=True))
    return scale, (0.0,) * len(scale)
