"""The Zarr v2 documents of an archive: array metadata, NGFF 0.4 attributes, consolidated metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_decant.archive._codec import PixelCodec
from napari_decant.archive._contrast import ContrastMeter
from napari_decant.archive._describe import Channel, Description
from napari_decant.archive._levels import Levels
from napari_decant.tiff._axes import axis_type

__all__ = ["array_document", "dump", "image_attributes", "metadata_documents"]

_COLORS = ("00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF")
_RGB = (("R", "FF0000"), ("G", "00FF00"), ("B", "0000FF"), ("A", "FFFFFF"))
_VISIBLE_CHANNELS = 6  # more at once cannot be told apart


def dump(document: Any) -> bytes:
    """Strict JSON, the same bytes for equal documents."""
    return json.dumps(document, indent=1, ensure_ascii=True, allow_nan=False).encode()


def array_document(
    shape: Sequence[int], chunks: Sequence[int], dtype: np.dtype, codec: PixelCodec
) -> dict[str, Any]:
    """Make the ``.zarray`` of an array whose every chunk is written."""
    return {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": dtype.str,
        # Zarr v2 writes complex numbers as pairs.
        "fill_value": [0.0, 0.0] if dtype.kind == "c" else 0,
        "order": "C",
        "filters": None,
        "compressor": codec.config,
        "dimension_separator": "/",
    }


def metadata_documents(attributes: dict[str, Any], arrays: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    """Keys and bytes of the group's documents, ``.zmetadata`` among them.

    Consolidated metadata lets zarr open the group without listing it, so that it never
    wonders about ``.decant/``.
    """
    group = {"zarr_format": 2}
    nodes: dict[str, Any] = {".zgroup": group, ".zattrs": attributes}
    nodes |= {f"{name}/.zarray": document for name, document in arrays.items()}
    consolidated = {"zarr_consolidated_format": 1, "metadata": nodes}
    return {
        ".zgroup": dump(group),
        ".zattrs": dump(attributes),
        ".zmetadata": dump(consolidated),
        **{f"{name}/.zarray": dump(document) for name, document in arrays.items()},
    }


def image_attributes(
    name: str,
    description: Description,
    samples: int,
    dtype: np.dtype,
    meter: ContrastMeter,
    facts: dict[str, Any],
    levels: Levels,
) -> dict[str, Any]:
    """NGFF 0.4 attributes of a byte-exact archive, with the ``decant`` marker.

    Parameters
    ----------
    name : str
        Of the image.
    description : Description
        Axes, sizes and channels.
    samples : int
        Samples of a pixel; more than one become a trailing channel axis.
    dtype : numpy.dtype
        Of the pixels.
    meter : ContrastMeter
        Display windows.
    facts : dict
        More keys for ``decant``.
    levels : Levels
        Derived levels, stored as ``1``, ``2``, ...
    """
    names = [*description.axes.canonical_order, "y", "x"]
    axes = [_axis(axis, description) for axis in names]
    scale = [float(description.spacing.get(axis, 1.0)) for axis in names]
    if samples > 1:
        axes.append({"name": "c", "type": "channel"})
        scale.append(1.0)
    multiscale: dict[str, Any] = {
        "version": "0.4",
        "name": name,
        "axes": axes,
        "datasets": [_dataset(i, *transform) for i, transform in enumerate(levels.transforms(scale))],
    }
    decant = {"pixels": "0", "samples": samples, "rgb": description.rgb, **facts}
    if description.acquisition:
        decant["acquisition"] = description.acquisition
    if description.axes.true_axes:
        decant["true_axes"] = [[axis, extent] for axis, extent in description.axes.true_axes]
    if description.inverted:
        decant["min_is_white"] = True
    if description.notes:
        decant["notes"] = list(description.notes)
    if levels.factors:
        multiscale["type"] = "mean"
    attributes: dict[str, Any] = {"multiscales": [multiscale]}
    channels = _channels(description, samples, dtype, meter)
    if channels:
        attributes["omero"] = {"version": "0.4", "name": name, "channels": channels}
    attributes["decant"] = decant
    return attributes


def _dataset(level: int, scale: list[float], translation: list[float]) -> dict[str, Any]:
    transforms: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
    if any(translation):
        transforms.append({"type": "translation", "translation": translation})
    return {"path": str(level), "coordinateTransformations": transforms}


def _axis(name: str, description: Description) -> dict[str, str]:
    axis = {"name": name}
    kind = axis_type(name)
    if kind is not None:
        axis["type"] = "custom" if name == "ch" else kind
    if name in description.units:
        axis["unit"] = description.units[name]
    return axis


def _channels(
    description: Description, samples: int, dtype: np.dtype, meter: ContrastMeter
) -> list[dict[str, Any]]:
    """One omero channel for each index of the channel axis; none if nothing could be measured."""
    extents = dict(zip(description.axes.plane_order, description.axes.storage_shape, strict=True))
    count = samples if samples > 1 else extents.get("c", 1)
    channels: list[dict[str, Any]] = []
    for i in range(count):
        window = meter.window(0, i) if samples > 1 else meter.window(i)
        if window is None:
            return []
        named = description.channels[i] if i < len(description.channels) else Channel()
        if description.rgb:
            named = Channel(_RGB[i][0], _RGB[i][1], _full_range(dtype))
        if named.window is not None:
            window |= _shown(named.window, window, widen=description.rgb)
        alone = "FFFFFF" if count == 1 else _COLORS[i % len(_COLORS)]
        channels.append(
            {
                "label": named.label or str(i),
                "color": named.color or alone,
                "active": description.rgb or i < _VISIBLE_CHANNELS,
                "window": window,
                "inverted": named.inverted or (description.inverted and samples == 1),
            }
        )
    return channels


def _full_range(dtype: np.dtype) -> tuple[float, float] | None:
    """Colours are only right over the full range of their type."""
    return (0, int(np.iinfo(dtype).max)) if dtype.kind == "u" else None


def _shown(wanted: tuple[float, float], measured: dict[str, float], *, widen: bool) -> dict[str, float]:
    """Display range of the file, unless it would show nothing of the values that are there."""
    start, end = (int(value) if float(value).is_integer() else float(value) for value in wanted)
    if not start < end or start >= measured["max"] or end <= measured["min"]:
        return {} if not widen else {"min": start, "max": end, "start": start, "end": end}
    limits = {"min": start, "max": end} if widen else {}
    return {**limits, "start": start, "end": end}
