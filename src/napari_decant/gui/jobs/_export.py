"""Exports for the window: plan what was dropped, and write it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from napari_decant import archive, standard
from napari_decant.archive._plan import find_tiffs
from napari_decant.errors import ChoiceNeeded, DecantError
from napari_decant.gui._words import axes_text, count
from napari_decant.gui.jobs._rows import Exported, ExportRow
from napari_decant.gui.jobs._worker import Context

__all__ = ["export", "export_rows"]

_AXES = ("t", "c", "z", "y", "x")
_GROUPS = ("zarr.json", ".zgroup", ".zattrs", ".zarray")


def _sources(path: Path) -> Iterator[Path]:
    """A file or an OME-Zarr folder itself; TIFFs and archives below any other folder."""
    if not path.is_dir() or any((path / name).exists() for name in _GROUPS):
        yield path
        return
    yield from find_tiffs(path)
    yield from sorted(path.rglob(f"*{archive.SUFFIX}"))


def _target(source: Path, image: str, output: Path | None, suffix: str) -> Path:
    """The full name of the source, so that ``a.tif`` and ``a.tiff`` never meet, and never the source."""
    stem = source.name.removesuffix(archive.SUFFIX)
    for known in (".ozx", ".zarr"):
        stem = stem.removesuffix(known)
    part = "" if not image else "-" + image.strip("/").replace("/", "-").replace("#", "-")
    folder = source.parent if output is None else output
    target = folder / f"{stem}{part}{suffix}"
    return target if target != source else folder / f"{stem}{part}.export{suffix}"


def export_rows(
    paths: Sequence[Path], output: Path | None, suffix: str, quantize: bool, context: Context
) -> Iterator[ExportRow]:
    """Plan every image at and below paths; nothing is written."""
    seen: set[Path] = set()  # an image may be dropped together with its folder
    for given in paths:
        for source in _sources(given):
            context.cancel.check()
            if source in seen:
                continue
            seen.add(source)
            try:
                yield _row(source, None, output, suffix, quantize)
            except ChoiceNeeded as error:
                for entry in error.choices:
                    image = f"{entry.path}#{entry.multiscale_index}" if entry.multiscale_index else entry.path
                    yield _tried(source, image, output, suffix, quantize)
            except DecantError as error:
                yield _failed(source, None, output, suffix, error)


def _tried(source: Path, image: str, output: Path | None, suffix: str, quantize: bool) -> ExportRow:
    try:
        return _row(source, image, output, suffix, quantize)
    except DecantError as error:
        return _failed(source, image, output, suffix, error)


def _failed(
    source: Path, image: str | None, output: Path | None, suffix: str, error: DecantError
) -> ExportRow:
    return ExportRow(source, image, _target(source, image or "", output, suffix), "", 0, (), str(error))


def _row(source: Path, image: str | None, output: Path | None, suffix: str, quantize: bool) -> ExportRow:
    target = _target(source, image or "", output, suffix)
    plan = standard.plan_export(source, target, image=image, quantize=quantize)
    first = plan["images"][0]
    levels = first["levels"]
    what = f"{axes_text(_AXES, levels[0]['shape'])}, {count(len(levels), 'level')}"
    if len(plan["images"]) > 1:
        what += f", {count(len(plan['images']), 'image')} in all"
    notes = (plan["sentence"], *plan["notes"])
    return ExportRow(source, image, target, what, plan["raw_bytes"], notes, "", os.path.lexists(target))


def export(
    context: Context, row: ExportRow, quantize: bool, overwrite: bool, workers: int | None
) -> Exported:
    """Export one image; the result is read back and checked against the standard."""
    report = standard.export(
        row.source, row.target, image=row.image, quantize=quantize, overwrite=overwrite, workers=workers,
        progress=context.progress, cancel=context.cancel,
    )  # fmt: skip
    unmet = tuple(
        (summary.rule, summary.sentence, summary.example.because or summary.example.found)
        for summary in report.check.summary()
        if summary.status == "warn"
    )
    written = report.written
    return Exported(
        report.target, written.size, written.raw_bytes, report.check.sentence(), unmet, report.notes
    )
