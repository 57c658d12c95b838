"""The work itself: cutting into layers and files, with progress, cancelling, and words on how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject

from napari_decant.errors import DecantError, TargetExists, UsageError
from napari_decant.gui.crop._footer import CropFooter
from napari_decant.gui.crop._host import Host, Made
from napari_decant.gui.crop._make import FileJob, cut_layers, files_of, write_files
from napari_decant.gui.crop._state import Snapshot
from napari_decant.gui.crop._work import Bench, Outcome
from napari_decant.images.crop import Pace, Written, check_target, placement_of

__all__ = ["Runner"]


class Runner(QObject):
    """Cuts one thing at a time and shows in the footer how it goes.

    Parameters
    ----------
    host : Host
    footer : CropFooter
    memory : int
        Bytes for one result and what it takes to make it.
    pace : Pace
    parent : QObject, optional
    """

    def __init__(
        self, host: Host, footer: CropFooter, memory: int, pace: Pace, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._host, self._footer, self._memory, self._pace = host, footer, memory, pace
        self._then: Callable[[Any], object] = lambda value: None
        self.bench = Bench("crop", self)
        self.bench.ended.connect(self._on_end)
        self.bench.progressed.connect(footer.show_progress)
        footer.cancel_wanted.connect(self.cancel)

    @property
    def busy(self) -> bool:
        """Whether something is being cut."""
        return self.bench.busy

    def add_layers(self, snapshot: Snapshot) -> None:
        """Cut, and add what was cut as layers."""
        if snapshot.ready and not self.busy:
            memory, pace, tell = self._memory, self._pace, self.bench.tell
            self._begin(lambda token: cut_layers(memory, snapshot, pace, tell, token), self._add)

    def _add(self, made: list[Made]) -> None:
        self._footer.note(" ".join(self._host.add(made)))

    def save(self, snapshot: Snapshot, path: Path, *, overwrite: bool = False) -> None:
        """Cut into a file, or into several where layers do not go together."""
        if not snapshot.ready or self.busy:
            return
        try:
            described = [(job, self._described(job)) for job in files_of(snapshot, check_target(path))]
        except DecantError as error:
            self._footer.note(f"{error}.", "bad")
            return
        memory, device, tell = self._memory, snapshot.intent.device, self.bench.tell
        self._begin(
            lambda token: write_files(
                described, tell, token, memory=memory, device=device, overwrite=overwrite
            ),
            self._say_saved,
        )

    def _described(self, job: FileJob) -> Written:
        """What the file says, if it is none that is being read.

        Raises
        ------
        UsageError
            A layer is read from the file that would be replaced.
        """
        cut = job.cut
        self._host.check_target(job.target)
        uri = cut.source.uri
        if uri and "://" not in uri and Path(uri).resolve().is_relative_to(job.target.resolve()):
            raise UsageError(f"{cut.layer.name} is read from {job.target}; save under another name")
        return self._host.describe(cut, placement_of(cut.source, cut.resolution, cut.layer.placed))

    def _say_saved(self, written: Sequence[Path]) -> None:
        self._footer.note(f"Saved {', '.join(map(str, written))}.")

    def _begin(self, work: Any, then: Callable[[Any], object]) -> None:
        self._footer.forget()
        self._then = then
        self.bench.start(work)
        self._footer.show_running(True)

    def cancel(self) -> None:
        """Stop what is being cut."""
        self._footer.show_stopping()
        self.bench.cancel()

    def _on_end(self, outcome: Outcome) -> None:
        self._footer.show_running(False)
        if outcome.cancelled:
            self._footer.note("Cancelled; nothing was left behind.")
        elif outcome.error is not None:
            known = isinstance(outcome.error, TargetExists)
            self._footer.note(f"{outcome.error}.", "warn" if known else "bad")
        else:
            self._then(outcome.value)
