"""The panel that packs: files in, archives out, and the way to be rid of the originals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_decant.gui._delete import DeleteDialog
from napari_decant.gui._desk import Desk
from napari_decant.gui._endings import pack_ending
from napari_decant.gui._options import Field, Options, folder_field, threads_field
from napari_decant.gui._panel import Summary
from napari_decant.gui._planned import PlanningPanel
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._settings import Settings, chosen_folder
from napari_decant.gui._verify import note_gone
from napari_decant.gui._widgets import Action, Notice
from napari_decant.gui._words import becomes_text, count, reason_text, size_text
from napari_decant.gui.jobs import Batch, Job, JobState, LeftOut, Planned, Task

if TYPE_CHECKING:
    from napari_decant.archive import BatchRow, PlanRow

__all__ = ["PackPanel"]


def _words(settings: Settings) -> str:
    """What differs from the defaults."""
    parts = [f"to {settings.output_folder}" if settings.output_folder else "beside each original"]
    if settings.series:
        parts.append("one archive a folder")
    if settings.codec != "default":
        parts.append("fast")
    if settings.pyramid:
        parts.append("with pyramid")
    if settings.replace:
        parts.append("existing archives are replaced")
    return ", ".join(parts)


class PackPanel(PlanningPanel):
    """Drop TIFFs and folders, see what they will become, pack them."""

    KEY = "pack"
    TITLE = "Pack"
    TIP = "Make archives of TIFFs that give back every byte"
    DROP = (
        "Drop TIFFs or folders here",
        "Each becomes one .zarr.zip: an image that napari and other viewers open,\n"
        "and every byte of the original. Originals are only read.",
        "Drop more TIFFs or folders here",
    )
    COLUMNS = (
        ("name", "Name"),
        ("what", "What it becomes"),
        ("size", "Size"),
        ("packed", "Packed"),
        ("state", "State"),
    )
    FILTER = (
        "TIFF files (*.tif *.tiff *.btf *.tf2 *.tf8 *.ptif *.ptiff *.lsm *.stk *.flex *.svs *.ndpi *.scn "
        "*.bif *.qptiff *.pcoraw);;All files (*)"
    )

    PLANS = ("output_folder", "series", "pattern", "codec")

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        self._known: set[Path] = set()
        self._questions: list[Notice] = []
        self._outside: set[str] = set()
        self._packed: list[BatchRow] = []  # by the last run
        super().__init__(desk, parent)
        self._offering = QTimer(self)  # the dialog comes once the summary stands there
        self._offering.setSingleShot(True)
        self._offering.timeout.connect(self._offer_delete)

    def options(self) -> Options:
        """See `JobPanel.options`."""
        fields = [
            folder_field(
                "output_folder",
                "Output folder",
                "Where archives go, with the folders below what you drop",
                "beside each original",
            ),
            Field(
                "series", "CheckBox", "One archive a folder: its files are one series",
                "A folder of single planes becomes one image, its axes taken from metadata or names", {},
            ),
            Field(
                "pattern", "LineEdit", "Series pattern",
                "How names give axes, such as img_t{t}_z{z}_c{c}.tif", {},
                "found out from metadata and names",
            ),
            Field(
                "codec", "ComboBox", "Compression",
                "Standard is a few percent smaller, fast takes about half the time",
                {"choices": [("Standard", "default"), ("Fast", "fast")]},
            ),
            Field(
                "pyramid", "CheckBox", "Pyramid: smaller copies for viewing",
                "Large images open faster in viewers; archives grow by about a third", {},
            ),
            threads_field("a file"),
            Field(
                "replace", "CheckBox", "Replace existing archives",
                "Otherwise archives of the same file are kept, and others are not touched", {},
            ),
            Field(
                "offer_delete", "CheckBox", "Ask about deleting originals at the end",
                "When all is done, show the dialog for deleting originals; nothing is deleted without it", {},
            ),
        ]  # fmt: skip
        return Options(self.look, self.desk.settings, fields, _words)

    # --- planning ---

    def plan(self, paths: Sequence[Path], *, dropped: bool = False) -> None:
        """See `PlanningPanel.plan`."""
        settings = self.desk.settings
        task = Task(
            "plan_pack",
            {
                "paths": list(paths),
                "output": chosen_folder(settings.output_folder),
                "codec": settings.codec,
                "series": settings.series,
                "pattern": settings.pattern or None,
            },
        )
        what = paths[0].name if len(paths) == 1 else count(len(paths), "dropped item")
        new: list[PlanRow] = []
        known: list[PlanRow] = []

        def planned(part: Any) -> None:
            for each in part if not isinstance(part, LeftOut) else ():
                (known if each.row.source in self._known else new).append(each.row)
            self._planned(part)

        def looked(job: Job) -> None:
            if dropped and known and not new and job.state is JobState.DONE:
                self.note_nothing_new(what)
            self._looked(paths, new)

        self.look_at(task, f"Looking at {what}", planned, looked)

    def _planned(self, part: Any) -> None:
        if isinstance(part, LeftOut):
            self._left_out(part)
            return
        new = [planned for planned in part if planned.row.source not in self._known]
        self._known.update(planned.row.source for planned in new)
        self.rows.add(self._row(planned) for planned in new)
        self.refresh_soon()

    def _row(self, planned: Planned) -> Row:
        plan = planned.row
        icon = {"series": "series", "byte-exact": "image"}.get(plan.mode, "file")
        name = (
            f"{plan.relative}/  ({count(plan.members, 'file')})" if plan.kind == "series" else plan.relative
        )
        row = Row(
            name or plan.source.name, plan.source, icon, becomes_text(planned), plan.original_size,
            plan.estimated_size or -1, True, Mark.READY, data=planned,
        )  # fmt: skip
        lines = list(plan.notes)
        if plan.mode == "failed":
            row.mark, row.size, row.packed = Mark.FAILED, -1, -1
            lines.insert(0, plan.reason or "")
        elif plan.mode == "verbatim":
            lines.insert(0, f"Kept as it is, since {reason_text(plan.reason)}; still byte for byte.")
        if planned.exists:
            lines.append(f"{plan.target} exists already: it is kept if it holds this very file.")
        row.detail = "\n".join(line for line in lines if line)
        row.children = [Row(name, plan.source / name, "file", size=size) for name, size in planned.members]
        if plan.kind == "series" and plan.members > len(planned.members):
            row.children.append(Row(f"and {plan.members - len(planned.members):,} more"))
        return row

    def _left_out(self, part: LeftOut) -> None:
        paths = list(part.paths)
        first = part.words
        if part.kind == "gone":
            note_gone(self, part)
        elif part.kind == "failed":
            self.note(part.why, kind="bad")
        elif part.kind == "archive":
            self.note(
                f"{first}: packed already, or no TIFF.",
                Action("Verify", "verify", "Verify them", lambda: self.handed.emit("verify", paths)),
                Action("Restore", "restore", "Restore them", lambda: self.handed.emit("restore", paths)),
            )
        elif part.kind == "other":
            number = len(paths) + part.more
            some = ", ".join(path.name for path in paths) + (", …" if part.more else "")
            be = "is no TIFF by its name and stays" if number == 1 else "are no TIFFs by their names and stay"
            text = f"{count(number, 'other file')} {be} outside: {some}"
            self._outside.add(text)
            self.note(text)
        elif part.kind == "link":
            self.note(f"{first}: links in a folder are not followed; add the files themselves.", kind="warn")
        else:
            self.note(f"{first} holds no TIFF files. Choose another folder, or add its files themselves.")

    def _looked(self, paths: Sequence[Path], found: Sequence[PlanRow]) -> None:
        """Ask whether files that are alike belong together, where most of a folder's are."""
        if len(paths) != 1 or self.desk.settings.series:
            return
        kinds = Counter(
            (row.source.parent, row.axes, row.shape, row.dtype) for row in found if row.mode == "byte-exact"
        )
        alike = {kind: number for kind, number in kinds.items() if number > 1}
        folders = {folder for folder, *_ in alike}
        if 2 * sum(alike.values()) <= len(found):
            return
        if len(folders) == 1:
            (folder,) = folders
            number = sum(row.source.parent == folder for row in found)
            words = f"Are the {number:,} files in {folder.name} one series?", "Make one image of them"
        else:
            words = (
                f"Are the files of each of {len(folders):,} folders one series?",
                "Make one image a folder",
            )
        act = Action(words[1], "series", "One archive for each folder", self._as_series)
        question = self.note(words[0], act)
        if question not in self._questions:
            self._questions.append(question)
            question.closed.connect(partial(self._questions.remove, question))

    def _ask_no_more(self) -> None:
        for question in list(self._questions):
            question.put_away()

    def _as_series(self) -> None:
        self._ask_no_more()  # it is the answer to all of them
        self.desk.settings.series = True

    def drop_plans(self, rows: Iterable[Row]) -> None:
        """See `PlanningPanel.drop_plans`."""
        gone = list(rows)
        self._known.difference_update(row.path for row in gone if row.path is not None)
        for notice in self.notices():
            if notice.text in self._outside:  # another plan may take those files in
                notice.put_away()
        self._outside.clear()
        super().drop_plans(gone)

    def remove(self, rows: Iterable[Row]) -> None:
        """See `JobPanel.remove`."""
        chosen = [row for row in rows if not self.busy(row)]
        self._known.difference_update(row.path for row in chosen if row.path is not None)
        super().remove(chosen)
        if not self.rows.root.children:
            self._ask_no_more()

    # --- packing ---

    def _ready(self) -> list[Row]:
        return [row for row in self.waiting() if row.data.row.mode != "failed"]

    def main(self) -> tuple[str, str, bool]:
        """See `JobPanel.main`."""
        ready = self._ready()
        if not ready:
            tip = "Wait, or cancel" if self.batch else "Add TIFFs or folders first"
            return ("Packing" if self.batch else "Pack"), tip, False
        again = all(row.mark is not Mark.READY for row in ready)
        size = size_text(sum(row.size for row in ready))
        if again:
            return f"Try {count(len(ready), 'item')} again", f"{size}: pack what did not work", True
        more = "more " if self.batch else ""
        return (
            f"Pack {len(ready):,} {more}{'item' if len(ready) == 1 else 'items'}",
            f"{size}: make the archives and check every byte",
            True,
        )

    def start(self) -> None:
        """See `JobPanel.start`."""
        self.pack(self._ready())

    def pack(self, rows: Sequence[Row]) -> None:
        """Pack some rows."""
        self._ask_no_more()  # what is packed file by file is no series
        settings = self.desk.settings
        options = {
            "codec": settings.codec,
            "pyramid": settings.pyramid,
            "workers": settings.workers or None,
            "overwrite": settings.replace,
        }

        def work() -> Iterator[tuple[Row, Job, str]]:
            for row in rows:
                task = Task("pack", {"planned": row.data, **options})
                yield row, Job("pack", row.name, task, max(0, row.size)), row.data.folder

        self.run(work(), len(rows))

    def done(self, row: Row, job: Job) -> None:
        """See `JobPanel.done`."""
        if job.state is not JobState.DONE:
            return
        found: BatchRow = job.result
        row.packed, row.about = found.archive_size, False
        row.mark = Mark.WHOLE if found.state == "packed" else Mark.BEFORE
        how = (
            "Every byte was checked."
            if found.state == "packed"
            else "It was there already, of this very file; verify it to be sure."
        )
        row.detail = "\n".join([f"{found.archive}. {how}", *found.notes])

    def summary(self, batch: Batch) -> Summary:
        """See `JobPanel.summary`."""
        results: list[BatchRow] = [job.result for job in batch.jobs if job.result is not None]
        packed = [found for found in results if found.state == "packed"]
        ending = pack_ending(batch)
        if not packed:
            return Summary(ending)
        paths = [found.archive for found in packed]
        actions = [
            Action("Show in &folder", "folder", "Open the folder of the archives",
                   lambda: self.show_in_folder(paths[0])),
            *self.open_action(paths[:1]),
            Action("Save &report…", "report", "Save report.json and SHA256SUMS",
                   lambda: self._save_report(results, batch.seconds)),
            Action("Delete originals…", "trash", "Choose to delete originals, after one more check",
                   lambda: self.delete_originals(packed)),
        ]  # fmt: skip
        self._packed = packed
        if self.desk.settings.offer_delete and ending.good:
            self._offering.start()
        return Summary(ending, actions)

    def _offer_delete(self) -> None:
        self.delete_originals(self._packed)

    def leave(self) -> None:
        """See `PlanningPanel.leave`."""
        self._offering.stop()
        super().leave()

    def _save_report(self, rows: Sequence[BatchRow], seconds: float) -> None:
        name = QFileDialog.getExistingDirectory(self, "Folder for report.json and SHA256SUMS", self.place())
        if not name:
            return
        arguments = {"rows": list(rows), "seconds": seconds, "folder": Path(name)}

        def saved(job: Job) -> None:
            if job.state is JobState.DONE:
                self.note("Saved " + " and ".join(str(path) for path in job.result))

        self.look_at(Task("write_reports", arguments), "", end=saved)

    def delete_originals(self, rows: Sequence[BatchRow]) -> None:
        """Show the dialog for deleting originals."""
        dialog = DeleteDialog(self.desk, rows, self)
        dialog.open()

    def row_actions(self, row: Row) -> list[Action]:
        """See `JobPanel.row_actions`."""
        target: Path = row.data.row.target if row.data is not None else (row.path or Path())
        packed = row.mark in (Mark.WHOLE, Mark.BEFORE)
        shown = target if packed else row.path
        actions = []
        if shown is not None:
            tip = "Open its folder"
            actions.append(Action("Show in folder", "folder", tip, lambda: self.show_in_folder(shown)))
            actions += self.open_action([shown])
        if packed:
            tip = "Recompute everything from the archive"
            actions.append(
                Action("Verify again", "verify", tip, lambda: self.handed.emit("verify", [target]))
            )
        if row in self._ready():
            words = "Pack this one" if row.mark is Mark.READY else "Try again"
            actions.append(Action(words, "pack", "Pack this one alone", lambda: self.pack([row])))
        return actions
