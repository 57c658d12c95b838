"""Saved queries and the box of the tool: the one from the other. No Qt here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.gui.crop._state import Intent, Outside, Snapshot
from napari_decant.images.crop import Region, SavedQuery, angles_of

__all__ = ["load_region", "saved_query"]

_OUTSIDE: dict[str, Outside] = {"constant": "fill", "clamp": "edge", "error": "refuse"}


def saved_query(snapshot: Snapshot) -> SavedQuery:
    """What a snapshot cuts out of its first layer, along the spatial axes.

    Raises
    ------
    UsageError
        It cuts nothing.
    """
    if not snapshot.cuts:
        raise UsageError("there is nothing to save: no region is placed")
    cut = snapshot.cuts[0]
    return SavedQuery.of(cut.sized, cut.source, snapshot.intent.dtype, spatial_only=True)


def load_region(intent: Intent, snapshot: Snapshot, saved: SavedQuery) -> Intent:
    """Place the box where a query cuts the first chosen layer.

    Raises
    ------
    UsageError
        No layer is chosen, or the query does not fit it.
    UnsupportedOperation
        It mirrors or shears, which a box does not.
    """
    layer = next((one for one in snapshot.chosen if one.source is not None and one.world is not None), None)
    if layer is None or layer.source is None or layer.world is None:
        raise UsageError("choose a layer that the query is for")
    source, spatial = layer.source, list(layer.source.spatial)
    sized = saved.fit(source)
    matrix = np.asarray(sized.query.output_to_reference)
    linear = np.asarray(layer.world.linear) @ matrix[np.ix_(spatial, spatial)]
    offset = np.asarray(layer.world.linear) @ (matrix[spatial, -1] - 0.5) + np.asarray(layer.world.offset)
    shape = np.array([sized.shape[i] for i in spatial], np.float64)
    step = np.linalg.norm(linear, axis=0)
    turn = linear / step
    if np.abs(turn.T @ turn - np.eye(len(step))).max() > 1e-6 or np.linalg.det(turn) < 0:
        raise UnsupportedOperation(
            "the query mirrors or shears this layer, which a box does not; run it with"
            " napari-decant crop --query"
        )
    region = Region(
        tuple(map(float, linear @ (shape / 2) + offset)), tuple(map(float, step * shape)), angles_of(turn)
    )
    sampler = saved.query.sampler
    placed = replace(
        intent,
        region=region,
        mode="box",
        filter=sampler.filter,
        outside=_OUTSIDE[sampler.boundary],
        fill=sampler.constant_value,
        dtype=saved.dtype,
    )
    return _with_spacing(placed, step, np.asarray(layer.world.pitch), saved.query.level, len(source.levels))


def _with_spacing(
    intent: Intent, step: np.ndarray, pitch: np.ndarray, level: int | str, levels: int
) -> Intent:
    """The choice of spacing that gives these steps."""
    if np.allclose(step, pitch, rtol=1e-9):
        return replace(intent, grid="native")
    if level != "auto" and isinstance(level, int) and level < levels and level > 0:
        return replace(intent, grid="level", level=level)
    if np.allclose(step, step[0], rtol=1e-9):
        smallest = bool(np.isclose(step[0], pitch.min(), rtol=1e-9))
        return replace(intent, grid="isotropic" if smallest else "custom", pitch=float(step[0]))
    raise UnsupportedOperation(
        "the query has a spacing of its own along every axis, which this form has not; run it with"
        " napari-decant crop --query"
    )
