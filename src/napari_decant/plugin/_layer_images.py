"""From layers to the images of one file: channels together, labels with their image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant import __version__
from napari_decant.errors import UnsupportedOperation
from napari_decant.images import Axis, Channel, ChunkCache, ImageToWrite, LazyArray
from napari_decant.images._write_zarr_source import _chunks_of, map_axes
from napari_decant.plugin._layer_look import channel_of, label_of
from napari_decant.plugin._layer_place import LayerPlace, layer_place
from napari_decant.plugin._layers import LayerData
from napari_decant.plugin._opened import opened_behind

__all__ = ["ImagesOfLayers", "images_of_layers"]

_CHANNEL = Axis("c", "channel")
_UNSAFE = re.compile(r"[^\w .+=()-]+")


@dataclass
class ImagesOfLayers:
    """What is to be written.

    Attributes
    ----------
    images : dict of str to ImageToWrite
        By path.
    groups : dict of str to dict
        OME attributes of the groups around several images.
    channels, labels : int
        How many there are.
    notes : list of str
        What cannot be said.
    """

    images: dict[str, ImageToWrite] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    channels: int = 0
    labels: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class _Layer:
    """One layer as it was given."""

    data: Any
    state: Mapping[str, Any]
    is_labels: bool
    place: LayerPlace

    @property
    def name(self) -> str:
        return str(self.state.get("name") or ("labels" if self.is_labels else "image"))

    @property
    def rgb(self) -> bool:
        return bool(self.state.get("rgb"))

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements along t, c, z, y, x, without colours."""
        found = [1] * 5
        for n, role in zip(self.data.shape, map_axes(self.place.axes), strict=False):
            found[role] = int(n)
        return tuple(found)


@contextmanager
def images_of_layers(layers: Sequence[LayerData], name: str) -> Iterator[ImagesOfLayers]:
    """Arrange layers as images; the files behind them stay open as long as the context.

    Image layers of one shape, type and place are the channels of one image; others are images of their own.
    Labels belong to the image that they lie on. Reads no pixels.

    Parameters
    ----------
    layers : sequence of LayerData
        As napari hands them to a writer.
    name : str
        Of the image, where the layers suggest none.

    Raises
    ------
    UnsupportedOperation
        Something about a layer cannot be said in OME-Zarr; the sentence names it.
    """
    given = [_layer(*layer) for layer in layers]
    found = ImagesOfLayers()
    with ExitStack() as files:
        groups: dict[Any, list[_Layer]] = {}
        for layer in given:
            found.notes += layer.place.notes
            if not layer.is_labels:
                groups.setdefault(_together(layer), []).append(layer)
        labels = [layer for layer in given if layer.is_labels]
        images = []
        for group in groups.values():
            mine = [layer for layer in labels if _best(layer, groups) is group]
            made = _image(group, name, files, found)
            taken: dict[str, ImageToWrite] = {}
            for layer in mine:
                taken[_path(layer.name, taken)] = _labels(layer, files)
            images.append(replace(made, labels=taken))
        if not images:
            images = [_labels(layer, files) for layer in labels]
        found.labels = len(labels)
        found.channels = len(given) - len(labels)
        if len(images) == 1:
            found.images = {"": images[0]}
        else:
            found.images = {str(number): image for number, image in enumerate(images)}
            found.groups = {
                "": {"version": "0.5", "bioformats2raw.layout": 3},
                "OME": {"version": "0.5", "series": list(found.images)},
            }
        yield found


def _layer(data: Any, state: Mapping[str, Any], kind: str = "image") -> _Layer:
    if kind not in ("image", "labels"):
        raise UnsupportedOperation(f"a layer of {kind} is no image; OME-Zarr holds images and labels")
    level = data[0] if state.get("multiscale") else data
    shape = tuple(int(n) for n in level.shape)
    place = layer_place(state, shape[:-1] if state.get("rgb") else shape)
    if state.get("rgb") and place.channel_axes:
        axis = place.axes[place.channel_axes[0]].name
        raise UnsupportedOperation(
            f"the layer {state.get('name')!r} has colours and the axis {axis}; OME-Zarr is written with one"
            " of them: divide the layer along that axis before saving"
        )
    return _Layer(level, state, kind == "labels", place)


def _together(layer: _Layer) -> Any:
    """What the channels of one image have in common."""
    if layer.rgb or layer.place.channel_axes:
        return id(layer)
    place = layer.place
    record = None if place.affine is None else str(place.affine)
    dtype = np.dtype(layer.data.dtype).newbyteorder("=")
    return tuple(layer.data.shape), dtype, place.axes, place.scale, place.translation, record


def _best(labels: _Layer, groups: Mapping[Any, list[_Layer]]) -> list[_Layer]:
    """The image that labels belong to: one of their size and place, or of their size, or the first."""

    def fit(group: list[_Layer]) -> tuple[bool, bool]:
        one, mine = group[0], labels.extents
        same = [a for a in range(5) if a != 1 and one.extents[a] != mine[a]] == []
        return same and one.place.scale[-2:] == labels.place.scale[-2:], same

    return max(groups.values(), key=fit)


def _image(group: list[_Layer], name: str, files: ExitStack, found: ImagesOfLayers) -> ImageToWrite:
    """One image of layers that are its channels."""
    first = group[0]
    place = first.place
    title, names = _names(group, name)
    attributes: dict[str, Any] = {}
    channels = [
        channel_of(layer.state, label, found.notes) for layer, label in zip(group, names, strict=True)
    ]
    array, axis = _channels(group, files)
    axes, scale, shift = list(place.axes), list(place.scale), list(place.translation)
    if first.rgb:
        axis, samples = len(axes), int(first.data.shape[-1])
        attributes = {"samples": samples, "rgb": True}
        channels = [Channel(active=n < 3) for n in range(samples)]
    elif place.channel_axes:
        count = int(first.data.shape[place.channel_axes[0]])
        channels = [Channel(window=channels[0].window) for _ in range(count)]
    if first.rgb or len(group) > 1:
        axes.insert(axis, _CHANNEL)
        scale.insert(axis, 1.0)
        shift.insert(axis, 0.0)
    return ImageToWrite(
        array,
        axes,
        scale=scale,
        translation=shift,
        name=title,
        channels=channels,
        rgb=first.rgb,
        attributes={"decant": _decant(place, attributes)},
    )


def _labels(layer: _Layer, files: ExitStack) -> ImageToWrite:
    kind = np.dtype(layer.data.dtype).kind
    if kind not in "iub":
        raise UnsupportedOperation(
            f"the labels {layer.name!r} are of type {layer.data.dtype}, not whole numbers"
        )
    return ImageToWrite(
        _plain(layer.data, files),
        layer.place.axes,
        scale=layer.place.scale,
        translation=layer.place.translation,
        name=layer.name,
        label=label_of(layer.state),
        attributes={"decant": _decant(layer.place, {})},
    )


def _decant(place: LayerPlace, more: Mapping[str, Any]) -> dict[str, Any]:
    said = {"software": f"napari-decant {__version__}", **more}
    return said | ({"affine": place.affine} if place.affine is not None else {})


def _names(group: Sequence[_Layer], name: str) -> tuple[str, list[str | None]]:
    """Names of the image and its channels: our reader calls layers ``image - channel``."""
    names = [layer.name for layer in group]
    if len(names) == 1:
        return names[0], [None]
    title = names[0].partition(" - ")[0]
    rests = [one.removeprefix(f"{title} - ") for one in names]
    if all(rest and rest != one for rest, one in zip(rests, names, strict=True)):
        return title, list(rests)
    return name, list(names)


def _path(name: str, taken: Mapping[str, Any]) -> str:
    """A name for a group: of safe characters, and not one of those taken."""
    base = _UNSAFE.sub("_", name).strip(" .")[:100] or "labels"
    lower, path, number = {one.lower() for one in taken}, base, 1
    while path.lower() in lower:
        number += 1
        path = f"{base} {number}"
    return path


# --- arrays ---


def _channels(group: Sequence[_Layer], files: ExitStack) -> tuple[Any, int]:
    """The array of an image, and where in it the channels are if there are several."""
    if len(group) == 1:
        return _plain(group[0].data, files), 0
    return _whole(group, files) or (_Stack([_plain(layer.data, files) for layer in group]), 0)


def _plain(data: Any, files: ExitStack) -> Any:
    """What is read while writing: of layers of ours the lazy array itself, past the viewer's cache."""
    found = opened_behind(data)
    if found is None or not data.is_whole:
        return data
    opened, number = found
    level = files.enter_context(opened.borrow())[number].levels[0]
    return level.with_cache(ChunkCache(0))


def _whole(group: Sequence[_Layer], files: ExitStack) -> tuple[LazyArray, int] | None:
    """The undivided image that all layers come from, if they are all of its channels in their order."""
    found = [opened_behind(layer.data) for layer in group]
    if found[0] is None or not all(layer.data.is_whole for layer in group if opened_behind(layer.data)):
        return None
    opened = found[0][0]
    if found != [(opened, number) for number in range(len(opened.layers))]:
        return None
    image = files.enter_context(opened.borrow_image())
    if image.channel_axis is None or image.shape[image.channel_axis] != len(group):
        return None
    return image.levels[0].with_cache(ChunkCache(0)), image.channel_axis


class _Stack:
    """Arrays of one shape as the channels of one, read when it is indexed."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = list(arrays)
        self.shape = (len(arrays), *(int(n) for n in arrays[0].shape))
        self.ndim = len(self.shape)
        self.dtype = np.dtype(arrays[0].dtype).newbyteorder("=")
        chunks = _chunks_of(arrays[0])
        self.chunks = None if chunks is None else (1, *chunks)

    def __getitem__(self, key: tuple[slice | int, ...]) -> NDArray[Any]:
        first, rest = key[0], tuple(key[1:])
        if not isinstance(first, slice):
            return np.asarray(self.arrays[first][rest])
        return np.stack([np.asarray(array[rest]) for array in self.arrays[first]])
