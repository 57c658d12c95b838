"""Pack one file: decide, write, recompute everything from the finished file, then rename."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_decant import __version__
from napari_decant.archive._attrs import image_attributes
from napari_decant.archive._codec import PixelCodec, parse_codec
from napari_decant.archive._describe import describe
from napari_decant.archive._encode import Counter, Encoder, Part
from napari_decant.archive._layout import FileLayout, plan_file, regions_of
from napari_decant.archive._levels import plan_levels
from napari_decant.archive._manifest import FORMAT, Manifest, PageRecord, dump_manifest
from napari_decant.archive._names import member_name, raw_name_of, stored_name
from napari_decant.archive._pages import Reason
from napari_decant.archive._report import PackReport
from napari_decant.archive._sample import packed_size, resolve_codec, sample_planes
from napari_decant.archive._source import Source
from napari_decant.archive._verify import recompute
from napari_decant.archive._workers import choose_workers
from napari_decant.archive._write import BYTES_CHUNK, ArchiveWriter
from napari_decant.errors import BudgetExceeded, DiskFull, IntegrityError
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import AtomicFile, make_folder
from napari_decant.stores._space import free_space, require_space

__all__ = [
    "SOFTWARE",
    "SUFFIX",
    "archive_path",
    "least_size",
    "new_manifest",
    "pack",
    "short_of_space",
    "source_facts",
]

logger = logging.getLogger(__name__)

SUFFIX = ".zarr.zip"
SOFTWARE = f"napari-decant {__version__}"


@dataclass(frozen=True, slots=True)
class _Job:
    """What all steps of one pack share."""

    source: Source
    target: Path
    codec: PixelCodec
    levels: int
    workers: int
    progress: ProgressCallback
    cancel: CancelToken

    @property
    def name(self) -> str:
        """Of the source, as the archive holds it."""
        return stored_name(self.source.path.name)


def archive_path(source: Path, output_dir: Path | None = None) -> Path:
    """Where a file's archive goes: the full original name plus ``.zarr.zip``.

    ``a.tif``, ``a.tiff`` and ``a.lsm`` never collide, and a second run finds the first one's work.
    """
    return (source.parent if output_dir is None else output_dir) / f"{source.name}{SUFFIX}"


def pack(
    source: str | Path,
    output_dir: str | Path | None = None,
    *,
    codec: str = "default",
    levels: int = 0,
    workers: int | None = None,
    memory: int | None = None,
    overwrite: bool = False,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> PackReport:
    """Pack one file into ``NAME.zarr.zip`` and prove that it comes back byte for byte.

    The archive is written to a temporary file, the original is recomputed from it and compared
    by sha256, and only then does the archive get its name. The source is only read.

    Parameters
    ----------
    source : path
        Any file. A TIFF whose pixels the format can list becomes an OME-Zarr image
        (mode byte-exact), anything else is kept verbatim.
    output_dir : path, optional
        Made if it is missing; by default the source's own.
    codec : str
        ``"default"``, ``"fast"``, ``"smallest"`` or an id such as ``"blosc:zstd:byteshuffle:clevel=5"``.
    levels : int
        Derived pyramid levels, each half as wide and high as the one before, for viewing.
    workers : int, optional
        Threads; one a core by default.
    memory : int, optional
        Limit in bytes; workers drop to fit, and a plane that does not fit sends the file verbatim.
    overwrite : bool
        Replace an existing archive (once the new one is proved).
    progress : callable
        Gets a `Progress` about every plane.
    cancel : CancelToken, optional
        Stops the work; nothing is left behind.

    Returns
    -------
    PackReport

    Raises
    ------
    UsageError
        The source does not exist, or an option is wrong.
    UnsupportedOperation
        Its name could not be restored on every system.
    TargetExists
        The archive exists already.
    SourceChanged
        The source was written to meanwhile.
    DiskFull
        There is no room for the archive.
    StorageError
        Reading or writing failed.
    IntegrityError
        The finished archive did not give the source back; it was removed.
    BudgetExceeded
        ``memory`` is too small even for keeping the file verbatim.
    Cancelled
        ``cancel`` was used.
    """
    source = Path(source)
    folder = source.parent if output_dir is None else Path(output_dir)
    parse_codec(codec)
    plan_levels((1, 1), levels)  # a wrong number is refused before anything is read
    cancel = cancel or CancelToken()
    with Source(source) as opened:
        member_name(source.name)
        target = archive_path(source, folder)
        make_folder(folder)
        layout = plan_file(opened.read_at, opened.size)
        layout, threads = _fit(layout, workers, memory)
        pixel_codec = resolve_codec(codec, sample_planes(opened, layout))
        job = _Job(opened, target, pixel_codec, levels, threads, progress, cancel)
        require_space(folder, least_size(len(layout.planes)), f"packing {source}")
        try:
            return _pack_planned(job, layout, overwrite)
        except DiskFull as error:
            need = packed_size(opened, layout, pixel_codec) + least_size(len(layout.planes))
            raise short_of_space(error, need, folder) from error


def least_size(planes: int) -> int:
    """Bytes that an archive of so many planes takes at the very least: headers, directory and documents."""
    return 1000 + 300 * planes


def short_of_space(error: DiskFull, need: int, folder: Path) -> DiskFull:
    """The error of a full disk with the bytes that the whole archive is estimated to need."""
    return DiskFull(f"{error} (the archive needs about {need:,} bytes, {free_space(folder) or 0:,} are free)")


def _fit(layout: FileLayout, workers: int | None, memory: int | None) -> tuple[FileLayout, int]:
    if layout.planes:
        threads = choose_workers(max(layout.planes[0].nbytes, BYTES_CHUNK), workers, memory)
        if threads:
            return layout, threads
        layout = FileLayout(
            layout.size, layout.byteorder, reason=Reason.PLANE_OVER_MEMORY, anomaly=layout.anomaly
        )
    threads = choose_workers(BYTES_CHUNK, workers, memory)
    if not threads:
        least = next(m for m in range(0, 1 << 40, 1 << 24) if choose_workers(BYTES_CHUNK, 1, m))
        raise BudgetExceeded("memory", least, memory or 0, "packing any file")
    return layout, threads


def _pack_planned(job: _Job, layout: FileLayout, overwrite: bool) -> PackReport:
    notes: tuple[str, ...] = ()
    name = job.name
    with AtomicFile(job.target, overwrite=overwrite) as output:
        while True:
            report = _write_archive(job, layout, output)
            output.sync_behind()  # the disk works while the archive is proved
            job.source.check_unchanged()
            try:
                recompute(
                    output.path,
                    {name: report.sha256},
                    workers=job.workers,
                    progress=job.progress,
                    cancel=job.cancel,
                )
                break
            except IntegrityError as error:
                if not layout.planes:
                    raise
                # The format could not hold this layout after all: keep the bytes, and say why.
                logger.warning("%s: %s; it is kept verbatim", job.source.path, error)
                notes = (f"its pixels could not be listed exactly ({error}), so the file is kept as it is",)
                layout = FileLayout(layout.size, layout.byteorder, reason=Reason.RECONSTRUCTION)
                output.file.seek(0)
                output.file.truncate()
        size = output.path.stat().st_size
        output.commit()
    return replace(report, archive_size=size, notes=(*notes, *report.notes))


def _write_archive(job: _Job, layout: FileLayout, output: AtomicFile) -> PackReport:
    writer = ArchiveWriter(output.file, job.target)
    if layout.planes:
        return _write_byte_exact(job, layout, writer)
    return _write_verbatim(job, layout, writer)


def _write_part(job: _Job, part: Part, encoder: Encoder) -> str:
    ((_, sha256),) = encoder.write(iter([part]))
    return sha256


def _counter(job: _Job) -> Counter:
    return Counter(job.progress, "pack", job.source.size, job.name)


def _facts(job: _Job) -> dict[str, Any]:
    return {"format": FORMAT, "software": SOFTWARE, **source_facts(job.source, job.source.path.name)}


def source_facts(source: Source, name: str) -> dict[str, Any]:
    """What the archive keeps of a file beside its bytes."""
    facts: dict[str, Any] = {"mtime_ns": source.mtime_ns, "mode": source.mode}
    raw = raw_name_of(name)
    return facts if raw is None else {**facts, "raw_name": raw}


def new_manifest(mode: str, name: str, size: int, sha256: str, **more: Any) -> Manifest:
    """Make a manifest without checking again what was just measured."""
    return Manifest.model_construct(
        decant_version=SOFTWARE,
        format=FORMAT,
        mode=mode,
        original_name=name,
        original_size=size,
        original_sha256=sha256,
        **more,
    )


def _write_verbatim(job: _Job, layout: FileLayout, writer: ArchiveWriter) -> PackReport:
    source = job.source
    writer.add_bytes_array("original", source.size)
    everything = (np.zeros(1, np.int64), np.array([source.size]))
    part = Part(source, "<", (), (), "original", everything)
    sha256 = _write_part(job, part, Encoder(writer, job.codec, None, job.workers, _counter(job), job.cancel))
    note = f"kept verbatim: {layout.reason}"
    manifest = new_manifest("verbatim", job.name, source.size, sha256, notes=note)
    writer.finish(
        {"decant": {"original": "original", **_facts(job), "reason": layout.reason}}, dump_manifest(manifest)
    )
    anomaly = (layout.anomaly,) if layout.anomaly else ()
    return PackReport(
        source.path,
        job.target,
        "verbatim",
        layout.reason,
        sha256,
        source.size,
        0,
        workers=job.workers,
        notes=anomaly,
    )


def _write_byte_exact(job: _Job, layout: FileLayout, writer: ArchiveWriter) -> PackReport:
    source = job.source
    description = describe(source.file, layout)
    axes = description.axes
    planes = [layout.planes[i] for i in description.order]
    first = planes[0]
    shape = (*axes.canonical_shape, *first.shape)
    levels = plan_levels(first.shape, job.levels)
    writer.add_image(axes.canonical_shape, (first.shape, *levels.shapes), first.dtype, job.codec)
    part = Part(
        source, layout.byteorder, planes, range(len(planes)), "husk", regions_of(planes).gaps(source.size)
    )
    writer.add_bytes_array("husk", part.rest_size)
    encoder = Encoder(writer, job.codec, axes, job.workers, _counter(job), job.cancel, levels)
    sha256 = _write_part(job, part, encoder)
    manifest = new_manifest(
        "byte-exact",
        job.name,
        source.size,
        sha256,
        byteorder=layout.byteorder,
        pixel_codec=str(job.codec),
        pages=[PageRecord.of(i, plane) for i, plane in enumerate(planes)],
        plane_order=list(axes.plane_order),
        husk_raw_size=part.rest_size,
    )
    facts = {**_facts(job), "dialect": description.dialect}
    attributes = image_attributes(
        job.name, description, first.samples, first.dtype, encoder.meter, facts, levels
    )
    writer.finish(attributes, dump_manifest(manifest))
    names = (*axes.canonical_order, "y", "x", *(("c",) if first.samples > 1 else ()))
    anomaly = tuple(text for text in (layout.anomaly, layout.left_out) if text)
    return PackReport(
        source.path, job.target, "byte-exact", None, sha256, source.size, 0, names, tuple(shape),
        first.dtype.name, str(job.codec), job.workers, (*description.notes, *anomaly),
    )  # fmt: skip
