"""What tasks and window tell each other: plain data, light to import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from napari_decant.archive import PlanRow

__all__ = [
    "ArchiveRow",
    "CheckLine",
    "Checked",
    "ExportRow",
    "Exported",
    "Inspection",
    "LeftOut",
    "Member",
    "Outcome",
    "Picture",
    "Planned",
    "Restored",
    "Section",
    "left_out",
]


@dataclass(frozen=True, slots=True)
class Planned:
    """One archive to be.

    Attributes
    ----------
    row : PlanRow
        Without its series plan, which may be large.
    series : bytes
        The series plan as the packing process will take it, opaque here: what was shown is what is packed.
    members : tuple of (str, int)
        The first files of a series and their sizes.
    exists : bool
        Something is at the target already.
    folder : str
        Of the target.
    """

    row: PlanRow
    series: bytes = b""
    members: tuple[tuple[str, int], ...] = ()
    exists: bool = False
    folder: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Paths that were dropped or found but are nothing for this panel, what they are, and how many more.

    Attributes
    ----------
    paths : tuple of Path
    kind : {"archive", "empty", "failed", "file", "gone", "link", "other"}
    more : int
    why : str
        Of what failed.
    """

    paths: tuple[Path, ...]
    kind: str
    more: int = 0
    why: str = ""

    @property
    def words(self) -> str:
        """``a.tif``, ``a.tif and 3 more``."""
        return self.paths[0].name + (f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else "")

    def verb(self, one: str, several: str) -> str:
        """``is`` or ``are``, as it goes with the words."""
        return one if len(self.paths) == 1 else several


def left_out(paths: Iterable[tuple[Path, str]]) -> Iterator[LeftOut]:
    """One for all paths of a kind: a thousand files that were dropped on the wrong panel are one message."""
    kinds: dict[str, list[Path]] = {}
    for path, kind in paths:
        kinds.setdefault(kind, []).append(path)
    return (LeftOut(tuple(found), kind) for kind, found in kinds.items())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task returns if it failed but has something to tell all the same."""

    result: Any
    message: str


class Member(NamedTuple):
    """An original inside an archive; there may be very many, and tuples travel fastest."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """An archive that was found.

    Attributes
    ----------
    path : Path
    size : int
        Bytes; 0 if unknown.
    original_size : int
        Bytes of what is inside.
    members : tuple of Member
        Empty if only looked for, or if it cannot be opened.
    alone, among : str
        Folders below the chosen one for its files, when it is restored alone and among others.
    error : str
        Why it cannot be opened.
    cut_short : str
        What is wrong with one that has lost its end but still has its list of files.
    """

    path: Path
    size: int
    original_size: int = 0
    members: tuple[Member, ...] = ()
    alone: str = ""
    among: str = ""
    error: str = ""
    cut_short: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """Originals that are back, equal to the last byte, and those that could not be rebuilt, each with why."""

    archive: Path
    files: tuple[Path, ...]
    bytes: int
    notes: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One export to be; ``error`` if the image cannot be exported."""

    source: Path
    image: str | None
    target: Path
    what: str
    size: int
    notes: tuple[str, ...]
    error: str = ""
    exists: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """An export that was written, read back and checked.

    Attributes
    ----------
    target : Path
    size, raw_bytes : int
        Written, and of all voxels.
    verdict : str
        What the check against the standard said.
    unmet : tuple of (str, str, str)
        Recommendations that are not met: rule, its sentence, why.
    notes : tuple of str
    """

    target: Path
    size: int
    raw_bytes: int
    verdict: str
    unmet: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One line of a check's table.

    Attributes
    ----------
    name : str
        A rule with its sentence, or an image.
    icon : {"rule", "image", ""}
    found : str
        The value found, and what to do, in a sentence.
    status : {"fail", "warn", "pass", "skip"}
    detail : str
        Everything known.
    below : tuple of CheckLine
    more : int
        Lines below that were left out.
    """

    name: str
    icon: str
    found: str
    status: str
    detail: str
    below: tuple[CheckLine, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """A location that was checked against the array standard.

    Attributes
    ----------
    location, name : str
        Path or address, and its last part.
    standard : str
        Version.
    images, failed, warned : int
        Images, broken rules, recommendations that are not met.
    sentence : str
        The verdict.
    lines : tuple of CheckLine
    text : str
        For the clipboard.
    html, json : bytes
        The reports, compressed by zlib: a plate has very many findings.
    """

    location: str
    name: str
    standard: str
    images: int
    failed: int
    warned: int
    sentence: str
    lines: tuple[CheckLine, ...]
    text: str
    html: bytes
    json: bytes


@dataclass(frozen=True, slots=True)
class Picture:
    """A small picture: ``pixels`` are rows of red, green, blue bytes."""

    width: int
    height: int
    pixels: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """Facts under a heading: labels and values."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is inside a file.

    Attributes
    ----------
    path : Path
    title : str
    kind : {"archive", "file", "image"}
    sections : tuple of Section
    members : tuple of Member
    picture : Picture or None
    picture_note : str
        Why there is no picture.
    original_map : tuple of float
        For equal stretches of the (first) original, the share of it that is pixels.
    archive_map : tuple of (str, int)
        Stored bytes of the archive by kind: ``pixels``, ``levels``, ``husk``, ``metadata``.
    """

    path: Path
    title: str
    kind: str
    sections: tuple[Section, ...]
    members: tuple[Member, ...] = ()
    picture: Picture | None = None
    picture_note: str = ""
    original_map: tuple[float, ...] = ()
    archive_map: tuple[tuple[str, int], ...] = ()

    def text(self) -> str:
        """Everything as text, for the clipboard."""
        lines = [str(self.path)]
        for section in self.sections:
            lines += ["", section.title, *(f"  {label}: {value}" for label, value in section.facts)]
        if self.members:
            lines += ["", "Files inside"]
            lines += [f"  {m.name}: {m.size:,} bytes, sha256 {m.sha256}" for m in self.members]
        return "\n".join(lines) + "\n"
