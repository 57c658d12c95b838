"""Documents of OME-Zarr 0.5: groups through yaozarrs' models, arrays through zarr-python's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_decant.errors import FormatError
from napari_decant.images._contrast import full_range
from napari_decant.images._image import _MIX
from napari_decant.images._write_zarr_layout import AXES, ArrayLayout, LevelLayout
from napari_decant.ngff import Axis, Channel, LabelInfo
from napari_decant.tiff._units import unit_name

__all__ = ["array_document", "group_document", "image_ome", "ome_document", "omero", "strict_json"]

_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_RGB = ("FF0000", "00FF00", "0000FF")


def strict_json(value: Any) -> bytes:
    """JSON that every parser reads: numbers that JSON has not (NaN, Infinity) become null."""
    return json.dumps(_strict(value), indent=1, allow_nan=False, ensure_ascii=False).encode()


def _strict(value: Any) -> Any:
    """What JSON can hold of a value: no NaN, no halves of characters."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, np.generic):
        return _strict(value.item())
    if isinstance(value, Mapping):
        return {_strict(str(key)): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def array_document(level: LevelLayout, dtype: np.dtype[Any], *, shuffle: bool, compression: int) -> bytes:
    """``zarr.json`` of one level: sharded, zstd, index with its checksum at the end."""
    import warnings

    import zarr
    import zarr.storage
    from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, ZstdCodec

    codecs: list[Any] = [BytesCodec()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shuffle is no codec of the v3 core, which zarr mentions
        if shuffle:
            from zarr.codecs import numcodecs

            codecs.append(numcodecs.Shuffle(elementsize=dtype.itemsize))
        codecs.append(ZstdCodec(level=compression))
        store = zarr.storage.MemoryStore()
        zarr.create_array(
            store=store,
            shape=level.shape,
            dtype=dtype,
            chunks=level.shard,
            serializer=ShardingCodec(
                chunk_shape=level.chunk, codecs=codecs, index_codecs=[BytesCodec(), Crc32cCodec()]
            ),
            compressors=None,
            filters=None,
            fill_value=0,
            dimension_names=list(AXES),
        )
    return bytes(store._store_dict["zarr.json"].to_bytes())


def group_document(
    ome: Mapping[str, Any] | None = None, attributes: Mapping[str, Any] | None = None
) -> bytes:
    """``zarr.json`` of a group with its OME attributes."""
    own = dict(attributes or {}) | ({"ome": ome} if ome is not None else {})
    return strict_json({"zarr_format": 3, "node_type": "group", "attributes": own})


def ome_document(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Check OME attributes by the model of their kind and return them as they are to be written.

    Parameters
    ----------
    kind : {"Image", "LabelImage", "LabelsGroup", "Plate", "Well"}
    content : mapping
        Without the version.

    Raises
    ------
    FormatError
        They are not valid OME-Zarr 0.5.
    """
    import warnings

    import pydantic
    from yaozarrs import v05

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = getattr(v05, kind).model_validate({"version": "0.5", **_strict(content)})
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise FormatError(
                f"the metadata do not fit OME-Zarr 0.5: {where}: {first['msg']}; correct them in the source"
            ) from error
    written: dict[str, Any] = model.model_dump(mode="json", exclude_none=True, by_alias=True)
    return written


def image_ome(
    layout: ArrayLayout,
    axes: Sequence[Axis],
    *,
    name: str,
    method: str,
    label: LabelInfo | None,
    rendering: Mapping[str, Any] | None,
    below: int = 0,
) -> dict[str, Any]:
    """OME attributes of one image.

    Parameters
    ----------
    layout : ArrayLayout
    axes : sequence of Axis
        t, c, z, y, x with their units.
    name : str
    method : {"mean", "max"}
        How the levels were made.
    label : LabelInfo or None
    rendering : mapping or None
        See `omero`.
    below : int
        How many groups a label image lies below the image that it belongs to; 0 for none.
    """
    described = []
    for axis in axes:
        entry: dict[str, Any] = {"name": axis.name, "type": _TYPES[axis.name]}
        unit = unit_name(axis.unit) if axis.name != "c" else None
        described.append(entry | ({"unit": unit} if unit else {}))
    datasets = [
        {
            "path": str(number),
            "coordinateTransformations": [
                {"type": "scale", "scale": list(level.scale)},
                {"type": "translation", "translation": list(level.translation)},
            ],
        }
        for number, level in enumerate(layout.levels)
    ]
    words = {"mean": "mean of 2 x 2 x 2 voxels", "max": "maximum of 2 x 2 x 2 voxels"}
    entry = {
        "name": name,
        "axes": described,
        "datasets": datasets,
        "type": method,
        "metadata": {"description": words[method], "method": "napari_decant.images.downsample"},
    }
    content: dict[str, Any] = {"multiscales": [entry]}
    if label is not None:
        return ome_document("LabelImage", content | {"image-label": _label(label, below)})
    if rendering is not None:
        content["omero"] = rendering
    return ome_document("Image", content)


def _label(label: LabelInfo, below: int) -> dict[str, Any]:
    content: dict[str, Any] = {"source": {"image": "../" * below}} if below else {}
    if label.colors:
        content["colors"] = [
            {"label-value": value, "rgba": list(rgba)} for value, rgba in label.colors.items()
        ]
    if label.properties:
        content["properties"] = [dict(item) for item in label.properties]
    return content


def omero(
    channels: Sequence[Channel],
    windows: Sequence[tuple[float, float]],
    dtype: np.dtype[Any],
    *,
    rgb: bool = False,
    default_t: int | None = None,
    default_z: int | None = None,
) -> dict[str, Any]:
    """Rendering hints, one entry a channel.

    Parameters
    ----------
    channels : sequence of Channel
        As far as they are known.
    windows : sequence of (float, float)
        Contrast limits for every channel, used where ``channels`` has none.
    dtype : dtype
    rgb : bool
        The channels are red, green and blue of one picture.
    default_t, default_z : int or None
        Where a viewer starts.
    """
    entries = []
    low, high = full_range(dtype)
    for number, measured in enumerate(windows):
        channel = channels[number] if number < len(channels) else Channel()
        start, end = (low, high) if rgb else channel.window or measured
        least, most = channel.limits or (low, high)
        color = (_RGB[number] if number < 3 else "FFFFFF") if rgb else channel.color
        color = color or (_MIX[number % len(_MIX)] if len(windows) > 1 else "FFFFFF")
        entry: dict[str, Any] = {
            "window": {"min": min(least, start), "max": max(most, end), "start": start, "end": end},
            "color": color,
            "active": channel.active,
            "inverted": channel.inverted,
        }
        label = channel.label or (("red", "green", "blue", "alpha")[number] if rgb and number < 4 else None)
        entries.append(entry | ({"label": label} if label else {}))
    rendering: dict[str, Any] = {"model": "color"}
    if default_t is not None:
        rendering["defaultT"] = default_t
    if default_z is not None:
        rendering["defaultZ"] = default_z
    return {"channels": entries, "rdefs": rendering}
