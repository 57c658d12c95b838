"""The state of the crop tool: what the user wants, what there is, and what comes of both. No Qt here.

A `Snapshot` is never changed; `napari_decant.gui.crop._resolve` makes the next one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from napari_decant.images.crop import CropSource, Device, Region, Spacing, WorldMap
from napari_decant.spatial import Filter, SizedQuery, SpatialResolution

__all__ = [
    "Cut",
    "Grid",
    "Intent",
    "Key",
    "LayerFacts",
    "Mode",
    "Outside",
    "Problem",
    "Snapshot",
    "changed",
]

Mode = Literal["box", "plane", "whole"]
Outside = Literal["fill", "edge", "refuse"]
Grid = Literal["native", "isotropic", "level", "custom"]
Key = Hashable


@dataclass(frozen=True, slots=True, eq=False)
class LayerFacts:
    """One layer as it is.

    Attributes
    ----------
    key : hashable
        Names the layer.
    name : str
    source : CropSource or None
        None where it cannot be cut, see ``problem``.
    world : WorldMap or None
        Where its voxels are.
    problem : str or None
        Why it cannot be cut.
    fixed : mapping of str to (int, int)
        Axes of the source of which the layer is one index, by name.
    shown : mapping of str to int
        Index that is shown of other axes that are not spatial.
    own : WorldMap or None
        Where its voxels are in its own units, where those are not the world's.
    """

    key: Key
    name: str
    source: CropSource | None
    world: WorldMap | None
    problem: str | None = None
    fixed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)
    own: WorldMap | None = None

    @property
    def placed(self) -> WorldMap:
        """Where its voxels are, in its own units."""
        found = self.own if self.own is not None else self.world
        assert found is not None
        return found

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.source.spatial) if self.source is not None else 0

    @property
    def extents(self) -> tuple[int, ...]:
        """Voxels of level 0 along the spatial axes."""
        source = self.source
        return tuple(source.shape[i] for i in source.spatial) if source is not None else ()

    def whole(self) -> Region | None:
        """The box around the layer."""
        return self.world.whole(self.extents) if self.world is not None and self.source is not None else None


@dataclass(frozen=True, slots=True)
class Intent:
    """What the user wants.

    Attributes
    ----------
    layers : tuple of hashable
        Keys of the chosen layers.
    region : Region or None
        None until a box was drawn.
    mode : {"box", "plane", "whole"}
    grid : {"native", "isotropic", "level", "custom"}
        Spacing of the output.
    level : int
        For ``"level"``.
    pitch : float
        World units, for ``"custom"``.
    filter : {"linear", "nearest"}
        For images; labels are never interpolated.
    outside : {"fill", "edge", "refuse"}
        What is taken beyond the image.
    fill : float
        For ``"fill"``.
    dtype : str or None
        None keeps the image's.
    device : {"auto", "cpu", "cuda"}
    snap : bool
        Move straight boxes to whole voxels.
    moments : {"all", "shown"}
        Of axes that are not spatial: every index, or the one that is shown.
    """

    layers: tuple[Key, ...] = ()
    region: Region | None = None
    mode: Mode = "box"
    grid: Grid = "native"
    level: int = 0
    pitch: float = 1.0
    filter: Filter = "linear"
    outside: Outside = "fill"
    fill: float = 0.0
    dtype: str | None = None
    device: Device = "auto"
    snap: bool = True
    moments: Literal["all", "shown"] = "all"

    @property
    def spacing(self) -> Spacing:
        """As `napari_decant.images.crop.place` takes it."""
        if self.grid == "isotropic":
            return "isotropic"
        return self.pitch if self.grid == "custom" else "native"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something cannot be done, and which control says so.

    Attributes
    ----------
    control : {"layers", "region", "grid", "filter", "outside", "dtype", "device"}
    text : str
        One sentence.
    """

    control: str
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """What will be cut out of one layer.

    Attributes
    ----------
    layer : LayerFacts
    sized : SizedQuery
    resolution : SpatialResolution
    dtype : str
        Of the output.
    """

    layer: LayerFacts
    sized: SizedQuery
    resolution: SpatialResolution
    dtype: str

    @property
    def source(self) -> CropSource:
        """What it is cut from."""
        assert self.layer.source is not None
        return self.layer.source

    @property
    def world(self) -> WorldMap:
        """Where that lies."""
        assert self.layer.world is not None
        return self.layer.world

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the spatial axes."""
        return tuple(self.resolution.shape[i] for i in self.source.spatial)

    @property
    def nbytes(self) -> int:
        """Bytes of the output."""
        return math.prod(self.resolution.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the tool shows; never changed, replaced by the next one.

    Attributes
    ----------
    intent : Intent
    layers : tuple of LayerFacts
        All there are.
    region : Region or None
        The box as it is cut, of as many axes as the layers have.
    cuts : tuple of Cut
        One per chosen layer that can be cut.
    problems : tuple of Problem
    """

    intent: Intent
    layers: tuple[LayerFacts, ...]
    region: Region | None = None
    cuts: tuple[Cut, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether cutting can start."""
        return bool(self.cuts) and not self.problems

    @property
    def rank(self) -> int:
        """Number of axes of the region: the most that a chosen layer has."""
        return max((layer.rank for layer in self.chosen), default=0)

    @property
    def chosen(self) -> tuple[LayerFacts, ...]:
        """Chosen layers that are there."""
        return tuple(layer for layer in self.layers if layer.key in self.intent.layers)

    def problem(self, control: str) -> str | None:
        """What is to be said beside a control."""
        return next((p.text for p in self.problems if p.control == control), None)

    @property
    def headline(self) -> str:
        """What comes out, in one line."""
        if not self.cuts:
            return ""
        first = self.cuts[0]
        extents = " × ".join(map(str, first.shape))
        noun = "voxel" if len(first.shape) == 3 else "pixel"
        parts = [f"{extents} {noun}s"]
        more = [layer_moments(cut) for cut in self.cuts]
        if more[0]:
            parts.append(more[0])
        if len(first.source.levels) > 1:
            parts.append(f"level {first.resolution.level}")
        if first.resolution.requires_resampling:
            kind = f"nearest {noun}" if first.resolution.sampler.filter == "nearest" else "interpolated"
            how = f"resampled, {kind}"
        else:
            how = f"{noun}s are copied unchanged"
        turned = _turned(self.region)
        if turned:
            parts.append(turned)
        if len(self.cuts) > 1:
            parts.append(f"from {len(self.cuts)} layers")
        return f"{', '.join(parts)}: {how}"


def layer_moments(cut: Cut) -> str:
    """Axes beside the spatial ones, where there is more than one index of them."""
    source = cut.source
    sizes = [
        f"{cut.resolution.shape[i]} {axis.name}"
        for i, axis in enumerate(source.axes)
        if i not in source.spatial and cut.resolution.shape[i] > 1
    ]
    return " × ".join(sizes)


def _turned(region: Region | None) -> str:
    if region is None or not region.is_turned:
        return ""
    trace = float(np.trace(region.rotation))
    cosine = trace / 2 if region.rank == 2 else (trace - 1) / 2
    return f"turned {math.degrees(math.acos(min(1.0, max(-1.0, cosine)))):.0f}°"


def changed(old: Snapshot | None, new: Snapshot) -> frozenset[str]:
    """Names of the fields of a snapshot that differ, so that only those are drawn anew."""
    names = ("intent", "layers", "region", "cuts", "problems")
    if old is None:
        return frozenset(names)
    return frozenset(name for name in names if getattr(old, name) != getattr(new, name))
