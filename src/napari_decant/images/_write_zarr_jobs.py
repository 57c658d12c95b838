"""An image divided into jobs of which each has whole shards, so that any executor can spread them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_decant.errors import Cancelled, UsageError
from napari_decant.images._pyramid import Method
from napari_decant.images._write_image import ImageToWrite, parse_axes
from napari_decant.images._write_zarr_encode import ImageTarget
from napari_decant.images._write_zarr_layout import ArrayLayout
from napari_decant.images._write_zarr_plan import PlannedImage
from napari_decant.images._write_zarr_run import RegionRun
from napari_decant.images._write_zarr_source import VolumeSource
from napari_decant.images._write_zarr_stage import Stage
from napari_decant.images._write_zarr_tile_choice import TileChoice
from napari_decant.images._write_zarr_tiles import Region
from napari_decant.ngff import parse_array_meta
from napari_decant.progress import CancelToken, Claim, close_claims
from napari_decant.stores._atomic import storage_error

__all__ = ["Job", "Reopen", "WriteOptions", "divide", "image_target", "run_job", "run_jobs"]

Reopen = Callable[[str], ImageToWrite]
"""Opens the image of a group path again, in another process."""

_LEAST_LEVEL, _MOST_LEVEL = -(1 << 17), 22  # of zstd
_JOBS = 64  # wanted at least, so that many workers have something to do
_SMALL = 64 << 20  # an image below this is one job
_POLL_SECONDS, _STOP_SECONDS = 0.2, 60.0


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How chunks are written.

    Attributes
    ----------
    compression : int
        Level of zstd.
    shuffle : bool or None
        Whether bytes are shuffled before; None for floats only.
    verify : bool
        Read every chunk back and compare its hash.
    workers : int
        Threads of one process.

    Raises
    ------
    UsageError
        zstd has no such level.
    """

    compression: int = 1
    shuffle: bool | None = None
    verify: bool = True
    workers: int = 1

    def __post_init__(self) -> None:
        if not _LEAST_LEVEL <= self.compression <= _MOST_LEVEL:
            raise UsageError(
                f"the compression is {self.compression}; the levels of zstd end at {_MOST_LEVEL}"
            )

    def shuffles(self, dtype: np.dtype[Any]) -> bool:
        """Whether values of this type are shuffled."""
        return dtype.itemsize > 1 and (dtype.kind == "f" if self.shuffle is None else self.shuffle)


@dataclass(frozen=True)
class Job:
    """Some whole shards of one image; plain data, but for what ``reopen`` needs.

    Attributes
    ----------
    target : str
        Of the store.
    path : str
        Of the image in it.
    layout, dtype, method, options
        See `ImageTarget`.
    choice : TileChoice
    region : Region
        In indices of level ``base``.
    base, top : int
        Levels that are written, ``base`` included only where ``from_source``.
    from_source : bool
        Whether level ``base`` is level 0, read from the source; else it is read back from finished shards.
    """

    target: str
    path: str
    layout: ArrayLayout
    dtype: str
    method: Method
    options: WriteOptions
    choice: TileChoice
    region: Region
    base: int
    top: int
    from_source: bool

    @property
    def nbytes(self) -> int:
        """Bytes that are written, and checked."""
        total = 0
        region = self.region
        for level in range(self.base, self.top + 1):
            if self.from_source or level > self.base:
                total += math.prod(hi - lo for lo, hi in region)
            if level < self.top:
                factors = self.layout.factors[level]
                region = tuple((lo // f, -(-hi // f)) for (lo, hi), f in zip(region, factors, strict=True))
        return total * self.layout.itemsize * (2 if self.options.verify else 1)


def image_target(
    stage: Stage, path: str, layout: ArrayLayout, dtype: np.dtype[Any], method: Method, options: WriteOptions
) -> ImageTarget:
    """Describe where an image goes whose documents are in the stage already."""
    metas = []
    for level in range(len(layout.levels)):
        key = f"{path}/{level}/zarr.json" if path else f"{level}/zarr.json"
        metas.append(parse_array_meta((stage.folder / key).read_bytes(), 3, where=key))
    return ImageTarget(
        stage,
        path,
        layout,
        tuple(metas),
        dtype,
        method,
        options.compression,
        options.shuffles(dtype),
        options.verify,
    )


def divide(planned: PlannedImage, target: Path, options: WriteOptions, *, spread: bool) -> list[list[Job]]:
    """Jobs in rounds: those of one round need nothing of each other, and all of the round before.

    Parameters
    ----------
    planned : PlannedImage
    target : Path
    options : WriteOptions
    spread : bool
        False for one job that does everything in a single pass.
    """
    layout, last = planned.layout, len(planned.layout.levels) - 1

    def job(region: Region, base: int, top: int, from_source: bool) -> Job:
        return Job(
            str(target),
            planned.path,
            layout,
            planned.dtype.name,
            planned.method,
            options,
            planned.choice,
            region,
            base,
            top,
            from_source,
        )

    whole = tuple((0, n) for n in layout.levels[0].shape)
    if not spread or planned.level_bytes[0] < _SMALL:
        return [[job(whole, 0, last, True)]]
    counts = [math.prod(level.shard_grid) for level in layout.levels]
    top = max((k for k in range(last + 1) if counts[k] >= _JOBS), default=0)
    rounds = [[job(region, 0, top, True) for region in _shard_regions(layout, 0, top)]]
    if top < last:
        rounds.append([job(region, top, last, False) for region in _shard_regions(layout, top, last)])
    return rounds


def _shard_regions(layout: ArrayLayout, base: int, top: int) -> Iterator[Region]:
    """What every shard of level ``top`` covers, in indices of level ``base``."""
    level = layout.levels[top]
    times = [1] * 5
    for factors in layout.factors[base:top]:
        times = [a * f for a, f in zip(times, factors, strict=True)]
    for index in np.ndindex(*level.shard_grid):
        yield tuple(
            (i * s * f, min((i + 1) * s * f, n))
            for i, s, f, n in zip(map(int, index), level.shard, times, layout.levels[base].shape, strict=True)
        )


def run_job(
    job: Job,
    image: ImageToWrite | Reopen,
    cancel: CancelToken | None = None,
    advance: Callable[[int], None] | None = None,
) -> int:
    """Do one job, in this process; returns its bytes.

    Parameters
    ----------
    job : Job
    image : ImageToWrite or callable
        The source, or what opens it again.
    cancel : CancelToken, optional
    advance : callable, optional
        Told the bytes that were done since the last call.
    """
    stage = Stage(Path(job.target))
    dtype = np.dtype(job.dtype)
    target = image_target(stage, job.path, job.layout, dtype, job.method, job.options)
    source = None
    if job.from_source:
        opened = image if isinstance(image, ImageToWrite) else image(job.path)
        source = VolumeSource(
            opened.array,
            parse_axes(opened.axes),
            dtype=dtype,
            convert=opened.convert,
            cache_bytes=job.choice.cache_bytes,
        )
    done = [stage.finished(target.array(k), target.metas[k]) for k in range(len(target.metas))]
    if not job.from_source:
        shards = job.layout.levels[job.base].shard_grid
        done[job.base] = {tuple(map(int, index)) for index in np.ndindex(*shards)}
    RegionRun(
        target,
        source,
        job.choice,
        job.region,
        job.base,
        job.top,
        done=done,
        workers=job.options.workers,
        advance=advance or (lambda nbytes: None),
        cancel=cancel or CancelToken(),
        stored_base=not job.from_source,
    ).run()
    return job.nbytes


def run_jobs(
    rounds: list[list[Job]], executor: Executor, reopen: Reopen, stage: Stage, cancel: CancelToken
) -> Iterator[int]:
    """Spread jobs over an executor, round after round; yields the bytes of each that is done.

    Parameters
    ----------
    rounds : list of list of Job
    executor : concurrent.futures.Executor
        Of processes on this machine, or of a cluster that sees the same folders.
    reopen : callable
        Pickles, and opens the image of a group path in a worker.
    stage : Stage
        Has the folder by which workers learn of a cancel or a failure elsewhere.
    cancel : CancelToken

    Raises
    ------
    DecantError
        What the first job that failed raised. Those that had not begun are dropped, and the others stop.
    """
    folder = stage.run_folder()
    try:
        for number, jobs in enumerate(rounds):
            claims = [Claim(folder / f"{number}.{i}") for i in range(len(jobs))]
            yield from _run_round(jobs, claims, executor, reopen, CancelToken(folder / "cancelled"), cancel)
    finally:
        close_claims(folder, folder.with_name(f"{folder.name}.gone"))


def _run_round(
    jobs: list[Job],
    claims: list[Claim],
    executor: Executor,
    reopen: Reopen,
    stop: CancelToken,
    cancel: CancelToken,
) -> Iterator[int]:
    futures = {
        executor.submit(_run_claimed, job, claim, reopen, stop): claim
        for job, claim in zip(jobs, claims, strict=True)
    }
    pending = set(futures)
    try:
        while pending:
            finished, pending = wait(pending, timeout=_POLL_SECONDS, return_when="FIRST_COMPLETED")
            for future in finished:
                yield future.result()
            cancel.check()
    except BaseException:
        stop.cancel()
        for future in pending:
            if futures[future].take_back():
                future.cancel()
        wait(pending, timeout=_STOP_SECONDS)
        raise


def _run_claimed(job: Job, claim: Claim, reopen: Reopen, cancel: CancelToken) -> int:
    try:
        begun = claim.begin()
    except OSError as error:
        raise storage_error("writing", claim.path, error) from error
    if not begun:
        raise Cancelled("cancelled before it was begun")
    return run_job(job, reopen, cancel)
