"""One line of a table and the mark that tells its state; no Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from napari_decant.gui._words import size_text

__all__ = ["Mark", "Row"]


class _Look(NamedTuple):
    icon: str
    role: str
    word: str


class Mark(Enum):
    """States as the user sees them. Green is only what was recomputed and found equal, or was checked."""

    NONE = _Look("", "text", "")
    READY = _Look("ready", "accent", "ready")
    QUEUED = _Look("queued", "muted", "waiting")
    RUNNING = _Look("", "accent", "")
    WHOLE = _Look("whole", "good", "whole")
    RESTORED = _Look("whole", "good", "restored, equal")
    EXPORTED = _Look("whole", "good", "written, read back")
    COMPLETE = _Look("complete", "accent", "complete, not read")
    BEFORE = _Look("complete", "accent", "packed before")
    KEPT = _Look("cancelled", "muted", "left as it was")
    FOLLOWS = _Look("whole", "good", "holds")
    UNMET = _Look("warning", "warn", "not met")
    BROKEN = _Look("failed", "bad", "broken")
    SKIPPED = _Look("cancelled", "muted", "not applied")
    DAMAGED = _Look("failed", "bad", "damaged")
    PROBLEM = _Look("warning", "bad", "")
    FAILED = _Look("failed", "bad", "failed")
    CLASH = _Look("warning", "warn", "same target twice")
    CANCELLED = _Look("cancelled", "muted", "cancelled")


@dataclass(eq=False, slots=True)
class Row:
    """A line and those below it.

    Attributes
    ----------
    name : str
        What stands first; elided in the middle where it does not fit.
    path : Path or None
        For the tooltip and the menu.
    icon : str
        Name of an icon.
    what : str
        What it becomes, was found to be, or where it goes.
    size, packed : int
        Bytes; below 0 for nothing to say.
    about : bool
        ``packed`` is an estimate.
    mark : Mark
    word : str
        State in words; that of the mark by default.
    detail : str
        Whole sentences, shown when the line is chosen.
    fraction : float
        Of the work, while it runs.
    checked : bool or None
        None where there is nothing to choose.
    data : object
        What the panel needs.
    """

    name: str
    path: Path | None = None
    icon: str = ""
    what: str = ""
    size: int = -1
    packed: int = -1
    about: bool = False
    mark: Mark = Mark.NONE
    word: str = ""
    detail: str = ""
    fraction: float = 0.0
    checked: bool | None = None
    data: Any = None
    children: list[Row] = field(default_factory=list)
    parent: Row | None = field(default=None, repr=False)
    position: int = 0

    @property
    def state(self) -> str:
        """The state in words."""
        if self.mark is Mark.RUNNING:
            return self.word or f"{100 * self.fraction:.0f} %"
        return self.word or self.mark.value.word

    @property
    def size_words(self) -> str:
        """The size for people."""
        return size_text(self.size)

    @property
    def packed_words(self) -> str:
        """The size of the archive for people."""
        words = size_text(self.packed)
        return f"~ {words}" if words and self.about else words

    def walk(self) -> Iterator[Row]:
        """The row and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def number_children(self) -> None:
        """Tell the children their place, after the list was changed."""
        for position, child in enumerate(self.children):
            child.parent, child.position = self, position

    @property
    def top(self) -> Row:
        """The row of the table that it belongs to."""
        row = self
        while row.parent is not None and row.parent.parent is not None:
            row = row.parent
        return row
