"""Rules that read chunks: how levels were made, and whether what is stored can be read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np

from napari_decant.engine import ZarrArray
from napari_decant.engine._shards import ShardIndex, index_range, parse_shard_index
from napari_decant.errors import DecantError
from napari_decant.images._zarr import misnamed_chunks
from napari_decant.ngff import ArrayMeta
from napari_decant.standard._facts import ImageFacts, LevelFacts
from napari_decant.standard._rule import Outcome, RuleBook, one
from napari_decant.standard._sampling import Sample, compare_levels
from napari_decant.stores import join_key

__all__ = ["book", "stored"]

book = RuleBook("Multiresolution")
stored = RuleBook("Stored chunks")

OBJECTS, REMOTE_OBJECTS, SAMPLE_BYTES, REPORTED = 2_000, 64, 32 << 20, 5
ABSENT = 20_000  # objects that are not there, after which a level with fewer of those that are is given up
LARGEST_CHUNK = 256 << 20
NOT_READ = "chunks of this image were not read"


def _samples(facts: ImageFacts) -> Sequence[Sample] | Outcome:
    if not facts.pixels:
        return Outcome(None, "", path=facts.path, because=NOT_READ)
    if len(facts.ordered) < 2:
        return Outcome(None, "", path=facts.path, because="there is only one level")
    cached = facts.__dict__.get("_samples")
    if cached is None:
        try:
            cached = list(compare_levels(facts))
        except DecantError as error:
            cached = Outcome(None, "", path=facts.path, because=f"a chunk cannot be read: {error}")
        facts.__dict__["_samples"] = cached
    result: Sequence[Sample] | Outcome = cached
    return result


def _made_by(facts: ImageFacts, allowed: set[str], wanted: str) -> Iterator[Outcome]:
    samples = _samples(facts)
    if isinstance(samples, Outcome):
        yield samples
        return
    yield from one(_judge(sample, allowed, wanted) for sample in samples)


def _judge(sample: Sample, allowed: set[str], wanted: str) -> Outcome:
    if sample.reason:
        return Outcome(None, "", path=sample.path, because=sample.reason)
    if "constant" in sample.methods:
        because = f"all of {sample.blocks} blocks that were looked at have one value"
        return Outcome(None, "", path=sample.path, because=because)
    if sample.methods & allowed:
        return Outcome(True, f"{wanted} in {sample.blocks} blocks", wanted, sample.path)
    names = {"mean": "the mean", "max": "the maximum", "decimated": "every n-th voxel"}
    found = " or ".join(names[m] for m in ("mean", "max", "decimated") if m in sample.methods)
    if not found:
        found = f"no mean, maximum or decimation (up to {sample.worst:g} off the mean {sample.where})"
    return Outcome(False, found, wanted, sample.path)


@book(
    "M3",
    "MUST",
    "Levels of an image are made by a mean filter.",
    test="abs(level - mean of the voxels under it) <= 1 in sampled blocks (1e-5 of the largest for floats)",
    fix="Build the levels again by averaging; export does.",
)
def by_mean(facts: ImageFacts) -> Iterator[Outcome]:
    """M3."""
    if facts.is_labels:
        yield Outcome(None, "", path=facts.path, because="the values are labels")
        return
    yield from _made_by(facts, {"mean"}, "the mean")


@book(
    "M4",
    "MUST",
    "Levels of labels are made by a maximum filter.",
    test="level == maximum of the voxels under it, in sampled blocks",
    fix="Build the levels again by the maximum; export does.",
    standards=("dca-0.1",),
)
def by_maximum(facts: ImageFacts) -> Iterator[Outcome]:
    """M4."""
    if not facts.is_labels:
        yield Outcome(None, "", path=facts.path, because="the values are no labels")
        return
    yield from _made_by(facts, {"max"}, "the maximum")


@book(
    "M5",
    "MUST",
    "Levels of labels are made by a maximum filter or by taking every n-th voxel.",
    test="level == maximum of the voxels under it, or one of them, in sampled blocks",
    fix="Build the levels again by the maximum; export does.",
    standards=("dca-0.2",),
)
def by_maximum_or_decimation(facts: ImageFacts) -> Iterator[Outcome]:
    """M5."""
    if not facts.is_labels:
        yield Outcome(None, "", path=facts.path, because="the values are no labels")
        return
    yield from _made_by(facts, {"max", "decimated"}, "the maximum or every n-th voxel")


class Walk:
    """Looks at the stored objects of one level.

    Attributes
    ----------
    broken : list of Outcome
        What cannot be read, at most a few.
    absent, looked_at, chunks : int
        Chunks that are not there, chunks whose presence was looked at, and all there are.
    decoded : int
        Chunks that were decoded.
    missing : int
        Objects, shards for instance, that are not there.
    """

    def __init__(self, facts: ImageFacts, level: LevelFacts, meta: ArrayMeta) -> None:
        self.facts, self.meta, self.path = facts, meta, level.path
        self.array: ZarrArray = facts.arrays[level.path]
        self.broken: list[Outcome] = []
        self.absent = self.looked_at = self.decoded = self.missing = 0
        self.chunks = math.prod(meta.grid_shape)
        self.left = math.inf if facts.whole else SAMPLE_BYTES
        grid = tuple(-(-n // s) for n, s in zip(meta.shape, meta.object_shape, strict=True))
        chosen = max(1, min(math.prod(grid), self._most(math.prod(grid))))
        for number, index in enumerate(self._chosen(grid)):
            facts.step(level.path, number, chosen)
            self._look_at(index)
            # a shape can declare any number of objects; those that are there bound the work
            if len(self.broken) >= REPORTED or self.missing > ABSENT + number // 2:
                break

    def _most(self, count: int) -> int:
        return count if self.facts.whole else REMOTE_OBJECTS if self.facts.store.remote else OBJECTS

    def _chosen(self, grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Positions of objects: the last first, which is the one that clipping and a kill spoil."""
        count = math.prod(grid)
        if count == 0:
            return
        most = self._most(count)
        numbers = range(count) if count <= most else np.linspace(0, count - 1, most, dtype=np.int64)
        for number in itertools.chain([count - 1], (n for n in numbers if n != count - 1)):
            yield tuple(int(i) for i in np.unravel_index(int(number), grid)) if grid else ()

    def _fail(self, found: str, wanted: str) -> None:
        self.broken.append(Outcome(False, found, wanted, self.path))

    def _look_at(self, index: tuple[int, ...]) -> None:
        per = self.meta.chunks_per_shard
        inside = [min(p, g - i * p) for i, p, g in zip(index, per, self.meta.grid_shape, strict=True)]
        count = math.prod(inside)
        self.looked_at += count
        key = self.meta.object_key(index)
        try:
            extent = self.facts.store.extent(join_key(self.path, key))
            if extent is None:
                self.absent += count
                self.missing += 1
                return
            if self.meta.shard_shape is None:
                self._decode(index, f"chunk {key}")
                return
            start, size = index_range(self.meta, extent.length, key)
            raw = self.facts.store.read_file(extent.file, extent.offset + start, size)
            entries = parse_shard_index(self.meta, raw, extent.length, key)
        except DecantError as error:
            self._fail(str(error), "a shard that can be read")
            return
        self._overlaps(entries, key)
        flat = (
            np.ravel_multi_index(np.indices(inside).reshape(len(inside), -1), per)
            if per
            else np.zeros(1, int)
        )
        self.absent += int((entries.offsets[flat] < 0).sum())
        present = flat[entries.offsets[flat] >= 0]
        for number in [*present[::-1][:1], *present[:-1]]:
            place = np.unravel_index(int(number), per)
            chunk = tuple(i * p + int(w) for i, p, w in zip(index, per, place, strict=True))
            if not self._decode(chunk, f"chunk {int(number)} of shard {key}"):
                break

    def _overlaps(self, entries: ShardIndex, key: str) -> None:
        """Two chunks that share bytes: the index of another shard, or of an earlier time."""
        order = np.argsort(entries.offsets, kind="stable")
        order = order[(entries.offsets[order] >= 0) & (entries.lengths[order] > 0)]
        ends = entries.offsets[order] + entries.lengths[order]
        clash = np.flatnonzero(ends[:-1] > entries.offsets[order][1:])
        if len(clash):
            first, second = int(order[clash[0]]), int(order[clash[0] + 1])
            self._fail(
                f"the index of shard {key} gives the chunks {first} and {second} the same bytes",
                "an index that belongs to the shard",
            )

    def _decode(self, chunk: tuple[int, ...], name: str) -> bool:
        """Decode one chunk while the sample lasts; False once it is used up."""
        nbytes = self.meta.chunk_nbytes
        if nbytes > self.left or nbytes > LARGEST_CHUNK:
            return False
        self.left -= nbytes
        try:
            self.array.read_chunk(chunk)
        except DecantError as error:
            self._fail(f"{name} cannot be decoded: {error}", "a chunk that can be decoded")
        self.decoded += 1
        return len(self.broken) < REPORTED


def _walks(facts: ImageFacts) -> list[Walk] | Outcome:
    if not facts.pixels:
        return Outcome(None, "", path=facts.path, because=NOT_READ)
    cached: list[Walk] | None = facts.__dict__.get("_walks")
    if cached is None:
        cached = [Walk(facts, level, level.meta) for level in facts.ordered if level.meta is not None]
        facts.__dict__["_walks"] = cached
    return cached


@stored(
    "B1",
    "MUST",
    "What is stored can be read: shard indexes are whole and chunks decode.",
    test="crc32c(index), 0 <= offset < offset + length <= size, no two chunks overlap, sampled chunks decode",
    fix="Write the shard again from the source; a resumed export does only that.",
)
def readable(facts: ImageFacts) -> Iterator[Outcome]:
    """B1."""
    walks = _walks(facts)
    if isinstance(walks, Outcome):
        yield walks
        return
    broken = [outcome for walk in walks for outcome in walk.broken]
    yield from broken
    if not broken and walks:
        decoded, chunks = sum(w.decoded for w in walks), sum(w.chunks for w in walks)
        yield Outcome(True, f"{decoded:,} of {chunks:,} chunks decoded", path=facts.path)


@stored(
    "B2",
    "SHOULD",
    "Every chunk is stored; an absent one reads as the fill value, which can be a loss.",
    test="absent chunks == 0",
    fix="If the chunks were not left out on purpose, write the image again from its source.",
)
def complete(facts: ImageFacts) -> Iterator[Outcome]:
    """B2."""
    walks = _walks(facts)
    if isinstance(walks, Outcome):
        yield walks
        return
    for walk in walks:
        if walk.absent == 0:
            continue
        note = misnamed_chunks(facts.store, SimpleNamespace(array=walk.meta, path=walk.path))  # type: ignore[arg-type]
        seen = "" if walk.looked_at == walk.chunks else " that were looked at"
        found = f"{walk.absent:,} of {walk.looked_at:,} chunks{seen} absent"
        yield Outcome(False, f"{found}; {note}" if note else found, "all chunks", walk.path)
    if walks and not any(walk.absent for walk in walks):
        yield Outcome(True, f"all of {sum(w.looked_at for w in walks):,} chunks looked at", path=facts.path)
