"""Pack a series into one archive: one shared image with a husk per member, or one archive a member."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from napari_decant.archive._attrs import image_attributes
from napari_decant.archive._codec import PixelCodec
from napari_decant.archive._encode import Counter, Encoder, Part
from napari_decant.archive._geometry import PageLayout
from napari_decant.archive._layout import regions_of
from napari_decant.archive._levels import NO_LEVELS, plan_levels
from napari_decant.archive._manifest import Member, PageRecord, dump_manifest
from napari_decant.archive._names import stored_name
from napari_decant.archive._pack import (
    SUFFIX,
    least_size,
    short_of_space,
    source_facts,
)
from napari_decant.archive._pack_nested import pack_nested
from napari_decant.archive._report import PackReport
from napari_decant.archive._sample import resolve_codec, sample_planes, series_size
from napari_decant.archive._series import SeriesPlan, without_planes
from napari_decant.archive._series_documents import series_facts, series_manifest
from napari_decant.archive._source import Source
from napari_decant.archive._verify import find_differences
from napari_decant.archive._workers import choose_workers
from napari_decant.archive._write import BYTES_CHUNK, ArchiveWriter
from napari_decant.errors import BudgetExceeded, DiskFull, IntegrityError
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import AtomicFile, make_folder
from napari_decant.stores._space import require_space

__all__ = ["pack_series", "series_name", "series_path"]

logger = logging.getLogger(__name__)


def series_path(plan: SeriesPlan, output_dir: Path | None = None) -> Path:
    """Where the archive of a series goes: its name plus ``.zarr.zip``, or ``.zarr`` if nested.

    By default beside the folder; beside its files where they are only a part of the folder.
    """
    # "." and ".." have no name of their own, and no parent that could be told from the text
    base = plan.base if plan.base.name not in ("", "..") else Path(os.path.abspath(plan.base))
    beside = base if plan.name else base.parent
    folder = beside if output_dir is None else output_dir
    return folder / f"{series_name(plan)}{SUFFIX if plan.consolidated else '.zarr'}"


def series_name(plan: SeriesPlan) -> str:
    """The series' own name, else the folder's."""
    return plan.name or Path(os.path.abspath(plan.base)).name or "series"


@dataclass(frozen=True, slots=True)
class _Job:
    plan: SeriesPlan
    target: Path
    codec: PixelCodec
    levels: int
    workers: int
    progress: ProgressCallback
    cancel: CancelToken


def pack_series(
    plan: SeriesPlan,
    target: Path,
    *,
    codec: str = "default",
    levels: int = 0,
    workers: int | None = None,
    memory: int | None = None,
    overwrite: bool = False,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> PackReport:
    """Pack the files of a plan into one archive and prove that each comes back byte for byte.

    Parameters
    ----------
    plan : SeriesPlan
        From `plan_series`.
    target : Path
        ``NAME.zarr.zip``, or a folder ``NAME.zarr`` for a nested series.
    codec, levels, workers, memory, overwrite, progress, cancel
        As for `pack`.

    Returns
    -------
    PackReport
        Its mode is ``"series"``.

    Raises
    ------
    As `pack`.
    """
    cancel = cancel or CancelToken()
    planes = [plane for member in plan.members for plane in member.layout.planes[:1]]
    largest = max([BYTES_CHUNK, *(plane.nbytes for plane in planes)])
    threads = choose_workers(largest, workers, memory)
    if not threads:
        raise BudgetExceeded("memory", (400 << 20) + 4 * largest, memory or 0, f"packing {plan.base}")
    make_folder(target.parent)
    pixel_codec = resolve_codec(codec, _samples(plan))
    job = _Job(plan, target, pixel_codec, levels, threads, progress, cancel)
    require_space(target.parent, least_size(len(plan.members)), f"packing {plan.base}")
    try:
        if plan.consolidated:
            return _pack_consolidated(job, overwrite)
        return pack_nested(
            plan, target, codec=codec, levels=levels, workers=threads, memory=memory, overwrite=overwrite,
            progress=progress, cancel=cancel,
        )  # fmt: skip
    except DiskFull as error:
        raise short_of_space(error, series_size(plan, pixel_codec), target.parent) from error


def _samples(plan: SeriesPlan) -> Iterator[np.ndarray]:
    """Some rows of a few members."""
    images = [member for member in plan.members if member.layout.planes]
    for member in images[:: max(1, len(images) // 3)][:3]:
        with Source(member.path) as source:
            yield from islice(sample_planes(source, member.layout), 1)


def _pack_consolidated(job: _Job, overwrite: bool) -> PackReport:
    with AtomicFile(job.target, overwrite=overwrite) as output:
        while True:
            hashes = _write_consolidated(job, output)
            output.sync_behind()  # the disk works while the archive is proved
            wrong = find_differences(
                output.path, hashes, workers=job.workers, progress=job.progress, cancel=job.cancel
            )
            if not wrong:
                break
            listed = {member.relpath for member in job.plan.members if member.layout.planes}
            if not wrong.keys() <= listed:
                raise IntegrityError(next(reason for name, reason in wrong.items() if name not in listed))
            # The format could not hold these layouts after all: keep their bytes, and the others as an image.
            for reason in wrong.values():
                logger.warning("%s; it is kept whole beside the image", reason)
            job = replace(job, plan=without_planes(job.plan, wrong.keys()))
            output.file.seek(0)
            output.file.truncate()
        size = output.path.stat().st_size
        output.commit()
    plan = job.plan
    report = PackReport(
        plan.base, job.target, "series", None, "", plan.size, size, codec=str(job.codec), workers=job.workers,
        notes=plan.notes, members=len(plan.members),
    )  # fmt: skip
    if plan.description is None:
        return report
    first, axes = _first_plane(plan), plan.description.axes
    names = (*axes.canonical_order, "y", "x", *(("c",) if first.samples > 1 else ()))
    return replace(report, axes=names, shape=(*axes.canonical_shape, *first.shape), dtype=first.dtype.name)


def _first_plane(plan: SeriesPlan) -> PageLayout:
    return next(plane for member in plan.members for plane in member.layout.planes)


def _write_consolidated(job: _Job, output: AtomicFile) -> dict[str, str]:
    """Write the whole archive; returns the sha256 of each member."""
    plan, description, codec = job.plan, job.plan.description, job.codec
    writer = ArchiveWriter(output.file, job.target)
    levels, axes = NO_LEVELS, None
    if description is not None:
        axes, first = description.axes, _first_plane(plan)
        levels = plan_levels(first.shape, job.levels)
        writer.add_image(axes.canonical_shape, (first.shape, *levels.shapes), first.dtype, codec)
    counter = Counter(job.progress, "pack", plan.size, stored_name(series_name(plan)))
    encoder = Encoder(writer, codec, axes, job.workers, counter, job.cancel, levels)
    members, facts = _write_members(job, writer, encoder)
    manifest = series_manifest(
        plan,
        job.target,
        members,
        pixel_codec=str(codec) if axes else "",
        plane_order=list(axes.plane_order) if axes else [],
        series_consolidated=True,
    )
    kept = series_facts(plan, facts)
    attributes: dict[str, Any] = {"decant": kept}
    if description is not None:
        name, first = stored_name(series_name(plan)), _first_plane(plan)
        attributes = image_attributes(
            name, description, first.samples, first.dtype, encoder.meter,
            {**kept, "dialect": description.dialect}, levels,
        )  # fmt: skip
    writer.finish(attributes, dump_manifest(manifest))
    return {member.relpath: member.original_sha256 for member in members}


def _write_members(
    job: _Job, writer: ArchiveWriter, encoder: Encoder
) -> tuple[list[Member], list[dict[str, Any]]]:
    """Write every member; sources are open only while they are worked on."""
    number_of = np.empty(len(job.plan.planes), np.int64)  # storage position of each plane
    if job.plan.description is not None:
        number_of[np.asarray(job.plan.description.order)] = np.arange(len(job.plan.planes))
    open_sources: list[Source] = []

    def parts() -> Iterator[Part]:
        start = 0
        for k, member in enumerate(job.plan.members):
            layout = member.layout
            source = Source(member.path)
            open_sources.append(source)
            source.check_size(layout.size)
            numbers = number_of[start : start + len(layout.planes)].tolist()
            start += len(layout.planes)
            # sorted by storage position, so that equal content gives equal bytes
            placed = sorted(zip(numbers, layout.planes, strict=True), key=lambda pair: pair[0])
            planes = [plane for _, plane in placed]
            gaps = regions_of(planes).gaps(source.size)
            yield Part(source, layout.byteorder, planes, [number for number, _ in placed], f"husk_{k}", gaps)

    members: list[Member] = []
    facts: list[dict[str, Any]] = []
    try:
        for part, sha256 in encoder.write(parts()):
            k = len(members)
            writer.add_bytes_array(part.rest, part.rest_size)
            part.source.check_unchanged()
            members.append(
                Member.model_construct(
                    relpath=job.plan.members[k].relpath,
                    original_size=part.source.size,
                    original_sha256=sha256,
                    byteorder=part.byteorder,
                    husk_array=part.rest,
                    husk_raw_size=part.rest_size,
                    pages=[
                        PageRecord.of(n, plane) for n, plane in zip(part.numbers, part.planes, strict=True)
                    ],
                    subarchive="",
                )
            )
            facts.append(_member_facts(job, part.source, k))
            part.source.close()
            open_sources.remove(part.source)
    finally:
        for source in open_sources:
            source.close()
    return members, facts


def _member_facts(job: _Job, source: Source, k: int) -> dict[str, Any]:
    facts = source_facts(source, source.path.relative_to(job.plan.base).as_posix())
    reason = job.plan.members[k].reason
    if reason is not None:
        facts["reason"] = reason
    return facts
