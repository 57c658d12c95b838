"""What the crop tool asks of the program that it is docked in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from napari_decant.gui.crop._state import Cut, LayerFacts, Snapshot
from napari_decant.images.crop import Placement, Region, Written

__all__ = ["Host", "Made"]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A crop that was cut.

    Attributes
    ----------
    cut : Cut
    levels : sequence of array
        One array, or several that are cut when they are looked at, finest first; axes as the source has
        them, those of the cut that are one index of the layer's image included.
    placement : Placement
        In the units of the layer that it was cut from.
    """

    cut: Cut
    levels: Sequence[Any]
    placement: Placement


class Host(Protocol):
    """A viewer with layers."""

    @property
    def unit(self) -> str:
        """Name of the world's unit."""

    @property
    def axis_names(self) -> Sequence[str]:
        """Names of the world's spatial axes, in order."""

    def layers(self) -> Sequence[LayerFacts]:
        """All layers that hold images or labels."""

    def selected(self) -> Sequence[Hashable]:
        """Keys of the layers that the user has selected."""

    def file(self, key: Hashable) -> Path | None:
        """The file or folder that a layer is read from; None where none is known on this machine."""

    def paint(self, key: Hashable, plane: NDArray[Any]) -> NDArray[np.float64]:
        """Colour a plane as the layer is shown: red, green and blue from 0 to 1."""

    def additive(self, key: Hashable) -> bool:
        """Whether the layer's colours are added to those below."""

    def add(self, made: Sequence[Made]) -> Sequence[str]:
        """Add crops as layers; return what the user should know, a sentence each."""

    def check_target(self, target: Path) -> None:
        """Raise `UsageError` where the program reads from a file that would be written."""

    def describe(self, cut: Cut, placement: Placement) -> Written:
        """What a file says of a crop."""

    def show(self, snapshot: Snapshot | None) -> None:
        """Draw the box and its handles, or take them away."""

    def draw(self, active: bool) -> None:
        """Let the next drag in the view draw a box; `CropPanel.drawn` is called at its end."""

    def suggestion(self) -> Region | None:
        """A box in the middle of what is seen."""

    def camera(self) -> NDArray[np.float64] | None:
        """Directions of depth, rows and columns of the view, one a column; None where it is flat."""
