"""Plan a series: which files belong to one archive, where their planes go, and what is left out."""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from napari_decant.archive._axes import flat_axes
from napari_decant.archive._describe import Description
from napari_decant.archive._layout import FileLayout, plan_file
from napari_decant.archive._names import member_name, natural_key, refuse_clashes
from napari_decant.archive._pages import Reason
from napari_decant.archive._source import Source
from napari_decant.archive._workers import ordered
from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import PARTIAL_SUFFIX

__all__ = ["SeriesMember", "SeriesPlan", "list_folder", "plan_series"]

SKIPPED_SUFFIXES = (".zarr.zip", PARTIAL_SUFFIX)
"""Archives and unfinished files are never members: packing a folder twice must not pack the first result."""


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
    """

    base: Path
    members: tuple[SeriesMember, ...]
    consolidated: bool
    description: Description | None = None
    notes: tuple[str, ...] = ()
    planes: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(member.layout.size for member in self.members)


def list_folder(folder: Path) -> list[Path]:
    """Every file below a folder in natural order, but archives and unfinished files.

    Raises
    ------
    UnsupportedOperation
        There are links: what they point to could lie outside, or be packed twice.
    """
    files: list[Path] = []
    links: list[Path] = []
    for root, folders, names in os.walk(folder):
        here = Path(root)
        links += [here / name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if not name.endswith((".zarr", ".partial"))]
        for name in names:
            path = here / name
            if path.is_symlink():
                links.append(path)
            elif not name.endswith(SKIPPED_SUFFIXES):
                files.append(path)
    if links:
        shown = ", ".join(str(link) for link in links[:3])
        more = f" and {len(links) - 3} more" if len(links) > 3 else ""
        raise UnsupportedOperation(
            f"links are not archived: {shown}{more}; replace them by files or take them out"
        )
    return sorted(files, key=lambda path: natural_key(path.relative_to(folder).as_posix()))


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
        The members, all below ``base``.
    base : Path
        Their common folder.
    pattern : str, optional
        How names give axes, see `read_pattern`; by default it is found out.
    workers : int
        Threads.

    Raises
    ------
    UsageError
        There are no files.
    UnsupportedOperation
        Two names are one name on some disks.
    """
    from napari_decant.archive._place import place_series

    if not files:
        raise UsageError(f"{base} holds no files to pack; choose another folder")
    relpaths = [member_name(path.relative_to(base).as_posix()) for path in files]
    refuse_clashes(relpaths, "the members")

    def look(path: Path) -> FileLayout:
        with Source(path) as source:
            return plan_file(source.read_at, source.size)

    members = []
    layouts = ordered(look, files, workers=workers, cancel=cancel)
    for done, (path, relpath, layout) in enumerate(zip(files, relpaths, layouts, strict=True), 1):
        members.append(SeriesMember(path, relpath, layout, layout.reason))
        progress(Progress("plan", done, len(files), relpath, "files"))
    members = _fit_together(members)
    listed = [member for member in members if member.layout.planes]
    images = sum(member.reason not in (Reason.NOT_TIFF, Reason.EMPTY) for member in members)
    if not listed or (len(listed) == 1 and images > 1):
        return SeriesPlan(
            base, tuple(members), False, notes=("no two images agree, so each gets an archive of its own",)
        )
    planes = tuple((m, p) for m, member in enumerate(members) for p in range(len(member.layout.planes)))
    description = place_series(members, pattern)
    return SeriesPlan(base, tuple(members), True, description, description.notes, planes)


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


def flat_description(members: Sequence[SeriesMember], notes: Sequence[str] = ()) -> Description:
    """All planes one behind the other along z: what remains when nothing more is known."""
    count = sum(len(member.layout.planes) for member in members)
    return Description(flat_axes(count), range(count), notes=tuple(notes))
