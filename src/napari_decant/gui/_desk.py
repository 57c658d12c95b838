"""What all panels of one program share: jobs, settings, colours, and ways to show images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from qtpy.QtCore import QObject, Signal

from napari_decant.gui._bridge import JobBridge
from napari_decant.gui._settings import MemoryStore, Settings, open_settings
from napari_decant.gui._theme import Look, system_theme
from napari_decant.gui.jobs import JobList, JobRunner, Task, Worker, WorkerProcess

__all__ = ["Desk"]


class Desk(QObject):
    """Shared by the panels of one window, or of one napari viewer.

    Parameters
    ----------
    settings : Settings, optional
        Kept for the session only by default.
    look : Look, optional
        The system's colours by default.
    open_images : callable, optional
        Opens paths in napari; None where there is none.
    say : callable, optional
        Gets the sentence at the end of each run, and whether all went well.
    worker : callable, optional
        Makes the workers that jobs run in; processes by default.
    """

    active = Signal()

    def __init__(
        self,
        settings: Settings | None = None,
        look: Look | None = None,
        *,
        open_images: Callable[[Sequence[Path]], object] | None = None,
        say: Callable[[str, bool], object] | None = None,
        worker: Callable[[], Worker] = WorkerProcess,
    ) -> None:
        super().__init__()
        self.settings = settings or open_settings(MemoryStore())
        self.look = look or Look(system_theme())
        self.open_images = open_images
        self.say = say or (lambda sentence, good: None)
        self.jobs = JobList()
        self.runner = JobRunner(self.jobs, worker=worker)
        self.bridge = JobBridge(self.jobs)
        self.verified: dict[Path, dict[str, bool]] = {}
        """Of archives that were found not to be whole: which of their files are."""
        self._busy: Counter[str] = Counter()

    def warm(self) -> None:
        """Load in the background what the first file will need."""
        self.runner.warm(Task("warm"))

    @property
    def at_work(self) -> int:
        """Jobs that wait or run, those that only look at files aside."""
        return len([job for job in self.jobs.active if job.verb != "look"])

    def begin(self, folders: Iterable[str]) -> None:
        """Remember the folders that are written to, for the case that the program is killed."""
        self._busy.update(set(folders))
        self._keep()

    def end(self, folders: Iterable[str]) -> None:
        """Forget folders again."""
        self._busy.subtract(set(folders))
        self._keep()

    def _keep(self) -> None:
        self.settings.busy_folders = "\n".join(sorted(name for name, n in self._busy.items() if n > 0))

    def close(self) -> None:
        """Cancel everything, wait for it, and let go."""
        self.runner.close()
        self.bridge.close()
