"""`export`: any image the readers open, as OME-Zarr 0.5 that follows the array standard."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from napari_decant.errors import IntegrityError, UsageError
from napari_decant.images import WritePlan, WriteReport, plan_ome_zarr, write_ome_zarr
from napari_decant.images._write_zarr_plan import worker_count
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.standard._check import check
from napari_decant.standard._report import CheckReport
from napari_decant.standard._rule import check_standard
from napari_decant.standard._sources import ExportChoices, SourceImages, collect_sources, reopen_image
from napari_decant.stores import local_path

__all__ = ["ExportReport", "export", "plan_export"]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What `export` did.

    Attributes
    ----------
    source : str
    written : WriteReport
    check : CheckReport
        Of the finished store.
    plan : dict
        What was decided, see `WritePlan.describe`.
    notes : tuple of str
        What the user should know.
    """

    source: str
    written: WriteReport
    check: CheckReport
    plan: dict[str, Any]
    notes: tuple[str, ...] = field(default=())

    @property
    def target(self) -> Path:
        """The finished store."""
        return self.written.target

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "source": self.source,
            **self.written.to_json(),
            "plan": self.plan,
            "check": self.check.to_json(),
            "notes": list(self.notes),
        }


@contextmanager
def _planned(
    location: str,
    target: str | os.PathLike[str],
    image: str | None,
    choices: ExportChoices,
    memory: int | None,
    cancel: CancelToken | None,
) -> Iterator[tuple[SourceImages, WritePlan]]:
    _keep_apart(location, Path(target))
    sources = collect_sources(location, image, choices, cancel)
    try:
        plan = plan_ome_zarr(
            target, sources.images, groups=sources.groups, memory=memory, workers=choices.workers
        )
        yield sources, plan
    finally:
        sources.close()


def _keep_apart(location: str, target: Path) -> None:
    """Refuse a target that is the source, lies in it or holds it: sources are never touched."""
    source = local_path(location)
    if source is None or not source.exists():
        return
    a, b = Path(os.path.realpath(source)), Path(os.path.realpath(target))
    if a == b or a in b.parents or b in a.parents:
        how = "is" if a == b else "lies in" if a in b.parents else "holds"
        raise UsageError(
            f"the target {target} {how} the source {source}, which must stay as it is; choose another place"
        )


def plan_export(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    standard: str = "dca-0.1",
    image: str | None = None,
    quantize: bool | tuple[float, float] = False,
    labels: bool | None = None,
    keep_label_type: bool = False,
    memory: int | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Say what `export` would write and what it takes: levels, chunks, shards, passes, memory.

    Reads metadata only; with ``quantize`` and no range, the range is left to be measured later.
    Parameters as for `export`.
    """
    choices = ExportChoices(
        check_standard(standard),
        quantize if not quantize or isinstance(quantize, tuple) else (0.0, 1.0),
        labels,
        keep_label_type,
        worker_count(workers),
    )
    with _planned(os.fspath(location), target, image, choices, memory, None) as (sources, plan):
        described = plan.describe() | {"sentence": plan.sentence(), "notes": list(sources.notes)}
        if quantize is True and any(q is not None for _, q in sources.reopen.values()):
            described["passes"] += 1
            described["notes"].append("one more pass over the pixels measures the range that is quantised")
        return described


def export(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    standard: str = "dca-0.1",
    image: str | None = None,
    quantize: bool | tuple[float, float] = False,
    labels: bool | None = None,
    keep_label_type: bool = False,
    memory: int | None = None,
    workers: int | None = None,
    compression: int = 1,
    shuffle: bool | None = None,
    verify: bool = True,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> ExportReport:
    """Export an image, with its labels, or a plate, with all its fields, to OME-Zarr 0.5.

    The result follows every rule of the array standard that its data allow (``spec/array-standard.md``), and
    is checked against it in the end. Pixels are not changed, unless quantising is asked for.

    Parameters
    ----------
    location : str or path
        OME-Zarr, an archive, a TIFF: whatever `open_image` opens.
    target : str or path
        A folder (``.zarr``) or a single file (``.ozx``).
    standard : {"dca-0.1", "dca-0.2"}
        What the result is checked against.
    image : str, optional
        Path of one of several images.
    quantize : bool or (float, float)
        Store numbers that are neither uint8 nor uint16 as uint16, over this range or the range of the data;
        scale and offset are recorded in the attributes.
    labels : bool, optional
        Whether the values are labels, where the source does not say so.
    keep_label_type : bool
        Keep the labels' own type instead of uint32.
    memory, workers, compression, shuffle, verify, overwrite, progress, cancel
        See `write_ome_zarr`.
    executor : concurrent.futures.Executor, optional
        Spreads the work over processes, or a cluster that sees the same folders.

    Returns
    -------
    ExportReport

    Raises
    ------
    ChoiceNeeded
        There are several images and ``image`` names none.
    UnsupportedOperation
        Axes or values have no place in the standard.
    UsageError
        The target is the source, or one lies in the other.
    IntegrityError
        The result was read back and is not what was written, or breaks a rule that must hold.
    TargetExists, BudgetExceeded, StorageError, Cancelled
        See `write_ome_zarr`.
    """
    where = os.fspath(location)
    choices = ExportChoices(
        check_standard(standard), quantize, labels, keep_label_type, worker_count(workers)
    )
    with _planned(where, target, image, choices, memory, cancel) as (sources, plan):
        reopen = functools.partial(reopen_image, where, choices, sources.reopen)
        written = write_ome_zarr(
            plan,
            workers=workers,
            compression=compression,
            shuffle=shuffle,
            verify=verify,
            overwrite=overwrite,
            executor=executor,
            reopen=reopen if executor is not None else None,
            progress=progress,
            cancel=cancel,
        )
        described = plan.describe()
    report = check(written.target, standard, cancel=cancel)
    if not report.ok:
        broken = report.failed()[0]
        raise IntegrityError(
            f"{written.target} was written, but breaks rule {broken.rule} at {broken.path or '/'}"
            f" ({broken.found});"
            " please report this, with the output of napari-decant check"
        )
    return ExportReport(where, written, report, described, tuple(sources.notes))
