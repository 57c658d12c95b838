"""Rules about shards and compression, for every level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from napari_decant.ngff import ArrayMeta
from napari_decant.standard._facts import ImageFacts, LevelFacts
from napari_decant.standard._rule import Outcome, RuleBook, one
from napari_decant.standard._rules_chunks import size
from napari_decant.standard._rules_levels import NO_ARRAY

__all__ = ["book", "codec_chain", "compression"]

book = RuleBook("Shard size")
compression = RuleBook("Compression")

GB, GIB, TB = 10**9, 1 << 30, 10**12
LARGEST_EDGE, MOST, LEAST_TIMES = 2048, 5 * GB, 16


class Shards:
    """What one stored object of a level covers, in bytes of the level's own type."""

    def __init__(self, facts: ImageFacts, level: LevelFacts, meta: ArrayMeta) -> None:
        self.path, self.meta = level.path, meta
        self.shape, self.shard = meta.shape, meta.object_shape
        self.item = meta.dtype.itemsize
        self.array_bytes = math.prod(self.shape) * self.item
        self.bytes = math.prod(self.shard) * self.item
        self.clipped = tuple(min(s, n) for s, n in zip(self.shard, self.shape, strict=True))
        self.clipped_bytes = math.prod(self.clipped) * self.item
        self.whole = self.clipped == self.shape
        self.space = facts.spatial(len(self.shape))
        self.time = facts.axis_of("t", len(self.shape))

    @property
    def text(self) -> str:
        """The shard for people."""
        kind = "shards" if self.meta.shard_shape else "no shards; chunks"
        return f"{kind} {list(self.shard)} of {size(self.bytes)}"

    @property
    def times(self) -> int:
        """Time points there are."""
        return 1 if self.time is None else self.shape[self.time]

    @property
    def basic_bytes(self) -> int:
        """A shard that follows every rule about shapes: 16 time points, space up to 2048."""
        space = math.prod(min(LARGEST_EDGE, self.shape[i]) for i in self.space)
        return space * min(LEAST_TIMES, self.times) * self.item


def _each(facts: ImageFacts, judge: Callable[[Shards], Outcome]) -> Iterator[Outcome]:
    if not facts.ordered:
        yield Outcome(None, "", path=facts.path, because=NO_ARRAY)
        return
    yield from one(
        judge(Shards(facts, level, level.meta)) for level in facts.ordered if level.meta is not None
    )


@book(
    "S1",
    "MUST",
    "A shard has 1 GB at least, if the array has.",
    test="bytes(shard) >= 10**9 if bytes(array) >= 2**30; a clipped shard below 2**30 is a warning",
    fix="Write larger shards; export chooses them.",
)
def least_shard(facts: ImageFacts) -> Iterator[Outcome]:
    """S1."""

    def judge(got: Shards) -> Outcome:
        if got.array_bytes < GB or got.whole:
            small = f"the array has {size(got.array_bytes)}"
            return Outcome(True, small if got.array_bytes < GB else got.text, path=got.path)
        good = min(got.bytes, got.clipped_bytes) >= GIB
        doubtful = got.bytes >= GB or got.array_bytes < GIB
        return Outcome(good, got.text, "1 GiB", got.path, tolerated=doubtful)

    yield from _each(facts, judge)


@book(
    "S2",
    "MUST",
    "A shard is smaller than 5 TB.",
    test="bytes(shard) < 5 * 2**40; from 5 * 10**12 on it is a warning",
    fix="Write smaller shards; export chooses them.",
)
def not_huge(facts: ImageFacts) -> Iterator[Outcome]:
    """S2."""

    def judge(got: Shards) -> Outcome:
        return Outcome(
            got.bytes < 5 * TB, got.text, "less than 5 TB", got.path, tolerated=got.bytes < 5 << 40
        )

    yield from _each(facts, judge)


@book(
    "S3",
    "SHOULD",
    "A shard is smaller than 5 GB.",
    test="bytes of the voxels that exist in a shard < 5 * 10**9",
    fix="Write smaller shards; export chooses them.",
)
def not_large(facts: ImageFacts) -> Iterator[Outcome]:
    """S3."""

    def judge(got: Shards) -> Outcome:
        because = "a single chunk is larger" if got.meta.chunk_nbytes >= MOST else ""
        good = got.clipped_bytes < MOST
        found = f"{list(got.shard)} with {size(got.clipped_bytes)} of voxels"
        return Outcome(good, found, "less than 5 GB", got.path, "" if good else because)

    yield from _each(facts, judge)


@book(
    "S4",
    "SHOULD",
    "A shard spans the whole array along z, y and x.",
    test="shard[a] >= shape[a] for a in z, y, x",
    fix="Write larger shards; export chooses them.",
)
def whole_space(facts: ImageFacts) -> Iterator[Outcome]:
    """S4."""

    def judge(got: Shards) -> Outcome:
        short = [i for i in got.space if got.shard[i] < got.shape[i]]
        because = ""
        if short and all(got.shape[i] > LARGEST_EDGE for i in short):
            because = "the array is larger than 2048, which a shard should not exceed"
        elif short and got.meta.shard_shape and got.basic_bytes >= MOST:
            because = f"the whole would have {size(got.basic_bytes)}, and 5 GB is the more important rule"
        found = " x ".join(str(got.shard[i]) for i in got.space)
        wanted = " x ".join(str(got.shape[i]) for i in got.space)
        return Outcome(not short, found, wanted, got.path, because)

    yield from _each(facts, judge)


@book(
    "S5",
    "SHOULD",
    "A shard has 2048 at most along z, y and x.",
    test="shard[a] <= 2048 for a in z, y, x",
    fix="Write shards of 2048 at most in space, with more time points or channels; export does.",
)
def edge(facts: ImageFacts) -> Iterator[Outcome]:
    """S5."""

    def judge(got: Shards) -> Outcome:
        long = [i for i in got.space if got.shard[i] > LARGEST_EDGE]
        because = ""
        if long and all(got.meta.chunk_shape[i] > LARGEST_EDGE for i in long):
            because = "the chunk alone is longer, so that it reaches 512 KB"
        elif long and _exhausted(got):
            because = "time points and channels do not suffice for 1 GB"
        found = " x ".join(str(got.shard[i]) for i in got.space)
        return Outcome(not long, found, "2048 at most", got.path, because)

    yield from _each(facts, judge)


def _exhausted(got: Shards) -> bool:
    """Whether a shard already takes every time point and channel and would be below 1 GB at 2048 in space."""
    others = [i for i in range(len(got.shape)) if i not in got.space]
    if any(got.shard[i] < got.shape[i] for i in others):
        return False
    space = math.prod(min(LARGEST_EDGE, got.shape[i]) for i in got.space)
    return space * math.prod(got.shape[i] for i in others) * got.item < GIB


@book(
    "S6",
    "SHOULD",
    "A shard has 16 time points at least.",
    test="shard[t] >= min(16, shape[t])",
    fix="Write shards of more time points; export does.",
)
def times(facts: ImageFacts) -> Iterator[Outcome]:
    """S6."""

    def judge(got: Shards) -> Outcome:
        have = 1 if got.time is None else got.shard[got.time]
        wanted = min(LEAST_TIMES, got.times)
        because = ""
        if have < wanted and got.meta.shard_shape and got.basic_bytes >= MOST:
            because = (
                f"{wanted} of them would have {size(got.basic_bytes)}, and 5 GB is the more important rule"
            )
        return Outcome(have >= wanted, f"t {have}", f"t {wanted}", got.path, because)

    yield from _each(facts, judge)


def codec_chain(level: LevelFacts) -> list[tuple[str, dict[str, Any]]]:
    """Codecs of one chunk in encoding order with their configuration, from the document as it stands."""
    raw = level.raw or {}
    listed: Any = raw.get("codecs")
    if raw.get("zarr_format") == 2:
        filters = raw.get("filters")
        entries = [*(filters if isinstance(filters, list) else []), raw.get("compressor")]
        return [(str(e.get("id")), e) for e in entries if isinstance(e, dict)]
    chain: list[tuple[str, dict[str, Any]]] = []
    for entry in listed if isinstance(listed, list) else []:
        name = entry if isinstance(entry, str) else str(entry.get("name")) if isinstance(entry, dict) else ""
        config = entry.get("configuration") if isinstance(entry, dict) else None
        config = config if isinstance(config, dict) else {}
        if name == "sharding_indexed":
            return codec_chain(LevelFacts(level.index, level.path, {"codecs": config.get("codecs")}))
        chain.append((name.removeprefix("numcodecs."), config))
    return chain


def _compressors(level: LevelFacts) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, config)
        for name, config in codec_chain(level)
        if name not in ("bytes", "transpose", "crc32c", "shuffle")
    ]


def _named(chain: list[tuple[str, dict[str, Any]]]) -> str:
    """Codecs for people, with their level."""
    words = []
    for name, config in chain:
        inner = f" with {config['cname']}" if "cname" in config else ""
        level = config.get("level", config.get("clevel"))
        words.append(f"{name}{inner}" + (f" level {level}" if level is not None else ""))
    return ", ".join(words) or "none"


def _each_level(facts: ImageFacts, judge: Callable[[LevelFacts], Outcome]) -> Iterator[Outcome]:
    if not facts.ordered:
        yield Outcome(None, "", path=facts.path, because=NO_ARRAY)
        return
    yield from one(judge(level) for level in facts.ordered)


@compression(
    "Z1",
    "MUST",
    "All data are compressed with zstd, LZ4 or Blosc.",
    test="any(codec in (zstd, lz4, blosc))",
    fix="Compress with zstd; export does.",
)
def compressed(facts: ImageFacts) -> Iterator[Outcome]:
    """Z1."""

    def judge(level: LevelFacts) -> Outcome:
        names = {name for name, _ in codec_chain(level)}
        good = bool(names & {"zstd", "lz4", "blosc"})
        return Outcome(good, _named(_compressors(level)), "zstd, lz4 or blosc", level.path)

    yield from _each_level(facts, judge)


@compression("Z2", "MAY", "A shuffle codec stands before the compressor.", test="true")
def shuffled(facts: ImageFacts) -> Iterator[Outcome]:
    """Z2."""

    def judge(level: LevelFacts) -> Outcome:
        has = any(name == "shuffle" for name, _ in codec_chain(level))
        return Outcome(True, "with shuffle" if has else "without shuffle", path=level.path)

    yield from _each_level(facts, judge)


def _is_float(level: LevelFacts) -> bool:
    return level.meta is not None and level.meta.dtype.kind in "fc"


@compression(
    "Z3",
    "SHOULD",
    "Integers are compressed with zstd itself, not within Blosc.",
    test="compressors == [zstd] for integers",
    fix="Compress with the zstd codec; export does.",
)
def plain_zstd(facts: ImageFacts) -> Iterator[Outcome]:
    """Z3."""

    def judge(level: LevelFacts) -> Outcome:
        if _is_float(level):
            return Outcome(None, "", path=level.path, because="the values are no integers")
        found = _compressors(level)
        return Outcome([name for name, _ in found] == ["zstd"], _named(found), "zstd", level.path)

    yield from _each_level(facts, judge)


def _level_of(config: dict[str, Any]) -> float | None:
    value = config.get("level", config.get("clevel"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@compression(
    "Z4",
    "SHOULD",
    "The compression level is 3 or lower, so that decompression stays fast.",
    test="level <= 3",
    fix="Compress with a level of 3 or lower; export uses 1.",
)
def low_level(facts: ImageFacts) -> Iterator[Outcome]:
    """Z4."""

    def judge(level: LevelFacts) -> Outcome:
        found = [(n, c) for n, c in _compressors(level) if n in ("zstd", "blosc")]
        levels = [_level_of(config) for _, config in found]
        if not found:
            return Outcome(None, "", path=level.path, because="there is no zstd")
        return Outcome(
            all(v is None or v <= 3 for v in levels), _named(found), "level 3 or lower", level.path
        )

    yield from _each_level(facts, judge)


@compression(
    "Z5",
    "SHOULD",
    "Floats are byte-shuffled and then compressed with zstd itself, level 3 or lower.",
    test="codecs == [bytes, shuffle, zstd] and level <= 3 for floats",
    fix="Put a shuffle codec before zstd; export does.",
)
def float_codecs(facts: ImageFacts) -> Iterator[Outcome]:
    """Z5."""

    def judge(level: LevelFacts) -> Outcome:
        if not _is_float(level):
            return Outcome(None, "", path=level.path, because="the values are no floats")
        chain = [(n, c) for n, c in codec_chain(level) if n not in ("bytes", "transpose", "crc32c")]
        good = [name for name, _ in chain] == ["shuffle", "zstd"]
        good = good and (_level_of(chain[-1][1]) or 0) <= 3
        return Outcome(good, _named(chain), "shuffle, zstd of level 3 or lower", level.path)

    yield from _each_level(facts, judge)
