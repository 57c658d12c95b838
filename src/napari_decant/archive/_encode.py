"""Turn the planes and the other bytes of source files into the entries of an archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from napari_decant.archive._codec import BYTES_CODEC, PixelCodec
from napari_decant.archive._contrast import ContrastMeter, PlaneSample, channel_of, sample_plane
from napari_decant.archive._geometry import ByteOrder, PageLayout, segments_to_array
from napari_decant.archive._hashing import FollowingHasher, hash_whole
from napari_decant.archive._levels import NO_LEVELS, Levels
from napari_decant.archive._source import Source
from napari_decant.archive._workers import Scratch, ordered
from napari_decant.archive._write import BYTES_CHUNK, ArchiveWriter, Encoded, encode_chunk
from napari_decant.images._pyramid import downsample
from napari_decant.progress import CancelToken, Progress, ProgressCallback
from napari_decant.stores._ranges import cut_ranges, read_ranges
from napari_decant.tiff._axes import Axes, canonical_permutation

__all__ = ["Counter", "Encoder", "Part"]

_BATCH = 4 << 20  # small planes travel together, so that threads work longer than they wait
_HASH_LEAD = 256 << 20  # the hasher reads ahead of the workers by what a system's cache surely keeps
_SMALL_PART = 64 << 20  # a file up to this size is one piece of work
_OPEN_SOURCES = 24  # at a time, whatever the number of cores: some systems allow few open files


class Counter:
    """Counts raw bytes for the progress bar.

    Parameters
    ----------
    progress : callable
    stage, item : str
    total : int
        Bytes to do.
    """

    def __init__(self, progress: ProgressCallback, stage: str, total: int, item: str) -> None:
        self._progress, self._stage, self._total, self._item = progress, stage, total, item
        self.done = 0

    def add(self, nbytes: int) -> None:
        """Count ``nbytes`` more."""
        self.done += nbytes
        self._progress(Progress(self._stage, self.done, self._total, self._item))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One source file of an archive.

    Attributes
    ----------
    source : Source
    byteorder : {"<", ">"}
        Of its pixels.
    planes : sequence of PageLayout
        Its listed planes.
    numbers : sequence of int
        Storage position of each plane in the archive's pixel array.
    rest : str
        Array for the bytes that are not listed: ``husk``, ``husk_0``, ``original``.
    gaps : (offsets, lengths)
        File ranges of those bytes, int64.
    """

    source: Source
    byteorder: ByteOrder
    planes: Sequence[PageLayout]
    numbers: Sequence[int]
    rest: str
    gaps: tuple[np.ndarray, np.ndarray]

    @property
    def rest_size(self) -> int:
        """Bytes that are not listed."""
        return int(self.gaps[1].sum())


@dataclass(slots=True, eq=False)
class _Done:
    """What a worker made of one part or of some planes."""

    entries: list[Encoded] = field(default_factory=list)
    samples: list[tuple[int, PlaneSample | None]] = field(default_factory=list)
    nbytes: int = 0
    sha256: str = ""


class Encoder:
    """Writes parts into an archive; planes and files are encoded in parallel, written in order.

    Parameters
    ----------
    writer : ArchiveWriter
    codec : PixelCodec
        For planes.
    axes : Axes or None
        Leading axes of the pixel array; None if no plane is listed.
    workers : int
    counter : Counter
    cancel : CancelToken
    levels : Levels
        Derived levels, made from each plane while it is at hand.

    Attributes
    ----------
    meter : ContrastMeter
        Has seen every plane written.
    """

    def __init__(
        self,
        writer: ArchiveWriter,
        codec: PixelCodec,
        axes: Axes | None,
        workers: int,
        counter: Counter,
        cancel: CancelToken,
        levels: Levels = NO_LEVELS,
    ) -> None:
        self._writer, self._codec, self._axes = writer, codec, axes
        self._workers, self._counter, self._cancel = workers, counter, cancel
        self._levels = levels
        self._permutation = canonical_permutation(axes.plane_order) if axes else []
        self._scratch = Scratch()
        self.meter = ContrastMeter()

    def write(self, parts: Iterator[Part]) -> Iterator[tuple[Part, str]]:
        """Write parts in order; yield each with the sha256 of its source.

        Small files are a piece of work each, a large one is spread over all workers.
        """
        small: list[Part] = []
        for part in parts:
            if part.source.size <= _SMALL_PART and part.rest_size + sum(p.nbytes for p in part.planes):
                small.append(part)
                if sum(p.source.size for p in small) < _SMALL_PART and len(small) < min(
                    16 * self._workers, _OPEN_SOURCES
                ):
                    continue
                yield from self._write_small(small)
                small = []
                continue
            yield from self._write_small(small)
            small = []
            yield part, self._write_large(part)
        yield from self._write_small(small)

    def _take(self, done: _Done) -> None:
        self._writer.put(done.entries)
        for channel, sample in done.samples:
            self.meter.add(channel, sample)
        self._counter.add(done.nbytes)

    def _write_small(self, parts: list[Part]) -> Iterator[tuple[Part, str]]:
        if len(parts) == 1:
            yield parts[0], self._write_large(parts[0])
            return
        results = ordered(self._whole_part, parts, workers=self._workers, cancel=self._cancel)
        for part, done in zip(parts, results, strict=True):
            self._take(done)
            yield part, done.sha256

    def _whole_part(self, part: Part) -> _Done:
        sha256 = hash_whole(part.source.file, part.source.size)
        done = self._some_planes((part, range(len(part.planes))))
        for task in self._rest_tasks(part):
            self._add_rest(done, *task)
        done.sha256 = sha256
        return done

    def _write_large(self, part: Part) -> str:
        """Spread one file over the workers while its hash is computed beside them."""
        hasher = FollowingHasher(part.source.file, part.source.size)
        begun = self._counter.done
        try:
            hasher.allow(_HASH_LEAD)
            for done in self._encoded(part):
                self._take(done)
                hasher.allow(self._counter.done - begun + _HASH_LEAD)
            return hasher.result()
        finally:
            hasher.stop()

    def _encoded(self, part: Part) -> Iterator[_Done]:
        if part.planes:
            step = max(1, _BATCH // max(1, part.planes[0].nbytes))
            count = len(part.planes)
            batches = ((part, range(a, min(a + step, count))) for a in range(0, count, step))
            yield from ordered(self._some_planes, batches, workers=self._workers, cancel=self._cancel)
        rest = self._rest_tasks(part)
        yield from ordered(self._one_rest, rest, workers=self._workers, cancel=self._cancel)

    def _some_planes(self, task: tuple[Part, range]) -> _Done:
        part, batch = task
        done = _Done()
        for i in batch:
            self._cancel.check()
            assert self._axes is not None
            layout = part.planes[i]
            position = [int(p) for p in np.unravel_index(part.numbers[i], self._axes.storage_shape)]
            place = "/".join([*(str(position[axis]) for axis in self._permutation), *"0" * len(layout.shape)])
            array = self._plane(part, layout)
            done.entries.append(encode_chunk(f"0/{place}", array[None], self._codec))
            channel = channel_of(position, self._axes.plane_order)
            done.samples.append((channel, sample_plane(array, self._axes.planes)))
            for level, factors in enumerate(self._levels.factors, 1):
                array = downsample(array, factors)
                done.entries.append(encode_chunk(f"{level}/{place}", array[None], self._codec))
            done.nbytes += layout.nbytes
        return done

    def _plane(self, part: Part, layout: PageLayout) -> np.ndarray:
        """A plane as it goes into the chunk; valid until this thread's next one."""
        raw = self._scratch.get("raw", layout.nbytes)
        part.source.read_segments(layout, raw)
        if layout.is_plain and (part.byteorder == "<" or layout.dtype.itemsize == 1):
            return raw.view(layout.dtype).reshape(layout.shape)
        array = self._scratch.get("array", layout.nbytes).view(layout.dtype).reshape(layout.shape)
        segments_to_array(layout, raw, part.byteorder, array)
        return array

    def _rest_tasks(self, part: Part) -> Iterator[tuple[Part, int, tuple[np.ndarray, np.ndarray]]]:
        for number, ranges in enumerate(cut_ranges(*part.gaps, BYTES_CHUNK)):
            yield part, number, ranges

    def _one_rest(self, task: tuple[Part, int, tuple[np.ndarray, np.ndarray]]) -> _Done:
        done = _Done()
        self._add_rest(done, *task)
        return done

    def _add_rest(self, done: _Done, part: Part, number: int, ranges: tuple[np.ndarray, np.ndarray]) -> None:
        size = int(ranges[1].sum())
        data = self._scratch.get("bytes", min(BYTES_CHUNK, part.rest_size))
        read_ranges(part.source.file, *ranges, data[:size])
        data[size:] = 0  # a Zarr v2 chunk is always stored whole
        done.entries.append(encode_chunk(f"{part.rest}/{number}", data, BYTES_CODEC))
        done.nbytes += size
