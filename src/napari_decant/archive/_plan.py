"""Say what each given path will become before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from napari_decant.archive._codec import parse_codec
from napari_decant.archive._describe import describe
from napari_decant.archive._layout import FileLayout, plan_file
from napari_decant.archive._names import member_name, natural_key
from napari_decant.archive._pack import archive_path
from napari_decant.archive._pack_series import series_name, series_path
from napari_decant.archive._report import Jsonable
from napari_decant.archive._sample import DOCUMENTS, packed_size, series_size
from napari_decant.archive._series import SeriesPlan, cannot_read, is_ours, plan_series
from napari_decant.archive._sets import LEFTOVERS, Group, group_files, group_folder
from napari_decant.archive._source import Source
from napari_decant.errors import Cancelled, DecantError, UsageError
from napari_decant.images import TIFF_SUFFIXES
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import require_path, storage_error

__all__ = ["PlanRow", "find_others", "find_tiffs", "plan"]


@dataclass(frozen=True, slots=True)
class PlanRow(Jsonable):
    """One archive to be.

    Attributes
    ----------
    source : Path
        The file, or the folder of a series.
    target : Path
        The archive.
    kind : {"file", "series"}
    mode : {"byte-exact", "verbatim", "series", "failed"}
    reason : str or None
        Why it is kept verbatim (a code), or cannot be packed (a sentence).
    original_size, estimated_size : int
        Bytes; the estimate comes from compressing a few samples.
    axes : tuple of str
    shape : tuple of int
        Of the image; empty if verbatim.
    dtype : str
    members : int
        Files inside.
    notes : tuple of str
    mtime_ns : int
        Of a single source when it was looked at.
    relative : str
        POSIX path of the source below the path that was given, for reports.
    exit_code : int
        Of a failure.
    """

    source: Path
    target: Path
    kind: str
    mode: str
    reason: str | None
    original_size: int
    estimated_size: int = 0
    axes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    members: int = 1
    notes: tuple[str, ...] = ()
    mtime_ns: int = 0
    relative: str = ""
    exit_code: int = 0
    series: SeriesPlan | None = field(default=None, repr=False, compare=False)

    def hidden(self) -> tuple[str, ...]:
        """Fields that are no part of the row's JSON."""
        return ("series",)


def find_tiffs(folder: Path, failed: Callable[[OSError], None] = cannot_read) -> Iterator[Path]:
    """TIFFs below a folder in natural order, and links to folders: the caller says that none is followed.

    Parameters
    ----------
    folder : Path
    failed : callable
        Gets the error of a folder that cannot be listed; by default it is raised as `StorageError`.
    """
    for root, folders, names in os.walk(folder, onerror=failed):
        here = Path(root)
        folders.sort(key=natural_key)
        yield from (here / name for name in folders if (here / name).is_symlink())
        folders[:] = [name for name in folders if not is_ours(name)]
        for name in sorted(names, key=natural_key):
            if name.lower().endswith(TIFF_SUFFIXES):
                yield here / name


def find_others(paths: Sequence[str | Path], rows: Sequence[PlanRow]) -> Iterator[Path]:
    """Files below the given folders that no row of their plan holds, in natural order.

    Archives, reports, checksums and unfinished files of this program are not among them, nor is anything
    below a folder that cannot be packed: its row says so.
    """
    held = {os.path.abspath(row.source) for row in rows if row.series is None}
    held |= {os.path.abspath(member.path) for row in rows if row.series for member in row.series.members}
    for path in paths:
        if os.path.abspath(path) in held:
            continue
        for root, folders, names in os.walk(path):
            here = os.path.abspath(root)
            folders[:] = sorted(
                (name for name in folders if not is_ours(name) and os.path.join(here, name) not in held),
                key=natural_key,
            )
            for name in sorted(names, key=natural_key):
                if not (os.path.join(here, name) in held or is_ours(name) or name.lower() in LEFTOVERS):
                    yield Path(root) / name


def plan(
    paths: Sequence[str | Path],
    output_dir: str | Path | None = None,
    *,
    series: bool = False,
    pattern: str | None = None,
    codec: str = "default",
    estimate: bool = True,
    workers: int = 1,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> list[PlanRow]:
    """Look at files and folders and say what each will become; nothing is written.

    Parameters
    ----------
    paths : sequence of path
        Files, or folders that are searched for TIFFs.
    output_dir : path, optional
        Where archives go; the tree below a given folder is kept. By default beside the sources.
    series : bool
        Pack each given folder (or the given files together) into one archive. A folder that holds files
        is one series with everything below it; one that holds only folders is a tree, and each of the
        first folders on the way down that holds files, TIFFs among them or below, is a series of its own.
        A file that belongs to a set (see `find_set`) stands for the whole set.
    pattern : str, optional
        How file names of a series give axes, such as ``img_t{t}_z{z}_c{c}.tif``.
    codec : str
        For the estimate.
    estimate : bool
        Compress some samples to estimate sizes.
    workers : int
        Threads.

    Returns
    -------
    list of PlanRow
        In natural order. What cannot be packed is a row of mode ``"failed"`` with the reason.

    Raises
    ------
    UsageError
        A path does not exist, a folder holds no TIFF, or the codec is unknown.
    UnsupportedOperation
        The only series holds links, or names that clash.
    """
    parse_codec(codec)  # a wrong one is refused before anything is read
    cancel = cancel or CancelToken()
    output = None if output_dir is None else Path(output_dir)
    given = [Path(path) for path in paths]
    for path in given:
        require_path(path)
    if series:
        return _plan_all_series(given, output, pattern, codec, estimate, workers, progress, cancel)
    rows: list[PlanRow] = []
    found: dict[tuple[Path, Path], None] = {}
    for path in given:
        found |= dict.fromkeys(_files_of(path, rows))

    def look(item: tuple[Path, Path]) -> PlanRow:
        cancel.check()
        file, base = item
        relative = file.relative_to(base).as_posix() if file != base else file.name
        folder = None if output is None else output / Path(relative).parent
        if file != base and file.is_symlink():
            reason = f"{file} is a link; links in a folder are not followed, name the file itself"
            return _failed(file, archive_path(file, folder), relative, UsageError(reason))
        return _plan_file(file, archive_path(file, folder), relative, codec, estimate)

    with ThreadPoolExecutor(max(1, workers)) as pool:
        for done, row in enumerate(pool.map(look, found), 1):
            rows.append(row)
            progress(Progress("plan", done, len(found), row.relative, "files"))
    return _one_each(rows)


def _failed(source: Path, target: Path, relative: str, error: DecantError, kind: str = "file") -> PlanRow:
    code = error.exit_code
    return PlanRow(source, target, kind, "failed", str(error), 0, relative=relative, exit_code=code)


def _one_each(rows: list[PlanRow]) -> list[PlanRow]:
    """Let no two rows write one archive."""
    first: dict[str, PlanRow] = {}
    unlike = []
    for row in rows:
        key = os.path.abspath(row.target)
        if row.mode != "failed" and first.setdefault(key, row) is not row:
            reason = (
                f"{row.source} would become {row.target}, as {first[key].source} does; "
                "pack them into different folders"
            )
            row = _failed(row.source, row.target, row.relative, UsageError(reason), row.kind)
        unlike.append(row)
    return unlike


def _files_of(path: Path, failed: list[PlanRow]) -> list[tuple[Path, Path]]:
    """Files to pack below a path, each with the folder that its relative name starts from."""
    if not path.is_dir():
        return [(path, path)]

    def unreadable(error: OSError) -> None:
        folder = Path(error.filename)
        reason = storage_error("reading", folder, error)
        failed.append(_failed(folder, folder, folder.relative_to(path).as_posix(), reason))

    before = len(failed)
    files = [(file, path) for file in find_tiffs(path, unreadable)]
    if not files and len(failed) == before:
        raise UsageError(f"{path} holds no TIFF files; choose another folder, or name the files themselves")
    return files


def _plan_file(file: Path, target: Path, relative: str, codec: str, estimate: bool) -> PlanRow:
    try:
        member_name(file.name)
        with Source(file) as source:
            layout = plan_file(source.read_at, source.size)
            size = _estimate(source, layout, codec) if estimate else 0
            if not layout.planes:
                return PlanRow(
                    file, target, "file", "verbatim", layout.reason, source.size, size,
                    mtime_ns=source.mtime_ns, relative=relative,
                )  # fmt: skip
            description = describe(source.file, layout)
            first = layout.planes[0]
            axes = (*description.axes.canonical_order, "y", "x", *(("c",) if first.samples > 1 else ()))
            shape = (*description.axes.canonical_shape, *first.shape)
            return PlanRow(
                file, target, "file", "byte-exact", None, source.size, size, axes, shape, first.dtype.name, 1,
                description.notes, source.mtime_ns, relative,
            )  # fmt: skip
    except DecantError as error:
        return _failed(file, target, relative, error)


def _plan_all_series(
    given: list[Path],
    output: Path | None,
    pattern: str | None,
    codec: str,
    estimate: bool,
    workers: int,
    progress: ProgressCallback,
    cancel: CancelToken,
) -> list[PlanRow]:
    loose = [Path(os.path.abspath(path)) for path in given if not path.is_dir()]
    folders: list[Path | None] = [path for path in given if path.is_dir()]
    folders += [None] if loose else []
    groups: list[Group | PlanRow] = []
    for folder in folders:
        try:
            groups += group_files(loose) if folder is None else group_folder(folder)
        except DecantError as error:
            if len(folders) == 1:
                raise
            source = folder or loose[0].parent
            groups.append(_failed(source, source, source.name, error, "series"))
    rows: list[PlanRow] = []
    for group in groups:
        if isinstance(group, PlanRow):
            rows.append(group)
            continue
        try:
            planned = plan_series(
                group.files, group.base, pattern=pattern, workers=workers, progress=progress, cancel=cancel
            )
            rows.append(_group_row(group, planned, output, codec, estimate))
        except DecantError as error:
            if len(groups) == 1 or isinstance(error, Cancelled):
                raise
            relative = group.relative or group.base.name
            rows.append(_failed(group.base, group.base, relative, error, "series"))
    return _one_each(rows)


def _group_row(group: Group, planned: SeriesPlan, output: Path | None, codec: str, estimate: bool) -> PlanRow:
    notes = planned.notes
    if group.passed:
        notes = (*notes, f"archives are no members: {', '.join(path.name for path in group.passed)}")
    planned = replace(planned, name=group.name, notes=notes)
    folder = None if output is None else output / PurePosixPath(group.relative).parent
    row = _series_row(planned, series_path(planned, folder), codec, estimate)
    return replace(row, relative=group.relative or row.relative)


def _series_row(planned: SeriesPlan, target: Path, codec: str, estimate: bool) -> PlanRow:
    size = series_size(planned, parse_codec(codec)) if estimate else 0
    row = PlanRow(
        planned.base, target, "series", "series", None, planned.size, size, members=len(planned.members),
        notes=planned.notes, relative=series_name(planned), series=planned,
    )  # fmt: skip
    if planned.description is None:
        return row
    axes = planned.description.axes
    first = next(plane for member in planned.members for plane in member.layout.planes)
    names = (*axes.canonical_order, "y", "x", *(("c",) if first.samples > 1 else ()))
    return PlanRow(
        row.source, target, "series", "series", None, planned.size, size, names,
        (*axes.canonical_shape, *first.shape), first.dtype.name, row.members, row.notes,
        relative=row.relative, series=planned,
    )  # fmt: skip


def _estimate(source: Source, layout: FileLayout, codec: str) -> int:
    """Size of the archive, from a few samples."""
    return DOCUMENTS + packed_size(source, layout, parse_codec(codec))
