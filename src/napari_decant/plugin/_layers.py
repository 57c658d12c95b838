"""From an opened image to what napari's ``add_image`` and ``add_labels`` take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_decant.errors import UnsupportedOperation
from napari_decant.images import ImageLayer
from napari_decant.plugin._opened import OpenedImage

if TYPE_CHECKING:
    from napari.utils.colormaps import Colormap, DirectLabelColormap

    from napari_decant.images import LabelInfo

__all__ = ["LayerData", "layer_data"]

LayerData = tuple[Any, dict[str, Any], str]
"""Data, keyword arguments and layer type, as napari's readers return them."""

_MAX_LABEL_COLORS = 10_000


def layer_data(opened: OpenedImage) -> list[LayerData]:
    """Describe the layers of an image; reads no pixels.

    Parameters
    ----------
    opened : OpenedImage
        One layer comes of each channel, or one of a colour picture or of labels.

    Raises
    ------
    UnsupportedOperation
        The image cannot be shown: it has one axis only, or no pixels.
    """
    layers = opened.layers
    return [_one(opened, number, layer, len(layers)) for number, layer in enumerate(layers)]


def _one(opened: OpenedImage, number: int, layer: ImageLayer, count: int) -> LayerData:
    shape = layer.levels[0].shape
    if len(shape) < 2 + layer.rgb or not all(shape):
        raise UnsupportedOperation(f"{layer.name} has the shape {shape}, of which nothing can be shown")
    levels = opened.levels(number)
    keywords: dict[str, Any] = {
        "name": layer.name,
        "scale": layer.scale,
        "translate": layer.translate,
        "units": tuple(unit or "pixel" for unit in layer.units),
        "axis_labels": layer.axis_labels,
        "multiscale": len(levels) > 1,
        "visible": layer.visible,
        "metadata": {"napari-decant": {"uri": opened.image.uri, "image": opened.image.path, "layer": number}},
    }
    if layer.affine is not None:
        keywords["affine"] = np.asarray(layer.affine)
    if (
        layer.is_labels and levels[0].dtype == bool
    ):  # napari asks arrays of its labels for a view of their bytes
        levels = [level.astype(np.uint8) for level in levels]
    data = levels if keywords["multiscale"] else levels[0]
    if layer.is_labels:
        label = opened.image.label
        if label is not None and 0 < len(label.colors) <= _MAX_LABEL_COLORS:
            keywords["colormap"] = _label_colormap(label)
        return data, keywords, "labels"
    keywords["rgb"] = layer.rgb
    # Cameras put 12 bits into 16: a colour picture of those is left to napari, which measures it.
    deep = layer.rgb and levels[0].dtype.kind in "iu" and levels[0].dtype.itemsize > 1
    if layer.contrast_limits is not None and not deep:
        keywords["contrast_limits"] = layer.contrast_limits
    if layer.contrast_limits is None and levels[0].dtype.itemsize > 2:
        # Left to measure large numbers that differ little, napari 0.9 measures without end. So it measures
        # plane by plane, until `watch` has better limits.
        keywords |= {"contrast_limits": (0.0, 1.0), "auto_contrast": True}
    if not layer.rgb:
        keywords["colormap"] = _colormap(layer.color, layer.inverted or _min_is_white(opened, count))
        keywords["blending"] = "additive" if count > 1 else "translucent_no_depth"
    return data, keywords, "image"


def _min_is_white(opened: OpenedImage, count: int) -> bool:
    """Whether our archive recorded min-is-white for pixels without a channel to say so."""
    ngff = opened.image.ngff
    return count == 1 and ngff is not None and ngff.decant.get("min_is_white") is True


def _colormap(color: str | None, inverted: bool) -> str | Colormap:
    """Name of a colormap of napari's, or one from black to ``RRGGBB``, or back where inverted."""
    if color is None:
        return "gray_r" if inverted else "gray"
    if not inverted:
        return f"#{color.lower()}"
    from napari.utils.colormaps import Colormap

    full = [int(color[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    return Colormap([[*full, 1.0], [0.0, 0.0, 0.0, 1.0]], name=f"#{color.lower()}_r")


def _label_colormap(label: LabelInfo) -> DirectLabelColormap:
    """Declared colours; labels without one get napari's own cycle of colours."""
    from napari.utils.colormaps import DirectLabelColormap, label_colormap

    cycle = label_colormap(49)
    colors: dict[int | None, Any] = {
        value: np.array(rgba, np.float32) / 255 for value, rgba in label.colors.items()
    }
    colors.setdefault(0, np.zeros(4, np.float32))
    colors[None] = cycle.map(1)
    return DirectLabelColormap(color_dict=colors)
