"""The dialog that deletes originals: it lists them, says where they go, and wants a deliberate act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QDialog,
    QHBoxLayout,
    QLineEdit,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from napari_decant.gui._desk import Desk
from napari_decant.gui._footer import Footer
from napari_decant.gui._row import Mark, Row
from napari_decant.gui._style import style_sheet
from napari_decant.gui._table import Table
from napari_decant.gui._widgets import Action, label, main_button, side_button
from napari_decant.gui._words import count, size_text
from napari_decant.gui.jobs import Batch, Job, JobState, Task

if TYPE_CHECKING:
    from napari_decant.archive import BatchRow, Deletion

__all__ = ["DeleteDialog"]

_WORD = "delete"


class DeleteDialog(QDialog):
    """Delete originals of archives, after proving each once more.

    Parameters
    ----------
    desk : Desk
    rows : sequence of BatchRow
        Packed, with the hashes of the originals.
    parent : QWidget
    """

    def __init__(self, desk: Desk, rows: Sequence[BatchRow], parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("decantPage")
        self.setWindowTitle("Delete originals")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.desk, self._todo = desk, list(rows)
        self._batch: Batch | None = None
        self._jobs: dict[int, BatchRow] = {}
        self._rows: dict[str, Row] = {}
        self.setStyleSheet(style_sheet(desk.look.theme, self.font()))
        self._build()
        desk.bridge.changed.connect(self._on_job)
        self._refresh()
        height = self.fontMetrics().height()
        self.resize(height * 46, height * 30)

    def _build(self) -> None:
        files = sum(len(row.files) for row in self._todo)
        size = size_text(sum(row.original_size for row in self._todo))
        head = label(f"{count(files, 'original')}, {size}", wrap=True)
        head.setObjectName("cardTitle")
        text = label(
            "Each archive is first read in full once more and compared with its original. "
            "Only originals that are equal to the last byte are deleted; the others stay.",
            muted=True,
            wrap=True,
        )
        self.table = Table(self.desk.look, (("name", "Original"), ("size", "Size"), ("state", "State")))
        self.table.rows.add(self._original(row) for row in self._todo)
        self.to_trash = QRadioButton("Move them to the &trash, from where they can be taken back")
        self.to_trash.setToolTip("The disk gets its space back when the trash is emptied")
        self.for_good = QRadioButton("Delete them for &good")
        self.for_good.setToolTip("They cannot be taken back, except out of the archives")
        self.to_trash.setChecked(True)
        self.sure = QCheckBox("I &want these originals deleted")
        self.sure.setToolTip("Needed each time")
        self.word = QLineEdit()
        self.word.setPlaceholderText(f"Type {_WORD} to delete for good")
        self.word.setToolTip(f"Deleting for good needs the word {_WORD} typed here")
        self.word.setAccessibleName(self.word.placeholderText())
        for box in (self.to_trash, self.for_good, self.sure):
            box.toggled.connect(self._refresh)
        self.word.textChanged.connect(self._refresh)
        self.footer = Footer(self.desk.look, lambda: None, self._cancel)
        self.footer.main.hide()
        tip = "Check once more, then delete"
        self.go = main_button(self.desk.look, Action("", "trash", tip, self._start), danger=True)
        self.shut = side_button(self.desk.look, Action("&Close", "", "Close this dialog", self.reject))
        buttons = QHBoxLayout()
        buttons.addStretch()
        buttons.addWidget(self.shut)
        buttons.addWidget(self.go)
        box = QVBoxLayout(self)
        for widget in (
            head,
            text,
            self.table,
            self.to_trash,
            self.for_good,
            self.word,
            self.sure,
            self.footer,
        ):
            box.addWidget(widget)
        box.setStretch(2, 1)
        box.addLayout(buttons)
        self._head, self._inputs = head, (self.to_trash, self.for_good, self.sure, self.word)

    def _original(self, row: BatchRow) -> Row:
        series = row.mode == "series"
        made = Row(row.source.name, row.source, "series" if series else "file", size=row.original_size)
        made.detail = f"In {row.archive}"
        if series:
            made.name = f"{made.name}/  ({count(len(row.files), 'file')})"
        self._rows[str(row.source)] = made
        return made

    def _refresh(self) -> None:
        good = self.for_good.isChecked()
        typed = self.word.text().strip().lower() == _WORD
        ready = self.sure.isChecked() and (typed or not good) and bool(self._todo) and self._batch is None
        self.word.setVisible(good)
        self.footer.setVisible(self._batch is not None)
        self.go.setText("Delete for good" if good else "Move to trash")
        self.go.setEnabled(ready)
        for widget in self._inputs:
            widget.setEnabled(self._batch is None)

    def _start(self) -> None:
        self._batch = Batch("delete")
        jobs = []
        for row in self._todo:
            arguments = {"rows": [row], "permanently": self.for_good.isChecked()}
            # verifying and comparing both go through every byte
            job = Job("delete", row.source.name, Task("delete_originals", arguments), 2 * row.original_size)
            self._jobs[job.id] = row
            self._rows[str(row.source)].mark = Mark.QUEUED
            jobs.append(job)
        self._todo = []
        self.table.rows.touch_all()
        self._batch.add(jobs)
        self.footer.show_batch(self._batch)
        self.desk.runner.submit(jobs)
        self._refresh()

    def _cancel(self) -> None:
        if self._batch is not None:
            self.footer.stopping()
            self.desk.runner.cancel(self._batch.jobs)

    def _on_job(self, job: Job) -> None:
        if self._batch is None or job.id not in self._jobs:
            return
        self._batch.update(job)
        row = self._rows[str(self._jobs[job.id].source)]
        if job.state is JobState.RUNNING:
            row.mark, row.fraction = Mark.RUNNING, job.fraction
        elif job.state is JobState.DONE:
            self._show(row, job.result)
        elif job.failure is not None:
            row.mark = Mark.CANCELLED if job.failure.cancelled else Mark.FAILED
            row.detail = job.failure.message
        self.table.rows.touch(row)
        if self._batch.over:
            self._finish(self._batch)

    @staticmethod
    def _show(row: Row, done: Sequence[Deletion]) -> None:
        kept = [each for each in done if not each.deleted]
        row.detail = "\n".join(each.message for each in kept) or row.detail
        row.mark = Mark.KEPT if kept else Mark.NONE
        if not kept:
            row.word = "deleted"
        elif len(kept) < len(done):
            row.word = f"{len(kept):,} of {len(done):,} left"

    def _finish(self, batch: Batch) -> None:
        done = [each for job in batch.jobs if job.state is JobState.DONE for each in job.result]
        gone = [each for each in done if each.deleted]
        kept = len(done) - len(gone) + batch.count(JobState.FAILED, JobState.CANCELLED)
        where = "deleted" if self.for_good.isChecked() else "in the trash"
        text = f"{count(len(gone), 'original')}, {size_text(sum(each.size for each in gone))}, {where}."
        if kept:
            left = f"{kept:,} were left as they were" if kept > 1 else "One was left as it was"
            text += f" {left}; the table says why."
        self._head.setText(text)
        self._batch = None
        self.footer.show_batch(None)
        self.desk.jobs.forget(batch.jobs)
        self.sure.setChecked(False)
        self._refresh()

    def reject(self) -> None:
        """Close; what runs is stopped first."""
        self._cancel()
        super().reject()
