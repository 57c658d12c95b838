"""Crops as layers that lie exactly on what they were cut from, and what files say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.gui.crop import Cut, Made
from napari_decant.images import Channel, LabelInfo, unit_name
from napari_decant.images.crop import CropArray, Placement, SavedQuery, Written, index_map, placed
from napari_decant.plugin._layer_look import channel_of, label_of
from napari_decant.plugin._level_array import LevelArray
from napari_decant.plugin.crop._facts import layer_axes, layer_map

if TYPE_CHECKING:
    from napari.layers import Layer

__all__ = ["layer_of", "written_of"]

_COPIED = ("opacity", "blending", "gamma", "interpolation2d", "interpolation3d", "rendering", "visible")


def layer_of(layer: Layer, made: Made) -> Layer:
    """A new layer with a crop of another, in its place and with its look."""
    from napari.layers import Image, Labels

    cut = made.cut
    order = _order(layer, cut)
    keep = order if not getattr(layer, "rgb", False) else order[:-1]
    linear, offset = _own_map(layer, cut)
    place = placed(linear, offset, [cut.resolution.shape[i] for i in keep])
    levels = [_arranged(level, order) for level in made.levels]
    keywords: dict[str, Any] = {
        "name": f"{layer.name} crop",
        "scale": place.scale,
        "translate": place.translation,
        "affine": None if place.affine is None else np.asarray(place.affine),
        "units": layer.units,
        "axis_labels": layer.axis_labels,
        "multiscale": len(levels) > 1,
        "metadata": {
            "napari-decant": {"crop of": layer.name, "query": SavedQuery.of(cut.sized, cut.source).to_json()}
        },
    }
    keywords |= {name: getattr(layer, name) for name in _COPIED if hasattr(layer, name)}
    data = levels if len(levels) > 1 else levels[0]
    if isinstance(layer, Labels):
        keywords.pop("gamma", None)
        keywords.pop("interpolation2d", None)
        keywords.pop("interpolation3d", None)
        return Labels(data, colormap=layer.colormap, **keywords)
    if not layer.rgb:
        keywords |= {"colormap": layer.colormap, "contrast_limits": layer.contrast_limits}
    result = Image(data, rgb=layer.rgb, **keywords)
    if not layer.rgb:
        low, high = layer.contrast_limits_range
        result.contrast_limits_range = (low, high)
        result.contrast_limits = layer.contrast_limits
    return result


def _order(layer: Layer, cut: Cut) -> list[int]:
    """Axes of the source in the order of the layer's; colours last."""
    names = [axis.name for axis in cut.source.axes]
    order = [names.index(axis.name) for axis in layer_axes(layer)]
    if getattr(layer, "rgb", False):
        order += [i for i in range(len(names)) if i not in order]
    return order


def _own_map(layer: Layer, cut: Cut) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The map from an index of the crop to the world, in the layer's own units and axes."""
    names = [axis.name for axis in cut.source.axes]
    own = [names.index(axis.name) for axis in layer_axes(layer)]
    linear, offset = index_map(cut.source, cut.resolution)
    to_world, shift = layer_map(layer)
    return to_world @ linear[np.ix_(own, own)], to_world @ offset[own] + shift


def _arranged(array: Any, order: Sequence[int]) -> Any:
    """An array of the source's axes as one of the layer's, without those that the layer has not."""
    if isinstance(array, np.ndarray):
        rest = [i for i in range(array.ndim) if i not in order]
        return np.ascontiguousarray(array.transpose([*rest, *order])[(0,) * len(rest)])
    view = _LazyView(array, order)
    return LevelArray(lambda: nullcontext(view))


class _LazyView:
    """A crop that is cut when it is looked at, with its axes in another order."""

    def __init__(self, array: CropArray, order: Sequence[int]) -> None:
        self._array, self._order = array, tuple(order)
        self.shape = tuple(array.shape[i] for i in order)
        self.dtype, self.ndim = array.dtype, len(order)
        self.chunks = tuple(array.chunks[i] for i in order)

    def __getitem__(self, key: tuple[slice | int, ...]) -> NDArray[Any]:
        index: list[slice | int] = [0] * self._array.ndim
        for item, axis in zip(key, self._order, strict=True):
            index[axis] = item
        made = self._array[tuple(index)]
        left = [axis for item, axis in zip(key, self._order, strict=True) if isinstance(item, slice)]
        return made.transpose(np.argsort(np.argsort(left)))


def written_of(cut: Cut, placement: Placement, layers: Mapping[Any, Layer]) -> Written:
    """What a file says of a crop.

    Parameters
    ----------
    cut : Cut
        Of one layer, or of neighbouring ones that are channels of one image.
    placement : Placement
        In the layer's own units.
    layers : mapping
        Layers by their key.
    """
    from napari.layers import Labels

    layer = layers[cut.layer.key]
    source, rgb = cut.source, bool(getattr(layer, "rgb", False))
    units = {axis.name: str(unit) for axis, unit in zip(layer_axes(layer), layer.units, strict=True)}
    axes = tuple(
        replace(axis, unit=unit_name(units.get(axis.name, axis.unit))) if axis.type != "channel" else axis
        for axis in source.axes
    )
    label: LabelInfo | None = None
    channels: list[Channel] = []
    state = layer.as_layer_data_tuple()[1]
    if isinstance(layer, Labels):
        label = label_of(state)
    elif not rgb:
        channels = _channels(cut, layer, layers)
    return Written(
        f"{_title(layer.name, len(channels))} crop",
        axes,
        placement,
        channels,
        rgb,
        label,
        SavedQuery.of(cut.sized, source, cut.dtype),
        layer.name,
    )


def _title(name: str, channels: int) -> str:
    """Our reader calls layers ``image - channel``."""
    return name.partition(" - ")[0] if channels > 1 else name


def _channels(cut: Cut, layer: Layer, layers: Mapping[Any, Layer]) -> list[Channel]:
    """How the channels of a crop are shown: as the layers are."""
    from napari_decant.plugin._opened import opened_behind

    notes: list[str] = []
    axis = next((i for i, a in enumerate(cut.source.axes) if a.type == "channel"), None)
    count = cut.resolution.shape[axis] if axis is not None else 1
    mine = channel_of(layer.as_layer_data_tuple()[1], layer.name.partition(" - ")[2] or layer.name, notes)
    found = opened_behind(layer.data)
    if count == 1 or found is None:
        return [mine] * count
    first = found[1]
    numbered = {}
    for other in layers.values():
        behind = opened_behind(other.data)
        if behind is not None and behind[0] is found[0]:
            numbered[behind[1]] = other
    made = []
    for number in range(first, first + count):
        other = numbered.get(number, layer)
        name = other.name.partition(" - ")[2] or other.name
        made.append(channel_of(other.as_layer_data_tuple()[1], name, notes))
    return made
