"""Rules of OME-Zarr itself, 0.4 and 0.5, that every image must follow before any standard about it counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from napari_decant.standard._facts import ImageFacts, LevelFacts, numbers
from napari_decant.standard._rule import Outcome, RuleBook, one
from napari_decant.standard._rules_levels import NO_ARRAY, NO_METADATA
from napari_decant.standard._yaozarrs import validate

__all__ = ["book"]

book = RuleBook("OME-Zarr")
MINE = ("not ordered from highest",)
"""What N4 says better than the models do."""


@book(
    "N1",
    "MUST",
    "The metadata are valid OME-Zarr of the version they declare.",
    test="yaozarrs models of 0.4 and 0.5",
    fix="Correct the metadata, or export the image again.",
)
def valid_metadata(facts: ImageFacts) -> Iterator[Outcome]:
    """N1."""
    node = facts.node
    if facts.error or node is None:
        yield Outcome(False, facts.error or "nothing can be read", "an OME-Zarr image", facts.path)
        return
    if node.array is not None:
        yield Outcome(False, "a Zarr array without OME metadata", "an OME-Zarr image", facts.path)
        return
    if facts.version not in ("0.4", "0.5"):
        because = f"version {facts.version or 'not stated'} is not validated; 0.4 and 0.5 are"
        yield Outcome(None, f"{facts.version}", path=facts.path, because=because)
        return
    verdict = validate(
        facts.version, "labels" if "image-label" in node.ome else "image", node.attributes, node.ome
    )
    errors = [e for e in verdict.errors if not any(text in e for text in MINE)]
    for error in errors:
        yield Outcome(False, error, f"valid metadata of OME-Zarr {facts.version}", facts.path)
    if not errors:
        yield Outcome(True, f"OME-Zarr {facts.version}", path=facts.path)


@book(
    "N2",
    "SHOULD",
    "The image is OME-Zarr 0.5 on Zarr v3, which has shards.",
    test="version == '0.5' and zarr_format == 3",
    fix="napari-decant export makes OME-Zarr 0.5 of it.",
)
def current_version(facts: ImageFacts) -> Iterator[Outcome]:
    """N2."""
    if facts.node is None:
        yield Outcome(None, "", path=facts.path, because=facts.error)
        return
    archive = isinstance(facts.node.attributes.get("decant"), dict) and facts.node.zarr_format == 2
    found = f"OME-Zarr {facts.version or 'of no stated version'} on Zarr v{facts.node.zarr_format}"
    if archive:
        found += ", as archives of this program are"
    good = facts.version == "0.5" and facts.node.zarr_format == 3
    yield Outcome(good, found, "OME-Zarr 0.5 on Zarr v3", facts.path)


@book(
    "N3",
    "MUST",
    "Every level is a valid Zarr array with as many dimensions as there are axes.",
    test="len(shape) == len(chunks) == len(axes), and the document follows Zarr",
    fix="Correct the array's metadata, or export the image again.",
)
def valid_arrays(facts: ImageFacts) -> Iterator[Outcome]:
    """N3."""
    absent = [level for level in facts.levels if level.absent]
    wrong = [_array_outcome(facts, level) for level in facts.levels if not level.absent]
    if absent:
        names = ", ".join(repr(level.path) for level in absent[:8])
        found = f"there is no array at {names}" + (f" and {len(absent) - 8} more" if len(absent) > 8 else "")
        yield Outcome(False, found, f"{len(facts.levels)} arrays", absent[0].path)
    yield from (outcome for outcome in wrong if outcome is not None)
    if not absent and not any(wrong):
        yield Outcome(True, f"{len(facts.levels)} arrays", path=facts.path)


def _array_outcome(facts: ImageFacts, level: LevelFacts) -> Outcome | None:
    shape = level.shape
    chunks = _declared_chunks(level)
    if shape and chunks and len(chunks) != len(shape):
        return Outcome(
            False,
            f"chunks {list(chunks)} of {len(chunks)} dimensions for a shape {list(shape)} of {len(shape)}",
            f"chunks of {len(shape)} dimensions",
            level.path,
        )
    if level.error:
        return Outcome(False, level.error, "a valid Zarr array", level.path)
    if facts.axes and len(facts.axes) != len(shape):
        return Outcome(
            False, f"{len(shape)} dimensions for {len(facts.axes)} axes", f"{len(facts.axes)}", level.path
        )
    return None


def _declared_chunks(level: LevelFacts) -> tuple[int, ...]:
    raw = level.raw or {}
    if raw.get("zarr_format") == 2:
        return numbers(raw.get("chunks"))
    grid = raw.get("chunk_grid")
    config = grid.get("configuration") if isinstance(grid, dict) else None
    return numbers(config.get("chunk_shape")) if isinstance(config, dict) else ()


@book(
    "N4",
    "MUST",
    "Levels are listed from the largest to the smallest.",
    test="shape[k+1] <= shape[k] along every axis",
    fix="List the datasets in the order of their size.",
)
def ordered(facts: ImageFacts) -> Iterator[Outcome]:
    """N4."""
    good = [level for level in facts.levels if level.meta is not None]
    pairs = list(itertools.pairwise(good))
    if not pairs:
        yield Outcome(None, "", path=facts.path, because="there is only one level")
        return
    for first, second in pairs:
        if len(first.shape) != len(second.shape):
            continue
        if any(m > n for n, m in zip(first.shape, second.shape, strict=True)):
            found = f"{list(first.shape)} stands before {list(second.shape)}"
            yield Outcome(False, found, "the larger one first", second.path)
            return
    yield Outcome(True, " ".join(str(list(level.shape)) for level in good[:8]), path=facts.path)


@book(
    "N5",
    "MUST",
    "All levels have the data type of level 0.",
    test="dtype[k] == dtype[0]",
    fix="Build the levels again in the type of level 0; export does.",
)
def same_type(facts: ImageFacts) -> Iterator[Outcome]:
    """N5."""
    good = [level for level in facts.levels if level.meta is not None]
    if not good or good[0].meta is None:
        yield Outcome(None, "", path=facts.path, because=NO_ARRAY)
        return
    wanted = good[0].meta.native_dtype
    yield from one(
        Outcome(level.meta.native_dtype == wanted, level.meta.native_dtype.name, wanted.name, level.path)
        for level in good
        if level.meta is not None
    )


@book(
    "N6",
    "MUST",
    "The size of a level is what its scale says.",
    test="floor(n[0] / r) <= n[k] <= ceil(n[0] / r) with r = scale[k] / scale[0]",
    fix="Correct the scale in the metadata, or export the image again.",
)
def sizes_follow_scales(facts: ImageFacts) -> Iterator[Outcome]:
    """N6."""
    base = facts.base
    if base is None or not base.scale or len(facts.ordered) < 2:
        because = NO_ARRAY if base is None else "there is only one level with a scale"
        yield Outcome(None, "", path=facts.path, because=because)
        return
    yield from one(_size(facts, base, level) for level in facts.ordered[1:])


def _size(facts: ImageFacts, base: LevelFacts, level: LevelFacts) -> Outcome:
    scales = list(zip(base.scale or (), level.scale or (), strict=False))
    if len(scales) != len(base.shape):
        return Outcome(None, "", path=level.path, because=f"{level.path} has no scale for every axis")
    # halving step by step rounds at every step
    slack = max(1, level.index) if level.index > 1 else 0
    for i, (s0, s) in enumerate(scales):
        n, m = base.shape[i], level.shape[i]
        if s0 <= 0 or s <= 0 or n <= 1:
            continue
        exact = n * s0 / s
        low, high = math.floor(exact - 1e-6) - slack, math.ceil(exact + 1e-6) + slack
        # a factor that misses a whole number only by what rounding the sizes explains
        if low <= m <= high or abs(m - exact) <= 0.02 * exact:
            continue
        name = facts.names[i] if i < len(facts.names) else f"axis {i}"
        found = f"{m} along {name}, with a scale {s / s0:.4g} times that of the {n} of level 0"
        return Outcome(False, found, f"{exact:.6g}", level.path)
    return Outcome(True, str(list(level.shape)), path=level.path)


@book(
    "N7",
    "MUST",
    "dimension_names of every array are the names of the axes, in their order.",
    test="dimension_names == [axis.name for axis in axes], in 0.5",
    fix="Write the dimension_names again; export does.",
)
def dimension_names(facts: ImageFacts) -> Iterator[Outcome]:
    """N7."""
    if facts.node is None or facts.node.zarr_format != 3 or not facts.entry or not facts.ordered:
        because = "Zarr v2 has no dimension names" if facts.node and facts.node.zarr_format == 2 else NO_ARRAY
        if facts.node is not None and facts.node.array is not None:
            because = NO_METADATA
        yield Outcome(None, "", path=facts.path, because=because)
        return
    yield from one(
        Outcome(
            list(level.meta.dimension_names or ()) == facts.names,
            str(list(level.meta.dimension_names)) if level.meta.dimension_names else "none",
            str(facts.names),
            level.path,
        )
        for level in facts.ordered
        if level.meta is not None and level.meta.zarr_format == 3
    )


@book(
    "N8",
    "SHOULD",
    "The translation of each level says where averaging moved its voxel centres.",
    test="translation[k] == translation[0] + (scale[k] - scale[0]) / 2 along z, y, x; unchanged along t, c",
    fix="Write the translations again; export does.",
)
def centred(facts: ImageFacts) -> Iterator[Outcome]:
    """N8."""
    base = facts.base
    if base is None or not base.scale or len(facts.ordered) < 2:
        because = NO_ARRAY if base is None else "there is only one level with a scale"
        yield Outcome(None, "", path=facts.path, because=because)
        return
    yield from one(_centre(facts, base, level) for level in facts.ordered[1:])


def _centre(facts: ImageFacts, base: LevelFacts, level: LevelFacts) -> Outcome:
    rank = len(base.shape)
    first = base.translation or (0.0,) * rank
    shift = level.translation or (0.0,) * rank
    if not (base.scale and level.scale) or {len(base.scale), len(level.scale), len(first), len(shift)} != {
        rank
    }:
        return Outcome(None, "", path=level.path, because=f"{level.path} has no scale for every axis")
    space = facts.spatial(rank)
    wanted = [
        t + (s - s0) / 2 if i in space else t
        for i, (t, s0, s) in enumerate(zip(first, base.scale, level.scale, strict=True))
    ]
    good = all(
        abs(a - b) <= 1e-6 * abs(s) + 1e-9 * abs(b)
        for a, b, s in zip(shift, wanted, level.scale, strict=True)
    )
    found = str([round(v, 6) for v in shift]) if level.translation else "no translation"
    return Outcome(good, found, str([round(v, 6) for v in wanted]), level.path)


@book(
    "N9",
    "SHOULD",
    "Chunk keys are separated by '/', as OME-Zarr has it since 0.2.",
    test="separator == '/'",
    fix="Rename the chunks and correct the metadata, or export the image again.",
)
def separators(facts: ImageFacts) -> Iterator[Outcome]:
    """N9."""
    if not facts.ordered:
        yield Outcome(None, "", path=facts.path, because=NO_ARRAY)
        return
    yield from one(
        Outcome(level.meta.separator == "/", f"{level.meta.separator!r}", "'/'", level.path)
        for level in facts.ordered
        if level.meta is not None
    )


@book(
    "N10",
    "SHOULD",
    "The metadata are strict JSON, without bare NaN or Infinity.",
    test="no NaN, Infinity or -Infinity outside text",
    fix="Write the attributes again with null or text in their place; export does.",
)
def strict_json(facts: ImageFacts) -> Iterator[Outcome]:
    """N10."""
    if facts.node is None:
        yield Outcome(None, "", path=facts.path, because=facts.error)
        return
    wrong = [level.path for level in facts.levels if level.not_finite]
    if facts.node.not_finite:
        wrong.insert(0, facts.path)
    found = "NaN or Infinity" if wrong else "strict JSON"
    yield Outcome(not wrong, found, "strict JSON", wrong[0] if wrong else facts.path)


@book(
    "N11",
    "SHOULD",
    "The metadata follow the recommendations of OME-Zarr: known units, window and colour of channels.",
    test="yaozarrs warnings == 0",
    fix="Correct the metadata, or export the image again.",
)
def recommended(facts: ImageFacts) -> Iterator[Outcome]:
    """N11."""
    if facts.node is None or facts.node.array is not None or facts.version not in ("0.4", "0.5"):
        yield Outcome(None, "", path=facts.path, because="there are no metadata of OME-Zarr 0.4 or 0.5")
        return
    node = facts.node
    kind = "labels" if "image-label" in node.ome else "image"
    notes = validate(str(facts.version), kind, node.attributes, node.ome).warnings
    if notes:
        yield Outcome(False, "; ".join(notes)[:500], "none of these", facts.path)
    else:
        yield Outcome(True, "as recommended", path=facts.path)
