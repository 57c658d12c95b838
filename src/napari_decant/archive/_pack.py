"""Pack one file: `pack` decides, writes, recomputes everything from the finished file, then renames."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_decant import __version__
from napari_decant.archive._attrs import image_attributes
from napari_decant.archive._axes import canonical_permutation
from napari_decant.archive._codec import BYTES_CODEC, PixelCodec, parse_codec
from napari_decant.archive._contrast import ContrastMeter, PlaneSample, channel_of, sample_plane
from napari_decant.archive._describe import Description, describe
from napari_decant.archive._geometry import ByteOrder, PageLayout, segments_to_array
from napari_decant.archive._hashing import FollowingHasher
from napari_decant.archive._layout import FileLayout, plan_file, regions_of
from napari_decant.archive._manifest import FORMAT, Manifest, PageRecord, dump_manifest
from napari_decant.archive._pages import Reason
from napari_decant.archive._ranges import cut_ranges, read_ranges
from napari_decant.archive._report import PackReport
from napari_decant.archive._source import Source
from napari_decant.archive._verify import recompute
from napari_decant.archive._workers import Scratch, choose_workers, ordered
from napari_decant.archive._write import BYTES_CHUNK, ArchiveWriter, Encoded, encode_chunk
from napari_decant.errors import BudgetExceeded, IntegrityError
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import AtomicFile, storage_error

__all__ = ["SUFFIX", "archive_path", "pack"]

logger = logging.getLogger(__name__)

SUFFIX = ".zarr.zip"
_BATCH = 4 << 20  # small planes travel together, so that threads work longer than they wait
_HASH_LEAD = 256 << 20  # the hasher reads ahead of the workers by what a system's cache surely keeps


@dataclass(frozen=True, slots=True)
class _Job:
    """What all steps of one pack share."""

    source: Source
    target: Path
    codec: PixelCodec
    workers: int
    progress: ProgressCallback
    cancel: CancelToken


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
        ``"default"``, ``"fast"`` or an id such as ``"blosc:zstd:byteshuffle:clevel=5"``.
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
    TargetExists
        The archive exists already.
    SourceChanged
        The source was written to meanwhile.
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
    pixel_codec = parse_codec(codec)
    cancel = cancel or CancelToken()
    with Source(source) as opened:
        target = archive_path(source, folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error("creating", folder, error) from error
        layout = plan_file(opened.read_at, opened.size)
        layout, threads = _fit(layout, workers, memory)
        job = _Job(opened, target, pixel_codec, threads, progress, cancel)
        return _pack_planned(job, layout, overwrite)


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
    with AtomicFile(job.target, overwrite=overwrite) as output:
        while True:
            report, sha256 = _write_archive(job, layout, output)
            output.flush()
            job.source.check_unchanged()
            try:
                recompute(
                    output.path,
                    sha256,
                    workers=job.workers,
                    progress=job.progress,
                    cancel=job.cancel,
                    name=job.source.path.name,
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


def _write_archive(job: _Job, layout: FileLayout, output: AtomicFile) -> tuple[PackReport, str]:
    writer = ArchiveWriter(output.file, job.target)
    hasher = FollowingHasher(job.source.file, job.source.size)
    hasher.allow(_HASH_LEAD)
    counter = _Counter(job, hasher)
    try:
        if layout.planes:
            return _write_byte_exact(job, layout, writer, counter)
        return _write_verbatim(job, layout, writer, counter)
    finally:
        hasher.stop()


class _Counter:
    """Counts raw bytes done: moves the progress bar and lets the hasher follow."""

    def __init__(self, job: _Job, hasher: FollowingHasher) -> None:
        self._job, self._hasher, self._done = job, hasher, 0

    def add(self, nbytes: int) -> None:
        self._done += nbytes
        self._hasher.allow(self._done + _HASH_LEAD)
        self._job.progress(Progress("pack", self._done, self._job.source.size, self._job.source.path.name))

    def sha256(self) -> str:
        return self._hasher.result()


def _facts(job: _Job) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "software": f"napari-decant {__version__}",
        "mtime_ns": job.source.mtime_ns,
        "mode": job.source.mode,
    }


def _manifest(job: _Job, mode: str, sha256: str, **more: Any) -> Manifest:
    return Manifest.model_construct(
        decant_version=f"napari-decant {__version__}",
        format=FORMAT,
        mode=mode,
        original_name=job.source.path.name,
        original_size=job.source.size,
        original_sha256=sha256,
        **more,
    )


def _write_verbatim(
    job: _Job, layout: FileLayout, writer: ArchiveWriter, counter: _Counter
) -> tuple[PackReport, str]:
    writer.add_bytes_array("original", job.source.size)
    _write_bytes(job, writer, counter, "original", np.zeros(1, np.int64), np.array([job.source.size]))
    sha256 = counter.sha256()
    notes = f"kept verbatim: {layout.reason}"
    manifest = _manifest(job, "verbatim", sha256, notes=notes)
    writer.finish(
        {"decant": {"original": "original", **_facts(job), "reason": layout.reason}}, dump_manifest(manifest)
    )
    anomaly = (layout.anomaly,) if layout.anomaly else ()
    return PackReport(
        job.source.path,
        job.target,
        "verbatim",
        layout.reason,
        sha256,
        job.source.size,
        0,
        workers=job.workers,
        notes=anomaly,
    ), sha256


def _write_byte_exact(
    job: _Job, layout: FileLayout, writer: ArchiveWriter, counter: _Counter
) -> tuple[PackReport, str]:
    description = describe(job.source.file, layout)
    planes = [layout.planes[i] for i in description.order]
    shape = (*description.axes.canonical_shape, *planes[0].shape)
    dtype = planes[0].dtype
    chunks = (1,) * len(description.axes.plane_order) + planes[0].shape
    writer.add_array("0", shape, chunks, dtype, job.codec)
    meter = _write_planes(job, layout.byteorder, description, planes, writer, counter)
    regions = regions_of(planes)
    gap_offsets, gap_lengths = regions.gaps(job.source.size)
    husk_size = int(gap_lengths.sum())
    writer.add_bytes_array("husk", husk_size)
    _write_bytes(job, writer, counter, "husk", gap_offsets, gap_lengths)
    sha256 = counter.sha256()
    manifest = _manifest(
        job,
        "byte-exact",
        sha256,
        byteorder=layout.byteorder,
        pixel_codec=str(job.codec),
        pages=[PageRecord.of(i, plane) for i, plane in enumerate(planes)],
        plane_order=list(description.axes.plane_order),
        husk_raw_size=husk_size,
    )
    attributes = image_attributes(
        job.source.path.name,
        description,
        planes[0].samples,
        dtype,
        meter,
        {**_facts(job), "dialect": description.dialect},
    )
    writer.finish(attributes, dump_manifest(manifest))
    names = (*description.axes.canonical_order, "y", "x", *(("c",) if planes[0].samples > 1 else ()))
    anomaly = (layout.anomaly,) if layout.anomaly else ()
    return PackReport(
        job.source.path, job.target, "byte-exact", None, sha256, job.source.size, 0, names, tuple(shape),
        dtype.name, str(job.codec), job.workers, (*description.notes, *anomaly),
    ), sha256  # fmt: skip


def _write_bytes(
    job: _Job, writer: ArchiveWriter, counter: _Counter, name: str, offsets: np.ndarray, lengths: np.ndarray
) -> None:
    """Write file ranges as a 1-D uint8 array."""
    scratch = Scratch()
    chunk = min(BYTES_CHUNK, int(lengths.sum()))

    def encode(task: tuple[int, tuple[np.ndarray, np.ndarray]]) -> tuple[Encoded, int]:
        number, ranges = task
        size = int(ranges[1].sum())
        data = scratch.get("bytes", chunk)
        read_ranges(job.source.file, *ranges, data[:size])
        data[size:] = 0  # a Zarr v2 chunk is always stored whole
        return encode_chunk(f"{name}/{number}", data, BYTES_CODEC), size

    blocks = enumerate(cut_ranges(offsets, lengths, BYTES_CHUNK))
    for entry, size in ordered(encode, blocks, workers=job.workers, cancel=job.cancel):
        writer.put([entry])
        counter.add(size)


def _write_planes(
    job: _Job,
    byteorder: ByteOrder,
    description: Description,
    planes: Sequence[PageLayout],
    writer: ArchiveWriter,
    counter: _Counter,
) -> ContrastMeter:
    """Write the planes in storage order and measure them."""
    scratch = Scratch()
    meter = ContrastMeter()
    storage_shape = description.axes.storage_shape
    perm = canonical_permutation(description.axes.plane_order)
    nbytes = planes[0].nbytes
    tail = "/0" * len(planes[0].shape)

    def encode(batch: range) -> list[tuple[Encoded, int, PlaneSample | None]]:
        done = []
        for i in batch:
            job.cancel.check()
            position = np.unravel_index(i, storage_shape)
            key = "0/" + "/".join(str(position[axis]) for axis in perm) + tail
            array = _plane_array(job.source, planes[i], byteorder, scratch)
            channel = channel_of([int(p) for p in position], description.axes.plane_order)
            done.append(
                (encode_chunk(key, array[None], job.codec), channel, sample_plane(array, len(planes)))
            )
        return done

    for batch in ordered(encode, _batches(len(planes), nbytes), workers=job.workers, cancel=job.cancel):
        for entry, channel, sample in batch:
            writer.put([entry])
            meter.add(channel, sample)
            counter.add(nbytes)
    return meter


def _batches(count: int, nbytes: int) -> Iterator[range]:
    step = max(1, _BATCH // max(1, nbytes))
    return (range(start, min(start + step, count)) for start in range(0, count, step))


def _plane_array(source: Source, layout: PageLayout, byteorder: ByteOrder, scratch: Scratch) -> np.ndarray:
    """A plane as it goes into the chunk; valid until this thread's next one."""
    raw = scratch.get("raw", layout.nbytes)
    source.read_segments(layout, raw)
    if layout.is_plain and (byteorder == "<" or layout.dtype.itemsize == 1):
        return raw.view(layout.dtype).reshape(layout.shape)
    array = scratch.get("array", layout.nbytes).view(layout.dtype).reshape(layout.shape)
    segments_to_array(layout, raw, byteorder, array)
    return array
