"""What the panels for packing, verifying and restoring have in common."""

from __future__ import annotations

import itertools
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from qtpy.QtCore import QTimer, QUrl, Signal
from qtpy.QtGui import QDesktopServices
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_decant.gui._desk import Desk
from napari_decant.gui._endings import Ending
from napari_decant.gui._footer import Footer
from napari_decant.gui._listing import Listing
from napari_decant.gui._options import Options
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._widgets import Action, Card
from napari_decant.gui.jobs import Batch, Job, JobState

__all__ = ["JobPanel", "Summary"]

_SLICE_SECONDS = 0.012  # of queueing, then the window gets to draw and to answer


@dataclass(frozen=True)
class Summary:
    """What is said at the end of a run, and what can be done next."""

    ending: Ending
    actions: Sequence[Action] = ()


class JobPanel(Listing):
    """A table of files, a button that works on them, and what came of it.

    A panel of a verb says what is abstract here: its form, its button, its work and its words.

    Parameters
    ----------
    desk : Desk
    parent : QWidget, optional
    """

    IN_BYTES: ClassVar[bool] = True
    """Whether jobs have their sizes in bytes, so that there is a speed."""

    progressed = Signal()

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self.batch: Batch | None = None
        self._rows: dict[int, Row] = {}
        self._feed: Iterator[tuple[Row, Job, str]] = iter(())
        self._feeding = False
        self._folders: set[str] = set()
        self.card: Card | None = None
        self._build()
        desk.bridge.changed.connect(self._on_work)
        self.refresh()

    # --- what a panel adds ---

    @abstractmethod
    def options(self) -> Options:
        """The form of this panel."""

    @abstractmethod
    def main(self) -> tuple[str, str, bool]:
        """Words, tooltip and whether there is anything to do, for the main button."""

    @abstractmethod
    def start(self) -> None:
        """Do what the main button says."""

    @abstractmethod
    def done(self, row: Row, job: Job) -> None:
        """Show the result of a job in its row; it may have failed."""

    @abstractmethod
    def summary(self, batch: Batch) -> Summary:
        """What to say at the end."""

    # --- putting it together ---

    def _build(self) -> None:
        self.form = self.options()
        self.form.changed.connect(self.refresh_soon)
        self.footer = Footer(self.look, self._start, self.cancel)
        self._box = QVBoxLayout(self)
        gap = self.fontMetrics().height() // 2
        self._box.setContentsMargins(gap, gap, gap, gap)
        self._box.setSpacing(gap)
        self._box.addLayout(self._news)
        self._box.addWidget(self.drop)
        for widget in (self.table, self.detail):
            self._box.addWidget(widget)
        self._box.addWidget(self.form)
        self._box.addWidget(self.footer)
        self._box.setStretchFactor(self.table, 1)

    def set_narrow(self, narrow: bool) -> None:
        """See `Intake.set_narrow`."""
        super().set_narrow(narrow)
        for part in (self.table, self.footer):
            part.set_narrow(narrow)

    def refresh(self) -> None:
        """Bring buttons and areas in line with the rows."""
        some = bool(self.rows.root.children)
        self.table.setVisible(some)
        self.drop.set_strip(some)
        self.drop.setVisible(self.card is None or not some)
        self.form.setVisible(some)
        self.footer.setVisible(some)
        self.footer.set_main(*self.main())
        self._box.setStretchFactor(self.drop, 0 if some else 1)
        if not some:
            self.detail.hide()

    # --- working ---

    def _start(self) -> None:
        self.start()
        self.refresh()

    def run(self, work: Iterable[tuple[Row, Job, str]], count: int) -> None:
        """Queue jobs for rows, into the run that is under way or a new one.

        Parameters
        ----------
        work : iterable of (Row, Job, str)
            Each with the folder that the job writes to. Taken bit by bit, so it may be long.
        count : int
            How many there are.
        """
        if not count:
            return
        self.put_card_away()
        first = self.batch is None
        if self.batch is None:
            self.batch = Batch(self.KEY, in_bytes=self.IN_BYTES)
            self._folders = set()
        self.batch.expect(count)
        if first:
            self.footer.show_batch(self.batch)
        self._feed = itertools.chain(self._feed, work)
        if not self._feeding:
            self._feeding = True
            self._feed_some()

    def _feed_some(self) -> None:
        end = time.monotonic() + _SLICE_SECONDS
        jobs: list[Job] = []
        folders: set[str] = set()
        for row, job, folder in self._feed:
            self._rows[job.id] = row
            row.mark, row.word, row.detail, row.fraction = Mark.QUEUED, "", "", 0.0
            jobs.append(job)
            folders.add(folder)
            if time.monotonic() > end:
                QTimer.singleShot(1, self._feed_some)
                break
        else:
            self._feeding = False
        new = folders - self._folders - {""}
        if new:
            self._folders |= new
            self.desk.begin(new)
        if self.batch is not None and jobs:
            self.batch.add(jobs)
            self.desk.runner.submit(jobs)
        self.table.viewport().update()
        self.refresh_soon()
        self.progressed.emit()

    def _on_work(self, job: Job) -> None:
        row = self._rows.get(job.id)
        if row is None:
            return
        if self.batch is not None:
            self.batch.update(job)
        if job.state is JobState.RUNNING:
            row.mark, row.word = Mark.RUNNING, ""
            row.fraction = job.fraction
        elif job.state.over:
            del self._rows[job.id]
            if job.failure is not None:
                row.mark = Mark.CANCELLED if job.failure.cancelled else Mark.FAILED
                row.word, row.detail = "", job.failure.message
            self.done(row, job)
        self.rows.touch(row)
        if row is self.table.current():
            self._show_detail(row)
        if self.batch is not None and self.batch.over:
            self._finish(self.batch)
        self.refresh_soon()
        self.progressed.emit()

    def _finish(self, batch: Batch) -> None:
        self.batch = None
        self.footer.show_batch(None)
        self.desk.end(self._folders)
        summary = self.summary(batch)
        away = Action("&Done", "close", "Put this summary away", self.put_card_away)
        ending = summary.ending
        self.show_card(Card(self.look, ending.icon, ending.title, ending.lines, (*summary.actions, away)))
        self.desk.jobs.forget(batch.jobs)
        self.desk.say(ending.title, ending.good)

    def show_card(self, card: Card) -> None:
        """Put a card in the drop area's place."""
        self.put_card_away()
        self.card = card
        self._box.insertWidget(1, card)
        card.show()
        self.refresh()

    def put_card_away(self) -> None:
        """Take the card away."""
        if self.card is not None:
            card, self.card = self.card, None
            self._box.removeWidget(card)
            card.hide()
            card.deleteLater()
            self.refresh()

    def cancel(self) -> None:
        """Stop the run; what was not even queued yet stays as it is."""
        if self.batch is not None:
            self._feed = iter(())
            self.batch.expect(0)
            self.footer.stopping()
            self.desk.runner.cancel(self.batch.jobs)
            if self.batch.over:
                self._finish(self.batch)

    def leave(self) -> None:
        """See `Looking.leave`: what the run has written so far is tidied up by its jobs."""
        super().leave()
        self._feed = iter(())
        self._soon.stop()
        if self.batch is not None:
            self.desk.runner.abandon(self.batch.jobs)
            self.desk.end(self._folders)
            self.batch = None
            self.footer.show_batch(None)
        self._rows.clear()

    def cancel_rows(self, rows: Iterable[Row]) -> None:
        """See `Listing.cancel_rows`."""
        chosen = {id(row) for row in rows}
        jobs = [self.desk.jobs[number] for number, row in self._rows.items() if id(row) in chosen]
        self.desk.runner.cancel(jobs)

    # --- elsewhere ---

    def show_in_folder(self, path: Path) -> None:
        """Open the folder of a file in the system's file manager."""
        folder = path if path.is_dir() and path.suffix != ".zarr" else path.parent
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    def open_action(self, paths: Sequence[Path]) -> list[Action]:
        """A way to open images in napari, if there is one."""
        opener = self.desk.open_images
        if opener is None or not paths:
            return []
        return [Action("Open in &napari", "open", "Look at the image", lambda: opener(paths))]
