"""Short jobs that look at files, with a message while they last: common to panels with jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from qtpy.QtWidgets import QWidget

from napari_decant.gui._desk import Desk
from napari_decant.gui._intake import Intake
from napari_decant.gui._widgets import Action, Notice
from napari_decant.gui.jobs import Job, Task

__all__ = ["Looking"]


@dataclass
class _Look:
    """A short job that looks at files, and who wants to hear of it."""

    job: Job
    part: Callable[[Any], object]
    end: Callable[[Job], object]
    notice: Notice | None


class Looking(Intake):
    """A panel that looks at what it gets before it works on it.

    Parameters
    ----------
    desk : Desk
    parent : QWidget, optional
    """

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._looks: dict[int, _Look] = {}
        self.failures: list[Notice] = []
        """What is said of looks that failed."""
        desk.bridge.changed.connect(self._on_look)
        desk.bridge.parted.connect(self._on_part)

    def look_at(
        self,
        task: Task,
        text: str,
        part: Callable[[Any], object] = lambda part: None,
        end: Callable[[Job], object] = lambda job: None,
    ) -> Job:
        """Run a short job; ``text`` is shown while it lasts, with a way to stop it."""
        job = Job("look", text, task)
        notice = None
        if text:
            stop = Action("Stop", "cancelled", "Stop looking", lambda: self.desk.runner.cancel([job]))
            # its own one: another look may have the same words, and ends at another time
            notice = self._show_notice(Notice(self.look, f"{text}…", [stop], closable=False))
            notice.closed.connect(partial(self._on_notice_closed, job))
        self._looks[job.id] = _Look(job, part, end, notice)
        self.desk.runner.submit([job], self.desk.runner.LOOK)
        return job

    def _on_notice_closed(self, job: Job) -> None:
        """The message was put away by its own button, or by the look's end, and is deleted soon."""
        look = self._looks.get(job.id)
        if look is not None:
            look.notice = None

    def _on_part(self, job: Job, part: Any) -> None:
        look = self._looks.get(job.id)
        if look is not None:
            look.part(part)

    def _on_look(self, job: Job) -> None:
        look = self._looks.get(job.id)
        if look is None:
            return
        if not job.state.over:
            if look.notice is not None and job.stage:
                look.notice.set_text(f"{job.title}: {100 * job.fraction:.0f} %…")
            return
        self.desk.bridge.catch_up()
        del self._looks[job.id]
        if look.notice is not None:
            look.notice.put_away()
        if job.failure is not None and not job.failure.cancelled:
            notice = self.note(job.failure.message, kind="bad")
            if notice not in self.failures:
                self.failures.append(notice)
                notice.closed.connect(partial(self.failures.remove, notice))
        look.end(job)
        self.desk.jobs.forget([job])
        self.refresh()

    def leave(self) -> None:
        """Stop everything, and ask no more about it: the panel goes."""
        self.desk.runner.abandon(look.job for look in self._looks.values())
        self._looks.clear()

    @property
    def looking(self) -> bool:
        """Whether a short job is under way."""
        return bool(self._looks)
