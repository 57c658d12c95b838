"""Archives for the window: find them, list what is inside, verify, and give originals back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from napari_decant import archive
from napari_decant.archive import Archive, RestoreReport, VerifyReport
from napari_decant.errors import (
    DecantError,
    FormatError,
    IncompleteFile,
    IntegrityError,
    UnsafeInput,
    UsageError,
)
from napari_decant.gui._words import count
from napari_decant.gui.jobs._rows import ArchiveRow, Member, Outcome, Restored, left_out
from napari_decant.gui.jobs._worker import Context, in_parts

__all__ = ["find_archives", "list_members", "restore", "taken", "verify"]

_ZIPS = (".zip", ".ozx")
_FOR_A_TERMINAL = "verify with --salvage says which are whole"
_HERE = "a full check of what is left says which are whole"


def _archives(context: Context, paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    seen: set[Path] = set()  # an archive may be dropped together with its folder
    rest: list[tuple[Path, str]] = []
    for path in paths:
        context.cancel.check()
        if not path.is_dir() and path.exists() and not path.name.lower().endswith(_ZIPS):
            rest.append((path, "file"))
            continue
        try:
            found = archive.find_archives([path])
        except UsageError:  # there is none
            rest.append((path, "empty" if path.exists() else "gone"))
            continue
        yield from ((each, place) for each, place in found.items() if each not in seen)
        seen.update(found)
    for part in left_out(rest):
        context.part(part)


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
    return in_parts(rows, context.part)


def list_members(context: Context, paths: Sequence[Path]) -> int:
    """Say what the archives at and below paths hold: lists of `ArchiveRow` as parts; returns the count."""
    return in_parts((_describe(*found) for found in _archives(context, paths)), context.part)


def _describe(path: Path, relative: str) -> ArchiveRow:
    try:
        info = archive.info(path)
    except IncompleteFile as error:
        return _describe_rest(path, relative, error)
    except DecantError as error:
        return ArchiveRow(path, _size(path), error=str(error))
    members = tuple(Member(file.name, file.size, file.sha256) for file in info.members)
    alone, among = _places(relative, series=info.mode == "series")
    return ArchiveRow(path, info.archive_size, info.original_size, members, alone, among)


def _places(relative: str, *, series: bool) -> tuple[str, str]:
    alone, among = (
        archive.restore_folder(relative, series=series, alone=alone).as_posix() for alone in (True, False)
    )
    return alone, among


def _describe_rest(path: Path, relative: str, error: IncompleteFile) -> ArchiveRow:
    """An archive that was cut short: its list of files, if that is left."""
    try:
        with Archive(path, salvage=True) as opened:
            manifest = opened.manifest
    except DecantError:
        return ArchiveRow(path, _size(path), error=str(error))
    members = tuple(Member(m.relpath, m.original_size, m.original_sha256) for m in manifest.members)
    if not members:
        only = Member(manifest.original_name, manifest.original_size, manifest.original_sha256)
        members = (only,)
    alone, among = _places(relative, series=manifest.mode == "series")
    size = sum(member.size for member in members)
    return ArchiveRow(path, _size(path), size, members, alone, among, cut_short=str(error))


def verify(
    context: Context, path: Path, quick: bool, workers: int | None, salvage: bool = False
) -> VerifyReport:
    """Verify one archive; ``salvage`` says of one that was cut short which originals are whole."""
    report = archive.verify(
        path, quick=quick, salvage=salvage, workers=workers,
        progress=context.progress, cancel=context.cancel,
    )  # fmt: skip
    problems = tuple(
        replace(problem, message=problem.message.replace(_FOR_A_TERMINAL, _HERE))
        for problem in report.problems
    )
    return replace(report, problems=problems)


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
    salvage: bool = False,
) -> Restored | Outcome:
    """Restore all members of an archive, or some; of some, one that is lost does not keep the others."""
    options: dict[str, Any] = {
        "overwrite": overwrite,
        "salvage": salvage,
        "workers": workers,
        "progress": context.progress,
        "cancel": context.cancel,
    }
    if members is None:
        return _restored(path, [archive.restore(path, folder, **options)])
    reports: list[RestoreReport] = []
    lost: list[tuple[str, str]] = []
    for name in members:
        try:
            reports.append(archive.restore(path, folder, member=name, **options))
        except UnsafeInput:
            raise
        except (FormatError, IntegrityError) as error:
            if len(members) == 1:
                raise
            lost.append((name, str(error)))
    done = replace(_restored(path, reports), lost=tuple(lost))
    if not lost:
        return done
    kept = f"{count(len(done.files), 'file')} {'is' if len(done.files) == 1 else 'are'} back"
    return Outcome(done, f"{kept}, {len(lost):,} of {count(len(members), 'file')} could not be: {lost[0][1]}")


def _restored(path: Path, reports: Sequence[RestoreReport]) -> Restored:
    return Restored(
        path,
        tuple(file for report in reports for file in report.files),
        sum(report.bytes for report in reports),
        tuple(note for report in reports for note in report.notes),
    )
