"""One opened image behind any number of layers, and letting go of its file."""

from __future__ import annotations

import threading
from dataclasses import replace

from napari_decant.errors import SourceChanged
from napari_decant.images import Image, ImageLayer, LazyArray, open_image
from napari_decant.plugin._level_array import LevelArray

__all__ = ["OpenedImage", "opened_behind"]

_MAX_LAYERS = 32


class OpenedImage:
    """An image whose file is open only while a layer needs it.

    Napari keeps removed layers alive for a while, and a removed layer can be added again. So layers
    ask here for their arrays on every read: `close` lets go of the file, and the next read opens it again.

    Parameters
    ----------
    location : str
        See `open_image`.
    which : str, optional
        Which of several images there, by its path.

    Attributes
    ----------
    image : Image
        What is known of it. Its arrays serve as a description; they read for as long as the file is open.
    layers : tuple of ImageLayer
        What a viewer shows of it, likewise.
    measured : bool
        Whether someone has begun to measure contrast limits.

    Raises
    ------
    DecantError
        As `open_image`.
    """

    def __init__(self, location: str, which: str | None = None) -> None:
        self.location = location
        self.measured = False
        self._which = which
        self._lock = threading.Lock()
        self._image: Image | None = open_image(location, image=which)
        self._layers = _divide(self._image)
        self._signature = _signature(self._layers)

    @property
    def image(self) -> Image:
        """The image, opened again if it was let go."""
        with self._lock:
            return self._open()

    @property
    def layers(self) -> tuple[ImageLayer, ...]:
        """The image divided into layers."""
        with self._lock:
            self._open()
            return self._layers

    @property
    def is_open(self) -> bool:
        """Whether the file is held."""
        return self._image is not None

    def levels(self, layer: int) -> list[LevelArray]:
        """Arrays of one layer for a viewer, finest first."""
        count = len(self.layers[layer].levels)
        return [LevelArray(_Level(self, layer, level)) for level in range(count)]

    def close(self) -> None:
        """Let go of the file.

        A thread that is reading finishes first: the file closes when the last read lets go of its array.
        """
        with self._lock:
            self._image, self._layers = None, ()

    def _open(self) -> Image:
        if self._image is None:
            image = open_image(self.location, image=self._which)
            layers = _divide(image)
            if _signature(layers) != self._signature:
                raise SourceChanged(f"{self.location} changed since it was opened; open it again")
            self._image, self._layers = image, layers
        return self._image


class _Level:
    """Finds one array of an opened image; what a `LevelArray` calls for every read."""

    def __init__(self, opened: OpenedImage, layer: int, level: int) -> None:
        self.opened, self.layer, self.level = opened, layer, level

    def __call__(self) -> LazyArray:
        return self.opened.layers[self.layer].levels[self.level]


def _divide(image: Image) -> tuple[ImageLayer, ...]:
    """One layer a channel, but a slider along the channels where there are too many to look at together."""
    axis = image.channel_axis
    if axis is not None and not image.is_rgb and image.shape[axis] > _MAX_LAYERS:
        image = replace(image, channel_axis=None)
    elif axis is not None and image.is_labels and image.shape[axis] == 1:
        # Labels of an image whose channels are layers: without the channel they lie over it.
        kept = [i for i in range(len(image.axes)) if i != axis]
        image = replace(
            image,
            axes=tuple(image.axes[i] for i in kept),
            levels=tuple(_without(level, axis) for level in image.levels),
            scales=tuple(tuple(scale[i] for i in kept) for scale in image.scales),
            translations=tuple(tuple(shift[i] for i in kept) for shift in image.translations),
            channel_axis=None,
        )
    return image.layers()


def _without(level: LazyArray, axis: int) -> LazyArray:
    view = level.take(0, axis)
    assert isinstance(view, LazyArray)
    return view


def _signature(layers: tuple[ImageLayer, ...]) -> list[list[tuple[tuple[int, ...], str]]]:
    return [[(level.shape, level.dtype.str) for level in layer.levels] for layer in layers]


def opened_behind(data: object) -> tuple[OpenedImage, int] | None:
    """The opened image behind a layer's data and the number of the layer; None for data of others."""
    if not isinstance(data, LevelArray):
        try:
            data = data[0]  # type: ignore[index]
        except (TypeError, IndexError, KeyError):
            return None
    get = data.get if isinstance(data, LevelArray) else None
    return (get.opened, get.layer) if isinstance(get, _Level) else None
