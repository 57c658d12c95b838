"""`write_ome_zarr`: the only way this program writes OME-Zarr 0.5."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_decant.engine import ZarrArray
from napari_decant.errors import UsageError
from napari_decant.images._cache import ChunkCache
from napari_decant.images._contrast import full_range, sample_contrast
from napari_decant.images._lazy import LazyArray, ZarrSource
from napari_decant.images._write_image import ImageToWrite
from napari_decant.images._write_zarr_jobs import Job, Reopen, WriteOptions, divide, run_job, run_jobs
from napari_decant.images._write_zarr_meta import (
    array_document,
    group_document,
    image_ome,
    ome_document,
    omero,
)
from napari_decant.images._write_zarr_plan import PlannedImage, WritePlan, plan_ome_zarr, worker_count
from napari_decant.images._write_zarr_stage import Stage
from napari_decant.ngff import labels_place, parse_array_meta
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores import FolderStore

__all__ = ["WriteReport", "write_ome_zarr"]

_MEASURED = 64  # channels whose contrast is measured one by one
_GROUPS = {"plate": "Plate", "well": "Well", "labels": "LabelsGroup"}


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What was written.

    Attributes
    ----------
    target : Path
    size : int
        Bytes of the store.
    raw_bytes : int
        Bytes of all voxels, levels included.
    images, shards : int
        Labels included.
    verified : bool
        Whether every chunk was read back and compared by its hash.
    resumed_shards : int
        Shards that an earlier run had finished.
    passes : float
        How often each byte of the sources was to be decoded, on average.
    memory : int
        Resident bytes that were planned at most.
    seconds : float
    """

    target: Path
    size: int
    raw_bytes: int
    images: int
    shards: int
    verified: bool
    resumed_shards: int
    passes: float
    memory: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {name: getattr(self, name) for name in self.__slots__} | {"target": str(self.target)}


def write_ome_zarr(
    target: str | os.PathLike[str] | WritePlan,
    images: ImageToWrite | Mapping[str, ImageToWrite] | None = None,
    *,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    memory: int | None = None,
    workers: int | None = None,
    compression: int = 1,
    shuffle: bool | None = None,
    verify: bool = True,
    overwrite: bool = False,
    executor: Executor | None = None,
    reopen: Reopen | None = None,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> WriteReport:
    """Write images of any size as OME-Zarr 0.5 that follows the array standard.

    Sharded Zarr v3 with zstd, five axes, chunks and shards by the rules, levels in the same pass, every chunk
    read back and compared. The target appears as a whole or not at all; meanwhile the work stands in
    ``.NAME.partial`` beside it, which a later run takes up after a kill and a cancel removes.

    Parameters
    ----------
    target : str, path or WritePlan
        A folder (``.zarr``), a single file (``.ozx``, RFC-9), or a plan of `plan_ome_zarr`.
    images : ImageToWrite or mapping of str to ImageToWrite
        One image at the root of the store, or several by path; None with a plan.
    groups : mapping of str to mapping, optional
        OME attributes of other groups by path: plates and wells.
    memory : int, optional
        Resident bytes of the whole program; 2 GiB by default.
    workers : int, optional
        Threads (of each process, with ``executor``); one a core by default.
    compression : int
        Level of zstd, 22 at most, and 3 to follow the standard.
    shuffle : bool, optional
        Shuffle bytes before compression; None for floats only, as the standard has it. Files of shuffled
        integers are smaller, but fewer programs read them.
    verify : bool
        Read every chunk back and compare its hash.
    overwrite : bool
        Replace the target.
    executor : concurrent.futures.Executor, optional
        Spreads the shards over processes or a cluster that see the same folders; each has one writer.
    reopen : callable, optional
        With ``executor``: opens the image of a group path in another process.
    progress : callable, optional
        Told bytes of voxels written and checked, from this thread.
    cancel : CancelToken, optional
        A set token ends the work within a chunk or so and removes what was written.

    Returns
    -------
    WriteReport

    Raises
    ------
    UsageError
        zstd has no such level, or there is nothing to write.
    FormatError
        Metadata of the images or groups do not fit OME-Zarr 0.5.
    TargetExists
        The target exists and ``overwrite`` is false.
    BudgetExceeded
        ``memory`` does not suffice.
    UnsupportedOperation
        Axes or data type cannot be written.
    IntegrityError
        What was read back is not what was written.
    StorageError
        Reading or writing failed; if every image has an ``identity``, what is finished is kept and the same
        call goes on from there.
    Cancelled
        The token was set; nothing is left.
    """
    begun = time.monotonic()
    if isinstance(target, WritePlan):
        plan = target
    elif images is None:
        raise UsageError("no image was given to write")
    else:
        plan = plan_ome_zarr(target, images, groups=groups, memory=memory, workers=workers)
    if executor is not None and reopen is None:
        raise UsageError("an executor needs reopen, which opens an image in another process")
    options = WriteOptions(compression, shuffle, verify, worker_count(workers))
    _group_documents(plan, None)  # what cannot be written is refused before a pixel is
    cancel = cancel or CancelToken()
    stage = Stage(plan.target)
    identity = {"options": [compression, shuffle], "images": {i.path: i.identity() for i in plan.images}}
    resumed = stage.open(identity, overwrite=overwrite)
    with stage.cleaning(resumable=all(image.image.identity for image in plan.images)):
        for image in plan.images:
            _write_arrays(stage, image, options)
        before = _finished(stage, plan) if resumed else 0
        _write_voxels(plan, stage, options, executor, reopen, progress, cancel)
        for key, document in _group_documents(plan, stage).items():
            stage.write(f"{key}/zarr.json".lstrip("/"), document)
        cancel.check()
        size = stage.commit(overwrite=overwrite)
    return WriteReport(
        plan.target,
        size,
        plan.raw_bytes,
        len(plan.images),
        plan.shards,
        verify,
        before,
        plan.passes,
        plan.memory,
        time.monotonic() - begun,
    )


def _array(image: PlannedImage, level: int) -> str:
    return f"{image.path}/{level}".lstrip("/")


def _write_arrays(stage: Stage, image: PlannedImage, options: WriteOptions) -> None:
    for number, level in enumerate(image.layout.levels):
        document = array_document(
            level, image.dtype, shuffle=options.shuffles(image.dtype), compression=options.compression
        )
        stage.write(f"{_array(image, number)}/zarr.json", document)


def _finished(stage: Stage, plan: WritePlan) -> int:
    """Shards of an earlier run."""
    count = 0
    for image in plan.images:
        for number in range(len(image.layout.levels)):
            path = _array(image, number)
            meta = parse_array_meta((stage.folder / path / "zarr.json").read_bytes(), 3, where=path)
            count += len(stage.finished(path, meta))
    return count


def _write_voxels(
    plan: WritePlan,
    stage: Stage,
    options: WriteOptions,
    executor: Executor | None,
    reopen: Reopen | None,
    progress: ProgressCallback,
    cancel: CancelToken,
) -> None:
    total = plan.raw_bytes * (2 if options.verify else 1)
    done = 0

    def advance(nbytes: int) -> None:
        nonlocal done
        done = min(total, done + nbytes)
        progress(Progress("export", done, total, plan.target.name))

    if executor is not None and reopen is not None:
        divided = [divide(image, plan.target, options, spread=True) for image in plan.images]
        merged: list[list[Job]] = []
        for jobs in itertools.chain.from_iterable(enumerate(rounds) for rounds in divided):
            merged += [[]] if jobs[0] == len(merged) else []
            merged[jobs[0]] += jobs[1]
        for nbytes in run_jobs(merged, executor, reopen, stage, cancel):
            advance(nbytes)
    else:
        for image in plan.images:
            ((job,),) = divide(image, plan.target, options, spread=False)
            run_job(job, image.image, cancel, advance)
    progress(Progress("export", total, total, plan.target.name))


def _group_documents(plan: WritePlan, stage: Stage | None) -> dict[str, bytes]:
    """Every group's document by path: images, labels groups, plates, and the plain groups between them.

    Without a stage, contrast limits that are not given stand for those that are measured on what is written.
    """
    documents: dict[str, bytes] = {}
    labels: dict[str, list[str]] = {}
    for image in plan.images:
        documents[image.path] = group_document(_image_ome(image, stage), image.image.attributes)
        if image.image.label is not None and (place := labels_place(image.path)) is not None:
            labels.setdefault(place[0], []).append(place[1])
    for path, names in labels.items():
        documents[path] = group_document(ome_document("LabelsGroup", {"labels": names}))
    for path, content in plan.groups.items():
        kind = next((_GROUPS[key] for key in _GROUPS if key in content), None)
        documents[path] = group_document(ome_document(kind, content) if kind else content or None)
    for path in list(documents):
        while path:
            path = path.rpartition("/")[0]
            documents.setdefault(path, group_document())
    return documents


def _image_ome(image: PlannedImage, stage: Stage | None) -> dict[str, Any]:
    given = image.image
    rendering = None
    if given.label is None:
        rendering = omero(
            given.channels,
            _windows(image, stage),
            image.dtype,
            rgb=given.rgb,
            default_t=given.default_t or 0,
            # some readers ask for both; without one, the middle is where there is most to see
            default_z=image.layout.levels[0].shape[2] // 2 if given.default_z is None else given.default_z,
        )
    return image_ome(
        image.layout,
        image.axes,
        name=given.name,
        method=image.method,
        label=given.label,
        rendering=rendering,
        below=place[1].count("/") + 2 if (place := labels_place(image.path)) is not None else 0,
    )


def _windows(image: PlannedImage, stage: Stage | None) -> list[tuple[float, float]]:
    """Contrast limits of every channel: as given, else measured on the coarsest level that was written."""
    count = image.layout.levels[0].shape[1]
    given = list(image.image.channels)
    known = [given[i].window if i < len(given) else None for i in range(count)]
    if image.image.rgb:
        return [full_range(image.dtype)] * count
    if all(window is not None for window in known):
        return [window or (0.0, 1.0) for window in known]
    if stage is None:
        return [window or full_range(image.dtype) for window in known]
    path = _array(image, len(image.layout.levels) - 1)
    with FolderStore(stage.folder) as store:
        array = LazyArray(ZarrSource(ZarrArray(store, path=path)), ChunkCache(0))
        if count > _MEASURED:
            whole = sample_contrast(array)
            return [window or whole for window in known]
        windows = []
        for i, window in enumerate(known):
            channel = array.take(i, 1)
            windows.append(
                window or (sample_contrast(channel) if isinstance(channel, LazyArray) else (0.0, 1.0))
            )
        return windows
