"""Undoing the array codecs of a chunk: element type, filters and the order of axes."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import FormatError
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.ngff._zarr_codecs import Codec

__all__ = ["ArrayCodecs"]


class ArrayCodecs:
    """The codecs of an array that come before its elements are bytes.

    Parameters
    ----------
    meta : ArrayMeta

    Attributes
    ----------
    stored : dtype
        Of the elements as they are in the decoded bytes.
    plain : bool
        Whether decoded bytes are the elements, in their order.
    filtered : bool
        Whether elements are changed by more than rounding, and not only moved.
    strides : tuple of int
        Bytes, in the decoded but not yet transposed chunk, between neighbours along each axis.
    """

    def __init__(self, meta: ArrayMeta) -> None:
        at = next(i for i, codec in enumerate(meta.codecs) if codec.name == "bytes")
        self._codecs = meta.codecs[:at]
        self._shape = meta.chunk_shape
        # a filter of v2 may take the bytes of elements for those of another type
        self._viewed = meta.dtype if meta.zarr_format == 2 else None
        # what the last filter gave while writing; v3 stores it in whichever byte order `bytes` says
        self._given = meta.native_dtype
        for codec in self._codecs:
            if "astype" in codec.config:
                self._given = np.dtype(codec.config["astype"])
        big = meta.codecs[at].config["endian"] == "big"
        self.stored: np.dtype[Any] = self._given.newbyteorder(">" if big else "<")
        self.plain = not any(codec.name != "bitround" for codec in self._codecs)
        self.filtered = any(codec.name not in ("bitround", "transpose") for codec in self._codecs)
        self._orders = [codec.config["order"] for codec in self._codecs if codec.name == "transpose"]
        self.strides = self._strides()

    def _strides(self) -> tuple[int, ...]:
        axes = list(range(len(self._shape)))
        for order in self._orders:
            axes = [axes[i] for i in order]
        strides, step = [0] * len(axes), self.stored.itemsize
        for axis in reversed(axes):
            strides[axis] = step
            step *= self._shape[axis]
        return tuple(strides)

    def undo(self, flat: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the elements of a chunk's decoded bytes, in the chunk's shape; a view where possible."""
        elements: NDArray[Any] = flat.view(self.stored)
        if self.filtered:  # numcodecs looks at bytes, not at their type
            elements = elements.astype(self._given, copy=False)
        shape = self._shape
        if self._codecs:
            shapes = [shape]
            for order in self._orders:
                shapes.append(tuple(shapes[-1][axis] for axis in order))
            orders = list(self._orders)
            for codec in reversed(self._codecs):
                if codec.name == "transpose":
                    elements = elements.reshape(shapes.pop()).transpose(np.argsort(orders.pop()))
                else:
                    elements = _undo_filter(codec, elements.reshape(-1)).reshape(elements.shape)
        elements = elements.reshape(shape)
        if self.filtered and self._viewed is not None:
            elements = elements.view(self._viewed)
        return elements.view(np.uint8) != 0 if elements.dtype.kind == "b" else elements


def _undo_filter(codec: Codec, elements: NDArray[Any]) -> NDArray[Any]:
    if codec.name == "bitround":
        return elements
    config: dict[str, Any] = {"id": codec.name, **codec.config}
    if codec.name == "quantize":  # its digits matter only while writing
        config["digits"] = 1
    try:
        return np.asarray(numcodecs.get_codec(config).decode(elements))
    except (ValueError, TypeError) as error:
        raise FormatError(f"the {codec.name} filter cannot be undone ({error})") from None
