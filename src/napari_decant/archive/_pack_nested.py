"""Pack a series whose members do not agree: one archive a member, in a folder that appears whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from napari_decant.archive._hashing import hash_whole
from napari_decant.archive._manifest import MANIFEST_KEY, Member, dump_manifest
from napari_decant.archive._names import raw_name_of
from napari_decant.archive._pack import SUFFIX, pack
from napari_decant.archive._reader import Archive
from napari_decant.archive._report import PackReport
from napari_decant.archive._series import SeriesMember, SeriesPlan
from napari_decant.archive._series_documents import series_facts, series_manifest
from napari_decant.archive._write import SUMS_KEY
from napari_decant.errors import IntegrityError, SourceChanged, TargetExists
from napari_decant.progress import CancelToken, Progress, ProgressCallback
from napari_decant.stores import LocalFile
from napari_decant.stores._atomic import AtomicFile, make_folder, storage_error, sync_directory
from napari_decant.stores._partial import partial_path

__all__ = ["pack_nested"]

_PACKING = "packing"  # a member's own name must not meet that of a finished part
_KEPT = ("mtime_ns", "mode", "reason")


def pack_nested(
    plan: SeriesPlan,
    target: Path,
    *,
    codec: str,
    levels: int,
    workers: int,
    memory: int | None,
    overwrite: bool,
    progress: ProgressCallback,
    cancel: CancelToken,
) -> PackReport:
    """Pack each member of a plan into an archive of its own, all in the folder ``target``.

    Each part is proved as it is packed. The folder is staged under a hidden name and renamed
    whole; see `pack_series`.
    """
    if os.path.lexists(target) and not overwrite:
        raise TargetExists(f"{target} exists already; remove it, choose another folder or ask to overwrite")
    staging = partial_path(target)
    make_folder(staging / _PACKING)
    try:
        members: list[Member] = []
        facts: list[dict[str, Any]] = []
        done = 0
        for k, member in enumerate(plan.members):
            report = pack(
                member.path, staging / _PACKING, codec=codec, levels=levels, workers=workers, memory=memory,
                progress=_shifted(progress, done, plan), cancel=cancel,
            )  # fmt: skip
            if report.original_size != member.layout.size:
                raise SourceChanged(f"{member.path} changed after it was looked at; pack it again")
            part = staging / f"m{k}{SUFFIX}"
            os.rename(report.archive, part)
            members.append(_record(member, part.name, report))
            facts.append(_facts(plan, member, part))
            done += report.original_size
        os.rmdir(staging / _PACKING)
        manifest = series_manifest(plan, target, members, series_consolidated=False)
        attributes = {"decant": series_facts(plan, facts)}
        _finish(staging, dump_manifest(manifest), json.dumps(attributes, indent=1).encode(), cancel)
        _check(staging, members)
        size = sum(file.stat().st_size for file in staging.rglob("*") if file.is_file())
        _swap_in(staging, target)
    except OSError as error:
        raise storage_error("writing", target, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return PackReport(
        plan.base, target, "series", None, "", plan.size, size, codec=report.codec, workers=workers,
        notes=plan.notes, members=len(members),
    )  # fmt: skip


def _shifted(progress: ProgressCallback, before: int, plan: SeriesPlan) -> Callable[[Progress], None]:
    """Places the events of one member among those of all, so that no stage ever goes backwards."""

    def tell(event: Progress) -> None:
        progress(replace(event, done=before + event.done, total=plan.size, item=plan.base.name))

    return tell


def _record(member: SeriesMember, part: str, report: PackReport) -> Member:
    return Member.model_construct(
        relpath=member.relpath,
        original_size=report.original_size,
        original_sha256=report.sha256,
        byteorder=member.layout.byteorder,
        husk_array="",
        husk_raw_size=0,
        pages=[],
        subarchive=part,
    )


def _facts(plan: SeriesPlan, member: SeriesMember, part: Path) -> dict[str, Any]:
    """What the part keeps of its file, with the name of the file within the series."""
    with Archive(part) as archive:
        kept = {key: value for key, value in archive.facts.items() if key in _KEPT}
    raw = raw_name_of(member.path.relative_to(plan.base).as_posix())
    return kept if raw is None else {**kept, "raw_name": raw}


def _finish(staging: Path, manifest: bytes, attributes: bytes, cancel: CancelToken) -> None:
    """Write the documents of the folder, and the list of hashes of everything in it."""
    documents = {MANIFEST_KEY: manifest, ".zattrs": attributes}
    sums = {key: hashlib.sha256(data).hexdigest() for key, data in documents.items()}
    for part in staging.glob(f"m*{SUFFIX}"):
        with LocalFile(part) as file:
            sums[part.name] = hash_whole(file, file.size, lambda _: cancel.check())
    documents[SUMS_KEY] = "".join(f"{sums[key]}  {key}\n" for key in sorted(sums)).encode("ascii")
    (staging / MANIFEST_KEY).parent.mkdir()
    for key, data in documents.items():
        with AtomicFile(staging / key) as output:
            output.file.write(data)
            output.commit()
    sync_directory(staging)


def _check(staging: Path, members: list[Member]) -> None:
    """Compare what the folder says with its parts, each of which was proved when it was packed."""
    meant = [(member.relpath, member.original_size, member.original_sha256) for member in members]
    with Archive(staging) as archive:
        found = [(file.name, file.size, file.sha256) for file in archive.files()]
    if found != meant:
        raise IntegrityError(f"{staging} does not hold the files that were packed into it")


def _swap_in(staging: Path, target: Path) -> None:
    """Give a finished folder its name; an older one steps aside first and is removed last.

    The older one keeps a name that everybody sees until the new one is in its place: whoever
    looks for leftovers after a kill must not take the only archive for one.
    """
    aside = target.with_name(f"{target.name}.replaced-{staging.name.rpartition('.')[0][-8:]}")
    replaces = os.path.lexists(target)
    if replaces:
        os.rename(target, aside)
    os.rename(staging, target)
    sync_directory(target.parent)
    if replaces:
        old = partial_path(target)
        os.rename(aside, old)
        shutil.rmtree(old, ignore_errors=True)
