"""What the worker processes do for the window: thin covers over the archive's functions."""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from napari_decant import archive
from napari_decant.archive import BatchReport, BatchRow, Deletion, PlanRow
from napari_decant.archive._plan import find_tiffs
from napari_decant.errors import Cancelled, DecantError
from napari_decant.gui.jobs._archives import find_archives, list_members, restore, taken, verify
from napari_decant.gui.jobs._check import check, stores_below, write_checks
from napari_decant.gui.jobs._export import export, export_rows
from napari_decant.gui.jobs._inspect import inspect
from napari_decant.gui.jobs._leftovers import find_leftovers, remove_leftovers
from napari_decant.gui.jobs._rows import LeftOut, Outcome, Planned, left_out
from napari_decant.gui.jobs._worker import Context, in_parts
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

_SHOWN_MEMBERS = 500
_SMALLEST_LEVEL = 1024


def warm(context: Context) -> None:
    """Load what the first real task needs: everything is imported by now."""


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
    rest: list[Path] = []
    unfit: list[tuple[Path, str]] = []
    for path in paths:
        if not os.path.lexists(path):
            unfit.append((path, "gone"))
        elif _is_archive(path):
            unfit.append((path, "archive"))
        else:
            rest.append(path)
    for part in left_out(unfit):
        context.part(part)
    links: set[Path] = set()

    def found() -> Iterator[PlanRow]:
        if series and rest:
            yield from archive.plan(
                rest, output, series=True, pattern=pattern, codec=codec, workers=2,
                progress=context.progress, cancel=context.cancel,
            )  # fmt: skip
            return
        for path in rest:
            try:
                yield from _plan_files(context, path, output, codec, links)
            except Cancelled:
                raise
            except DecantError as error:  # what was dropped with it is planned all the same
                context.part(LeftOut((path,), "failed", why=str(error)))

    rows: list[PlanRow] = []

    def planned() -> Iterator[Planned]:
        seen: set[Path] = set()  # a file may be dropped together with its folder
        for row in found():
            if row.source not in seen:
                seen.add(row.source)
                rows.append(row)
                yield _planned(row)

    number = in_parts(planned(), context.part)
    _tell_others(context, rest, rows, links)
    return number


def _tell_others(
    context: Context, paths: Sequence[Path], rows: Sequence[PlanRow], links: Container[Path]
) -> None:
    """Files of the folders that will be in no archive, before somebody deletes a folder.

    Of links to TIFFs something was said already.
    """
    folders = [path for path in paths if any(row.source.is_relative_to(path) for row in rows)]
    others = (path for path in archive.find_others(folders, rows) if path not in links)
    first = tuple(islice(others, 2))
    if first:
        context.part(LeftOut(first, "other", sum(1 for _ in others)))


def _is_archive(path: Path) -> bool:
    return path.name.endswith((archive.SUFFIX, ".ozx", ".zarr"))


def _plan_files(
    context: Context, path: Path, output: Path | None, codec: str, linked: set[Path]
) -> Iterator[PlanRow]:
    """As `archive.plan` does it, but row by row, so that the first ones show at once."""
    if not path.is_dir():
        yield from archive.plan([path], output, codec=codec, cancel=context.cancel)
        return
    files = list(find_tiffs(path))
    links = [file for file in files if file.is_symlink()]
    files = [file for file in files if not file.is_symlink()]
    if links:
        context.part(LeftOut(tuple(links), "link"))
        linked.update(links)
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


# --- export and check -------------------------------------------------------------------------------------


def plan_export(
    context: Context, paths: Sequence[Path], output: Path | None, suffix: str, quantize: bool
) -> int:
    """Plan exports: lists of `ExportRow` as parts; returns the count."""
    return in_parts(export_rows(paths, output, suffix, quantize, context), context.part)


def find_stores(context: Context, paths: Sequence[Path]) -> int:
    """Find what can be checked at and below paths: lists of paths as parts; returns the count."""
    return in_parts(stores_below(context, paths), context.part)
