"""Which planes of a file are meant: all that the readers of its metadata know of its pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

__all__ = ["Listing", "PlaneListing", "PlaneSamples"]


class _Plane(Protocol):
    @property
    def samples(self) -> int:
        """Samples of a pixel."""


class Listing(Protocol):
    """Planes of one file; the layout of a file that is packed is one."""

    @property
    def planes(self) -> Sequence[_Plane]:
        """The listed planes, at least one."""

    @property
    def ifd_offsets(self) -> Sequence[int]:
        """Directory of each plane; several planes share it where one directory stands for a stack."""

    @property
    def page_offsets(self) -> Sequence[int]:
        """Directory of every page of the file in the order of its links, listed or not."""


@dataclass(frozen=True, slots=True)
class PlaneSamples:
    """A plane of which nothing more is known."""

    samples: int


@dataclass(frozen=True)
class PlaneListing:
    """Planes of an image that is shown; see `Listing`.

    Attributes
    ----------
    list_pages : callable
        Gives ``page_offsets``; called once, when somebody asks for them: few dialects do, and there is a read
        for every page of the file.
    """

    planes: Sequence[PlaneSamples]
    ifd_offsets: Sequence[int]
    list_pages: Callable[[], Sequence[int]]

    @cached_property
    def page_offsets(self) -> Sequence[int]:
        """See `Listing.page_offsets`."""
        return self.list_pages()
