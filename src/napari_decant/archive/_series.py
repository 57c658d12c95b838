"""Plan a series: which files belong to one archive, where their planes go, and what is left out."""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from napari_decant.archive._describe import Description
from napari_decant.archive._layout import FileLayout, plan_file
from napari_decant.archive._names import member_name, natural_key, refuse_clashes, stored_name
from napari_decant.archive._page_table import is_listable
from napari_decant.archive._pages import Reason
from napari_decant.archive._source import Source
from napari_decant.archive._workers import ordered
from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import PARTIAL_SUFFIX, storage_error

__all__ = [
    "SeriesMember",
    "SeriesPlan",
    "cannot_read",
    "folder_times",
    "is_ours",
    "list_folder",
    "plan_series",
    "without_planes",
]

_ARCHIVES = (".zarr.zip", ".zarr")
_NAMED = 5  # names in a note


@dataclass(frozen=True, slots=True)
class SeriesMember:
    """One file of a series.

    Attributes
    ----------
    path : Path
    relpath : str
        POSIX path below the folder, as stored.
    layout : FileLayout
        Its planes; none if it does not fit the image.
    reason : str or None
        Why none of its planes is listed.
    """

    path: Path
    relpath: str
    layout: FileLayout
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """What a series becomes.

    Attributes
    ----------
    base : Path
        Folder that the members' names are relative to.
    members : tuple of SeriesMember
        In the order in which they are stored.
    consolidated : bool
        One shared array; otherwise one archive a member.
    description : Description or None
        Axes of the shared array; ``order`` counts the planes of all members one behind the other.
    notes : tuple of str
        What was understood, and what is missing.
    planes : tuple of (int, int)
        Member, and plane in that member, of each plane.
    name : str
        Of the archive, if the members are only a part of their folder; empty for the folder's name.
    pattern : str or None
        How the user said that names give axes.
    """

    base: Path
    members: tuple[SeriesMember, ...]
    consolidated: bool
    description: Description | None = None
    notes: tuple[str, ...] = ()
    planes: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    name: str = ""
    pattern: str | None = None

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(member.layout.size for member in self.members)


def list_folder(folder: Path) -> tuple[list[Path], list[Path]]:
    """Every file below a folder in natural order: the members, and the archives that are passed by.

    Raises
    ------
    UnsupportedOperation
        There are links: what they point to could lie outside, or be packed twice.
    StorageError
        A folder below cannot be read.
    """
    files: list[Path] = []
    passed: list[Path] = []
    links: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=cannot_read):
        here = Path(root)
        links += [here / name for name in (*folders, *names) if (here / name).is_symlink()]
        passed += [here / name for name in (*folders, *names) if name.endswith(_ARCHIVES)]
        folders[:] = [name for name in folders if not is_ours(name)]
        files += [here / name for name in names if not is_ours(name)]
    if links:
        shown = ", ".join(str(link) for link in sorted(links)[:3])
        more = f" and {len(links) - 3} more" if len(links) > 3 else ""
        raise UnsupportedOperation(
            f"links are not archived: {shown}{more}; replace them by files or take them out"
        )

    def by_name(path: Path) -> tuple[tuple[int, int, str], ...]:
        return natural_key(path.relative_to(folder).as_posix())

    return sorted(files, key=by_name), sorted(passed, key=by_name)


def folder_times(members: Sequence[SeriesMember], base: Path) -> dict[str, int]:
    """When each folder below ``base`` that holds members was last written to, in nanoseconds, by its path."""
    above = {folder for member in members for folder in member.path.parents if base in folder.parents}
    return {
        stored_name(path.relative_to(base).as_posix()): os.stat(path).st_mtime_ns for path in sorted(above)
    }


def is_ours(name: str) -> bool:
    """Whether a name is that of an archive, or of something unfinished, and so never a member.

    Packing a folder twice must not pack the first result.
    """
    return name.endswith(_ARCHIVES) or (name[0] == "." and name.endswith(PARTIAL_SUFFIX))


def cannot_read(error: OSError) -> None:
    """Stop at a folder that cannot be listed: what is passed by in silence would be missed too late.

    Raises
    ------
    StorageError
        Always.
    """
    raise storage_error("reading", error.filename, error) from error


def plan_series(
    files: Sequence[Path],
    base: Path,
    *,
    pattern: str | None = None,
    workers: int = 1,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> SeriesPlan:
    """Look at every file and decide what the series becomes; nothing is written.

    Parameters
    ----------
    files : sequence of Path
        The members, all below ``base``, in any order: they are stored in natural order of their names.
    base : Path
        Their common folder.
    pattern : str, optional
        How names give axes, such as ``img_t{t}_z{z}_c{c}.tif``; by default it is found out.
    workers : int
        Threads.

    Raises
    ------
    UsageError
        There are no files.
    UnsupportedOperation
        Two names are one name on some disks.
    StorageError
        A file cannot be read.
    """
    if not files:
        raise UsageError(f"{base} holds no files to pack; choose another folder")
    named = [(member_name(path.relative_to(base).as_posix()), path) for path in dict.fromkeys(files)]
    named.sort(key=lambda pair: natural_key(pair[0]))
    relpaths, files = [name for name, _ in named], [path for _, path in named]
    refuse_clashes(relpaths, "the members")

    def look(path: Path) -> FileLayout:
        with Source(path) as source:
            return plan_file(source.read_at, source.size)

    members = []
    layouts = ordered(look, files, workers=workers, cancel=cancel)
    for done, (path, relpath, layout) in enumerate(zip(files, relpaths, layouts, strict=True), 1):
        members.append(SeriesMember(path, relpath, layout, layout.reason))
        progress(Progress("plan", done, len(files), relpath, "files"))
    agreed = _some_agree(members)
    members = _fit_together(members)
    listed = [member for member in members if member.layout.planes]
    images = sum(member.reason not in (Reason.NOT_TIFF, Reason.EMPTY) for member in members)
    if not listed or (len(listed) == 1 and images > 1):
        alike = "no two images agree"
        if agreed:
            alike = f"{listed[0].relpath} outweighs the images that agree"
        return _one_each(members, base, alike)
    planes = [plane for member in listed for plane in member.layout.planes]
    if not is_listable(len(planes), sum(len(plane.offsets) for plane in planes), len(members)):
        return _one_each(members, base, "the planes are in more pieces than one archive can list")
    return _arrange(members, base, pattern)


def _one_each(members: Sequence[SeriesMember], base: Path, why: str) -> SeriesPlan:
    """A nested series, and why it is one."""
    notes = (f"{why}, so each file gets an archive of its own", *_notes(members[:0], members))
    return SeriesPlan(base, tuple(members), False, notes=notes)


def _arrange(members: Sequence[SeriesMember], base: Path, pattern: str | None) -> SeriesPlan:
    """Place the planes of members that agree."""
    from napari_decant.archive._place import place_series

    planes = tuple((m, p) for m, member in enumerate(members) for p in range(len(member.layout.planes)))
    description = place_series(members, pattern) if planes else None
    understood = description.notes if description else ()
    notes = (*understood, *_notes(members, members))
    return SeriesPlan(base, tuple(members), True, description, notes, planes, pattern=pattern)


def without_planes(plan: SeriesPlan, names: Collection[str]) -> SeriesPlan:
    """The same series with some members kept whole beside the image; their planes leave gaps.

    Where no member has planes any more there is no image, and ``description`` is None.
    """
    members = []
    for member in plan.members:
        if member.relpath in names:
            layout = FileLayout(member.layout.size, member.layout.byteorder, reason=Reason.RECONSTRUCTION)
            member = SeriesMember(member.path, member.relpath, layout, Reason.RECONSTRUCTION)
        members.append(member)
    return replace(_arrange(members, plan.base, plan.pattern), name=plan.name)


def _notes(beside: Sequence[SeriesMember], members: Sequence[SeriesMember]) -> Iterator[str]:
    """Files that are empty, and those that are kept whole beside the image."""
    empty = [member.relpath for member in members if member.reason == Reason.EMPTY]
    if empty:
        yield f"{_some(empty)} {'is' if len(empty) == 1 else 'are'} empty"
    others: dict[str, list[str]] = {}
    for member in beside:
        if member.reason not in (None, Reason.EMPTY):
            others.setdefault(str(member.reason), []).append(member.relpath)
    for reason, names in others.items():
        yield f"{_some(names)} {'is' if len(names) == 1 else 'are'} kept whole beside the image ({reason})"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _some_agree(members: Sequence[SeriesMember]) -> bool:
    """Whether any two members have planes of one shape and dtype."""
    firsts = [plane for member in members for plane in member.layout.planes[:1]]
    return len({(plane.shape, plane.dtype.str) for plane in firsts}) < len(firsts)


def _fit_together(members: list[SeriesMember]) -> list[SeriesMember]:
    """Keep the planes of the members that share the commonest shape and dtype (by bytes)."""
    weight: Tally[tuple[tuple[int, ...], str]] = Tally()
    for member in members:
        for plane in member.layout.planes[:1]:
            weight[plane.shape, plane.dtype.str] += member.layout.pixel_bytes
    if not weight:
        return members
    (shape, dtype), _ = weight.most_common(1)[0]
    kept = []
    for member in members:
        planes = member.layout.planes
        if planes and (planes[0].shape, planes[0].dtype.str) != (shape, dtype):
            size, byteorder = member.layout.size, member.layout.byteorder
            layout = FileLayout(size, byteorder, reason=Reason.OTHER_SHAPE)
            member = SeriesMember(member.path, member.relpath, layout, Reason.OTHER_SHAPE)
        kept.append(member)
    return kept
