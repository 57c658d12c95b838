"""The verb that makes archives: pack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from napari_decant.cli._common import (
    Json,
    Memory,
    Quiet,
    Workers,
    app,
    cancel,
    clear,
    complain,
    executor_at,
    human_size,
    parse_size,
    progress_for,
    say,
    say_json,
)
from napari_decant.errors import UsageError

if TYPE_CHECKING:
    from napari_decant.archive import BatchReport, BatchRow, PlanRow

__all__ = ["pack"]


@app.command
def pack(
    paths: Annotated[list[Path], Parameter(negative=())],
    *,
    output: Annotated[
        Path | None, Parameter(("--output", "-o"), help="Folder, made if missing; default: beside the files.")
    ] = None,
    series: Annotated[bool, Parameter(negative=(), help="Make one archive of each given folder.")] = False,
    pattern: Annotated[
        str | None, Parameter(help="How names of a series give axes, such as img_t{t}_z{z}_c{c}.tif.")
    ] = None,
    codec: Annotated[
        str, Parameter(help="default, fast, smallest, or an id like blosc:zstd:byteshuffle:clevel=5.")
    ] = "default",
    levels: Annotated[int, Parameter(help="Smaller copies for viewing, each half the size.")] = 0,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace existing archives.")] = False,
    dry_run: Annotated[bool, Parameter(negative=(), help="Only say what each path would become.")] = False,
    delete_source: Annotated[
        bool, Parameter(negative=(), help="Move originals to the trash once their archives are proved.")
    ] = False,
    permanently: Annotated[
        bool, Parameter(negative=(), help="With --delete-source: delete for good, there is no way back.")
    ] = False,
    cluster: Annotated[
        str | None, Parameter(help="Address of a Dask scheduler whose workers see the same paths.")
    ] = None,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Pack files, or the TIFFs of folders, into NAME.zarr.zip archives and prove each one.

    What is packed already and unchanged is skipped: run the same command again to resume.

    Parameters
    ----------
    paths
        Files or folders.
    """
    from napari_decant import archive

    if permanently and not delete_source:
        raise UsageError("--permanently only says how --delete-source deletes; give both")
    if pattern is not None and not series:
        raise UsageError("--pattern only says how the names of a --series give axes; give both")
    progress, limit = progress_for(quiet), parse_size(memory)
    rows = archive.plan(
        paths, output, series=series, pattern=pattern, codec=codec, estimate=dry_run, workers=workers or 2,
        progress=progress, cancel=cancel,
    )  # fmt: skip
    clear(progress)
    left = list(archive.find_others(paths, rows))
    if dry_run:
        return _show_plan(rows, left, json)
    _offer_to_clean(rows)
    with executor_at(cluster) as executor:
        report = archive.pack_batch(
            rows, codec=codec, levels=levels, workers=workers, memory=limit, overwrite=overwrite,
            executor=executor, progress=progress, cancel=cancel,
        )  # fmt: skip
    clear(progress)
    folder = _report_folder(paths, output, series)
    if folder is not None and report.count("packed") + report.count("skipped"):
        written, sums = archive.write_reports(report, folder)
        if written.name != "report.json":
            complain(
                f"report.json and SHA256SUMS in {folder} are not of an earlier run and stay as they are; "
                f"those of this one are {written.name} and {sums.name}"
            )
    deleted = (
        archive.delete_sources(report.rows, permanently=permanently, cancel=cancel) if delete_source else []
    )
    kept = [deletion for deletion in deleted if not deletion.deleted]
    code = report.exit_code or (1 if kept else 0)
    if json:
        gone = [deletion.to_json() for deletion in deleted]
        outside = [str(path) for path in left]
        say_json(
            {
                "ok": code == 0,
                "sentence": report.sentence(),
                **report.to_json(),
                "deleted": gone,
                "left": outside,
            }
        )
        for row in report.rows:
            if row.message:
                complain(row.message)
    else:
        _show_report(report)
        _say_left(left)
        for deletion in deleted:
            say(
                f"{deletion.source}: deleted"
                if deletion.deleted
                else f"{deletion.source}: kept, {deletion.message}"
            )
    return code


def _report_folder(paths: list[Path], output: Path | None, series: bool) -> Path | None:
    """Where report.json and SHA256SUMS go: batches get them, a single file does not.

    Without an output folder they lie beside the archives of a folder; beside those of series
    lies somebody else's folder, and in it are the members, of which they must not become some.
    """
    folders = [path for path in paths if path.is_dir()]
    if output is not None:
        return output if folders or len(paths) > 1 else None
    return folders[0] if len(paths) == 1 and folders and not series else None


def _offer_to_clean(rows: list[PlanRow]) -> None:
    """Say what a run that was ended has left in the folders that are written to."""
    from napari_decant.archive import find_leftovers

    for folder in dict.fromkeys(row.target.parent for row in rows if row.mode != "failed"):
        left = find_leftovers(folder)
        if left:
            files = "1 unfinished file" if len(left) == 1 else f"{len(left):,} unfinished files"
            size = human_size(sum(item.size for item in left))
            complain(f"{files} of an earlier run in {folder} ({size}); `napari-decant clean` removes them")


def _what(mode: str, reason: str | None, axes: tuple[str, ...], shape: tuple[int, ...], members: int) -> str:
    if mode == "failed":
        return "cannot be packed"
    if mode == "verbatim":
        return f"kept as it is ({reason})"
    if not shape:
        return f"{members} archives, one a file"
    extents = " ".join(f"{axis}{extent}" for axis, extent in zip(axes, shape, strict=True))
    return f"one image of {members} files, {extents}" if mode == "series" else f"byte-exact, {extents}"


def _say_left(left: list[Path]) -> None:
    """Say what is in no archive, before somebody deletes the folder."""
    if left:
        some = ", ".join(path.name for path in left[:3]) + (", ..." if len(left) > 3 else "")
        files = "1 other file is" if len(left) == 1 else f"{len(left):,} other files are"
        why = "TIFFs are found by their names; --series keeps all files of a folder that has some"
        say(f"{files} in no archive ({some}): {why}")


def _show_plan(rows: list[PlanRow], left: list[Path], as_json: bool) -> int:
    code = next((row.exit_code for row in rows if row.exit_code), 0)
    if as_json:
        say_json(
            {"ok": code == 0, "rows": [row.to_json() for row in rows], "left": [str(path) for path in left]}
        )
        return code
    for row in rows:
        what = _what(row.mode, row.reason, row.axes, row.shape, row.members)
        sizes = f"{human_size(row.original_size)}, about {human_size(row.estimated_size)} packed"
        say(
            f"{row.source}: {row.reason}"
            if row.mode == "failed"
            else f"{row.source} -> {row.target}: {what}, {sizes}"
        )
        for note in row.notes:
            say(f"  {note}")
    _say_left(left)
    return code


def _show_report(report: BatchReport) -> None:
    for row in report.rows:
        if row.state in ("failed", "cancelled"):
            complain(row.message)
            continue
        say(f"{row.archive}: {_row_text(row)}")
        for note in row.notes:
            say(f"  {note}")
    if len(report.rows) > 1:
        say(report.sentence())


def _row_text(row: BatchRow) -> str:
    if row.state == "skipped":
        return "is packed already, and the source is unchanged"
    kept = f"kept as it is ({row.reason})" if row.mode == "verbatim" else row.mode
    sizes = f"{human_size(row.original_size)} became {human_size(row.archive_size)}"
    return f"{kept}, {sizes}; every byte was checked"
