"""How a value is made from the source's elements, and what lies beyond its edges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from napari_decant.errors import UsageError

__all__ = ["BOUNDARIES", "FILTERS", "Boundary", "Filter", "Sampler"]

Filter = Literal["nearest", "linear"]
Boundary = Literal["error", "constant", "clamp"]
FILTERS: Final[tuple[Filter, ...]] = ("nearest", "linear")
BOUNDARIES: Final[tuple[Boundary, ...]] = ("error", "constant", "clamp")


@dataclass(frozen=True, slots=True)
class Sampler:
    """A point filter and a boundary rule (spatial queries, "Sampler and bounds").

    Parameters
    ----------
    filter : {"nearest", "linear"}
        ``nearest`` takes the element at ``floor(s)`` of corner coordinate ``s``; ``linear`` weighs
        ``floor(s - 0.5)`` and ``ceil(s - 0.5)`` along each spatial axis and omits zero weights.
    boundary : {"error", "constant", "clamp"}
        Elements outside the source: refuse the query, take ``constant_value``, or take the nearest edge.
    constant_value : float
        Finite; zero unless the boundary is ``"constant"``.

    Raises
    ------
    UsageError
        A setting is unknown, or the constant is not finite or has no use.
    """

    filter: Filter = "nearest"
    boundary: Boundary = "error"
    constant_value: float = 0.0

    def __post_init__(self) -> None:
        if self.filter not in FILTERS:
            raise UsageError(f"the filter {self.filter!r} is unknown; use one of {', '.join(FILTERS)}")
        if self.boundary not in BOUNDARIES:
            raise UsageError(f"the boundary {self.boundary!r} is unknown; use one of {', '.join(BOUNDARIES)}")
        try:
            value = float(self.constant_value)
        except (TypeError, ValueError):
            raise UsageError(f"the constant value {self.constant_value!r} is not a number") from None
        if not math.isfinite(value):
            raise UsageError(f"the constant value {value} is not finite")
        if value != 0 and self.boundary != "constant":
            raise UsageError(
                f"a constant value is only used with the boundary 'constant', not {self.boundary!r}"
            )
        object.__setattr__(self, "constant_value", value)
