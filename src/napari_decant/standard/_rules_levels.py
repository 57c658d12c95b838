"""Rules about levels, axes and data types."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from napari_decant.standard._facts import ImageFacts, LevelFacts
from napari_decant.standard._rule import Outcome, RuleBook, one

__all__ = ["book"]

book = RuleBook("Multiresolution")
NO_ARRAY = "level 0 is no valid array"
NO_METADATA = "there are no OME metadata, which would say so"


def _axis(facts: ImageFacts, i: int) -> str:
    return facts.names[i] if i < len(facts.names) else f"axis {i}"


@book(
    "M1",
    "MUST",
    "An image has at least three spatial scales.",
    test="len(levels) >= 3",
    fix="Build the missing levels by halving the spatial axes; export does.",
    standards=("dca-0.1",),
)
def three_scales(facts: ImageFacts) -> Iterator[Outcome]:
    """M1."""
    if facts.kind == "array":
        yield Outcome(None, "", path=facts.path, because=NO_METADATA)
        return
    count = len(facts.levels)
    yield Outcome(count >= 3, f"{count} level{'s' * (count != 1)}", "at least 3 levels", facts.path)


@book(
    "M2",
    "MUST",
    "An image has a level whose spatial sizes are all 2048 at most.",
    test="any(max(spatial shape) <= 2048 for each level)",
    fix="Build more levels by halving the spatial axes; export does.",
    standards=("dca-0.2",),
)
def small_level(facts: ImageFacts) -> Iterator[Outcome]:
    """M2."""
    if not facts.ordered:
        yield Outcome(None, "", path=facts.path, because=NO_ARRAY)
        return
    last = facts.ordered[-1]
    sizes = [last.shape[i] for i in facts.spatial(len(last.shape))]
    yield Outcome(max(sizes, default=0) <= 2048, f"the smallest level has {sizes}", "2048 at most", last.path)


@book(
    "M6",
    "SHOULD",
    "Each level is half the size of the one before along every spatial axis.",
    test="n[k+1] in (floor(n[k] / 2), ceil(n[k] / 2)) and scale[k+1] == 2 * scale[k], where n[k] > 1",
    fix="Build the levels again by factors of 2; export does.",
)
def halves(facts: ImageFacts) -> Iterator[Outcome]:
    """M6."""
    # where a level between two is missing or damaged, N3 says so
    pairs = [(a, b) for a, b in itertools.pairwise(facts.ordered) if abs(a.index - b.index) == 1]
    if not pairs:
        yield Outcome(None, "", path=facts.path, because="there are no two levels to compare")
        return
    yield from one(_halved(facts, fine, coarse) for fine, coarse in pairs)


def _halved(facts: ImageFacts, fine: LevelFacts, coarse: LevelFacts) -> Outcome:
    for i in facts.spatial(len(fine.shape)):
        n, m = fine.shape[i], coarse.shape[i]
        if n > 1 and m not in (n // 2, -(-n // 2)):
            return Outcome(False, f"{_axis(facts, i)} goes from {n} to {m}", f"{-(-n // 2)}", coarse.path)
        if n > 1 and fine.scale and coarse.scale and i < min(len(fine.scale), len(coarse.scale)):
            ratio = coarse.scale[i] / fine.scale[i] if fine.scale[i] else 0.0
            if abs(ratio - 2) > 0.01:
                return Outcome(
                    False, f"the scale of {_axis(facts, i)} grows {ratio:.4g} times", "2 times", coarse.path
                )
    return Outcome(True, f"{list(fine.shape)} to {list(coarse.shape)}", path=coarse.path)


@book(
    "M7",
    "MUST",
    "Time and channels are not downsampled.",
    test="n[k] == n[0] and scale[k] == scale[0] along t and c",
    fix="Build the levels again with factor 1 along t and c; export does.",
)
def keeps_time_and_channels(facts: ImageFacts) -> Iterator[Outcome]:
    """M7."""
    if facts.base is None or len(facts.ordered) < 2:
        because = NO_ARRAY if facts.base is None else "there is only one level"
        yield Outcome(None, "", path=facts.path, because=because)
        return
    yield from one(_kept(facts, facts.base, level) for level in facts.ordered[1:])


def _kept(facts: ImageFacts, base: LevelFacts, level: LevelFacts) -> Outcome:
    space = facts.spatial(len(base.shape))
    for i in range(len(base.shape)):
        if i in space:
            continue
        if level.shape[i] != base.shape[i]:
            found = f"{_axis(facts, i)} goes from {base.shape[i]} to {level.shape[i]}"
            return Outcome(False, found, str(base.shape[i]), level.path)
        scales = list(zip(base.scale or (), level.scale or (), strict=False))
        if i < len(scales) and abs(scales[i][1] - scales[i][0]) > 1e-6 * abs(scales[i][0]):
            found = f"the scale of {_axis(facts, i)} goes from {scales[i][0]:g} to {scales[i][1]:g}"
            return Outcome(False, found, f"{scales[i][0]:g}", level.path)
    return Outcome(True, "the same at every level", path=level.path)


@book(
    "D1",
    "MUST",
    "Data have five dimensions in the order time, channel, z, y, x; those that are not used have size 1.",
    test="names == [t, c, z, y, x] and types == [time, channel, space, space, space]",
    fix="Add the missing axes with size 1 and bring them into this order; export does.",
    section="Dimensions",
)
def five_axes(facts: ImageFacts) -> Iterator[Outcome]:
    """D1."""
    if facts.kind == "array" and not facts.axes:
        yield Outcome(None, "", path=facts.path, because=NO_METADATA)
        return
    rank = len(facts.base.shape) if facts.base else len(facts.axes)
    names = ", ".join(facts.names) or f"{rank} dimensions whose axes have no names"
    wanted = "t, c, z, y, x of types time, channel, space, space, space"
    if facts.names != list("tczyx") or (facts.base is not None and rank != 5):
        yield Outcome(False, names, wanted, facts.path)
        return
    types = [facts.axis_kind(i) for i in range(5)]
    good = types == ["time", "channel", "space", "space", "space"]
    yield Outcome(good, f"{names} of types {', '.join(t or 'none' for t in types)}", wanted, facts.path)


@book(
    "T1",
    "SHOULD",
    "Raw image data are quantised and stored as uint8 or uint16.",
    test="dtype in (uint8, uint16)",
    fix="Quantise, if the loss is acceptable: export --quantize.",
    section="Data types",
)
def image_type(facts: ImageFacts) -> Iterator[Outcome]:
    """T1."""
    meta = facts.base.meta if facts.base else None
    if facts.is_labels or meta is None:
        yield Outcome(
            None, "", path=facts.path, because="the values are labels" if facts.is_labels else NO_ARRAY
        )
        return
    name = meta.native_dtype.name
    good = name in ("uint8", "uint16")
    because = (
        "" if good else f"quantising {name} changes values; export does it only when asked to (--quantize)"
    )
    yield Outcome(good, name, "uint8 or uint16", facts.base.path if facts.base else "", because)


@book(
    "T2",
    "SHOULD",
    "Labels are stored as uint32.",
    test="dtype == uint32 for labels",
    fix="Convert the labels; export does.",
    section="Data types",
)
def label_type(facts: ImageFacts) -> Iterator[Outcome]:
    """T2."""
    meta = facts.base.meta if facts.base else None
    if not facts.is_labels or meta is None:
        because = NO_ARRAY if facts.is_labels else "the values are no labels"
        yield Outcome(None, "", path=facts.path, because=because)
        return
    name = meta.native_dtype.name
    because = "ids of 64 bits may not fit" if name in ("uint64", "int64") else ""
    yield Outcome(name == "uint32", name, "uint32", facts.base.path if facts.base else "", because)
