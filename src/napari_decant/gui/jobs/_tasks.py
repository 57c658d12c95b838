"""What the worker processes do for the window: thin covers over the archive's functions."""

from __future__ import annotations

import os
import pickle
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from napari_decant import archive
from napari_decant.archive import BatchReport, BatchRow, Deletion, PlanRow, RestoreReport, VerifyReport
from napari_decant.archive._plan import find_tiffs
from napari_decant.errors import DecantError, UsageError
from napari_decant.gui.jobs._check import check, stores_below, write_checks
from napari_decant.gui.jobs._export import export, export_rows
from napari_decant.gui.jobs._inspect import inspect
from napari_decant.gui.jobs._leftovers import find_leftovers, remove_leftovers
from napari_decant.gui.jobs._rows import ArchiveRow, LeftOut, Member, Outcome, Planned
from napari_decant.gui.jobs._worker import Context
from napari_decant.progress import Progress

__all__ = [
    "check",
    "delete_originals",
    "export",
    "find_archives",
    "find_leftovers",
    "find_stores",
    "inspect",
    "list_members",
    "pack",
    "plan_export",
    "plan_pack",
    "remove_leftovers",
    "restore",
    "taken",
    "verify",
    "warm",
    "write_checks",
    "write_reports",
]

_PART_SECONDS = 0.2
_PART_ITEMS = 64
_SHOWN_MEMBERS = 500
_SMALLEST_LEVEL = 1024
_ZIPS = (".zip", ".ozx")


def warm(context: Context) -> None:
    """Load what the first real task needs: everything is imported by now."""


def _in_parts[T](items: Iterable[T], tell: Callable[[list[T]], None]) -> int:
    """Hand items out in small lists, so that neither side waits for the other."""
    part: list[T] = []
    count, due = 0, time.monotonic() + _PART_SECONDS
    for item in items:
        part.append(item)
        count += 1
        if len(part) >= _PART_ITEMS or time.monotonic() >= due:
            tell(part)
            part, due = [], time.monotonic() + _PART_SECONDS
    if part:
        tell(part)
    return count


# --- pack -------------------------------------------------------------------------------------------------


def plan_pack(
    context: Context,
    paths: Sequence[Path],
    output: Path | None,
    codec: str,
    series: bool,
    pattern: str | None,
) -> int:
    """Plan what was dropped: lists of `Planned` as parts, `LeftOut` for the rest; returns the count."""
    packed = [path for path in paths if _is_archive(path)]
    rest = [path for path in paths if path not in packed]
    if packed:
        context.part(LeftOut(tuple(packed), "archive"))

    def one_each() -> Iterator[PlanRow]:
        for path in rest:
            yield from _plan_files(context, path, output, codec)

    if not series or not rest:
        return _in_parts(map(_planned, one_each()), context.part)
    rows = archive.plan(
        rest, output, series=True, pattern=pattern, codec=codec, workers=2,
        progress=context.progress, cancel=context.cancel,
    )  # fmt: skip
    return _in_parts(map(_planned, rows), context.part)


def _is_archive(path: Path) -> bool:
    return path.name.endswith((archive.SUFFIX, ".ozx", ".zarr"))


def _plan_files(context: Context, path: Path, output: Path | None, codec: str) -> Iterator[PlanRow]:
    """As `archive.plan` does it, but row by row, so that the first ones show at once."""
    if not path.is_dir():
        yield from archive.plan([path], output, codec=codec, cancel=context.cancel)
        return
    files = list(find_tiffs(path))
    links = [file for file in files if file.is_symlink()]
    files = [file for file in files if not file.is_symlink()]
    if links:
        context.part(LeftOut(tuple(links), "link"))
    if not files:
        context.part(LeftOut((path,), "empty"))
    for number, file in enumerate(files, 1):
        (row,) = archive.plan([file], codec=codec, cancel=context.cancel)
        relative = file.relative_to(path)
        target = row.target if output is None else archive.archive_path(file, output / relative.parent)
        yield replace(row, target=target, relative=relative.as_posix())
        context.progress(Progress("plan", number, len(files), path.name, "files"))


def _planned(row: PlanRow) -> Planned:
    exists, folder = os.path.lexists(row.target), str(row.target.parent)
    if row.series is None:
        return Planned(row, exists=exists, folder=folder)
    packed = zlib.compress(pickle.dumps(row.series, pickle.HIGHEST_PROTOCOL), 1)
    members = [(member.relpath, member.layout.size) for member in row.series.members[:_SHOWN_MEMBERS]]
    return Planned(replace(row, series=None), packed, tuple(members), exists, folder)


def pack(
    context: Context, planned: Planned, codec: str, pyramid: bool, workers: int | None, overwrite: bool
) -> BatchRow | Outcome:
    """Pack one row of a plan; a pyramid ends where a level fits on a screen."""
    row = planned.row
    if planned.series:
        row = replace(row, series=pickle.loads(zlib.decompress(planned.series)))
    report = archive.pack_batch(
        [row], codec=codec, levels=_levels(row) if pyramid else 0, workers=workers, overwrite=overwrite,
        progress=context.progress, cancel=context.cancel,
    )  # fmt: skip
    (done,) = report.rows
    return Outcome(done, done.message) if done.state == "failed" else done


def _levels(row: PlanRow) -> int:
    sides = [extent for axis, extent in zip(row.axes, row.shape, strict=False) if axis in ("y", "x")]
    levels = 0
    while sides and max(sides) >> levels > _SMALLEST_LEVEL:
        levels += 1
    return levels


def write_reports(context: Context, rows: Sequence[BatchRow], seconds: float, folder: Path) -> list[Path]:
    """Write the report of a run and the hashes of its originals."""
    return list(archive.write_reports(BatchReport(tuple(rows), seconds), folder))


def delete_originals(context: Context, rows: Sequence[BatchRow], permanently: bool) -> list[Deletion]:
    """Delete originals whose archives are whole and give back exactly what is there now."""
    return archive.delete_sources(
        rows, permanently=permanently, progress=context.progress, cancel=context.cancel
    )


# --- verify and restore -----------------------------------------------------------------------------------


def _archives(context: Context, paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        context.cancel.check()
        if not path.is_dir() and path.exists() and not path.name.lower().endswith(_ZIPS):
            context.part(LeftOut((path,), "file"))
            continue
        try:
            yield from archive.find_archives([path]).items()
        except UsageError:  # there is none
            context.part(LeftOut((path,), "empty" if path.exists() else "gone"))


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return path.stat().st_size
    except OSError:  # working on it will say why
        return 0


def find_archives(context: Context, paths: Sequence[Path]) -> int:
    """Find archives at and below paths: lists of `ArchiveRow` as parts; returns the count."""
    rows = (ArchiveRow(path, _size(path)) for path, _ in _archives(context, paths))
    return _in_parts(rows, context.part)


def list_members(context: Context, paths: Sequence[Path]) -> int:
    """Say what the archives at and below paths hold: lists of `ArchiveRow` as parts; returns the count."""
    return _in_parts((_describe(*found) for found in _archives(context, paths)), context.part)


def _describe(path: Path, relative: str) -> ArchiveRow:
    try:
        info = archive.info(path)
    except DecantError as error:
        return ArchiveRow(path, _size(path), error=str(error))
    members = tuple(Member(file.name, file.size, file.sha256) for file in info.members)
    series = info.mode == "series"
    alone, among = (
        archive.restore_folder(relative, series=series, alone=alone).as_posix() for alone in (True, False)
    )
    return ArchiveRow(path, info.archive_size, info.original_size, members, alone, among)


def verify(context: Context, path: Path, quick: bool, workers: int | None) -> VerifyReport:
    """Verify one archive."""
    return archive.verify(
        path, quick=quick, workers=workers, progress=context.progress, cancel=context.cancel
    )


def taken(context: Context, targets: Sequence[Path]) -> list[Path]:
    """Those of the targets at which something is already."""
    return [target for target in targets if os.path.lexists(target)]


def restore(
    context: Context,
    path: Path,
    folder: Path,
    members: Sequence[str] | None,
    overwrite: bool,
    workers: int | None,
) -> RestoreReport:
    """Restore all members of an archive, or some."""
    options: dict[str, Any] = {
        "overwrite": overwrite,
        "workers": workers,
        "progress": context.progress,
        "cancel": context.cancel,
    }
    if members is None:
        return archive.restore(path, folder, **options)
    reports = [archive.restore(path, folder, member=name, **options) for name in members]
    return RestoreReport(
        path,
        tuple(file for report in reports for file in report.files),
        tuple(digest for report in reports for digest in report.sha256),
        sum(report.bytes for report in reports),
        tuple(note for report in reports for note in report.notes),
    )


def plan_export(
    context: Context, paths: Sequence[Path], output: Path | None, suffix: str, quantize: bool
) -> int:
    """Plan exports: lists of `ExportRow` as parts; returns the count."""
    return _in_parts(export_rows(paths, output, suffix, quantize, context), context.part)


def find_stores(context: Context, paths: Sequence[Path]) -> int:
    """Find what can be checked at and below paths: lists of paths as parts; returns the count."""
    return _in_parts(stores_below(context, paths), context.part)
