"""Rules about chunk shapes. Sizes are counted as if every voxel were one byte, as the document says."""

from __future__ import annotations

import math
from collections.abc import Iterator

from napari_decant.ngff import ArrayMeta
from napari_decant.standard._facts import SPACE, ImageFacts
from napari_decant.standard._rule import Outcome, RuleBook
from napari_decant.standard._rules_levels import NO_ARRAY

__all__ = ["book"]

book = RuleBook("Chunk size")

LENIENT_LEAST, LEAST, GOOD = 512_000, 512 << 10, 1 << 20
EXAMPLES = ((1, 1, 128, 128, 128), (1, 1, 32, 128, 128), (16, 1, 1, 128, 128))
"""The document's typical chunks; the last has 256 KiB and breaks the document's own rule."""


class Chunks:
    """The chunk of level 0 and what its size could have been."""

    def __init__(self, facts: ImageFacts, meta: ArrayMeta) -> None:
        self.path = facts.base.path if facts.base else facts.path
        self.shape, self.chunk = meta.shape, meta.chunk_shape
        self.voxels = math.prod(self.chunk)
        self.image_voxels = math.prod(self.shape)
        self.whole = all(c >= n for c, n in zip(self.chunk, self.shape, strict=True))
        rank = len(self.shape)
        self.axes = {name: facts.axis_of(name, rank) for name in "tczyx"}
        space = [i for name in SPACE if (i := self.axes[name]) is not None] or facts.spatial(rank)
        self.space = space
        self.basic = math.prod(min(128, self.shape[i]) for i in space)

    def extent(self, name: str, of: tuple[int, ...]) -> int:
        """Extent along an axis by name; 1 where there is no such axis."""
        i = self.axes[name]
        return 1 if i is None else of[i]

    @property
    def text(self) -> str:
        """The chunk for people."""
        return f"{list(self.chunk)} with {size(self.voxels)}"

    @property
    def why_grown(self) -> str:
        """Why a chunk cannot keep to 1 in t and c and 128 in space; empty if it could."""
        if self.whole and self.image_voxels < LEAST:
            return "the image is smaller than 512 KB, so that one chunk holds all of it"
        if self.basic < LEAST:
            return f"one time point and channel of {self.basic:,} voxels at 128 does not reach 512 KB"
        return ""


def size(count: int) -> str:
    """A size in binary units."""
    for unit, step in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            return f"{count / step:.4g} {unit}"
    return f"{count} bytes"


def _chunks(facts: ImageFacts) -> Chunks | Outcome:
    if facts.base is None or facts.base.meta is None:
        return Outcome(None, "", path=facts.path, because=NO_ARRAY)
    return Chunks(facts, facts.base.meta)


@book(
    "C1",
    "MUST",
    "A chunk of level 0 has 512 KB at least, or is the whole image if that is smaller.",
    test="voxels(chunk) >= 512_000, or chunk >= shape; below 524_288 it is a warning",
    fix="Write larger chunks; export chooses them.",
)
def least_chunk(facts: ImageFacts) -> Iterator[Outcome]:
    """C1."""
    got = _chunks(facts)
    if isinstance(got, Outcome):
        yield got
        return
    good = got.voxels >= LEAST or got.whole
    doubtful = got.voxels >= LENIENT_LEAST or tuple(got.chunk) in EXAMPLES
    wanted = "512 KiB, or the whole image" if got.image_voxels < LEAST else "512 KiB"
    yield Outcome(good, got.text, wanted, got.path, tolerated=doubtful)


@book(
    "C2",
    "SHOULD",
    "A chunk of level 0 has 1 MB at least.",
    test="voxels(chunk) >= 1_048_576",
    fix="Write larger chunks; export chooses them.",
)
def good_chunk(facts: ImageFacts) -> Iterator[Outcome]:
    """C2."""
    got = _chunks(facts)
    if isinstance(got, Outcome):
        yield got
        return
    because = ""
    if got.whole:
        because = "the chunk holds the whole image"
    elif got.voxels >= LEAST and got.basic < GOOD:
        because = "growing ends at 512 KB, so that t and c stay near 1 and z, y, x near 128"
    good = got.voxels >= GOOD
    yield Outcome(good, got.text, "1 MiB", got.path, "" if good else because)


@book(
    "C3",
    "SHOULD",
    "A chunk of level 0 has one time point and one channel.",
    test="chunk[t] == chunk[c] == 1",
    fix="Write chunks of one time point and one channel; export does.",
)
def single_time_and_channel(facts: ImageFacts) -> Iterator[Outcome]:
    """C3."""
    got = _chunks(facts)
    if isinstance(got, Outcome):
        yield got
        return
    t, c = got.extent("t", got.chunk), got.extent("c", got.chunk)
    good = t == c == 1
    yield Outcome(good, f"t {t}, c {c}", "t 1, c 1", got.path, "" if good else got.why_grown)


@book(
    "C4",
    "SHOULD",
    "A chunk of level 0 is 128 x 128 x 128 in z, y, x.",
    test="chunk[a] == 128, or shape[a] < 128 and chunk[a] >= shape[a], for a in z, y, x",
    fix="Write chunks of 128 x 128 x 128; export does.",
)
def cube(facts: ImageFacts) -> Iterator[Outcome]:
    """C4."""
    got = _chunks(facts)
    if isinstance(got, Outcome):
        yield got
        return
    good = all(
        got.chunk[i] == 128 or (got.shape[i] < 128 and got.chunk[i] >= got.shape[i]) for i in got.space
    )
    found = " x ".join(str(got.chunk[i]) for i in got.space)
    wanted = " x ".join(str(min(128, got.shape[i])) for i in got.space)
    yield Outcome(good, found, wanted, got.path, "" if good else got.why_grown)


@book(
    "C5",
    "SHOULD",
    "Where 128 in space does not reach 512 KB, the chunk grows along t by powers of two; only where t is too"
    " short, y and x grow.",
    test="chunk[y] <= 128 and chunk[x] <= 128 if shape[t] reaches 512 KB, else chunk[t] == 1",
    fix="Choose the chunk again in this order; export does.",
)
def growth(facts: ImageFacts) -> Iterator[Outcome]:
    """C5."""
    got = _chunks(facts)
    if isinstance(got, Outcome):
        yield got
        return
    if got.basic >= LEAST or (got.whole and got.image_voxels < LEAST):
        yield Outcome(None, got.text, path=got.path, because="the chunk needs not grow")
        return
    times = 1 << math.ceil(math.log2(-(-LEAST // max(1, got.basic))))
    t, have = got.extent("t", got.chunk), got.extent("t", got.shape)
    grown = any(got.extent(name, got.chunk) > 128 for name in "yx")
    if have >= times:
        yield Outcome(not grown, got.text, f"t {times}, y and x at most 128", got.path)
        return
    # With y and x at their ends there is nothing else left to grow but t, z and c.
    exhausted = all(got.extent(n, got.chunk) >= got.extent(n, got.shape) for n in "yx")
    yield Outcome(
        grown or exhausted or t == 1,
        got.text,
        f"t 1 (only {have} of {times} exist), larger y and x",
        got.path,
    )


@book(
    "C6",
    "MAY",
    "Levels below the first have any chunk size.",
    test="true",
)
def other_levels(facts: ImageFacts) -> Iterator[Outcome]:
    """C6."""
    if len(facts.ordered) < 2 or facts.ordered[1].meta is None:
        yield Outcome(None, "", path=facts.path, because="there is only one level")
        return
    level = facts.ordered[1]
    yield Outcome(True, f"{list(facts.ordered[1].meta.chunk_shape)}", path=level.path)
