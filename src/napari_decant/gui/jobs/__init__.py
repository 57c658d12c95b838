"""Jobs: a model with psygnal signals, and worker processes that run them. No Qt."""

from napari_decant.gui.jobs._batch import Batch
from napari_decant.gui.jobs._model import Failure, Job, JobList, JobState, Task
from napari_decant.gui.jobs._process import InlineWorker, Worker, WorkerProcess
from napari_decant.gui.jobs._rows import (
    ArchiveRow,
    Checked,
    CheckLine,
    Exported,
    ExportRow,
    Inspection,
    LeftOut,
    Member,
    Outcome,
    Picture,
    Planned,
    Restored,
    Section,
)
from napari_decant.gui.jobs._runner import JobRunner
from napari_decant.gui.jobs._worker import Context, failure_of
from napari_decant.stores._partial import Leftover

__all__ = [
    "ArchiveRow",
    "Batch",
    "CheckLine",
    "Checked",
    "Context",
    "ExportRow",
    "Exported",
    "Failure",
    "InlineWorker",
    "Inspection",
    "Job",
    "JobList",
    "JobRunner",
    "JobState",
    "LeftOut",
    "Leftover",
    "Member",
    "Outcome",
    "Picture",
    "Planned",
    "Restored",
    "Section",
    "Task",
    "Worker",
    "WorkerProcess",
    "failure_of",
]
