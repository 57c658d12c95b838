"""How a run ended, in sentences a person can trust; no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_decant.gui._words import count, size_text
from napari_decant.gui.jobs import Batch, Checked, Exported, JobState, Restored

if TYPE_CHECKING:
    from napari_decant.archive import BatchRow, VerifyReport

__all__ = ["Ending", "check_ending", "export_ending", "pack_ending", "restore_ending", "verify_ending"]

_GOOD, _WARN, _BAD, _STOPPED = (
    ("whole", "good"),
    ("warning", "warn"),
    ("failed", "bad"),
    ("cancelled", "muted"),
)


@dataclass(frozen=True)
class Ending:
    """An icon with its colour, a sentence, more lines, and whether all went well."""

    icon: tuple[str, str]
    title: str
    lines: tuple[str, ...] = ()
    good: bool = True


def _rest(batch: Batch, noun: str, left: str) -> list[str]:
    """Lines on what failed or was cancelled."""
    lines = []
    failed, cancelled = batch.count(JobState.FAILED), batch.count(JobState.CANCELLED)
    if failed:
        lines.append(f"{count(failed, noun)} failed: the table says why. {left}")
    if cancelled:
        lines.append(f"{count(cancelled, noun)} cancelled. {left}")
    return lines


def _icon(batch: Batch, something: bool) -> tuple[str, str]:
    if batch.count(JobState.FAILED):
        return _WARN if something else _BAD
    if batch.count(JobState.CANCELLED):
        return _WARN if something else _STOPPED
    return _GOOD


def _where(folders: Sequence[Path]) -> str:
    first, *others = dict.fromkeys(folders)
    return f"In {first}" + (f" and {count(len(others), 'other folder')}" if others else "")


def pack_ending(batch: Batch) -> Ending:
    """Say it as in: 312 files, 1.2 TB, are now 214 archives, 0.6 TB. Every byte was checked."""
    results: list[BatchRow] = [job.result for job in batch.jobs if job.state is JobState.DONE]
    packed = [found for found in results if found.state == "packed"]
    before = len(results) - len(packed)
    lines = _rest(batch, "item", "Nothing unfinished was left behind.")
    ended_well = len(results) == len(batch)
    if not packed:
        if before and ended_well:
            title = "Everything was packed before; nothing was changed."
            return Ending(("complete", "accent"), title, ("Verify the archives to be sure of them.",))
        return Ending(_icon(batch, bool(before)), "Nothing was packed.", tuple(lines), False)
    if before:
        lines.insert(0, f"{count(before, 'archive')} of the same files had been there before.")
    lines.insert(0, _where([found.archive.parent for found in packed]))
    files = sum(len(found.files) for found in packed)
    sizes = [sum(found.original_size for found in packed), sum(found.archive_size for found in packed)]
    now = f"{len(packed):,} archives" if len(packed) > 1 else "one archive"
    title = (
        f"{count(files, 'file')}, {size_text(sizes[0])}, {'are' if files > 1 else 'is'} now {now}, "
        f"{size_text(sizes[1])}. Every byte was checked."
    )
    return Ending(_icon(batch, True), title, tuple(lines), ended_well)


def verify_ending(batch: Batch) -> Ending:
    """Say it as in: 5 archives are whole: every byte of 12 files, 3.4 GB, was recomputed."""
    reports: list[VerifyReport] = [job.result for job in batch.jobs if job.state is JobState.DONE]
    wrong = [report for report in reports if not report.ok]
    fine = [report for report in reports if report.ok]
    lines = _rest(batch, "archive", "")
    members = sum(len(report.members) for report in fine)
    size = size_text(sum(member.size for report in fine for member in report.members))
    verb = "is" if len(fine) == 1 else "are"
    quick = any(report.depth == "quick" for report in fine)
    if quick:
        said = f"{count(len(fine), 'archive')} {verb} complete in structure; pixels were not read."
        lines.append("A full check recomputes every byte; only that tells whether an archive is whole.")
    else:
        what = f"every byte of {count(members, 'file')}, {size}, was recomputed"
        said = f"{count(len(fine), 'archive')} {verb} whole: {what}."
    if wrong:
        bad = sum(len(report.problems) for report in wrong)
        some = f"{len(wrong):,} of {count(len(reports), 'archive')}"
        verb = "is" if len(wrong) == 1 else "are"
        title = f"{some} {verb} not whole: {count(bad, 'problem')} found."
        return Ending(_BAD, title, tuple([said] * bool(fine) + lines), False)
    if not fine:
        return Ending(_icon(batch, False), "Nothing was verified.", tuple(lines), False)
    good = len(fine) == len(batch)
    icon = ("complete", "accent") if quick and good else _icon(batch, True)
    return Ending(icon, said, tuple(lines), good)


def restore_ending(batch: Batch, folder: Path) -> Ending:
    """Say it as in: 12 files, 3.4 GB, are back, equal to the original to the last byte."""
    reports: list[Restored] = [job.result for job in batch.jobs if job.result is not None]
    files = sum(len(report.files) for report in reports)
    lines = _rest(batch, "archive", "No unfinished file was left behind.")
    lost = sum(len(report.lost) for report in reports)
    if lost:
        lines.insert(0, f"{count(lost, 'file')} could not be rebuilt: the table says why.")
    if not files:
        return Ending(_icon(batch, False), "Nothing was restored.", tuple(lines), False)
    size = size_text(sum(report.bytes for report in reports))
    verb = "is" if files == 1 else "are"
    title = f"{count(files, 'file')}, {size}, {verb} back, equal to the original to the last byte."
    notes = [note for report in reports for note in report.notes]
    return Ending(
        _icon(batch, True),
        title,
        (f"In {folder}", *notes[:3], *lines),
        not lost and len(reports) == len(batch),
    )


def export_ending(batch: Batch) -> Ending:
    """Say it as in: 3 images, 4.1 GB, are written, 2.0 GB. Every chunk was read back."""
    results: list[Exported] = [job.result for job in batch.jobs if job.state is JobState.DONE]
    lines = _rest(batch, "image", "Nothing unfinished was left behind.")
    if not results:
        return Ending(_icon(batch, False), "Nothing was exported.", tuple(lines), False)
    raw, size = sum(found.raw_bytes for found in results), sum(found.size for found in results)
    verb = "is" if len(results) == 1 else "are"
    title = (
        f"{count(len(results), 'image')}, {size_text(raw)} of voxels, {verb} written in {size_text(size)}. "
        "Every chunk was read back, and every rule that must hold does."
    )
    unmet = sum(bool(found.unmet) for found in results)
    if unmet:
        lines.insert(0, "Recommendations that the data do not allow stand below each image.")
    lines.insert(0, _where([found.target.parent for found in results]))
    return Ending(_icon(batch, True), title, tuple(lines), len(results) == len(batch))


def check_ending(batch: Batch) -> Ending:
    """Say it as in: 2 of 3 places break rules of dca-0.1: 5 rules broken, 7 recommendations not met."""
    results: list[Checked] = [job.result for job in batch.jobs if job.state is JobState.DONE]
    lines = tuple(_rest(batch, "place", "Nothing was changed."))
    if not results:
        return Ending(_icon(batch, False), "Nothing was checked.", lines, False)
    failed, warned = sum(found.failed for found in results), sum(found.warned for found in results)
    broken = sum(found.failed > 0 for found in results)
    standard = results[0].standard
    if len(results) == 1:
        title = f"{results[0].sentence}."
    elif broken:
        verb = "breaks" if broken == 1 else "break"
        title = (
            f"{broken:,} of {count(len(results), 'place')} {verb} rules of {standard}: "
            f"{count(failed, 'rule')} broken, {count(warned, 'recommendation')} not met."
        )
    else:
        unmet = f"; {count(warned, 'recommendation')} not met" if warned else ""
        title = f"{len(results):,} places follow {standard}: every rule that must hold does{unmet}."
    if failed:
        lines = ("Each broken rule says below what to do; Export writes a copy that follows them.", *lines)
    elif warned:
        lines = ("What is not met says below why, or what to do.", *lines)
    good = not failed and len(results) == len(batch)
    icon = _BAD if failed else _WARN if warned else _icon(batch, True)
    return Ending(icon, title, lines, good)
