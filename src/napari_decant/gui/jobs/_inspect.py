"""Look inside one file: facts, a thumbnail, and a map of where its bytes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from napari_decant import archive
from napari_decant.archive import Archive, ArchivedFile
from napari_decant.archive._layout import plan_file, regions_of
from napari_decant.archive._source import Source
from napari_decant.errors import DecantError
from napari_decant.gui._words import axes_text, count, reason_text, size_text
from napari_decant.gui.jobs._rows import Inspection, Member, Picture, Section
from napari_decant.gui.jobs._worker import Context
from napari_decant.images import ImageLayer, open_image
from napari_decant.stores import ZipStore

__all__ = ["inspect"]

_BINS = 512
_THUMBNAIL = 320

_Facts = tuple[tuple[str, str], ...]


def inspect(context: Context, path: Path) -> Inspection:
    """Describe an archive, a TIFF, or any image that can be opened.

    Raises
    ------
    DecantError
        It cannot be read at all.
    """
    if path.name.endswith(archive.SUFFIX) or (path / ".decant").is_dir():
        return _archive(path)
    if path.is_dir() or path.name.lower().endswith((".ozx", ".zip")):
        return _image(path)
    return _file(path)


def _archive(path: Path) -> Inspection:
    info = archive.info(path)
    members = tuple(Member(file.name, file.size, file.sha256) for file in info.members)
    what = [("What it is", _mode(info.mode, len(members)))]
    reason = info.facts.get("reason")
    if isinstance(reason, str):
        what.append(("Why", reason_text(reason)))
    what += [
        ("Size", size_text(info.archive_size)),
        ("Original size", size_text(info.original_size)),
        ("Saved", _saved(info.original_size, info.archive_size)),
        ("Written by", info.written_by),
        ("Format", str(info.format)),
    ]
    picture, image, note = _picture(path)
    if info.shape:
        image = image or (("Axes", axes_text(info.axes, info.shape)), ("Pixel type", info.dtype))
        image = (*image, ("Codec", info.codec), ("Bytes beside the pixels", size_text(info.husk_size)))
    sections = (Section("Archive", tuple(what)), *_section(image))
    with Archive(path) as opened:
        first = next(opened.files(), None)
        original = _coverage(first) if first is not None else ()
        parts = _parts(opened)
    return Inspection(path, path.name, "archive", sections, members, picture, note, original, parts)


def _file(path: Path) -> Inspection:
    with Source(path) as source:
        layout = plan_file(source.read_at, source.size)
        becomes = "an image, byte-exact" if layout.planes else "kept as it is"
        what = [("Size", size_text(source.size)), ("Packed, it becomes", becomes)]
        if layout.reason is not None:
            what.append(("Why", reason_text(layout.reason)))
        if layout.anomaly:
            what.append(("Note", layout.anomaly))
        shares = _shares(layout.planes, source.size)
    picture, image, note = _picture(path)
    sections = (Section("File", tuple(what)), *_section(image))
    return Inspection(path, path.name, "file", sections, (), picture, note, shares)


def _image(path: Path) -> Inspection:
    picture, image, note = _picture(path)
    if not image:
        raise DecantError(note)
    return Inspection(path, path.name, "image", _section(image), (), picture, note)


def _section(image: _Facts) -> tuple[Section, ...]:
    return (Section("Image", image),) if image else ()


def _mode(mode: str, members: int) -> str:
    if mode == "byte-exact":
        return "an image, byte-exact"
    if mode == "series":
        return f"a series of {count(members, 'file')}, byte-exact"
    return "a file kept as it is"


def _saved(original: int, packed: int) -> str:
    return f"{100 * (original - packed) / original:.0f} %" if original > packed else "nothing"


# --- the picture ------------------------------------------------------------------------------------------


def _picture(path: Path) -> tuple[Picture | None, _Facts, str]:
    """A thumbnail, what the image says of itself, and why there is no thumbnail."""
    try:
        image = open_image(path)
    except DecantError as error:
        return None, (), str(error)
    try:
        spacing = [
            f"{axis.name} {scale:.4g} {axis.unit or ''}".strip()
            for axis, scale in zip(image.axes, image.scales[0], strict=True)
            if axis.type in ("space", "time")
        ]
        facts = [
            ("Axes", axes_text([axis.name for axis in image.axes], image.shape)),
            ("Pixel type", image.dtype.name),
            ("Levels", str(len(image.levels))),
            ("Spacing", ", ".join(spacing)),
            ("Channels", ", ".join(c.label for c in image.channels if c.label and not c.label.isdigit())),
        ]
        pixels = _thumbnail(image.layers())
        height, width = pixels.shape[:2]
        picture = Picture(width, height, pixels.tobytes())
        return picture, tuple(fact for fact in facts if fact[1]), ""
    except DecantError as error:
        return None, (), str(error)
    finally:
        image.close()


def _thumbnail(layers: tuple[ImageLayer, ...]) -> np.ndarray:
    """The middle plane of every visible channel, added up in their colours; (y, x, 3), uint8."""
    total: np.ndarray | None = None
    for layer in [layer for layer in layers if layer.visible][:8] or layers[:1]:
        level = layer.levels[-1]
        height, width = level.shape[-3:-1] if layer.rgb else level.shape[-2:]
        step = max(1, -(-max(height, width) // _THUMBNAIL))
        leading = level.shape[: level.ndim - (3 if layer.rgb else 2)]
        across = (slice(None, None, step), slice(None, None, step))
        plane = np.asarray(level[(*(n // 2 for n in leading), *across)])
        if plane.dtype.kind == "c":
            plane = np.abs(plane)
        plane = plane.astype(np.float32)
        low, high = layer.contrast_limits or (float(np.nanmin(plane)), float(np.nanmax(plane)))
        grey = np.clip((plane - low) / (high - low if high > low else 1), 0, 1)
        grey = np.nan_to_num(1 - grey if layer.inverted else grey)
        if not layer.rgb:
            color = bytes.fromhex(layer.color) if layer.color else b"\xff\xff\xff"
            grey = grey[..., None] * (np.frombuffer(color, np.uint8) / 255.0)
        total = grey[..., :3] if total is None else total + grey[..., :3]
    assert total is not None
    return np.ascontiguousarray((np.clip(total, 0, 1) * 255).astype(np.uint8))


# --- the map ----------------------------------------------------------------------------------------------


def _coverage(file: ArchivedFile) -> tuple[float, ...]:
    return _shares(file.pages, file.size)


def _shares(pages: Any, size: int) -> tuple[float, ...]:
    """For each of some equal stretches of a file, which share of it is pixels."""
    if not size:
        return ()
    regions = regions_of(pages)
    bins = min(_BINS, size)
    edges = np.linspace(0, size, bins + 1)
    if not len(regions):
        return (0.0,) * bins
    ends = np.cumsum(regions.length)
    # How many pixel bytes lie before each border of a region; linear between borders.
    where = np.stack([regions.offset, regions.offset + regions.length], axis=1).ravel()
    before = np.stack([ends - regions.length, ends], axis=1).ravel()
    return tuple((np.diff(np.interp(edges, where, before)) / np.diff(edges)).tolist())


def _parts(opened: Archive) -> tuple[tuple[str, int], ...]:
    """Stored bytes of an archive by what they are for."""
    store = opened.store
    if not isinstance(store, ZipStore):
        return ()
    sizes = {"pixels": 0, "levels": 0, "husk": 0, "metadata": 0}
    total = 0
    for entry in store.entries:
        head, _, rest = entry.name.partition("/")
        if not rest or rest.startswith(".") or head.startswith("."):
            kind = "metadata"
        elif head.isdigit():
            kind = "pixels" if head == "0" else "levels"
        else:
            kind = "husk"
        sizes[kind] += entry.compressed_size
        total += entry.compressed_size
    sizes["metadata"] += max(0, opened.path.stat().st_size - total)  # directory and headers
    return tuple((kind, size) for kind, size in sizes.items() if size)
