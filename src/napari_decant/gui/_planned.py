"""Panels that say of what they get what it will become, and say it anew when an option changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QWidget

from napari_decant.gui._desk import Desk
from napari_decant.gui._panel import JobPanel
from napari_decant.gui._row import Mark, Row

__all__ = ["PlanningPanel"]

_PAUSE_MS = 400  # after the last change of an option, before files are looked at again


class PlanningPanel(JobPanel):
    """A panel whose rows are plans.

    Parameters
    ----------
    desk : Desk
    parent : QWidget, optional
    """

    PLANS: ClassVar[Sequence[str]]
    """Settings that a plan depends on."""

    AGAIN: ClassVar[Sequence[Mark]] = (Mark.READY, Mark.FAILED, Mark.CANCELLED)
    """States from which a row can be worked on, and planned anew."""

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        self._roots: dict[Path, None] = {}  # in order
        super().__init__(desk, parent)
        self._again = QTimer(self)
        self._again.setSingleShot(True)
        self._again.setInterval(_PAUSE_MS)
        self._again.timeout.connect(self._plan_again)
        self.form.changed.connect(self._on_option)

    @abstractmethod
    def plan(self, paths: Sequence[Path], *, dropped: bool = False) -> None:
        """Look at files and folders, and add a row for each thing to be made.

        Parameters
        ----------
        paths : sequence of Path
        dropped : bool
            By the user just now, who is to be told if they hold nothing new.
        """

    def drop_plans(self, rows: Iterable[Row]) -> None:
        """Forget rows that will be planned anew."""
        self.rows.remove(rows)

    def waiting(self) -> list[Row]:
        """Rows that can be worked on, or planned anew."""
        return [row for row in self.rows.root.children if row.mark in self.AGAIN]

    def add(self, paths: Sequence[Path]) -> None:
        """See `Intake.add`."""
        given = list(dict.fromkeys(paths))
        again = {path for path in given if path in self._roots}
        self._roots |= dict.fromkeys(given)
        if again:  # files may have come or changed since
            self.drop_plans(row for row in self.waiting() if _within(row.path, again))
        if given:
            self.plan(given, dropped=True)

    def note_nothing_new(self, what: str) -> None:
        """Say that what was dropped changes nothing."""
        self.note(f"Nothing new in {what}: it is in the list already.")

    def _on_option(self, name: str) -> None:
        if name in self.PLANS and self._roots:
            self._again.start()

    def _plan_again(self) -> None:
        for notice in list(self.failures):  # it may go well this time
            notice.put_away()
        self.drop_plans(self.waiting())
        if self._roots:
            self.plan(list(self._roots))
        self.refresh()

    def leave(self) -> None:
        """See `JobPanel.leave`."""
        self._again.stop()
        super().leave()

    def remove(self, rows: Iterable[Row]) -> None:
        """See `JobPanel.remove`."""
        chosen = [row for row in rows if not self.busy(row)]
        paths = {row.path for row in chosen}
        self._roots = {path: None for path in self._roots if path not in paths}
        super().remove(chosen)
        if not self.rows.root.children:
            self._roots.clear()


def _within(path: Path | None, roots: set[Path]) -> bool:
    return path is not None and any(each in roots for each in (path, *path.parents))
