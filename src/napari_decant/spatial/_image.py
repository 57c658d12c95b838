"""What a query needs to know of an image; `napari_decant.ngff.NgffImage` has all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["AxisLike", "ImageLike", "LevelLike"]


class AxisLike(Protocol):
    """A named axis; only the type ``"space"`` may mix, turn or scale."""

    @property
    def name(self) -> str:
        """Name in the metadata."""

    @property
    def type(self) -> str | None:
        """``"space"``, ``"time"``, ``"channel"`` or anything else."""


class LevelLike(Protocol):
    """One resolution level."""

    @property
    def path(self) -> str:
        """Path of its array within the image's store."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""

    @property
    def scale_to_reference(self) -> tuple[float, ...]:
        """``R`` of ``reference_corner = R * level_corner + origin``."""

    @property
    def origin_reference_index(self) -> tuple[float, ...]:
        """``origin`` of the same map."""

    @property
    def array(self) -> Any:
        """Metadata of its array, passed on without a look."""


class ImageLike(Protocol):
    """An image with at least one level, the finest first."""

    @property
    def uri(self) -> str:
        """Location of its store."""

    @property
    def axes(self) -> Sequence[AxisLike]:
        """Axes in array order."""

    @property
    def levels(self) -> Sequence[LevelLike]:
        """Levels, the reference first."""

    @property
    def is_label(self) -> bool:
        """Whether values are labels, which are never interpolated."""

    @property
    def strict_error(self) -> Exception | str | None:
        """Why the strict rules of spatial queries do not hold, or None."""
