"""From what the user wants and what there is to what would be cut. Pure: no Qt, and nothing is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from napari_decant.errors import DecantError
from napari_decant.gui.crop._state import Cut, Intent, LayerFacts, Mode, Problem, Snapshot
from napari_decant.images.crop import CropSource, Cutter, Region, gpu_problem, place
from napari_decant.spatial import Filter, Sampler, SizedQuery, SpatialQuery, SpatialResolution

__all__ = ["in_mode", "resolve", "thin"]


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
        problems.append(Problem("region", "Draw a box in the view, or press Reset for one in the middle."))
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


def thin(region: Region, layers: Sequence[LayerFacts]) -> Region:
    """A slice of a box, one voxel of the finest axis thick."""
    worlds = [layer.world for layer in layers if layer.rank == 3 and layer.world is not None]
    pitch = min(worlds[0].pitch) if worlds else 1.0
    return region.moved(size=(pitch, *region.size[1:]))


def in_mode(snapshot: Snapshot, mode: Mode, suggestion: Region | None) -> Intent:
    """What is wanted once another kind of region is chosen.

    Parameters
    ----------
    snapshot : Snapshot
    mode : {"box", "plane", "whole"}
    suggestion : Region or None
        A box in the middle of what is seen.
    """
    before = snapshot.intent
    intent = replace(before, mode=mode)
    region = before.region
    if mode == "box" and region is None:
        return replace(intent, region=suggestion)
    if mode == "plane" and snapshot.rank == 3:
        region = region if region is not None and region.rank == 3 else suggestion
        if region is not None and region.rank == 3:
            grid = "isotropic" if before.grid == "native" else before.grid
            intent = replace(intent, region=thin(region, snapshot.chosen), grid=grid)
    elif mode == "box" and before.mode == "plane" and region is not None and region.rank == 3:
        deep = suggestion.size[0] if suggestion is not None and suggestion.rank == 3 else 0.0
        intent = replace(intent, region=region.moved(size=(max(deep, region.size[0]), *region.size[1:])))
    return intent
