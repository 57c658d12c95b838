"""The panel that gives originals back: all or some, and never over what is there without a question."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QFileDialog, QMessageBox, QWidget

from napari_decant.gui._desk import Desk
from napari_decant.gui._endings import restore_ending
from napari_decant.gui._options import Options, folder_field, threads_field
from napari_decant.gui._panel import JobPanel, Summary
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._settings import Settings, chosen_folder
from napari_decant.gui._verify import left_out_archives
from napari_decant.gui._widgets import Action
from napari_decant.gui._words import count, size_text
from napari_decant.gui.jobs import ArchiveRow, Batch, Job, JobState, LeftOut, Restored, Task

__all__ = ["RestorePanel"]

_CLASH = "Two originals would go to the same place; see the table"
_FREE = (Mark.READY, Mark.FAILED, Mark.CANCELLED, Mark.KEPT)


class RestorePanel(JobPanel):
    """Drop archives, choose what to restore and where to."""

    KEY = "restore"
    TITLE = "Restore"
    TIP = "Get originals back, byte for byte"
    DROP = (
        "Drop archives here",
        "Their originals come back byte for byte, each checked before it gets its name.\n"
        "Archives are only read.",
        "Drop more archives or folders here",
    )
    COLUMNS = (("name", "Original"), ("what", "Goes to"), ("size", "Size"), ("state", "State"))
    FILTER = "Archives (*.zarr.zip);;All files (*)"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self.rows.checked.connect(self.refresh)
        self.form.changed.connect(self._on_option)

    def options(self) -> Options:
        """See `JobPanel.options`."""
        fields = [
            folder_field("restore_folder", "Folder", "Where originals go; made if it is missing", "none yet"),
            threads_field("an archive"),
        ]
        return Options(self.look, self.desk.settings, fields, _words)

    @property
    def folder(self) -> Path | None:
        """Where originals go."""
        return chosen_folder(self.desk.settings.restore_folder)

    def add(self, paths: Sequence[Path]) -> None:
        """See `JobPanel.add`."""
        task = Task("list_members", {"paths": list(paths)})
        self.look_at(task, "Looking into archives", self._found)

    def _found(self, part: Any) -> None:
        if isinstance(part, LeftOut):
            left_out_archives(self, part)
            return
        found: list[ArchiveRow] = part
        known = {row.path: row for row in self.rows.root.children}
        self.rows.add(self._row(each) for each in found if each.path not in known)
        for each in found:  # what is dropped once more may have been verified meanwhile
            old = known.get(each.path)
            if old is not None and not self.busy(old):
                self._choose_whole(old)
        self._place()

    def _row(self, found: ArchiveRow) -> Row:
        row = Row(found.path.name, found.path, "archive", size=found.original_size, data=found)
        if found.error:
            row.mark, row.detail, row.size = Mark.FAILED, found.error, found.size
            return row
        row.mark, row.checked = Mark.READY, True
        row.children = [
            Row(member.name, None, "file", size=member.size, checked=True, detail=f"sha256 {member.sha256}")
            for member in found.members
        ]
        if found.cut_short:
            row.word = "incomplete"
            row.detail = (
                f"{found.cut_short}. What is left of it can be restored: "
                "each file is proved by its sha256 before it gets its name."
            )
        self._choose_whole(row)
        return row

    def _choose_whole(self, row: Row) -> None:
        """Of an archive that was found not to be whole, choose the files that are."""
        states = self.desk.verified.get(row.path) if row.path is not None else None
        for child in row.children if states else []:
            if states is not None and states.get(child.name) is False:
                child.checked, child.mark = False, Mark.DAMAGED
                child.detail = "It was found damaged; restoring it would give no file."

    # --- where everything goes ---

    def _on_option(self, name: str) -> None:
        if name == "restore_folder":
            self._place()

    def _target(self, row: Row) -> Path | None:
        folder = self.folder
        if folder is None or row.data is None:
            return None
        alone = len(self.rows.root.children) == 1
        return folder / (row.data.alone if alone else row.data.among)

    def _place(self) -> None:
        """Say of every member where it will go, and which two would go to the same place."""
        first: dict[str, Row] = {}
        for row in self._restorable():
            target = self._target(row)
            row.what = str(target) if target is not None else "choose a folder"
            base = "" if target is None else os.path.join(target, "")
            for child in row.children:  # very many in a large series, so that each must be quick
                if child.mark is Mark.CLASH:
                    child.mark = Mark.NONE
                if not base:
                    child.path, child.what = None, ""
                    continue
                child.what = base + child.name.replace("/", os.sep)
                child.path = Path(child.what)
                same = first.setdefault(child.what.casefold(), child)
                if same is not child:
                    for each in (same, child):
                        each.mark = Mark.CLASH
                        each.detail = "Two originals would go to this place; take one of them off the list."
        self.rows.touch_all()
        for row in self._restorable():
            if self._clash(row.children):
                self.table.setExpanded(self.rows.index_of(row), True)
        self.refresh()

    def remove(self, rows: Any) -> None:
        """See `JobPanel.remove`."""
        super().remove(rows)
        self._place()

    def _restorable(self) -> list[Row]:
        return [row for row in self.rows.root.children if row.checked is not None]

    def _chosen(self) -> list[tuple[Row, list[Row]]]:
        """Archives with the members to restore of each."""
        rows = [row for row in self._restorable() if row.mark in _FREE]
        pairs = [
            (row, [child for child in row.children if child.checked and child.mark is not Mark.RESTORED])
            for row in rows
        ]
        return [(row, chosen) for row, chosen in pairs if chosen]

    @staticmethod
    def _clash(children: Iterable[Row]) -> bool:
        return any(child.mark is Mark.CLASH for child in children)

    def main(self) -> tuple[str, str, bool]:
        """See `JobPanel.main`."""
        chosen = [child for _, children in self._chosen() for child in children]
        if not chosen:
            if self.batch:
                return "Restoring", "Wait, or cancel", False
            tip = "Choose what to restore" if self._restorable() else "Add archives first"
            return "Restore", tip, False
        if self._clash(chosen):
            return "Restore", _CLASH, False
        size = size_text(sum(child.size for child in chosen))
        words = f"Restore {count(len(chosen), 'file')}"
        if self.folder is None:
            return f"{words} to…", f"{size}: choose a folder and restore", True
        return words, f"{size} to {self.folder}", True

    def start(self) -> None:
        """See `JobPanel.start`."""
        if self.folder is None:
            name = QFileDialog.getExistingDirectory(self, "Restore to folder", self.place())
            if not name:
                return
            self.desk.settings.restore_folder = name
        pairs = self._chosen()
        if self._clash(child for _, chosen in pairs for child in chosen):  # known only now
            self.note(f"{_CLASH}.", kind="warn")
            return
        targets = [child.path for _, chosen in pairs for child in chosen if child.path is not None]

        def checked(job: Job) -> None:
            if job.state is JobState.DONE:
                self._ask(pairs, {str(path) for path in job.result})

        self.look_at(Task("taken", {"targets": targets}), "", end=checked)

    def _ask(self, pairs: Sequence[tuple[Row, list[Row]]], taken: set[str]) -> None:
        """Restore, after a question if files are in the way."""
        if not taken:
            self._restore(pairs, overwrite=False)
            return
        first = next(iter(sorted(taken)))
        box = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Files are in the way")
        more = f" and {count(len(taken) - 1, 'other file')}" if len(taken) > 1 else ""
        box.setText(f"{first}{more} exist already." if more else f"{first} exists already.")
        box.setInformativeText("Leave what is there as it is, or replace it by the originals?")
        them = "them" if len(taken) > 1 else "it"
        leave = box.addButton(f"&Leave {them}", QMessageBox.ButtonRole.AcceptRole)
        replace = box.addButton(f"&Replace {them}", QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(leave)
        leave.setToolTip("Restore only what is missing")
        replace.setToolTip("What is there now is lost")

        def answered(button: Any) -> None:
            if button is replace:
                self._restore(pairs, overwrite=True)
            elif button is leave:
                left = [(row, [c for c in chosen if str(c.path) not in taken]) for row, chosen in pairs]
                for row, chosen in pairs:
                    for child in chosen:
                        if str(child.path) in taken:
                            child.mark = Mark.KEPT
                    if all(child.mark is Mark.KEPT for child in chosen):
                        row.mark = Mark.KEPT
                self._restore([pair for pair in left if pair[1]], overwrite=False)
            self.refresh()

        box.buttonClicked.connect(answered)
        box.open()
        self.question = box

    def _restore(self, pairs: Sequence[tuple[Row, list[Row]]], *, overwrite: bool) -> None:
        workers = self.desk.settings.workers or None

        def work() -> Iterator[tuple[Row, Job, str]]:
            for row, chosen in pairs:
                cut_short = bool(row.data.cut_short)
                everything = len(chosen) == len(row.children) and not cut_short
                arguments = {
                    "path": row.path,
                    "folder": self._target(row),
                    "members": None if everything else [child.name for child in chosen],
                    "overwrite": overwrite,
                    "workers": workers,
                    "salvage": cut_short,
                }
                size = sum(child.size for child in chosen)
                job = Job("restore", row.name, Task("restore", arguments), size)
                yield row, job, str(arguments["folder"])

        self.run(work(), len(pairs))

    def done(self, row: Row, job: Job) -> None:
        """See `JobPanel.done`."""
        report: Restored | None = job.result
        if report is None:
            return
        back = {str(path) for path in report.files}
        lost = dict(report.lost)
        for child in row.children:
            if str(child.path) in back:
                child.mark = Mark.RESTORED
            elif child.name in lost:
                child.mark, child.checked, child.detail = Mark.DAMAGED, False, lost[child.name]
            else:
                continue
            self.rows.touch(child)
        if len(back) < len(row.children):
            row.word = f"{len(back):,} of {len(row.children):,} restored"
        if not lost:
            row.mark = Mark.RESTORED
            row.detail = "\n".join([f"{count(len(back), 'file')} back, sha256 equal.", *report.notes])

    def summary(self, batch: Batch) -> Summary:
        """See `JobPanel.summary`."""
        folder = self.folder or Path()
        reports: list[Restored] = [job.result for job in batch.jobs if job.result is not None]
        actions = []
        files = [file for report in reports for file in report.files]
        if files:
            tip = "Open the folder of the originals"
            first = files[0]
            actions = [
                Action("Show in &folder", "folder", tip, lambda: self.show_in_folder(first)),
                *self.open_action([first]),
            ]
        return Summary(restore_ending(batch, folder), actions)

    def row_actions(self, row: Row) -> list[Action]:
        """See `JobPanel.row_actions`."""
        top = row.top
        path = top.path
        if path is None:
            return []
        actions = [Action("Show in folder", "folder", "Open its folder", lambda: self.show_in_folder(path))]
        if row.mark is Mark.RESTORED and row.path is not None and row is not top:
            back = row.path
            actions.append(
                Action("Show original", "folder", "Open its folder", lambda: self.show_in_folder(back))
            )
        actions += self.open_action([path])
        actions.append(
            Action("Verify", "verify", "Go to Verify with it", lambda: self.handed.emit("verify", [path]))
        )
        return actions


def _words(settings: Settings) -> str:
    return f"to {settings.restore_folder}" if settings.restore_folder else "no folder chosen yet"
