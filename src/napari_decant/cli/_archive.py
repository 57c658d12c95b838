"""The verbs that work on archives: pack, verify, restore, info."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

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
    each,
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

__all__ = ["info", "pack", "restore", "verify"]


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
    progress, limit = progress_for(quiet), parse_size(memory)
    rows = archive.plan(
        paths, output, series=series, pattern=pattern, codec=codec, estimate=dry_run, workers=workers or 2,
        progress=progress, cancel=cancel,
    )  # fmt: skip
    clear(progress)
    if dry_run:
        return _show_plan(rows, json)
    with executor_at(cluster) as executor:
        report = archive.pack_batch(
            rows, codec=codec, levels=levels, workers=workers, memory=limit, overwrite=overwrite,
            executor=executor, progress=progress, cancel=cancel,
        )  # fmt: skip
    clear(progress)
    folder = _report_folder(paths, output)
    if folder is not None and report.count("packed") + report.count("skipped"):
        archive.write_reports(report, folder)
    deleted = (
        archive.delete_sources(report.rows, permanently=permanently, cancel=cancel) if delete_source else []
    )
    kept = [deletion for deletion in deleted if not deletion.deleted]
    code = report.exit_code or (1 if kept else 0)
    if json:
        gone = [deletion.to_json() for deletion in deleted]
        say_json({"ok": code == 0, "sentence": report.sentence(), **report.to_json(), "deleted": gone})
        for row in report.rows:
            if row.message:
                complain(row.message)
    else:
        _show_report(report)
        for deletion in deleted:
            say(
                f"{deletion.source}: deleted"
                if deletion.deleted
                else f"{deletion.source}: kept, {deletion.message}"
            )
    return code


def _report_folder(paths: list[Path], output: Path | None) -> Path | None:
    """Where report.json and SHA256SUMS go: batches get them, a single file does not."""
    folders = [path for path in paths if path.is_dir()]
    if output is not None:
        return output if folders or len(paths) > 1 else None
    return folders[0] if len(paths) == 1 and folders else None


def _what(mode: str, reason: str | None, axes: tuple[str, ...], shape: tuple[int, ...], members: int) -> str:
    if mode == "failed":
        return "cannot be packed"
    if mode == "verbatim":
        return f"kept as it is ({reason})"
    if not shape:
        return f"{members} archives, one a file"
    extents = " ".join(f"{axis}{extent}" for axis, extent in zip(axes, shape, strict=True))
    return f"one image of {members} files, {extents}" if mode == "series" else f"byte-exact, {extents}"


def _show_plan(rows: list[PlanRow], as_json: bool) -> int:
    code = next((row.exit_code for row in rows if row.exit_code), 0)
    if as_json:
        say_json({"ok": code == 0, "rows": [row.to_json() for row in rows]})
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


@app.command
def verify(
    archives: Annotated[list[Path], Parameter(negative=())],
    *,
    quick: Annotated[
        bool, Parameter(negative=(), help="Check structure and metadata, do not read pixels.")
    ] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Recompute every original from its archive and compare hashes.

    Parameters
    ----------
    archives
        Archives to check.
    """
    from napari_decant import archive

    progress, limit = progress_for(quiet), parse_size(memory)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        report = archive.verify(
            path, quick=quick, workers=workers, memory=limit, progress=progress, cancel=cancel
        )
        clear(progress)
        lines = [report.sentence(), *(f"  {problem.kind}: {problem.message}" for problem in report.problems)]
        return report.to_json(), "\n".join(lines), report.ok

    return each(archives, work, json)


@app.command
def restore(
    archives: Annotated[list[Path], Parameter(negative=())],
    *,
    output: Annotated[Path, Parameter(("--output", "-o"), help="Folder to restore into; made if missing.")],
    member: Annotated[str | None, Parameter(help="Only this file of a series.")] = None,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace existing files.")] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Get the original files back, byte for byte.

    The archives of a folder are restored with the tree they lie in. Where several archives are
    restored, each series gets a folder of its own name.

    Parameters
    ----------
    archives
        Archives, or folders of archives.
    """
    from napari_decant import archive

    progress, limit = progress_for(quiet), parse_size(memory)
    found = archive.find_archives(archives)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        relative = found[path]
        is_series = len(found) > 1 and archive.info(path).mode == "series"
        folder = archive.restore_folder(relative, series=is_series, alone=len(found) == 1)
        report = archive.restore(
            path, output / PurePosixPath(folder), member=member, overwrite=overwrite, workers=workers,
            memory=limit, progress=progress, cancel=cancel,
        )  # fmt: skip
        clear(progress)
        pairs = zip(report.files, report.sha256, strict=True)
        lines = [f"{file}: restored, sha256 {digest}" for file, digest in pairs]
        return report.to_json(), "\n".join(lines), True

    return each(list(found), work, json)


@app.command
def info(archives: Annotated[list[Path], Parameter(negative=())], *, json: Json = False) -> int:
    """Show what is inside archives, reading no pixels.

    Parameters
    ----------
    archives
        Archives to describe.
    """
    from napari_decant import archive

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        found = archive.info(path)
        lines = [
            f"{found.archive}: {found.mode}, "
            f"{human_size(found.original_size)} in {human_size(found.archive_size)}"
        ]
        if found.shape:
            extents = " ".join(
                f"{axis}{extent}" for axis, extent in zip(found.axes, found.shape, strict=False)
            )
            lines.append(
                f"  image: {extents or found.shape} {found.dtype}, {found.levels} level(s), {found.codec}"
            )
        lines += [
            f"  {member.name}: {member.size:,} bytes, sha256 {member.sha256}" for member in found.members
        ]
        return found.to_json(), "\n".join(lines), True

    return each(archives, work, json)
