"""Derived pyramid levels of an archive: for viewing only, never read in reconstruction (section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from napari_decant.errors import UsageError
from napari_decant.images._pyramid import halved_shape, level_factors, level_scales

__all__ = ["NO_LEVELS", "Levels", "plan_levels"]

_MOST = 16  # more would halve a pixel


@dataclass(frozen=True, slots=True)
class Levels:
    """How each level follows from the one before, in the plane: ``(Y, X)`` or ``(Y, X, S)``.

    Attributes
    ----------
    factors : tuple of tuple of int
        From each level to the next; empty for an archive without derived levels.
    shapes : tuple of tuple of int
        Of a plane at levels 1, 2, ...
    """

    factors: tuple[tuple[int, ...], ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()

    def transforms(self, scale: Sequence[float]) -> list[tuple[list[float], list[float]]]:
        """Scale and translation of every level, level 0 first, for all axes of the array.

        Parameters
        ----------
        scale : sequence of float
            Of level 0; the plane's axes come last.
        """
        plane = len(self.factors[0]) if self.factors else 0
        steps = [(1,) * (len(scale) - plane) + factors for factors in self.factors]
        return [(list(s), list(t)) for s, t in level_scales(scale, [0.0] * len(scale), steps)]


NO_LEVELS = Levels()


def plan_levels(plane_shape: Sequence[int], count: int) -> Levels:
    """Plan ``count`` derived levels, fewer where a plane cannot be halved so often.

    Raises
    ------
    UsageError
        ``count`` is negative or too large.
    """
    if not 0 <= count <= _MOST:
        raise UsageError(f"{count} derived levels make no sense; ask for 0 to {_MOST}")
    halved = [True, True, False][: len(plane_shape)]
    factors = [step for step in level_factors(plane_shape, halved, count + 1) if max(step) > 1]
    shapes = []
    current = tuple(plane_shape)
    for step in factors:
        current = halved_shape(current, step)
        shapes.append(current)
    return Levels(tuple(factors), tuple(shapes))
