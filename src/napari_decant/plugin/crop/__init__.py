"""The crop tool in napari: its layers, the box in its view, its dock."""

from __future__ import annotations

from napari_decant.plugin.crop._box import BoxView
from napari_decant.plugin.crop._box_layers import is_box_layer
from napari_decant.plugin.crop._facts import LayerReader
from napari_decant.plugin.crop._host import NapariHost
from napari_decant.plugin.crop._widget import CropWidget

__all__ = ["BoxView", "CropWidget", "LayerReader", "NapariHost", "is_box_layer"]
