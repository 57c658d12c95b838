"""Axes of a TIFF: as its reader names them, or as metadata place the planes of a stack that it shows flat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.images._tiff_facts import TiffFacts
from napari_decant.images._tiff_source import PageSource, RawSource
from napari_decant.ngff import Axis
from napari_decant.tiff._axes import arrange, axis_type, canonical_permutation

__all__ = ["Regrouped", "StackGrid", "named_axes", "stack_grid"]

_AXES = {
    "T": ("t", "time"),
    "C": ("c", "channel"),
    "Z": ("z", "space"),
    "Y": ("y", "space"),
    "X": ("x", "space"),
}
_UNKNOWN = ("I", "Q")  # what tifffile calls a stack of which it knows no more
_PLAIN = "?"  # stands for an axis whose name is no letter


@dataclass(frozen=True, slots=True, eq=False)
class StackGrid:
    """Leading axes of planes that lie in a file one behind the other.

    Attributes
    ----------
    names : tuple of str
        In canonical order, as an archive of the file has them.
    planes : array of int
        Which plane of the stack lies at each place.
    """

    names: tuple[str, ...]
    planes: NDArray[np.int64]

    @property
    def letters(self) -> str:
        """The names as a TIFF reader spells them."""
        return "".join(name.upper() if len(name) == 1 else _PLAIN for name in self.names)


def stack_grid(facts: TiffFacts, letters: str, shape: Sequence[int]) -> StackGrid | None:
    """Where metadata put the planes of a stack of unknown meaning; None if they do not fill a grid.

    Parameters
    ----------
    facts : TiffFacts
    letters : str
        Axes as tifffile names them.
    shape : sequence of int
        Of the stack.
    """
    places = facts.places
    if places is None or letters[:1] not in _UNKNOWN or letters[1:] != "YX" or len(places.index) != shape[0]:
        return None
    arranged = arrange(places, shape[0], samples=False)
    axes = arranged.axes
    if axes.true_axes:
        return None
    if axes.plane_order == ("z",) and (
        "z" not in places.names or len(np.unique(places.index[:, places.names.index("z")])) != shape[0]
    ):
        return None  # a flat axis, not one of depth
    order = np.asarray(arranged.order, np.int64).reshape(axes.storage_shape)
    return StackGrid(axes.canonical_order, order.transpose(canonical_permutation(axes.plane_order)))


class Regrouped:
    """A stack of planes as the grid that its metadata make of it.

    Parameters
    ----------
    source : RawSource or PageSource
        The stack: planes, then rows and columns.
    grid : StackGrid

    Raises
    ------
    ValueError
        The stack has another number of planes.
    """

    def __init__(self, source: RawSource | PageSource, grid: StackGrid) -> None:
        if source.shape[0] != grid.planes.size or source.chunk_shape[0] != 1:
            raise ValueError(f"{source.shape[0]} planes where {grid.planes.size} belong")
        self._source, self._planes = source, grid.planes
        self.dtype = source.dtype
        self.shape = (*grid.planes.shape, *source.shape[1:])
        self.chunk_shape = (*(1,) * grid.planes.ndim, *source.chunk_shape[1:])

    def read_chunk(self, index: Sequence[int], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `ChunkSource.read_chunk`."""
        leading = self._planes.ndim
        inner = None if out is None else out[(0,) * (leading - 1)]
        chunk = self._source.read_chunk([int(self._planes[tuple(index[:leading])]), *index[leading:]], inner)
        return chunk.reshape(self.chunk_shape) if out is None else out

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """See `ChunkSource.read`; the box lies within one chunk."""
        leading = self._planes.ndim
        plane = int(self._planes[tuple(s.start for s in selection[:leading])])
        block = self._source.read((slice(plane, plane + 1, 1), *selection[leading:]))
        return block.reshape((1,) * leading + block.shape[1:])


def named_axes(letters: str, facts: TiffFacts, grid: StackGrid | None) -> tuple[Axis, ...]:
    """Axes with names, types and units.

    Parameters
    ----------
    letters : str
        As tifffile spells them, with the grid's in the place of the stack's.
    facts : TiffFacts
    grid : StackGrid or None
        Names the leading ones.
    """
    axes: list[Axis] = []
    for i, letter in enumerate(letters):
        name, kind = _AXES.get(letter, (letter.lower(), "custom"))
        if letter == "S":
            name, kind = ("c" if "C" not in letters else "s"), "channel"
        if grid is not None and i < len(grid.names):
            name = grid.names[i]
            kind = axis_type(name) or "custom"
        if any(axis.name == name for axis in axes):
            name = f"{name}_{i}"
        axes.append(Axis(name, kind, facts.units.get(name)))
    return tuple(axes)
