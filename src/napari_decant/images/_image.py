"""`Image`: what a viewer shows of one image, whatever file it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from napari_decant.images._affine import affine_of, recorded_affine
from napari_decant.images._contrast import full_range, sample_contrast
from napari_decant.images._lazy import LazyArray
from napari_decant.ngff import Axis, Channel, LabelInfo, NgffImage
from napari_decant.stores import join_key
from napari_decant.tiff._units import unit_name

__all__ = ["Image", "ImageLayer"]

_RGB = ("FF0000", "00FF00", "0000FF")
_MIX = ("00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF")


@dataclass(frozen=True, eq=False)
class ImageLayer:
    """One layer of an image: the whole, or one channel of it.

    Attributes
    ----------
    name : str
        Of the layer.
    levels : tuple of LazyArray
        Finest first, all with the axes of ``axes`` (and a trailing colour axis where ``rgb``).
    axes : tuple of Axis
        Without the colour axis.
    scale, translate : tuple of float
        Of level 0, one number per axis in ``axes``: ``position = scale * index + translate``.
    affine : tuple of tuple of float, shape (n + 1, n + 1), or None
        Applied after them, where the file records that the image is turned.
    rgb, is_labels : bool
        How it is shown.
    color : str or None
        ``RRGGBB`` that full intensity gets; None for grey.
    contrast_limits : tuple of float, or None
        None where they must be measured, see `measure_contrast`.
    contrast_range : tuple of float
        Between which limits a slider moves.
    visible, inverted : bool
        Whether it starts visible, and whether low values are bright.
    """

    name: str
    levels: tuple[LazyArray, ...]
    axes: tuple[Axis, ...]
    scale: tuple[float, ...]
    translate: tuple[float, ...]
    rgb: bool = False
    is_labels: bool = False
    color: str | None = None
    contrast_limits: tuple[float, float] | None = None
    contrast_range: tuple[float, float] | None = None
    visible: bool = True
    inverted: bool = False
    affine: tuple[tuple[float, ...], ...] | None = None

    @property
    def axis_labels(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def units(self) -> tuple[str | None, ...]:
        """Unit of each axis by its OME-NGFF name; None where none is known."""
        return tuple(unit_name(axis.unit) for axis in self.axes)

    def measure_contrast(self) -> tuple[float, float]:
        """Take limits from the metadata, or measure them on a few chunks of the coarsest level.

        Reads pixels: call it off the thread that draws.
        """
        if self.contrast_limits is not None:
            return self.contrast_limits
        return sample_contrast(self.levels[-1])


@dataclass(frozen=True, eq=False)
class Image:
    """One opened image. Its arrays are lazy and keep their file open for as long as they live.

    Attributes
    ----------
    name : str
        For people.
    uri, path : str
        Where it came from: the file or store, and the image within it.
    axes : tuple of Axis
        One per axis of the levels.
    levels : tuple of LazyArray
        Finest first, all of one data type.
    scales, translations : tuple of tuple of float
        Per level, physical position of pixel centres: ``scale * index + translation``.
    channels : tuple of Channel
        One per element of the channel axis, or one.
    channel_axis : int or None
        Which axis has the channels; None if there is none.
    is_rgb : bool
        The channel axis is last and holds colour samples.
    label : LabelInfo or None
        Set if the values are labels.
    labels : tuple of str
        Names of label images that belong to it, see `label_paths`.
    ngff : NgffImage or None
        For spatial queries; None where the image is no OME-Zarr.
    warnings : tuple of str
        What was tolerated.
    default_t, default_z : int or None
        Where a viewer starts.
    decant : mapping
        What this program has recorded in the file: where a turned crop lies, and what it was cut from.
    """

    name: str
    uri: str
    path: str
    axes: tuple[Axis, ...]
    levels: tuple[LazyArray, ...]
    scales: tuple[tuple[float, ...], ...]
    translations: tuple[tuple[float, ...], ...]
    channels: tuple[Channel, ...] = ()
    channel_axis: int | None = None
    is_rgb: bool = False
    label: LabelInfo | None = None
    labels: tuple[str, ...] = ()
    ngff: NgffImage | None = None
    warnings: tuple[str, ...] = ()
    default_t: int | None = None
    default_z: int | None = None
    decant: Mapping[str, Any] = field(default_factory=dict)
    _close: Callable[[], None] = field(default=lambda: None, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Pixels of level 0 along each axis."""
        return self.levels[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the pixels."""
        return self.levels[0].dtype

    @property
    def is_labels(self) -> bool:
        """Whether the values are labels."""
        return self.label is not None

    @property
    def label_paths(self) -> tuple[str, ...]:
        """What to pass as ``image=`` to open each of ``labels``."""
        return tuple(join_key(self.path, "labels", name) for name in self.labels)

    def close(self) -> None:
        """Release the file now; reading more of the arrays then raises `StorageError`.

        Not needed where the arrays simply go out of use: the last one releases it.
        """
        self._close()

    def layers(self) -> tuple[ImageLayer, ...]:
        """Divide the image into layers as a viewer shows them: one a channel, or one for all."""
        axis = self.channel_axis
        split = axis is not None and not self.is_rgb and not self.is_labels
        whole = ImageLayer(
            name=self.name,
            levels=self.levels,
            axes=tuple(a for i, a in enumerate(self.axes) if i != axis or not (split or self.is_rgb)),
            scale=_without(self.scales[0], axis if split or self.is_rgb else None),
            translate=_without(self.translations[0], axis if split or self.is_rgb else None),
            rgb=self.is_rgb,
            is_labels=self.is_labels,
            contrast_range=full_range(self.dtype),
        )
        whole = replace(whole, affine=self._recorded_affine(whole))
        if self.is_rgb:
            return (replace(whole, contrast_limits=full_range(self.dtype)),)
        if self.is_labels:
            return (whole,)
        if not split or axis is None:
            return (self._channel_layer(whole, self.levels, 0, 1, None),)
        count = self.shape[axis]
        return tuple(
            self._channel_layer(
                whole, tuple(_take(level, i, axis) for level in self.levels), i, count, f"{self.name} - "
            )
            for i in range(count)
        )

    def _recorded_affine(self, layer: ImageLayer) -> tuple[tuple[float, ...], ...] | None:
        """What ``decant.affine`` says beyond the scale and translation of a layer."""
        record = recorded_affine(self.decant, layer.axis_labels)
        if record is None:
            return None
        rank, at = len(layer.axes), record["axes"]
        whole = np.column_stack([np.diag(layer.scale), layer.translate])
        whole[np.ix_(at, at)] = record["matrix"][:, :-1]
        whole[at, rank] = record["matrix"][:, -1]
        return affine_of(whole, layer.scale, layer.translate) if all(layer.scale) else None

    def _channel_layer(
        self, whole: ImageLayer, levels: tuple[LazyArray, ...], i: int, count: int, prefix: str | None
    ) -> ImageLayer:
        channel = self.channels[i] if i < len(self.channels) else Channel()
        label = channel.label or (str(i) if prefix is not None and count > 1 else None)
        color = channel.color or (_MIX[i % len(_MIX)] if count > 1 else None)
        return replace(
            whole,
            name=f"{prefix}{label}" if prefix is not None and label else whole.name,
            levels=levels,
            color=None if color == "FFFFFF" else color,
            contrast_limits=channel.window,
            contrast_range=channel.limits or whole.contrast_range,
            visible=channel.active,
            inverted=channel.inverted,
        )


def _without(values: Sequence[float], axis: int | None) -> tuple[float, ...]:
    return tuple(v for i, v in enumerate(values) if i != axis)


def _take(level: LazyArray, index: int, axis: int) -> LazyArray:
    taken = level.take(index, axis)
    assert isinstance(taken, LazyArray)
    return taken


def looks_like_rgb(channels: Sequence[Channel], count: int, dtype: np.dtype[Any]) -> bool:
    """Whether channels are the red, green and blue of one picture: pure colours, each at its full range."""
    if count != 3 or len(channels) < 3 or dtype != np.uint8:
        return False
    return all(
        c.color == rgb and c.window in (None, (0.0, 255.0)) for c, rgb in zip(channels, _RGB, strict=False)
    )
