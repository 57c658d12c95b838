"""Open locations as layers: choose among several images, tell the user what is odd, let go afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import napari_decant.archive  # noqa: F401 - registers how archives of TIFFs kept as they are open
from napari_decant.errors import Cancelled, ChoiceNeeded, DecantError
from napari_decant.images import ImageEntry
from napari_decant.plugin._layers import LayerData, layer_data
from napari_decant.plugin._opened import OpenedImage, entry_key
from napari_decant.plugin._watch import watch
from napari_decant.progress import CancelToken, ProgressCallback

__all__ = ["Choose", "Tell", "offer_in", "read_entry", "read_for_napari", "read_layers"]

logger = logging.getLogger(__name__)
_SHOWN_WARNINGS = 3
_MOST_AT_ONCE = 16  # images opened where nobody can be asked

Choose = Callable[[str, Sequence[ImageEntry]], Sequence[ImageEntry]]
"""Asks which of several images to open: (message, entries) to entries."""

Tell = Callable[[str], None]
"""Shows a sentence to the user."""


def read_for_napari(locations: Sequence[str]) -> Sequence[LayerData | tuple[None]]:
    """Read for a viewer: with a window, errors and files of several images are shown in it.

    Returns
    -------
    list
        Layer data; ``[(None,)]`` where there is nothing to add and the user was told why.

    Raises
    ------
    DecantError
        Something cannot be opened and there is no window to say so.
    """
    viewer = _current_viewer()
    if viewer is None:
        return [layer for location in locations for layer in read_layers(location)]
    from napari.utils.notifications import show_error

    layers: list[LayerData] = []
    for location in locations:
        try:
            if "://" in location:
                layers += _read_remote(viewer, location)
            else:
                layers += read_layers(location, choose=offer_in(viewer, location))
        except Cancelled:
            continue  # by the user, who knows
        except DecantError as error:
            show_error(str(error))
    watch(viewer)
    return layers or [(None,)]


def _read_remote(viewer: Any, location: str) -> list[LayerData]:
    """Read from an address, whose server may be slow or silent: the window stays awake meanwhile."""
    from napari_decant.plugin._jobs import run_alive

    told: list[str] = []
    offered: list[Sequence[ImageEntry]] = []

    def choose(message: str, entries: Sequence[ImageEntry]) -> Sequence[ImageEntry]:
        offered.append(entries)
        return ()

    def read(progress: ProgressCallback, cancel: CancelToken) -> list[LayerData]:
        return read_layers(location, choose=choose, tell=told.append)

    layers = run_alive(read, f"Opening {location.rstrip('/').rpartition('/')[2]}", abandon=True)
    for text in told:
        _notify(text)
    for entries in offered:
        offer_in(viewer, location)("", entries)
    return layers


def offer_in(viewer: Any, location: str) -> Choose:
    """Offer several images in the viewer's window, where the user opens them later; none open at once."""

    def offer(message: str, entries: Sequence[ImageEntry]) -> Sequence[ImageEntry]:
        from napari_decant.plugin._chooser import offer_images

        offer_images(viewer, location, entries)
        return ()

    return offer


def read_entry(location: str, entry: ImageEntry, tell: Tell) -> list[LayerData]:
    """Open one of several images, with its labels.

    Raises
    ------
    DecantError
        It cannot be opened or shown.
    """
    opened = OpenedImage(location, entry_key(entry))
    return _with_labels(opened, tell, entry.name)


def read_layers(location: str, *, choose: Choose | None = None, tell: Tell | None = None) -> list[LayerData]:
    """Open everything that a location shows: its image, or the chosen ones of several, with their labels.

    Parameters
    ----------
    location : str
        See `napari_decant.images.open_image`.
    choose : callable, optional
        Asked where there are several images; without it the first 16 are opened.
    tell : callable, optional
        Gets what the user should know; napari's notifications by default.

    Raises
    ------
    DecantError
        Nothing can be opened; the message says why.
    """
    tell = tell or _notify
    try:
        return _with_labels(OpenedImage(location), tell)
    except ChoiceNeeded as choice:
        entries = [entry for entry in choice.choices if isinstance(entry, ImageEntry)]
        if not _usable(entries):
            raise
    return _several(location, entries, choose or _first_ones, tell)


def _with_labels(opened: OpenedImage, tell: Tell, name: str = "") -> list[LayerData]:
    layers = layer_data(opened)
    bare = opened.image.path.rpartition("/")[2]
    if opened.image.name == bare != opened.image.path and (name or bare.isdigit()):
        # A field of a plate has no name but its place.
        for _, keywords, kind in layers:
            if kind == "image":
                keywords["name"] = keywords["name"].replace(bare, name or opened.image.path, 1)
    labels, problems = _labels(opened)
    _tell_warnings(opened.image.name, [*opened.image.warnings, *problems], tell)
    return layers + labels


def _several(location: str, entries: list[ImageEntry], choose: Choose, tell: Tell) -> list[LayerData]:
    """Open what the user chooses; one image that cannot be shown does not keep the others away."""
    count = len(_usable(entries))
    chosen = choose(f"{location} holds {count:,} images. Choose what to open:", entries)
    layers: list[LayerData] = []
    failed: list[DecantError] = []
    for entry in chosen:
        try:
            layers += read_entry(location, entry, tell)
        except DecantError as error:
            failed.append(error)
    if failed and not layers:
        raise failed[0]
    if chosen:
        opened = len(chosen) - len(failed)
        some = "all are opened" if opened == count else f"{opened:,} of them opened"
        reasons = "".join(f"; {error}" for error in failed[:_SHOWN_WARNINGS])
        tell(f"{location} holds {count:,} images; {some}{reasons}")
    return layers


def _usable(entries: Sequence[ImageEntry]) -> list[ImageEntry]:
    """Images that open; labels come with the image they belong to, unless there are only labels."""
    opens = [entry for entry in entries if entry.error is None]
    return [entry for entry in opens if entry.kind != "labels"] or opens


def _first_ones(message: str, entries: Sequence[ImageEntry]) -> Sequence[ImageEntry]:
    return _usable(entries)[:_MOST_AT_ONCE]


def _labels(opened: OpenedImage) -> tuple[list[LayerData], list[str]]:
    """Layers of the label images that belong to an image, and what kept others from opening."""
    layers: list[LayerData] = []
    problems = []
    for name in opened.image.labels:
        path = f"{opened.image.path}/labels/{name}".lstrip("/")
        try:
            layers += layer_data(OpenedImage(opened.location, path))
        except DecantError as error:
            problems.append(f"the labels {name!r} do not open: {error}")
    return layers, problems


def _tell_warnings(name: str, warnings: Sequence[str], tell: Tell) -> None:
    if not warnings:
        return
    shown = "; ".join(warnings[:_SHOWN_WARNINGS])
    rest = len(warnings) - _SHOWN_WARNINGS
    tell(f"{name}: {shown}" + (f"; and {rest} more, see the log" if rest > 0 else ""))


def _notify(text: str) -> None:
    from napari.utils.notifications import show_warning

    show_warning(text)


def _current_viewer() -> Any:
    from napari import current_viewer

    return current_viewer()
