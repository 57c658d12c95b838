"""What the verbs return: plain data that prints as a sentence and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

__all__ = ["ArchiveInfo", "Jsonable", "MemberState", "PackReport", "Problem", "RestoreReport", "VerifyReport"]


class Jsonable:
    """Dataclasses that turn into plain data."""

    __slots__ = ()

    def hidden(self) -> tuple[str, ...]:
        """Names of fields that are left out."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """The report as plain data: paths as text, tuples as lists."""
        skipped = self.hidden()
        names = [item.name for item in fields(self) if item.name not in skipped]  # type: ignore[arg-type]
        return {name: _plain(getattr(self, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Jsonable):
        return value.to_json()
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True, slots=True)
class PackReport(Jsonable):
    """What `pack` did.

    Attributes
    ----------
    source, archive : Path
        The TIFF and what it became.
    mode : {"byte-exact", "verbatim", "series"}
        Whether its pixels are an image array or the file is kept as it is.
    reason : str or None
        Code of the rule that made it verbatim.
    sha256 : str
        Of the source, recomputed from the finished archive.
    original_size, archive_size : int
        Bytes.
    axes, shape : tuple
        Of the pixel array; empty if verbatim.
    dtype : str
    codec : str
    workers : int
        Threads that worked on it.
    notes : tuple of str
        What the user should know.
    members : int
        Files inside.
    """

    source: Path
    archive: Path
    mode: str
    reason: str | None
    sha256: str
    original_size: int
    archive_size: int
    axes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    codec: str = ""
    workers: int = 1
    notes: tuple[str, ...] = ()
    members: int = 1


@dataclass(frozen=True, slots=True)
class Problem(Jsonable):
    """One thing that is wrong with an archive.

    Attributes
    ----------
    kind : str
        ``damaged``, ``missing``, ``unexpected``, ``duplicate``, ``changed``, ``incomplete``,
        ``differs``, ``not-archived``; the page "Trust, and how it is checked" explains them.
    key : str
        The entry, member or file concerned.
    message : str
        One sentence.
    """

    kind: str
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class MemberState(Jsonable):
    """One original file inside an archive: ``whole`` is None where its bytes were not recomputed."""

    name: str
    size: int
    sha256: str
    whole: bool | None


@dataclass(frozen=True, slots=True)
class VerifyReport(Jsonable):
    """What `verify` found.

    Attributes
    ----------
    archive : Path
    depth : {"full", "quick"}
    whole : bool or None
        True only if every original was recomputed and is equal and nothing else is wrong;
        None after a quick look, which does not read pixels.
    members : tuple of MemberState
    problems : tuple of Problem
    against : Path or None
        File or folder that the originals were compared with, byte for byte.
    """

    archive: Path
    depth: str
    whole: bool | None
    members: tuple[MemberState, ...] = ()
    problems: tuple[Problem, ...] = ()
    against: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found at this depth."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {**Jsonable.to_json(self), "ok": self.ok}

    def sentence(self) -> str:
        """The result in words; a quick look never says "whole"."""
        if self.problems:
            count = len(self.problems)
            return f"{self.archive}: {count} problem{'s' if count > 1 else ''} found"
        if self.depth == "quick":
            return f"{self.archive}: structure is complete, pixels were not read"
        files = len(self.members)
        what = "every byte" if files == 1 else f"every byte of {files} files"
        compared = "" if self.against is None else f" and is that of {self.against}"
        return f"{self.archive}: whole; {what} was recomputed{compared}"


@dataclass(frozen=True, slots=True)
class RestoreReport(Jsonable):
    """What `restore` wrote: the files, each with its hash recomputed from the finished file."""

    archive: Path
    files: tuple[Path, ...]
    sha256: tuple[str, ...] = ()
    bytes: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveInfo(Jsonable):
    """What is inside an archive, read from its metadata alone."""

    archive: Path
    mode: str
    format: int
    archive_size: int
    original_size: int
    members: tuple[MemberState, ...]
    axes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    codec: str = ""
    husk_size: int = 0
    levels: int = 0
    written_by: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
