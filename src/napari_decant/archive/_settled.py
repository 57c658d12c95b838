"""Rows of a batch that are done before any work, and the results of those that could not be packed."""

from __future__ import annotations

import os

from napari_decant.archive._batch_report import BatchRow
from napari_decant.archive._plan import PlanRow
from napari_decant.archive._reader import Archive
from napari_decant.errors import Cancelled, DecantError, TargetExists

__all__ = ["failed_row", "files_of", "settle"]


def settle(row: PlanRow, *, overwrite: bool) -> BatchRow | None:
    """The result of a row that needs no work: it failed in planning, or its archive is there already.

    None if it is to be packed.
    """
    if row.mode == "failed":
        return BatchRow(
            row.source, row.target, "failed", "failed", None, row.reason or "", row.exit_code,
            relative=row.relative,
        )  # fmt: skip
    if overwrite or not os.path.lexists(row.target):
        return None
    try:
        with Archive(row.target) as archive:
            files = files_of(archive)
            same = _same_source(row, archive)
            mode, reason = archive.manifest.mode, archive.facts.get("reason")
    except DecantError as error:
        return failed_row(
            row, TargetExists(f"{row.target} exists and is no whole archive ({error}); remove it")
        )
    if not same:
        why = f"{row.target} exists already, of another state of {row.source.name}; remove it"
        return failed_row(row, TargetExists(why))
    size = row.target.stat().st_size if row.target.is_file() else _size_below(row.target)
    return BatchRow(
        row.source, row.target, "skipped", mode, reason if isinstance(reason, str) else None, "", 0,
        row.original_size, size, files, row.relative, row.mtime_ns,
    )  # fmt: skip


def _size_below(folder: os.PathLike[str]) -> int:
    return sum(
        os.lstat(os.path.join(root, name)).st_size for root, _, names in os.walk(folder) for name in names
    )


def _same_source(row: PlanRow, archive: Archive) -> bool:
    """Whether an archive was made of the very file, or files, that lie there now."""
    if row.series is None:
        size, name = archive.manifest.original_size, archive.manifest.original_name
        found = (size, archive.real_names()[name], archive.facts.get("mtime_ns"))
        return found == (row.original_size, row.source.name, row.mtime_ns)
    members = archive.manifest.members
    if len(members) != len(row.series.members):
        return False
    try:
        return all(
            planned.relpath == member.relpath
            and planned.layout.size == member.original_size
            and archive.kept.get(member.relpath, {}).get("mtime_ns") == planned.path.stat().st_mtime_ns
            for planned, member in zip(row.series.members, members, strict=True)
        )
    except OSError:  # a file went away since it was looked at
        return False


def failed_row(row: PlanRow, error: DecantError) -> BatchRow:
    """The result of a row that could not be packed."""
    state = "cancelled" if isinstance(error, Cancelled) else "failed"
    return BatchRow(
        row.source, row.target, state, row.mode, None, str(error), error.exit_code, row.original_size,
        relative=row.relative,
    )  # fmt: skip


def files_of(archive: Archive) -> tuple[tuple[str, str, int], ...]:
    """Path when restored, sha256 and size of each original in an archive."""
    manifest, names = archive.manifest, archive.real_names()
    if manifest.mode != "series":
        return ((names[manifest.original_name], manifest.original_sha256, manifest.original_size),)
    return tuple((names[m.relpath], m.original_sha256, m.original_size) for m in manifest.members)
