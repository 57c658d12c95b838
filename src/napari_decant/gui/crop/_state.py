"""The state of the crop tool: what the user wants, what there is, and what comes of both. No Qt here.

`resolve` is pure. A widget shows its result and changes nothing but the `Intent`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from napari_decant.errors import DecantError
from napari_decant.images.crop import (
    CropSource,
    Cutter,
    Device,
    Region,
    Spacing,
    WorldMap,
    gpu_problem,
    place,
)
from napari_decant.spatial import Filter, Sampler, SizedQuery, SpatialQuery, SpatialResolution

__all__ = [
    "Cut",
    "Intent",
    "LayerFacts",
    "Outside",
    "Problem",
    "Snapshot",
    "changed",
    "resolve",
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
        parts = [f"{extents} voxels" if len(first.shape) == 3 else f"{extents} pixels"]
        more = [layer_moments(cut) for cut in self.cuts]
        if more[0]:
            parts.append(more[0])
        if len(first.source.levels) > 1:
            parts.append(f"level {first.resolution.level}")
        if first.resolution.requires_resampling:
            kind = "nearest voxel" if first.resolution.sampler.filter == "nearest" else "interpolated"
            how = f"resampled, {kind}"
        else:
            how = "voxels are copied unchanged"
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


def resolve(intent: Intent, layers: Sequence[LayerFacts]) -> Snapshot:
    """Work out what would be cut; reads nothing.

    Parameters
    ----------
    intent : Intent
    layers : sequence of LayerFacts
    """
    base = Snapshot(intent, tuple(layers))
    chosen = base.chosen
    problems: list[Problem] = []
    if not chosen:
        text = "Choose a layer to cut from." if layers else "Open an image: there is no layer to cut from."
        return replace(base, problems=(Problem("layers", text),))
    usable = [layer for layer in chosen if layer.source is not None and layer.world is not None]
    problems += [
        Problem("layers", f"{layer.name}: {layer.problem or 'it cannot be cut'}.")
        for layer in chosen
        if layer not in usable
    ]
    gpu = gpu_problem() if intent.device == "cuda" else None
    if gpu is not None:
        problems.append(Problem("device", f"No GPU can be used: {gpu}."))
    if intent.mode == "plane" and not any(layer.rank == 3 for layer in usable):
        problems.append(Problem("region", "A plane needs a layer with three spatial axes; use a box."))
        return replace(base, problems=tuple(problems))
    region = None if intent.mode == "whole" else _fitted(intent.region, usable)
    if region is None and intent.mode != "whole":
        problems.append(Problem("region", "Draw a box in the view, or type its numbers."))
        return replace(base, problems=tuple(problems))
    cuts: list[Cut] = []
    for layer in usable:
        made = _cut(layer, intent, region)
        if isinstance(made, Cut):
            cuts.append(made)
        else:
            problems.append(made)
    return replace(base, region=region, cuts=tuple(cuts), problems=tuple(problems))


def _fitted(region: Region | None, layers: Sequence[LayerFacts]) -> Region | None:
    """A flat box with the depth of the deepest layer, where a layer has one."""
    if region is None or region.rank == 3:
        return region
    deep = next((layer.whole() for layer in layers if layer.rank == 3), None)
    if deep is None:
        return region
    return Region(
        (deep.center[0], *region.center), (deep.size[0], *region.size), (region.angles[0], 0.0, 0.0)
    )


def _cut(layer: LayerFacts, intent: Intent, region: Region | None) -> Cut | Problem:
    source, world = layer.source, layer.world
    assert source is not None
    assert world is not None
    box = region if region is not None else layer.whole()
    assert box is not None
    kind: Filter = "nearest" if source.is_label or source.dtype.kind == "b" else intent.filter
    if intent.grid == "level" and intent.level >= len(source.levels):
        last = len(source.levels) - 1
        text = f"{layer.name} has level 0 only" if last == 0 else f"{layer.name} has levels 0 to {last}"
        return Problem("grid", f"{text}.")
    if intent.grid == "custom" and not (math.isfinite(intent.pitch) and intent.pitch > 0):
        return Problem("grid", "The spacing must be above 0.")
    try:
        sized = place(
            box,
            source,
            world,
            spacing=intent.spacing,
            level=intent.level if intent.grid == "level" else "auto",
            sampler=_sampler(intent, kind),
            snap=intent.snap,
            index=_index(layer, intent.moments),
        )
    except DecantError as error:
        return Problem("region", f"{error}.")
    try:
        dtype = Cutter.dtype_of(source, intent.dtype).name
    except DecantError as error:
        return Problem("dtype", f"{error}.")
    try:
        resolution = sized.resolve(source)
        if intent.outside == "fill":
            sized, resolution = _without_ring(sized, source, resolution)
    except DecantError as error:
        return Problem("outside" if intent.outside == "refuse" else "region", f"{layer.name}: {error}.")
    if any(a >= b for a, b in resolution.read_bounds_index):
        return Problem("region", f"The box lies outside {layer.name}.")
    return Cut(layer, sized, resolution, dtype)


def _sampler(intent: Intent, kind: Filter) -> Sampler:
    if intent.outside == "fill":
        return Sampler(kind, "constant", intent.fill)
    return Sampler(kind, "clamp" if intent.outside == "edge" else "error")


def _index(layer: LayerFacts, moments: str) -> dict[str, tuple[int, int]]:
    index = dict(layer.fixed)
    if moments == "shown":
        index |= {name: (at, at + 1) for name, at in layer.shown.items()}
    return index


def _without_ring(
    sized: SizedQuery, source: CropSource, resolution: SpatialResolution
) -> tuple[SizedQuery, SpatialResolution]:
    """Where no sample lies outside the image, do not mix the fill value into its outermost voxels."""
    query = sized.query
    if query.sampler.filter == "nearest" or not resolution.requires_resampling:
        return sized, resolution
    nearest = SpatialQuery(query.output_to_reference, Sampler("nearest", "clamp"), query.level)
    bounds = nearest.resolve(source, sized.shape).source_bounds_index
    shape = source.levels[resolution.level].shape
    if not all(a >= 0 and b <= n for (a, b), n in zip(bounds, shape, strict=True)):
        return sized, resolution
    inner = SpatialQuery(query.output_to_reference, Sampler("linear", "clamp"), query.level)
    changed_size = replace(sized, query=inner)
    return changed_size, changed_size.resolve(source)
