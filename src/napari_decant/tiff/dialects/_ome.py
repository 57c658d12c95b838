"""OME-TIFF: the OME-XML in the first page's description says which directory holds which plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from napari_decant.tiff._ifd import Tag
from napari_decant.tiff._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds
from napari_decant.tiff.dialects._ome_model import OmeDocument, OmeImage
from napari_decant.tiff.dialects._ome_places import OmePlaces
from napari_decant.tiff.dialects._ome_xml import read_ome
from napari_decant.tiff.dialects._reading import Channel, Reading, hex_color, told_colors
from napari_decant.tiff.dialects._tags import TagReader

__all__ = ["Text", "ome_text", "ome_text_of", "read_ome_tiff", "state"]

Text = tuple[Callable[[int, int], bytes], int]
"""A function that reads within a text, and the length of the text."""

_DESCRIPTION = 270
_NAMED_FILES = 3


def read_ome_tiff(tags: TagReader) -> Reading | None:
    """Read OME metadata; None if the file has none.

    Raises
    ------
    UnsafeInput, FormatError
        It has some, but that cannot be read.
    """
    text = ome_text(tags)
    if text is None:
        return None
    document = read_ome(*text, tags.name, tags.pages)
    return reading_of(document, tags) if document.is_ome else None


def ome_text(tags: TagReader) -> Text | None:
    """How to read the file's OME-XML, and its length; None if it has none."""
    return ome_text_of(tags.read, tags.tag(_DESCRIPTION))


def ome_text_of(read: Callable[[int, int], bytes], tag: Tag | None) -> Text | None:
    """As `ome_text`, from the tag of the first page's description."""
    if tag is None or tag.count < 8 or tag.type not in (1, 2, 7):
        return None
    head = read(tag.offset, min(tag.count, 4096))
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or b"OME" not in head:
        return None
    return (lambda at, length: read(tag.offset + at, length)), tag.count


def reading_of(document: OmeDocument, tags: TagReader) -> Reading:
    """Facts of an OME document about the planes of one file."""
    reading = Reading("ome")
    if document.companion:
        reading.alone.append(
            f"its OME metadata is in {document.companion}, which is not part of this archive; "
            "its planes are kept in file order, pack the folder as a series to keep them together"
        )
        return reading
    if document.files:
        reading.alone.append(_set_note(document))
    images = document.images
    if not images:
        return reading
    placed = OmePlaces(images, tags.samples, tags.planes)
    bare = not any(image.rows or image.elsewhere for image in images)
    placed.lay(tags, 0, None if bare else ((n, image.rows) for n, image in enumerate(images)))
    state(reading, placed, images)
    reading.recorded = document.recorded if len(images) == 1 else ""
    return reading


def state(reading: Reading, placed: OmePlaces, images: Sequence[OmeImage]) -> None:
    """State what the images say of planes that are laid."""
    placed.finish()
    reading.places = placed.places()
    image = placed.main
    for axis in "XYZ":
        size, unit = image.steps.get(axis, (0.0, ""))
        reading.set_step(axis.lower(), micrometers(size, unit), LENGTH_UNIT)
    size, unit = image.steps.get("T", (0.0, ""))
    reading.set_step("t", seconds(size, unit), TIME_UNIT)
    reading.channels = _channels(image)
    reading.date = image.date
    reading.name = image.name
    named = [image] if len(placed.used) < 2 else [images[i] for i in placed.used]
    names = [each.position or each.name for each in named]
    # the name of the only image is no stage position
    reading.positions = names if len(names) > 1 or image.position else ()
    placed.add_times(reading)


def _set_note(document: OmeDocument) -> str:
    names = [name for name in document.files.values() if name][:_NAMED_FILES]
    named = f" ({', '.join(names)}{', ...' if len(document.files) > len(names) else ''})" if names else ""
    return (
        f"this file is one of {len(document.files) + 1} of an OME-TIFF set{named}; "
        "pack the folder as a series to keep the set together"
    )


def _channels(image: OmeImage) -> list[Channel]:
    colors = told_colors("" if c.color is None else _color(c.color) for c in image.channels)
    return [Channel(channel.name, color) for channel, color in zip(image.channels, colors, strict=True)]


def _color(value: int) -> str:
    """Colour of a signed 32-bit integer: red, green, blue, alpha from the top."""
    return hex_color(value >> 24, value >> 16, value >> 8)
