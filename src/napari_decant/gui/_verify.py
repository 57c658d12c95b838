"""The panel that proves archives: quick or full, down to the key that is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_decant.gui._below import SHOWN, cut, put_below
from napari_decant.gui._endings import verify_ending
from napari_decant.gui._options import Field, Options, threads_field
from napari_decant.gui._panel import JobPanel, Summary
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._settings import Settings
from napari_decant.gui._widgets import Action
from napari_decant.gui._words import count, size_text
from napari_decant.gui.jobs import ArchiveRow, Batch, Job, JobState, LeftOut, Task

if TYPE_CHECKING:
    from napari_decant.archive import VerifyReport

__all__ = ["VerifyPanel", "left_out_archives", "note_gone"]


def left_out_archives(panel: JobPanel, part: LeftOut) -> None:
    """Say what was dropped on a panel for archives that is none, and what can be done with it."""
    paths, it = list(part.paths), part.verb("it", "them")
    pack = Action(f"Pack {it}", "pack", f"Go to Pack with {it}", lambda: panel.handed.emit("pack", paths))
    if part.kind == "file":
        panel.note(f"{part.words} {part.verb('is no archive', 'are no archives')}.", pack)
    elif part.kind == "empty":
        panel.note(f"{part.words} {part.verb('holds', 'hold')} no archives.", pack)
    else:
        note_gone(panel, part)


def note_gone(panel: JobPanel, part: LeftOut) -> None:
    """Say that what was dropped is not there."""
    panel.note(f"{part.words} {part.verb('does', 'do')} not exist any more.", kind="warn")


class VerifyPanel(JobPanel):
    """Drop archives, see whether they are whole."""

    KEY = "verify"
    TITLE = "Verify"
    TIP = "Recompute every original from its archive"
    DROP = (
        "Drop archives here",
        "Every original is recomputed from its archive and compared,\n"
        "and what is damaged, missing or foreign is named.",
        "Drop more archives or folders here",
    )
    COLUMNS = (("name", "Archive"), ("what", "Found"), ("size", "Size"), ("state", "State"))
    FILTER = "Archives (*.zarr.zip);;All files (*)"

    def options(self) -> Options:
        """See `JobPanel.options`."""
        tip = "Look at structure and metadata only: quick, but it does not tell whether pixels are whole"
        fields = [
            Field("quick", "CheckBox", "Quick: do not read pixels", tip, {}),
            threads_field("an archive"),
        ]
        return Options(self.look, self.desk.settings, fields, _words)

    def add(self, paths: Sequence[Path]) -> None:
        """See `JobPanel.add`."""
        task = Task("find_archives", {"paths": list(paths)})
        self.look_at(task, "Looking for archives", self._found)

    def _found(self, part: Any) -> None:
        if isinstance(part, LeftOut):
            left_out_archives(self, part)
            return
        found: list[ArchiveRow] = part
        old = {row.path: row for row in self.rows.root.children}
        self.rows.add(
            Row(each.path.name, each.path, "archive", size=each.size, mark=Mark.READY)
            for each in found
            if each.path not in old
        )
        for each in found:  # what is dropped once more is to be verified once more
            row = old.get(each.path)
            if row is not None and not self.busy(row):
                row.mark, row.what, row.detail, row.word = Mark.READY, "", "", ""
                self.rows.set_children(row, [])
                self.rows.touch(row)
        self.refresh_soon()

    def _ready(self) -> list[Row]:
        again = (Mark.READY, Mark.FAILED, Mark.CANCELLED)
        return [row for row in self.rows.root.children if row.mark in again]

    def main(self) -> tuple[str, str, bool]:
        """See `JobPanel.main`."""
        ready = self._ready()
        quick = self.desk.settings.quick
        if not ready:
            tip = "Wait, or cancel" if self.batch else "Add archives first"
            return ("Verifying" if self.batch else "Verify"), tip, False
        size = size_text(sum(row.size for row in ready))
        words = (
            f"{'Check' if quick else 'Verify'} {count(len(ready), 'archive')}{' quickly' if quick else ''}"
        )
        tip = "Look at structure and metadata" if quick else f"Read all {size} and recompute every byte"
        return words, tip, True

    def start(self) -> None:
        """See `JobPanel.start`."""
        self.verify(self._ready(), quick=self.desk.settings.quick)

    def verify(self, rows: Sequence[Row], *, quick: bool, salvage: bool = False) -> None:
        """Verify some rows; ``salvage`` looks at what is left of archives that were cut short."""
        workers = self.desk.settings.workers or None

        def work() -> Iterator[tuple[Row, Job, str]]:
            for row in rows:
                self.rows.set_children(row, [])
                row.what = ""
                arguments = {"path": row.path, "quick": quick, "workers": workers, "salvage": salvage}
                task = Task("verify", arguments)
                # How much is inside is not known before; the engine's events tell.
                yield row, Job("verify", row.name, task, max(0, row.size)), ""

        self.run(work(), len(rows))

    def done(self, row: Row, job: Job) -> None:
        """See `JobPanel.done`."""
        if job.state is not JobState.DONE:
            return
        report: VerifyReport = job.result
        row.data = report
        self._remember(report)
        members = [_member(member) for member in report.members[:SHOWN]]
        of_members = {member.name: member for member in members}
        problems = []
        for problem in report.problems[:SHOWN]:
            member = of_members.get(problem.key)
            if member is not None:
                member.what = member.detail = problem.message
                continue
            problems.append(
                Row(problem.key, None, "file", problem.message, mark=Mark.PROBLEM, word=problem.kind,
                    detail=problem.message)
            )  # fmt: skip
        left = max(0, len(report.problems) - SHOWN) + max(0, len(report.members) - SHOWN)
        if report.problems:
            row.mark, row.what = Mark.DAMAGED, _tally(report)
            row.word = "incomplete" if any(each.kind == "incomplete" for each in report.problems) else ""
            row.detail = "\n".join(problem.message for problem in report.problems[:4])
        elif report.depth == "quick":
            row.mark, row.what = Mark.COMPLETE, f"{count(len(members), 'file')} inside"
            row.detail = "The structure is complete; pixels were not read."
        else:
            row.mark, row.what = Mark.WHOLE, f"{count(len(report.members), 'file')} recomputed"
            row.detail = "Every byte of every original was recomputed and is equal."
        put_below(self.table, row, cut([*problems, *members], left))

    def _remember(self, report: VerifyReport) -> None:
        known = {member.name: member.whole for member in report.members if member.whole is not None}
        self.desk.verified.pop(report.archive, None)
        if report.problems and known:
            self.desk.verified[report.archive] = known

    def _rescue(self, reports: Sequence[VerifyReport]) -> list[Action]:
        """What can be done for archives that are not whole: see what is, and get that back."""
        actions = []
        unread = {report.archive for report in reports if _is_unread(report)}
        saved = [report.archive for report in reports if _is_partly_whole(report)]
        if unread:
            rows = [row for row in self.rows.root.children if row.path in unread]
            tip = "Read what is left, and say of each file inside whether it is whole"
            find = Action("F&ind what is whole", "inspect", tip,
                          lambda: self.verify(rows, quick=False, salvage=True))  # fmt: skip
            actions.append(find)
        if saved:
            tip = "Go to Restore with the files that are still whole"
            back = Action("Restore what is &whole", "restore", tip,
                          lambda: self.handed.emit("restore", saved))  # fmt: skip
            actions.append(back)
        return actions

    def summary(self, batch: Batch) -> Summary:
        """See `JobPanel.summary`."""
        reports: list[VerifyReport] = [job.result for job in batch.jobs if job.state is JobState.DONE]
        actions = self._rescue(reports)
        if any(report.depth == "quick" and report.ok for report in reports):
            paths = {report.archive for report in reports if report.ok}
            rows = [row for row in self.rows.root.children if row.path in paths]
            tip = "Recompute every byte"
            actions.append(Action("Verify in &full", "verify", tip, lambda: self.verify(rows, quick=False)))
        tip = "Copy what was found, as text"
        rows_now = list(self.rows.root.children)
        actions.append(Action("&Copy report", "copy", tip, lambda: self.copy(rows_now)))
        return Summary(verify_ending(batch), actions)

    def report(self, row: Row) -> str:
        """See `JobPanel.report`."""
        lines = [super().report(row)]
        lines += [f"    {child.state}  {child.name}  {child.what}".rstrip() for child in row.children]
        return "\n".join(lines)

    def row_actions(self, row: Row) -> list[Action]:
        """See `JobPanel.row_actions`."""
        top = row.top
        path = top.path
        if path is None:
            return []
        actions = [
            Action("Show in folder", "folder", "Open its folder", lambda: self.show_in_folder(path)),
            *self.open_action([path]),
        ]
        if not self.busy(top):
            actions += self._rescue([top.data] if top.mark is Mark.DAMAGED else [])
            actions += [
                Action("Verify again", "verify", "Recompute every byte",
                       lambda: self.verify([top], quick=False)),
                Action("Restore", "restore", "Go to Restore with it",
                       lambda: self.handed.emit("restore", [path])),
            ]  # fmt: skip
        actions.append(
            Action("Inspect", "inspect", "See what is inside", lambda: self.handed.emit("inspect", [path]))
        )
        return actions


def _is_unread(report: VerifyReport) -> bool:
    """Whether it was cut short and nobody has read what is left."""
    cut = any(problem.kind == "incomplete" for problem in report.problems)
    return cut and any(member.whole is None for member in report.members)


def _is_partly_whole(report: VerifyReport) -> bool:
    """Whether something is wrong, but files inside are whole."""
    return bool(report.problems) and any(member.whole for member in report.members)


def _member(member: Any) -> Row:
    mark = {True: Mark.WHOLE, False: Mark.DAMAGED, None: Mark.NONE}[member.whole]
    row = Row(member.name, None, "file", f"sha256 {member.sha256}", member.size, mark=mark)
    if member.whole is None:
        row.word = "not read"
    return row


def _tally(report: VerifyReport) -> str:
    """``2 damaged, 1 missing; 3 of 5 files whole``."""
    kinds: dict[str, int] = {}
    for problem in report.problems:
        kinds[problem.kind] = kinds.get(problem.kind, 0) + 1
    words = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    whole = sum(member.whole is True for member in report.members)
    if report.depth == "full" and report.members:
        words += f"; {whole:,} of {count(len(report.members), 'file')} whole"
    return words


def _words(settings: Settings) -> str:
    return "quick: pixels are not read" if settings.quick else "full: every byte is recomputed"
