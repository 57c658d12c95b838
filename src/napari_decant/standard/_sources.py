"""From a location to the images that are to be exported, with what the standard wants done to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import napari_decant.archive  # noqa: F401 - registers how archives are opened
from napari_decant import __version__
from napari_decant.errors import DecantError, UnsupportedOperation, UsageError
from napari_decant.images import Channel, ChunkCache, Image, ImageToWrite, LabelInfo, open_image
from napari_decant.images._identity import image_identity
from napari_decant.ngff import labels_place, list_images
from napari_decant.ngff._findings import objects
from napari_decant.ngff._node import Node, read_nodes
from napari_decant.progress import CancelToken
from napari_decant.standard._quantise import Quantiser, as_labels, measure_range
from napari_decant.stores import FileMetadataReader, find_roots, join_key, local_path, open_store

__all__ = ["ExportChoices", "SourceImages", "collect_sources", "reopen_image"]


@dataclass(frozen=True)
class ExportChoices:
    """What the user asked for; plain data.

    Attributes
    ----------
    standard : str
    quantize : bool or (float, float)
        Store as uint16; the range is measured unless given.
    labels : bool or None
        Whether the image holds labels; None for what its metadata say.
    keep_label_type : bool
        Do not convert labels to uint32.
    workers : int
        Threads.
    """

    standard: str = "dca-0.1"
    quantize: bool | tuple[float, float] = False
    labels: bool | None = None
    keep_label_type: bool = False
    workers: int = 1


@dataclass
class SourceImages:
    """Open images by the path that they will have, and the documents of groups around them.

    Attributes
    ----------
    images : dict of str to ImageToWrite
    groups : dict of str to dict
        OME attributes of plates and wells.
    reopen : dict of str to (str, Quantiser or None)
        For each image, labels included: its name at the location, and how it is quantised.
    notes : list of str
        What the user should know.
    """

    images: dict[str, ImageToWrite] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    reopen: dict[str, tuple[str | None, Quantiser | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    opened: list[Image] = field(default_factory=list)

    def close(self) -> None:
        """Release every file."""
        for image in self.opened:
            image.close()
        self.opened.clear()


def collect_sources(
    location: str, image: str | None, choices: ExportChoices, cancel: CancelToken | None = None
) -> SourceImages:
    """Open everything that is to be exported: one image with its labels, or a plate with all its fields.

    Raises
    ------
    ChoiceNeeded
        There are several images, and ``image`` names none.
    DecantError
        An image cannot be opened.
    """
    found = SourceImages()
    try:
        plate = None if image is not None else _plate(location)
        if plate is None:
            _add(found, location, image, "", choices, cancel)
        else:
            _add_plate(found, location, *plate, choices, cancel)
    except BaseException:
        found.close()
        raise
    return found


def _plate(location: str) -> tuple[str, Node] | None:
    """Path and document of the plate at a location, if it is one."""
    path = local_path(location)
    if path is not None and path.is_file() and path.suffix.lower() not in (".zip", ".ozx"):
        return None
    try:
        store = open_store(location)
    except UnsupportedOperation:
        return None
    with store:
        roots = find_roots(store)
        if len(roots) != 1:
            return None
        node = read_nodes(store, roots, FileMetadataReader()).get(roots[0])
    return (roots[0], node) if node is not None and isinstance(node.ome.get("plate"), dict) else None


def _add_plate(
    found: SourceImages,
    location: str,
    root: str,
    node: Node,
    choices: ExportChoices,
    cancel: CancelToken | None,
) -> None:
    plate = _without_version(node.ome["plate"])
    wells = [well for well in objects(plate.get("wells")) if isinstance(well.get("path"), str)]
    with open_store(location) as store:
        reader = FileMetadataReader()
        nodes = read_nodes(store, [join_key(root, w["path"]) for w in wells], reader)
    kept, fields = [], 0
    for well in wells:
        child = nodes.get(join_key(root, well["path"]))
        if child is None:
            found.notes.append(
                f"the well {well['path']!r} is listed by the plate but not there; it is left out"
            )
            continue
        meta, images = _fields(location, child)
        good = []
        for item in images:
            if cancel is not None:
                cancel.check()
            try:
                _add(
                    found,
                    location,
                    join_key(child.path, item["path"]),
                    join_key(well["path"], item["path"]),
                    choices,
                    cancel,
                )
            except (UnsupportedOperation, UsageError):
                raise
            except DecantError as error:
                found.notes.append(f"the field {well['path']}/{item['path']} is left out: {error}")
                continue
            good.append(item)
        if good:
            kept.append(well)
            fields = max(fields, len(good))
            found.groups[well["path"]] = {"well": _without_version(meta) | {"images": good}}
    if not kept:
        why = "; ".join(found.notes[:3]) or "it lists no wells"
        raise UnsupportedOperation(f"the plate at {location} has no field that opens: {why}")
    plate["wells"] = [_indexed(well, plate) for well in kept]
    plate["field_count"] = fields
    found.groups[""] = {"plate": plate}


def _fields(location: str, well: Node) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A well's metadata and fields: as declared, or the images that are there where nothing is declared."""
    meta = well.ome.get("well")
    if isinstance(meta, dict):
        return meta, [image for image in objects(meta.get("images")) if isinstance(image.get("path"), str)]
    below = [entry.path.removeprefix(f"{well.path}/") for entry in list_images(location, well.path)]
    return {}, [{"path": path} for path in below if "/" not in path]


def _without_version(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if key != "version"}


def _indexed(well: dict[str, Any], plate: dict[str, Any]) -> dict[str, Any]:
    """A well with its row and column numbers, which early writers left out."""
    row, _, column = well["path"].partition("/")
    places = {}
    for key, names, name in (("rowIndex", "rows", row), ("columnIndex", "columns", column)):
        listed = [entry.get("name") for entry in objects(plate.get(names))]
        if key not in well and name in listed:
            places[key] = listed.index(name)
    return {**well, **places}


def _add(
    found: SourceImages,
    location: str,
    image: str | None,
    path: str,
    choices: ExportChoices,
    cancel: CancelToken | None,
) -> None:
    opened = open_image(location, image=image, cache=ChunkCache(0))
    found.opened.append(opened)
    if choices.labels is not None:
        opened = replace(opened, label=(opened.label or LabelInfo()) if choices.labels else None)
    quantiser = _quantiser(opened, choices, cancel)
    if (note := _type_note(opened, quantiser)) not in ("", *found.notes):
        found.notes.append(note)
    found.reopen[path] = image, quantiser
    # another range makes other pixels: an export with it is never taken up by this one
    identity = f"{image_identity(location, opened)} {quantiser}"
    made = prepare(opened, choices, quantiser, identity)
    labels = {}
    for name in opened.labels:
        where = join_key(opened.path, "labels", name)
        try:
            label = open_image(location, image=where, cache=ChunkCache(0))
        except DecantError as error:
            found.notes.append(f"the labels {name!r} are left out: {error}")
            continue
        found.opened.append(label)
        label = replace(label, label=label.label or LabelInfo())
        labels[name] = prepare(label, choices, None, image_identity(location, label))
        found.reopen[join_key(path, "labels", name)] = where, None
    found.images[path] = replace(made, labels=labels)
    found.notes += [text for text in opened.warnings if text not in found.notes]


def _type_note(image: Image, quantiser: Quantiser | None) -> str:
    """What could be done about a type that the standard does not want; it is done only when asked for."""
    kind = image.dtype.name
    if quantiser is not None or image.label is not None or kind in ("uint8", "uint16", "bool"):
        return ""
    labels = "; if they are labels, --labels makes uint32 of them" if image.dtype.kind in "iu" else ""
    return f"values of type {kind} are kept as they are{labels}; --quantize makes uint16 of them"


def _quantiser(image: Image, choices: ExportChoices, cancel: CancelToken | None) -> Quantiser | None:
    if not choices.quantize or image.label is not None or image.dtype.name in ("uint8", "uint16", "bool"):
        return None
    if isinstance(choices.quantize, tuple):
        low, high = choices.quantize
        if not (np.isfinite([low, high]).all() and low < high):
            raise UsageError(f"the range {low} to {high} cannot be quantised; the first must be less")
    else:
        low, high = measure_range(image.levels[0], image.axes, workers=choices.workers, cancel=cancel)
    return Quantiser(float(low), float(high), image.dtype.name)


def prepare(
    image: Image, choices: ExportChoices, quantiser: Quantiser | None, identity: str | None
) -> ImageToWrite:
    """An opened image as it is to be written.

    Parameters
    ----------
    image : Image
    choices : ExportChoices
    quantiser : Quantiser or None
    identity : str or None
        See `ImageToWrite`.
    """
    dtype: Any = None
    convert: Any = quantiser
    channels = image.channels
    decant: dict[str, Any] = {"software": f"napari-decant {__version__}", "standard": choices.standard}
    if quantiser is not None:
        dtype = np.uint16
        decant["quantized"] = quantiser.record()
        channels = tuple(_requantised(channel, quantiser) for channel in channels)
    elif image.label is not None and not choices.keep_label_type and image.dtype != np.uint32:
        dtype, convert = np.uint32, as_labels
    kept = image.ngff.decant if image.ngff is not None else {}
    if isinstance(kept.get("affine"), dict):
        decant["affine"] = kept["affine"]
    return ImageToWrite(
        image.levels[0],
        image.axes,
        scale=image.scales[0],
        translation=image.translations[0],
        name=image.name,
        channels=channels,
        rgb=image.is_rgb and quantiser is None,
        label=image.label,
        dtype=dtype,
        convert=convert,
        attributes={"decant": decant},
        default_t=image.default_t,
        default_z=image.default_z,
        identity=identity,
    )


def _requantised(channel: Channel, quantiser: Quantiser) -> Channel:
    if channel.window is None:
        return replace(channel, limits=None)
    low, high = (min(65535.0, max(0.0, quantiser.stored(v))) for v in channel.window)
    return replace(channel, window=(low, high) if low < high else None, limits=None)


def reopen_image(
    location: str,
    choices: ExportChoices,
    names: Mapping[str, tuple[str | None, Quantiser | None]],
    path: str,
) -> ImageToWrite:
    """Open an image again in another process.

    Parameters
    ----------
    location : str
    choices : ExportChoices
    names : mapping
        `SourceImages.reopen`.
    path : str
        Of the image in the store that is written.
    """
    name, quantiser = names[path]
    image = open_image(location, image=name, cache=ChunkCache(0))
    if labels_place(path) is not None or choices.labels:
        image = replace(image, label=image.label or LabelInfo())
    return prepare(image, choices, quantiser, None)
