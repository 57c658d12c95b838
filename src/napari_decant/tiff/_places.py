"""Where metadata put the planes of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

__all__ = ["UNKNOWN", "Places"]

UNKNOWN = "q"
"""Axis of unknown meaning."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where a file's metadata puts its planes.

    Attributes
    ----------
    names : tuple of str
        Axes, slowest first as the metadata has them: ``t``, ``c``, ``z``, ``p`` (position), ``q``
        (unknown), or a custom name.
    extents : tuple of int
        Their declared extents.
    index : numpy.ndarray of int64
        Shape (planes, axes): the place of each listed plane.
    declared : int, optional
        How many planes the metadata promises for this file, 0 if it promises nothing; by default the
        whole grid.
    known : numpy.ndarray of bool, optional
        Shape (planes,): which planes have a place; by default all.
    holder : str
        What holds the planes, for notes.
    """

    names: tuple[str, ...]
    extents: tuple[int, ...]
    index: np.ndarray
    declared: int | None = None
    known: np.ndarray | None = None
    holder: str = "this file"

    @classmethod
    def grid(cls, names: Sequence[str], extents: Sequence[int], planes: int) -> Places:
        """Planes that fill a grid one after the other, as far as they reach.

        Planes beyond it repeat it along one more axis of unknown meaning.
        """
        if planes > prod(extents):
            names, extents = (UNKNOWN, *names), (-(-planes // prod(extents)), *extents)
        index = np.zeros((planes, len(names)), np.int64)
        rest = np.arange(planes)
        for axis in range(len(names) - 1, -1, -1):
            index[:, axis] = rest % extents[axis]
            rest //= extents[axis]
        return cls(tuple(names), tuple(extents), index)
