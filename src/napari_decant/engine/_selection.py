"""Basic numpy selections as one arithmetic progression an axis."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = ["AxisSelection", "Selection", "parse_selection"]


@dataclass(frozen=True, slots=True)
class AxisSelection:
    """Indices ``start, start + step, ...`` (``count`` of them) along one axis, ascending.

    ``dropped`` marks an integer, whose axis the result lacks; ``reversed`` a negative step.
    """

    start: int
    step: int
    count: int
    dropped: bool = False
    reversed: bool = False

    def chunks(self, size: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield each touched chunk: (position, slice within the chunk, slice of the ascending result)."""
        done = 0
        while done < self.count:
            at = self.start + done * self.step
            chunk = at // size
            n = min(self.count - done, -(-((chunk + 1) * size - at) // self.step))
            first = at - chunk * size
            yield chunk, slice(first, first + (n - 1) * self.step + 1, self.step), slice(done, done + n)
            done += n


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection along every axis."""

    axes: tuple[AxisSelection, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Selected elements along each axis of the array, 1 for an integer."""
        return tuple(axis.count for axis in self.axes)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result: without the axes that integers select."""
        return tuple(axis.count for axis in self.axes if not axis.dropped)

    def forward(self, result: NDArray[Any]) -> NDArray[Any]:
        """View a result array with an axis for every axis of the array, ascending."""
        view = result.reshape(self.shape) if result.flags.c_contiguous else self._expand(result)
        order = (slice(None, None, -1 if axis.reversed else 1) for axis in self.axes)
        index: tuple[Any, ...] = (..., *order)  # the dots keep a view where there are no axes
        ordered: NDArray[Any] = view[index]
        return ordered

    def _expand(self, result: NDArray[Any]) -> NDArray[Any]:
        return result[tuple(None if axis.dropped else slice(None) for axis in self.axes)]


def parse_selection(selection: Any, shape: tuple[int, ...]) -> Selection:
    """Read integers, slices and one Ellipsis as numpy does.

    Raises
    ------
    IndexError
        Out of range, or more indices than axes.
    TypeError
        Anything that is no basic index.
    """
    items = list(selection) if isinstance(selection, tuple) else [selection]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    missing = len(shape) - len(items) + len(dots)
    if missing < 0:
        raise IndexError(f"too many indices: the array has {len(shape)} axes, {len(items)} were indexed")
    at = dots[0] if dots else len(items)
    items[at : at + len(dots)] = [slice(None)] * missing
    return Selection(
        tuple(_parse_axis(item, n, axis) for axis, (item, n) in enumerate(zip(items, shape, strict=True)))
    )


def _parse_axis(item: Any, n: int, axis: int) -> AxisSelection:
    if isinstance(item, slice):
        numbers = range(*item.indices(n))
        if numbers.step < 0:
            flipped = numbers[::-1]
            return AxisSelection(flipped.start, flipped.step, len(flipped), reversed=True)
        return AxisSelection(numbers.start, numbers.step, len(numbers))
    if isinstance(item, bool):
        raise TypeError("a boolean is no basic index")
    index = operator.index(item)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {n}")
    return AxisSelection(index % n, 1, 1, dropped=True)
