"""One opened image behind any number of layers, and letting go of its file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from napari_decant.errors import SourceChanged
from napari_decant.images import Image, ImageEntry, ImageLayer, LazyArray, open_image
from napari_decant.plugin._level_array import LevelArray

__all__ = ["OpenedImage", "entry_key", "opened_behind"]

_MAX_LAYERS = 32


class OpenedImage:
    """An image whose file is open only while a layer needs it.

    Napari keeps removed layers alive for a while, and a removed layer can be added again. So layers
    borrow their arrays here for every read: `close` lets go of the file, and the next read opens it again.

    Parameters
    ----------
    location : str
        See `open_image`.
    which : str, optional
        Which of several images there, by its path.

    Attributes
    ----------
    location, which : str
        As given.
    image : Image
        A description; its arrays are not to be read.
    layers : tuple of ImageLayer
        What a viewer shows of it, likewise a description.
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
        self.which = which
        self._lock = threading.Lock()
        self.image = open_image(location, image=which)
        self.layers = _divide(self.image)
        self._session: _Session | None = _Session(self.image, self.layers)

    def __del__(self) -> None:
        if getattr(self, "_session", None) is not None:
            self.close()

    @property
    def key(self) -> str:
        """Which image it is, as `entry_key` has it."""
        return self.image.path if self.which is None else self.which

    @property
    def is_open(self) -> bool:
        """Whether the file is held for further reads."""
        return self._session is not None

    @contextmanager
    def borrow(self) -> Iterator[tuple[ImageLayer, ...]]:
        """Lend the layers with arrays that can be read; the file stays open until they are given back.

        Raises
        ------
        SourceChanged
            The file was let go, and now holds something else.
        DecantError
            It cannot be opened again.
        """
        with self._lend() as session:
            yield session.layers

    @contextmanager
    def borrow_image(self) -> Iterator[Image]:
        """Lend the image, undivided; see `borrow`."""
        with self._lend() as session:
            yield session.image

    @contextmanager
    def _lend(self) -> Iterator[_Session]:
        with self._lock:
            if self._session is None:
                image = open_image(self.location, image=self.which)
                layers = _divide(image)
                if _signature(layers) != _signature(self.layers):
                    image.close()
                    raise SourceChanged(f"{self.location} changed since it was opened; open it again")
                self._session = _Session(image, layers)
            session = self._session
            session.borrowers += 1
        try:
            yield session
        finally:
            with self._lock:
                session.borrowers -= 1
                last = session is not self._session and not session.borrowers
            if last:
                session.image.close()

    def levels(self, layer: int) -> list[LevelArray]:
        """Arrays of one layer for a viewer, finest first."""
        return [LevelArray(_Level(self, layer, level)) for level in range(len(self.layers[layer].levels))]

    def close(self) -> None:
        """Let go of the file, as soon as nothing is being read from it any more."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None and not session.borrowers:
            session.image.close()


@dataclass(eq=False)
class _Session:
    """The file while it is open."""

    image: Image
    layers: tuple[ImageLayer, ...]
    borrowers: int = 0


class _Level:
    """Lends one array of an opened image; what a `LevelArray` asks for every read."""

    def __init__(self, opened: OpenedImage, layer: int, level: int) -> None:
        self.opened, self.layer, self.level = opened, layer, level

    @contextmanager
    def __call__(self) -> Iterator[LazyArray]:
        with self.opened.borrow() as layers:
            yield layers[self.layer].levels[self.level]


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


def entry_key(entry: ImageEntry) -> str:
    """What names one of several images to `open_image`."""
    return f"{entry.path}#{entry.multiscale_index}" if entry.multiscale_index else entry.path


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
