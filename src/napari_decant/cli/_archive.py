"""The verbs that work on finished archives, and what unfinished ones leave: verify, restore, info, clean."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any

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
    human_size,
    parse_size,
    progress_for,
    say,
    say_json,
)
from napari_decant.errors import DecantError, StorageError, UsageError

__all__ = ["clean", "info", "restore", "verify"]


@app.command
def verify(
    archives: Annotated[list[Path], Parameter(negative=())],
    *,
    quick: Annotated[
        bool, Parameter(negative=(), help="Check structure and metadata, do not read pixels.")
    ] = False,
    against: Annotated[
        Path | None, Parameter(help="File, or folder of originals, to compare with byte for byte.")
    ] = None,
    salvage: Annotated[
        bool, Parameter(negative=(), help="Of an archive cut short, say what is still whole.")
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
        Archives to check, or folders of archives.
    """
    from napari_decant import archive

    progress, limit = progress_for(quiet), parse_size(memory)
    places = _places(archives)
    if against is not None:
        _refuse_one_place(places)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        peer = against
        if peer is not None and peer.is_dir():
            peer = peer / places[path]
        report = archive.verify(
            path, quick=quick, against=peer, salvage=salvage, workers=workers, memory=limit,
            progress=progress, cancel=cancel,
        )  # fmt: skip
        clear(progress)
        lines = [report.sentence(), *(f"  {problem.kind}: {problem.message}" for problem in report.problems)]
        if report.problems and len(report.members) > 1:
            lines += [f"  {_state(member.whole)}: {member.name}" for member in report.members]
        return report.to_json(), "\n".join(lines), report.ok

    return each(list(places), work, json)


def _state(whole: bool | None) -> str:
    return {True: "whole", False: "not whole", None: "not read"}[whole]


def _places(archives: list[Path]) -> dict[Path, PurePosixPath]:
    """Archives at and below paths, each with the folder that its files are restored into.

    Raises
    ------
    UsageError
        A path does not exist, or a folder holds no archive.
    """
    from napari_decant import archive

    found = archive.find_archives(archives)
    alone = len(archives) == 1 and archives[0] in found
    return {
        path: archive.restore_folder(relative, series=not alone and _is_series(path), alone=alone)
        for path, relative in found.items()
    }


def _refuse_one_place(places: dict[Path, PurePosixPath]) -> None:
    """Two archives of one name would give their files one place: the second would meet the first."""
    first: dict[tuple[PurePosixPath, str], Path] = {}
    for path, place in places.items():
        if first.setdefault((place, path.name), path) != path:
            raise UsageError(
                f"{first[place, path.name]} and {path} belong in one place; work on them one at a time"
            )


def _is_series(path: Path) -> bool:
    from napari_decant.archive import Archive

    try:
        with Archive(path) as opened:
            return opened.manifest.mode == "series"
    except DecantError:  # the work itself will say what is wrong with it
        return False


@app.command
def restore(
    archives: Annotated[list[Path], Parameter(negative=())],
    *,
    output: Annotated[Path, Parameter(("--output", "-o"), help="Folder to restore into; made if missing.")],
    member: Annotated[str | None, Parameter(help="Only this file of a series.")] = None,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace existing files.")] = False,
    salvage: Annotated[
        bool, Parameter(negative=(), help="Of an archive cut short, use what is left.")
    ] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Get the original files back, byte for byte.

    The archives of a folder are restored with the tree they lie in, and each series among them
    into a folder of its own name.

    Parameters
    ----------
    archives
        Archives, or folders of archives.
    """
    from napari_decant import archive

    progress, limit = progress_for(quiet), parse_size(memory)
    places = _places(archives)
    _refuse_one_place(places)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        report = archive.restore(
            path, output / places[path], member=member, overwrite=overwrite, salvage=salvage,
            workers=workers, memory=limit, progress=progress, cancel=cancel,
        )  # fmt: skip
        clear(progress)
        pairs = zip(report.files, report.sha256, strict=True)
        lines = [f"{file}: restored, sha256 {digest}" for file, digest in pairs]
        lines += [f"  {note}" for note in report.notes]
        return report.to_json(), "\n".join(lines), True

    return each(list(places), work, json)


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


@app.command
def clean(
    folders: Annotated[list[Path], Parameter(negative=())],
    *,
    dry_run: Annotated[bool, Parameter(negative=(), help="Only say what would be removed.")] = False,
    json: Json = False,
) -> int:
    """Remove what runs that were killed have left unfinished; nothing else is touched.

    Only hidden files that this program names so, and that no running program writes to.

    Parameters
    ----------
    folders
        Where to look, with all folders below.
    """
    from napari_decant.archive import find_leftovers, remove_leftovers

    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder; give the one that archives were written to")
    found = list(dict.fromkeys(left for folder in folders for left in find_leftovers(folder, deep=True)))
    kept = dict([] if dry_run else remove_leftovers(found))
    gone = [left for left in found if left.path not in kept]
    size = sum(left.size for left in gone)
    what = "would be removed" if dry_run else "removed"
    sentence = (
        f"{len(gone):,} unfinished, {human_size(size)}: {what}" if found else "nothing unfinished is left"
    )
    if json:
        say_json(
            {
                "ok": not kept,
                "sentence": sentence,
                "removed": [] if dry_run else [str(left.path) for left in gone],
                "found": [str(left.path) for left in found],
                "kept": {str(path): why for path, why in kept.items()},
            }
        )
    else:
        say("\n".join([*(str(left.path) for left in gone), sentence]))
    for path, why in kept.items():
        complain(f"{path} was not removed: {why}")
    return StorageError.exit_code if kept else 0
