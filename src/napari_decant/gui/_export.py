"""The panel that writes OME-Zarr 0.5 for analysis and machine learning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from napari_decant.gui._endings import export_ending
from napari_decant.gui._options import Field, Options, folder_field, threads_field
from napari_decant.gui._panel import Summary
from napari_decant.gui._planned import PlanningPanel
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._settings import Settings, chosen_folder
from napari_decant.gui._widgets import Action
from napari_decant.gui._words import count, size_text
from napari_decant.gui.jobs import Batch, Exported, ExportRow, Job, JobState, Task

__all__ = ["ExportPanel"]


def _words(settings: Settings) -> str:
    parts = [f"to {settings.export_folder}" if settings.export_folder else "beside each image"]
    parts.append("a folder each" if settings.export_kind == ".zarr" else "one file each")
    if settings.quantize:
        parts.append("quantised to uint16")
    return ", ".join(parts)


class ExportPanel(PlanningPanel):
    """Drop images or archives, get OME-Zarr 0.5 that follows the array standard."""

    KEY = "export"
    TITLE = "Export"
    TIP = "Write OME-Zarr 0.5 for analysis and machine learning"
    DROP = (
        "Drop images or archives here",
        "Each becomes OME-Zarr 0.5 with a pyramid, cut as the array standard wants it.\n"
        "It is read back and checked; what you drop is only read.",
        "Drop more images or archives here",
    )
    COLUMNS = (
        ("name", "Image"),
        ("what", "What it becomes"),
        ("size", "Voxels"),
        ("packed", "Written"),
        ("state", "State"),
    )
    FILTER = "Images and archives (*.zarr.zip *.ozx *.tif *.tiff *.btf *.lsm *.stk);;All files (*)"

    AGAIN = (*PlanningPanel.AGAIN, Mark.CLASH)
    PLANS = ("export_folder", "export_kind", "quantize")

    def options(self) -> Options:
        """See `JobPanel.options`."""
        fields = [
            folder_field("export_folder", "Output folder", "Where exports go", "beside each image"),
            Field(
                "export_kind", "ComboBox", "Kind", "A folder is quickest to read, one file easiest to move",
                {"choices": [("Folder (.zarr)", ".zarr"), ("One file (.ozx)", ".ozx")]},
            ),
            Field(
                "quantize", "CheckBox", "Quantise to uint16",
                "Numbers other than uint8 and uint16 lose precision; scale and offset are recorded", {},
            ),
            threads_field("an image"),
            Field(
                "replace_exports", "CheckBox", "Replace existing exports",
                "Otherwise what exists is left alone", {},
            ),
        ]  # fmt: skip
        return Options(self.look, self.desk.settings, fields, _words)

    # --- planning ---

    def plan(self, paths: Sequence[Path], *, dropped: bool = False) -> None:
        """See `PlanningPanel.plan`."""
        settings = self.desk.settings
        arguments = {
            "paths": list(paths),
            "output": chosen_folder(settings.export_folder),
            "suffix": settings.export_kind,
            "quantize": settings.quantize,
        }
        counts = Counter[bool]()

        def looked(job: Job) -> None:
            if dropped and counts[True] and not counts[False] and job.state is JobState.DONE:
                self.note_nothing_new(paths[0].name if len(paths) == 1 else "what was dropped")

        def planned(part: Sequence[ExportRow]) -> None:
            counts.update(self._planned(part))

        self.look_at(Task("plan_export", arguments), "Looking at images", planned, looked)

    def _planned(self, part: Sequence[ExportRow]) -> list[bool]:
        """Add rows; returns of each whether it was there already."""
        there = {(row.data.source, row.data.image) for row in self.rows.root.children}
        known = [(each.source, each.image) in there for each in part]
        self.rows.add(self._row(each) for each, old in zip(part, known, strict=True) if not old)
        self._mark_clashes()
        self.refresh_soon()
        return known

    def _mark_clashes(self) -> None:
        """Say which images would be written to the place of another one, as an original and its archive."""
        taken: dict[Path, Row] = {}
        for row in self.rows.root.children:
            if row.data.error:
                continue
            first = taken.setdefault(row.data.target, row)
            if first is not row and row.mark is Mark.READY:
                row.mark = Mark.CLASH
                row.detail = f"{first.path} becomes {row.data.target}, too; take one of them off the list."
            elif first is row and row.mark is Mark.CLASH:
                row.mark, row.detail = Mark.READY, self._detail(row.data)
        self.rows.touch_all()

    def remove(self, rows: Iterable[Row]) -> None:
        """See `JobPanel.remove`."""
        super().remove(rows)
        self._mark_clashes()
        self.refresh()

    @staticmethod
    def _row(found: ExportRow) -> Row:
        name = found.source.name + (f"  {found.image}" if found.image else "")
        row = Row(name, found.source, "image", found.what, found.size, mark=Mark.READY, data=found)
        row.detail = ExportPanel._detail(found)
        if found.error:
            row.mark, row.what, row.size = Mark.FAILED, "cannot be exported", -1
        return row

    @staticmethod
    def _detail(found: ExportRow) -> str:
        if found.error:
            return found.error
        exists = f"{found.target} exists already: it is left alone, unless you have it replaced."
        return "\n".join([*found.notes, *[exists] * found.exists])

    # --- exporting ---

    def _ready(self) -> list[Row]:
        return [row for row in self.waiting() if not row.data.error and row.mark is not Mark.CLASH]

    def main(self) -> tuple[str, str, bool]:
        """See `JobPanel.main`."""
        ready = self._ready()
        if not ready:
            tip = "Wait, or cancel" if self.batch else "Add images or archives first"
            return ("Exporting" if self.batch else "Export"), tip, False
        size = size_text(sum(row.size for row in ready))
        return f"Export {count(len(ready), 'image')}", f"{size} of voxels: write, read back, check", True

    def start(self) -> None:
        """See `JobPanel.start`."""
        self.export(self._ready())

    def export(self, rows: Sequence[Row]) -> None:
        """Export some rows."""
        settings = self.desk.settings
        options = {
            "quantize": settings.quantize,
            "overwrite": settings.replace_exports,
            "workers": settings.workers or None,
        }

        def work() -> Iterator[tuple[Row, Job, str]]:
            for row in rows:
                task = Task("export", {"row": row.data, **options})
                yield row, Job("export", row.name, task, max(0, row.size)), str(row.data.target.parent)

        self.run(work(), len(rows))

    def done(self, row: Row, job: Job) -> None:
        """See `JobPanel.done`."""
        if job.state is not JobState.DONE:
            return
        found: Exported = job.result
        row.mark, row.packed = Mark.EXPORTED, found.size
        row.detail = "\n".join([found.verdict, *found.notes])
        self.rows.set_children(
            row,
            [Row(f"{rule}  {sentence}", icon="info", what=why, word="recommendation", detail=why)
             for rule, sentence, why in found.unmet],
        )  # fmt: skip

    def summary(self, batch: Batch) -> Summary:
        """See `JobPanel.summary`."""
        results: list[Exported] = [job.result for job in batch.jobs if job.state is JobState.DONE]
        if not results:
            return Summary(export_ending(batch))
        first = results[0].target
        tip = "Open the folder of the exports"
        actions = [
            Action("Show in &folder", "folder", tip, lambda: self.show_in_folder(first)),
            Action("Chec&k it" if len(results) == 1 else "Chec&k them", "check",
                   "See every rule of the array standard, with what was found",
                   lambda: self.handed.emit("check", [found.target for found in results])),
            *self.open_action([first]),
        ]  # fmt: skip
        return Summary(export_ending(batch), actions)

    def row_actions(self, row: Row) -> list[Action]:
        """See `JobPanel.row_actions`."""
        top = row.top
        path: Path = top.data.target if top.mark is Mark.EXPORTED else top.data.source
        actions = [Action("Show in folder", "folder", "Open its folder", lambda: self.show_in_folder(path))]
        actions += self.open_action([path])
        if top in self._ready():
            tip = "Export this one alone"
            actions.append(Action("Export this one", "export", tip, lambda: self.export([top])))
        if top.mark is Mark.EXPORTED:
            tip = "See every rule of the array standard, with what was found"
            actions.append(Action("Check", "check", tip, lambda: self.handed.emit("check", [path])))
        return actions
