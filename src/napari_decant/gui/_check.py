"""The panel that checks images against the array standard, and says what to do where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QUrl
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QFileDialog, QInputDialog, QWidget

from napari_decant.gui._below import SHOWN, cut, put_below
from napari_decant.gui._desk import Desk
from napari_decant.gui._endings import check_ending
from napari_decant.gui._options import Field, Options
from napari_decant.gui._panel import JobPanel, Summary
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._settings import Settings
from napari_decant.gui._verify import note_gone
from napari_decant.gui._widgets import Action
from napari_decant.gui._words import count
from napari_decant.gui.jobs import Batch, Checked, CheckLine, Job, JobState, LeftOut, Task

__all__ = ["CheckPanel"]

_SCHEMES = ("http://", "https://", "s3://")
_MARKS = {"fail": Mark.BROKEN, "warn": Mark.UNMET, "pass": Mark.FOLLOWS, "skip": Mark.SKIPPED}
_AGAIN = (Mark.READY, Mark.FAILED, Mark.CANCELLED)
_DONE = (Mark.FOLLOWS, Mark.UNMET, Mark.BROKEN)
_VERSIONS = [("dca-0.1, the document", "dca-0.1"), ("dca-0.2, one small level is enough", "dca-0.2")]


def _words(settings: Settings) -> str:
    read = "every chunk is decoded" if settings.whole else "pixels are sampled"
    return f"{settings.standard}, {read}"


def addresses_in(data: Any) -> list[str]:
    """Addresses among what was dropped or copied."""
    found = [url.toString() for url in data.urls() if not url.isLocalFile()]
    return [text for text in found or data.text().split() if text.lower().startswith(_SCHEMES)]


class CheckPanel(JobPanel):
    """Drop OME-Zarr of any kind, see rule by rule whether it follows the array standard."""

    KEY = "check"
    TITLE = "Check"
    TIP = "See whether images follow the array standard, and what to do if not"
    DROP = (
        "Drop OME-Zarr here: folders, .ozx, zip files, archives",
        "Every rule of the array standard is looked at, and where it is not met,\n"
        "what was found and what to do. Nothing is changed.",
        "Drop more OME-Zarr here",
    )
    COLUMNS = (("name", "Image or rule"), ("what", "Found, and what to do"), ("state", "State"))
    FILTER = "OME-Zarr files and archives (*.ozx *.zip);;All files (*)"
    IN_BYTES = False

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        self.results: dict[str, Checked] = {}
        self.question: QInputDialog | None = None
        super().__init__(desk, parent)
        self.form.changed.connect(self._on_option)

    def options(self) -> Options:
        """See `JobPanel.options`."""
        fields = [
            Field(
                "standard", "ComboBox", "Version",
                "dca-0.2 asks for one level of 2048 instead of three levels, and lets labels be decimated",
                {"choices": _VERSIONS},
            ),
            Field(
                "whole", "CheckBox", "Decode every chunk",
                "Otherwise a sample is read; all of a large image takes as long as reading it", {},
            ),
        ]  # fmt: skip
        return Options(self.look, self.desk.settings, fields, _words)

    # --- places in ---

    def ways_in(self) -> list[Action]:
        """See `Intake.ways_in`."""
        tip = "Give an http, https or s3 address"
        return [*super().ways_in(), Action("Add &address…", "address", tip, self.ask_address)]

    def ask_address(self) -> None:
        """Let the user type an address."""
        box = QInputDialog(self)
        box.setWindowTitle("Check an address")
        box.setLabelText("Address of an OME-Zarr: http://, https:// or s3://")
        clip = QGuiApplication.clipboard().text().strip()
        box.setTextValue(clip if clip.lower().startswith(_SCHEMES) else "")
        box.textValueSelected.connect(lambda text: self.add_addresses(text.split()))
        box.finished.connect(box.deleteLater)
        box.open()
        self.question = box

    def take(self, data: Any) -> bool:
        """See `Intake.take`: addresses are taken, too."""
        addresses = addresses_in(data)
        if addresses:
            self.add_addresses(addresses)
        return super().take(data) or bool(addresses)

    def add_addresses(self, addresses: Iterable[str]) -> None:
        """Take addresses in."""
        for address in addresses:
            if address.lower().startswith(_SCHEMES):
                self._add_places([address])
            else:
                self.note(f"{address} is no address of http, https or s3.", kind="warn")

    def add(self, paths: Sequence[Path]) -> None:
        """See `Intake.add`."""
        task = Task("find_stores", {"paths": list(paths)})
        self.look_at(task, "Looking for images", self._found)

    def _found(self, part: Any) -> None:
        if isinstance(part, LeftOut):
            self._left_out(part)
        else:
            self._add_places([str(path) for path in part])

    def _left_out(self, part: LeftOut) -> None:
        if part.kind == "gone":
            note_gone(self, part)
            return
        paths, it = list(part.paths), part.verb("it", "them")
        verb = part.verb("is", "are") if part.kind == "file" else part.verb("holds", "hold")
        tip = f"Make OME-Zarr of {it}"
        make = Action(f"Export {it}", "export", tip, lambda: self.handed.emit("export", paths))
        self.note(f"{part.words} {verb} no OME-Zarr.", make)

    def _add_places(self, places: Sequence[str]) -> None:
        old = {row.data: row for row in self.rows.root.children}
        for place in dict.fromkeys(places):
            row = old.get(place)
            if row is None:
                self.rows.add([self._row(place)])
            elif not self.busy(row):  # what is dropped once more is to be checked once more
                self._reset([row])
        self.refresh_soon()

    @staticmethod
    def _row(place: str) -> Row:
        if place.lower().startswith(_SCHEMES):
            name = QUrl(place).fileName() or place
            return Row(name, None, "address", place, mark=Mark.READY, data=place)
        path = Path(place)
        icon = "file" if path.suffix.lower() in (".zip", ".ozx") else "folder"
        return Row(path.name, path, icon, mark=Mark.READY, data=place)

    def _reset(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows.set_children(row, [])
            row.mark, row.word, row.detail = Mark.READY, "", ""
            row.what = "" if row.path is not None else row.data
            self.results.pop(row.data, None)
            self.rows.touch(row)

    def _on_option(self, name: str) -> None:
        """What was checked by other rules is to be checked again."""
        self._reset(row for row in self.rows.root.children if row.mark in _DONE)
        self.put_card_away()
        self.refresh_soon()

    def remove(self, rows: Iterable[Row]) -> None:
        """See `JobPanel.remove`."""
        super().remove(rows)
        left = {row.data for row in self.rows.root.children}
        self.results = {place: found for place, found in self.results.items() if place in left}

    # --- checking ---

    def _ready(self) -> list[Row]:
        return [row for row in self.rows.root.children if row.mark in _AGAIN]

    def main(self) -> tuple[str, str, bool]:
        """See `JobPanel.main`."""
        ready = self._ready()
        if not ready:
            tip = "Wait, or cancel" if self.batch else "Add images first"
            return ("Checking" if self.batch else "Check"), tip, False
        tip = f"Look at every rule of {self.desk.settings.standard}; nothing is changed"
        return f"Check {count(len(ready), 'place')}", tip, True

    def start(self) -> None:
        """See `JobPanel.start`."""
        self.check(self._ready())

    def check(self, rows: Sequence[Row]) -> None:
        """Check some rows."""
        settings = self.desk.settings
        options = {"standard": settings.standard, "whole": settings.whole}

        def work() -> Iterator[tuple[Row, Job, str]]:
            for row in rows:
                self._reset([row])
                # One for each place: how many images and chunks there are is not known before.
                yield row, Job("check", row.name, Task("check", {"location": row.data, **options}), 1), ""

        self.run(work(), len(rows))

    def done(self, row: Row, job: Job) -> None:
        """See `JobPanel.done`."""
        if job.state is not JobState.DONE:
            return
        found: Checked = job.result
        self.results[row.data] = found
        row.mark = Mark.BROKEN if found.failed else Mark.UNMET if found.warned else Mark.FOLLOWS
        row.word = {Mark.BROKEN: f"{found.failed:,} broken", Mark.UNMET: f"{found.warned:,} not met"}.get(
            row.mark, "follows"
        )
        row.what, row.detail = f"{found.standard}, {count(found.images, 'image')}", f"{found.sentence}."
        put_below(self.table, row, [_line_row(line) for line in found.lines[:SHOWN]])

    def summary(self, batch: Batch) -> Summary:
        """See `JobPanel.summary`."""
        results: list[Checked] = [job.result for job in batch.jobs if job.state is JobState.DONE]
        if not results:
            return Summary(check_ending(batch))
        actions = [
            Action("Save &report…", "report", "Write each report as a page and as JSON into a folder",
                   lambda: self.save(results)),
            Action("&Copy report", "copy", "Copy what was found, as text", lambda: self._copy(results)),
        ]  # fmt: skip
        broken = [Path(found.location) for found in results if found.failed and self._is_local(found)]
        if broken:
            tip = "Write copies that follow the standard"
            actions.append(Action("&Export…", "export", tip, lambda: self.handed.emit("export", broken)))
        actions += self.open_action([Path(f.location) for f in results if self._is_local(f)][:1])
        return Summary(check_ending(batch), actions)

    @staticmethod
    def _is_local(found: Checked) -> bool:
        return not found.location.lower().startswith(_SCHEMES)

    # --- reports ---

    def save(self, results: Sequence[Checked]) -> None:
        """Ask for a folder and write reports there."""
        name = QFileDialog.getExistingDirectory(self, "Folder for the reports", self.place())
        if not name:
            return

        def saved(job: Job) -> None:
            if job.state is JobState.DONE:
                files = [path.name for path in job.result]
                more = f" and {count(len(files) - 2, 'more file')}" if len(files) > 2 else ""
                self.note(f"Saved {', '.join(files[:2])}{more} in {name}")

        task = Task("write_checks", {"reports": list(results), "folder": Path(name)})
        self.look_at(task, "", end=saved)

    @staticmethod
    def _copy(results: Sequence[Checked]) -> None:
        QGuiApplication.clipboard().setText("\n\n".join(found.text for found in results))

    def report(self, row: Row) -> str:
        """See `JobPanel.report`."""
        found = self.results.get(row.data) if row is row.top else None
        return found.text if found is not None else super().report(row)

    def row_actions(self, row: Row) -> list[Action]:
        """See `JobPanel.row_actions`."""
        top = row.top
        actions: list[Action] = []
        path = top.path
        if path is not None:
            tip = "Open its folder"
            actions += [Action("Show in folder", "folder", tip, lambda: self.show_in_folder(path))]
            actions += self.open_action([path])
        if not self.busy(top):
            tip = "Look at every rule of this one"
            words = "Check again" if top.mark in _DONE else "Check this one"
            actions.append(Action(words, "check", tip, lambda: self.check([top])))
        found = self.results.get(top.data)
        if found is not None:
            tip = "Write its report as a page and as JSON"
            actions.append(Action("Save report…", "report", tip, lambda: self.save([found])))
        if path is not None and top.mark in _DONE:
            tip = "Write a copy that follows the standard"
            export = [path]
            actions.append(Action("Export", "export", tip, lambda: self.handed.emit("export", export)))
        return actions


def _line_row(line: CheckLine) -> Row:
    row = Row(line.name, None, line.icon, line.found, mark=_MARKS[line.status], detail=line.detail)
    row.children = cut((_line_row(each) for each in line.below), line.more)
    return row
