"""What the crop tool does in its threads: pictures, facts, layers, files. No Qt here."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.gui.crop._host import Made
from napari_decant.gui.crop._preview import preview_of, preview_share
from napari_decant.gui.crop._state import Cut, Key, Snapshot
from napari_decant.images.crop import (
    TARGET_SUFFIXES,
    CropArray,
    CropFacts,
    CropSource,
    Cutter,
    Device,
    Pace,
    Written,
    gpu_problem,
    measure_crop,
    placement_of,
    write_crop,
)
from napari_decant.progress import CancelToken, Progress, ProgressCallback
from napari_decant.spatial import Sampler, SizedQuery, SpatialQuery

__all__ = [
    "Facts",
    "FileJob",
    "Pictures",
    "cut_layers",
    "cut_pictures",
    "files_of",
    "fits",
    "measure",
    "target_suffix",
    "warm",
    "write_files",
]

_LEVEL_PIXELS: Final = 512  # of the longest side of the coarsest level of a layer that is cut when seen


@dataclass(frozen=True, slots=True)
class Facts:
    """What all cuts of a snapshot cost together."""

    parts: tuple[CropFacts, ...]

    @property
    def chunks(self) -> int | None:
        """Chunks touched; None where no source has any."""
        known = [part.chunks for part in self.parts if part.chunks is not None]
        return sum(known) if known else None

    def total(self, name: str) -> Any:
        """Sum of one of the numbers."""
        return sum(getattr(part, name) or 0 for part in self.parts)

    @property
    def to_read(self) -> int:
        """Bytes to read, or to slice where there are no chunks."""
        return sum(
            part.stored_bytes if part.stored_bytes is not None else part.decoded_bytes for part in self.parts
        )

    @property
    def exact(self) -> bool:
        """Whether nothing of it was estimated."""
        return all(part.exact for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Small pictures of what will be cut.

    Attributes
    ----------
    planes : tuple of (hashable, array)
        By key of the layer: (rows, columns), or (rows, columns, samples) of colours.
    share : float
        Of the box's sides, about its middle, that they show.
    """

    planes: tuple[tuple[Key, NDArray[Any]], ...]
    share: float


def warm(token: CancelToken) -> str | None:
    """Compile or load what sampling needs, so that no later preview waits for it; why there is no GPU."""
    from napari_decant.images.crop import source_of_arrays

    with Cutter(8 << 20, device="cpu") as cutter:
        for dtype in ("u1", "u2", "f4"):
            source = source_of_arrays([np.zeros((2, 4, 4), dtype)], "zyx")
            for kind in ("nearest", "linear"):
                token.check()
                sampler = Sampler(kind, "constant")
                matrix = [[1, 0, 0, 0.5], [0, 1, 0, 0.5], [0, 0, 1, 0.5]]
                cutter.cut(source, SpatialQuery(matrix, sampler, 0).resolve(source, (1, 2, 2)))
    return gpu_problem()


def cut_pictures(cutter: Cutter, snapshot: Snapshot, pixels: int, token: CancelToken) -> Pictures:
    """Cut a small picture out of every layer."""
    made = []
    share = preview_share(snapshot, pixels)
    for cut in snapshot.cuts:
        sized = preview_of(snapshot, cut, pixels, share)
        if sized is None:
            continue
        values = cutter.cut(cut.source, sized.resolve(cut.source), cancel=token)
        kept = list(cut.source.spatial[-2:])
        last = values.ndim - 1
        if last not in kept and last > kept[-1]:
            kept.append(last)  # samples of colours
        others = tuple(0 for _ in range(values.ndim - len(kept)))
        rest = [i for i in range(values.ndim) if i not in kept]
        made.append((cut.layer.key, values.transpose([*rest, *kept])[others]))
    return Pictures(tuple(made), share)


def measure(cutter: Cutter, snapshot: Snapshot, pace: Pace, token: CancelToken) -> Facts:
    """Find out what a snapshot costs."""
    parts = []
    for cut in snapshot.cuts:
        token.check()
        parts.append(measure_crop(cutter, cut.source, cut.resolution, cut.dtype, pace))
    return Facts(tuple(parts))


def fits(memory: int, snapshot: Snapshot) -> bool:
    """Whether the crops of a snapshot can be held in so much memory."""
    return sum(cut.nbytes for cut in snapshot.cuts) <= memory // 2


def cut_layers(
    memory: int, snapshot: Snapshot, pace: Pace, tell: ProgressCallback, token: CancelToken
) -> list[Made]:
    """Cut every layer of a snapshot.

    Those that do not fit into memory become arrays that are cut when they are looked at, with coarser levels.
    """
    device = snapshot.intent.device
    placements = [placement_of(cut.source, cut.resolution, cut.layer.placed) for cut in snapshot.cuts]
    if not fits(memory, snapshot):
        return [
            Made(cut, lazy_levels(Cutter(memory, device=device), cut), placement)  # lives as long as they do
            for cut, placement in zip(snapshot.cuts, placements, strict=True)
        ]
    total = sum(cut.nbytes for cut in snapshot.cuts)
    before = 0
    made = []
    with Cutter(memory, device=device) as cutter:
        for cut, placement in zip(snapshot.cuts, placements, strict=True):
            begun = time.monotonic()
            estimate = measure_crop(cutter, cut.source, cut.resolution, cut.dtype, pace).seconds
            array = CropArray(cut.source, cut.resolution, cutter, cut.dtype, token)
            values = array.read(_within(tell, before, total))
            pace.learn(estimate, time.monotonic() - begun)
            before += cut.nbytes
            made.append(Made(cut, [values], placement))
    return made


def lazy_levels(cutter: Cutter, cut: Cut) -> list[CropArray]:
    """Arrays that are cut when they are looked at, each half the size of the one before."""
    levels = [CropArray(cut.source, cut.resolution, cutter, cut.dtype)]
    query, spatial = cut.sized.query, cut.source.spatial
    rank = len(cut.source.axes)
    factor = 1
    while max(levels[-1].shape[i] for i in spatial) > _LEVEL_PIXELS:
        factor *= 2
        matrix = np.asarray(query.output_to_reference).copy()
        shape = list(cut.resolution.shape)
        for i in spatial:
            matrix[:, i] *= factor
            shape[i] = -(-shape[i] // factor)
        sampler = query.sampler
        if sampler.boundary == "error":  # a last voxel may reach beyond the edge by a part of itself
            sampler = Sampler(sampler.filter, "clamp")
        coarse = SpatialQuery(matrix.reshape(rank, rank + 1), sampler, "auto")
        resolution = SizedQuery(coarse, tuple(shape)).resolve(cut.source)
        levels.append(CropArray(cut.source, resolution, cutter, cut.dtype))
    return levels


def _within(tell: ProgressCallback, before: int, total: int) -> ProgressCallback:
    def passed(event: Progress) -> None:
        tell(replace(event, done=before + event.done, total=max(1, total)))

    return passed


@dataclass(frozen=True, slots=True)
class FileJob:
    """A file to be.

    Attributes
    ----------
    cut : Cut
        Of all channels that go into it.
    target : Path
    """

    cut: Cut
    target: Path


def files_of(snapshot: Snapshot, target: Path) -> list[FileJob]:
    """Which files the crops of a snapshot become.

    Layers that are neighbouring channels of one image become one file with these channels; where there are
    several files, each has its layer's name in its own.
    """
    sources: list[CropSource] = []
    for cut in snapshot.cuts:
        if not any(cut.source is source for source in sources):
            sources.append(cut.source)
    groups: list[list[Cut]] = []
    # channels in their order, which is not that of the layers
    for cut in sorted(
        snapshot.cuts,
        key=lambda cut: (
            next(i for i, source in enumerate(sources) if source is cut.source),
            sorted(cut.layer.fixed.items()),
        ),
    ):
        last = groups[-1] if groups else None
        if last is not None and _is_next(last[-1], cut):
            last.append(cut)
        else:
            groups.append([cut])
    cuts = [_joined(group) for group in groups]
    if len(cuts) == 1:
        return [FileJob(cuts[0], target)]
    names: list[str] = []
    for cut in cuts:
        plain = plain_name(cut.layer.name)
        names.append(plain if plain not in names else f"{plain} {len(names)}")
    suffix = target_suffix(target)
    stem = target.name[: len(target.name) - len(suffix)]
    return [FileJob(c, target.with_name(f"{stem} {n}{suffix}")) for c, n in zip(cuts, names, strict=True)]


def plain_name(name: str) -> str:
    """The name of a layer, as part of the name of a file."""
    return "".join(c if c.isalnum() or c in " -_." else "_" for c in name).strip(" .") or "layer"


def target_suffix(path: Path) -> str:
    """The end of a name that says what is written, as it is spelled there; empty if it says nothing."""
    ends = (".ome.tif", ".ome.tiff", *TARGET_SUFFIXES)
    known = next((end for end in ends if path.name.lower().endswith(end)), "")
    return path.name[len(path.name) - len(known) :]


def _is_next(a: Cut, b: Cut) -> bool:
    """Whether two cuts are the same box of neighbouring channels of one image."""
    if a.source is not b.source or a.dtype != b.dtype or set(a.layer.fixed) != set(b.layer.fixed):
        return False
    follows = [b.layer.fixed[name][0] == a.layer.fixed[name][1] for name in a.layer.fixed]
    same = a.layer.world == b.layer.world and a.resolution.sampler == b.resolution.sampler
    return same and len(follows) == 1 and all(follows)


def _joined(cuts: Sequence[Cut]) -> Cut:
    first = cuts[0]
    if len(cuts) == 1:
        return first
    (name,) = first.layer.fixed
    axis = next(i for i, a in enumerate(first.source.axes) if a.name == name)
    shape = list(first.sized.shape)
    shape[axis] = len(cuts)
    sized = SizedQuery(first.sized.query, tuple(shape))
    fixed = {name: (first.layer.fixed[name][0], cuts[-1].layer.fixed[name][1])}
    layer = replace(first.layer, fixed=fixed)
    return Cut(layer, sized, sized.resolve(first.source), first.dtype)


def write_files(
    jobs: Sequence[tuple[FileJob, Written]],
    tell: ProgressCallback,
    token: CancelToken,
    *,
    memory: int,
    device: Device = "auto",
    overwrite: bool,
) -> list[Path]:
    """Write crops, one file after the other; returns the files.

    Each appears as a whole or not at all. A cancel leaves those that are finished.
    """
    total = max(1, sum(job.cut.nbytes for job, _ in jobs))
    before = 0
    done: list[Path] = []
    for job, written in jobs:
        with Cutter(max(memory // 4, 64 << 20), device=device) as cutter:
            write_crop(
                job.target,
                CropArray(job.cut.source, job.cut.resolution, cutter, job.cut.dtype, token),
                written,
                memory=memory - cutter.memory,
                overwrite=overwrite,
                progress=_share_of(tell, before, job.cut.nbytes, total),
                cancel=token,
            )
        before += job.cut.nbytes
        done.append(job.target)
    return done


def _share_of(tell: ProgressCallback, before: int, weight: int, total: int) -> ProgressCallback:
    """Progress of one file as part of all: a writer counts the levels too."""

    def passed(event: Progress) -> None:
        share = event.done / event.total if event.total else 1.0
        tell(Progress("crop", before + math.floor(weight * share), total, event.item))

    return passed
