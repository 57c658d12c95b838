"""From napari's layers to what the crop tool cuts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import DecantError
from napari_decant.gui.crop import LayerFacts
from napari_decant.images import Axis
from napari_decant.images.crop import CropSource, WorldMap, source_of_arrays, source_of_image
from napari_decant.plugin._layer_place import _axes as axes_of
from napari_decant.plugin._opened import OpenedImage, opened_behind

if TYPE_CHECKING:
    import napari
    from napari.layers import Layer

__all__ = ["LayerReader", "layer_map", "world_axes"]


def layer_map(layer: Layer) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the elements of a layer are, in its own units: linear part and offset, all axes."""
    rank = layer.ndim
    offset = np.asarray(layer.data_to_world((0.0,) * rank), np.float64)
    columns = [np.asarray(layer.data_to_world(tuple(row)), np.float64) - offset for row in np.eye(rank)]
    return np.stack(columns, axis=1), offset


def layer_axes(layer: Layer) -> tuple[Axis, ...]:
    """Axes of a layer, colours excluded, as they are named when layers are saved."""
    state = {"axis_labels": layer.axis_labels, "units": layer.units}
    return axes_of(state, layer.ndim)


def world_axes(layer: Layer, source: CropSource) -> tuple[int, ...]:
    """World axes of the spatial axes of a layer, counted from the last."""
    names = [source.axes[i].name for i in source.spatial]
    own = [axis.name for axis in layer_axes(layer)]
    return tuple(sorted(own.index(name) - layer.ndim for name in names if name in own))


class LayerReader:
    """Facts of a viewer's layers; those that did not change are the same objects as before.

    Parameters
    ----------
    viewer : napari.Viewer
    """

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self._sources: dict[Any, tuple[Any, CropSource | str]] = {}
        self._facts: dict[Any, tuple[Any, LayerFacts]] = {}

    def facts(self, layers: Sequence[Layer]) -> list[LayerFacts]:
        """Facts of these layers."""
        keys = {layer.unique_id for layer in layers}
        for kept in (self._sources, self._facts):
            for key in [key for key in kept if key not in keys and not isinstance(key, int)]:
                del kept[key]
        alive = {id(found[0]) for layer in layers if (found := opened_behind(layer.data)) is not None}
        for key in [key for key in self._sources if isinstance(key, int) and key not in alive]:
            del self._sources[key]
        return [self._one(layer) for layer in layers]

    def _one(self, layer: Layer) -> LayerFacts:
        source = self._source(layer)
        linear, offset = layer_map(layer)
        rates = self._rates(layer)
        shown = self._shown(layer, source) if isinstance(source, CropSource) else {}
        signature = (
            id(source), layer.name, linear.tobytes(), offset.tobytes(), tuple(rates), tuple(shown.items())
        )  # fmt: skip
        kept = self._facts.get(layer.unique_id)
        if kept is not None and kept[0] == signature:
            return kept[1]
        made = self._make(layer, source, linear, offset, rates, shown)
        self._facts[layer.unique_id] = signature, made
        return made

    def _make(
        self,
        layer: Layer,
        source: CropSource | str,
        linear: NDArray[np.float64],
        offset: NDArray[np.float64],
        rates: NDArray[np.float64],
        shown: dict[str, int],
    ) -> LayerFacts:
        key = layer.unique_id
        if isinstance(source, str):
            return LayerFacts(key, layer.name, None, None, source)
        names = [source.axes[i].name for i in source.spatial]
        own = [axis.name for axis in layer_axes(layer)]
        at = [own.index(name) for name in names if name in own]
        others = [i for i in range(layer.ndim) if i not in at]
        if len(at) != len(names):
            return LayerFacts(key, layer.name, None, None, "it shows one plane of a volume")
        mixed = max(
            np.abs(linear[np.ix_(at, others)]).max(initial=0.0),
            np.abs(linear[np.ix_(others, at)]).max(initial=0.0),
        )
        if mixed > 1e-9 * np.abs(linear).max():
            return LayerFacts(key, layer.name, None, None, "its transform mixes space with other axes")
        spatial = linear[np.ix_(at, at)]
        try:
            world = WorldMap.of(rates[at][:, None] * spatial, rates[at] * offset[at])
            mine = WorldMap.of(spatial, offset[at])
        except DecantError as error:
            return LayerFacts(key, layer.name, None, None, str(error))
        return LayerFacts(key, layer.name, source, world, None, self._fixed(layer, source), shown, mine)

    def _rates(self, layer: Layer) -> NDArray[np.float64]:
        """What a unit of the layer is in the viewer's, along every axis."""
        wanted = self.viewer.layers.units
        if wanted is None:
            return np.ones(layer.ndim)
        return np.array(
            [
                1.0 if own == there else float((1 * own).to(there).magnitude)
                for own, there in zip(layer.units, wanted[-layer.ndim :], strict=True)
            ]
        )

    def _shown(self, layer: Layer, source: CropSource) -> dict[str, int]:
        """Index that is shown along every axis of the layer that is not spatial."""
        point = np.asarray(self.viewer.dims.point)[-layer.ndim :] / self._rates(layer)
        index = np.rint(np.asarray(layer.world_to_data(point)))
        spatial = {source.axes[i].name for i in source.spatial}
        sizes = {axis.name: n for axis, n in zip(source.axes, source.shape, strict=True)}
        return {
            axis.name: int(min(max(index[i], 0), sizes[axis.name] - 1))
            for i, axis in enumerate(layer_axes(layer))
            if axis.name in sizes and axis.name not in spatial
        }

    def _fixed(self, layer: Layer, source: CropSource) -> dict[str, tuple[int, int]]:
        """Axes of the source that the layer has not: channels that became layers."""
        own = {axis.name for axis in layer_axes(layer)}
        found = opened_behind(layer.data)
        number = found[1] if found is not None else 0
        missing = [
            (i, axis.name)
            for i, axis in enumerate(source.axes)
            if axis.name not in own and i not in source.spatial
        ]
        if getattr(layer, "rgb", False):
            return {}
        return {name: (at := min(number, source.shape[i] - 1), at + 1) for i, name in missing}

    # --- sources ---

    def _source(self, layer: Layer) -> CropSource | str:
        from napari.layers import Labels

        found = opened_behind(layer.data)
        is_label = isinstance(layer, Labels)
        if found is not None:
            opened = found[0]
            shared = self._sources.get(id(opened))
            if shared is None:
                shared = self._sources[id(opened)] = (opened, _of_opened(opened))
            if isinstance(shared[1], CropSource) and _is_whole(layer, shared[1], is_label):
                return shared[1]
        kept = self._sources.get(layer.unique_id)
        signature = (id(layer.data), layer.ndim, layer_axes(layer), is_label)
        if kept is None or kept[0][:-1] != signature:
            made = _of_layer(layer, is_label)
            kept = self._sources[layer.unique_id] = ((*signature, layer.data), made)
        return kept[1]


def _is_whole(layer: Layer, source: CropSource, is_label: bool) -> bool:
    """Whether a layer shows an opened image as it is: neither cut, converted nor renamed."""
    first = layer.data[0] if layer.multiscale else layer.data
    names = {axis.name for axis in source.axes}
    return (
        source.is_label == is_label
        and first.is_whole
        and first.dtype == source.dtype
        and all(axis.name in names for axis in layer_axes(layer))
    )


def _of_opened(opened: OpenedImage) -> CropSource | str:
    """A source of all channels of an image; its file is held open only while it is read."""
    try:
        source = source_of_image(opened.image)
    except DecantError as error:
        return str(error)
    if source.planned:
        return source
    levels = [replace(level, data=_Borrowed(opened, n)) for n, level in enumerate(source.levels)]
    return replace(source, levels=tuple(levels), keep=opened)


class _Borrowed:
    """A level of an opened image, read by slices."""

    def __init__(self, opened: OpenedImage, level: int) -> None:
        array = opened.image.levels[level]
        self.opened, self.level = opened, level
        self.shape, self.dtype, self.ndim, self.chunks = array.shape, array.dtype, array.ndim, array.chunks

    def __getitem__(self, key: tuple[slice, ...]) -> NDArray[Any]:
        with self.opened.borrow_image() as image:
            return np.asarray(image.levels[self.level][key])


def _of_layer(layer: Layer, is_label: bool) -> CropSource | str:
    """A source of whatever array a layer holds, or why there is none."""
    levels = list(layer.data) if layer.multiscale else [layer.data]
    axes = layer_axes(layer)
    if getattr(layer, "rgb", False):
        axes = (*axes, Axis("c" if all(axis.name != "c" for axis in axes) else "rgb", "channel"))
    if np.dtype(levels[0].dtype).kind not in "biuf":
        return f"its values are of type {levels[0].dtype}"
    try:
        return source_of_arrays(levels, axes, name=layer.name, is_label=is_label)
    except DecantError as error:
        return str(error)
