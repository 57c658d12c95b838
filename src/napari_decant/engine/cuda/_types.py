"""Which kernel makes an output, and the values it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from napari_decant.engine._convert import accumulator_of, check_conversion, convert_into
from napari_decant.engine._plan import CopyOutput, TiledOutput
from napari_decant.engine._sampling import kernel_values, pool_dtype
from napari_decant.errors import DeviceUnavailable
from napari_decant.ngff._zarr import ArrayMeta

__all__ = ["TOKENS", "Recipe", "recipe_of"]

# names of element types in the kernels; elements that are only moved go by their size
TOKENS: Final = {
    np.dtype(code): name
    for code, name in {
        "?": "b8", "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "i1": "i8", "i2": "i16", "i4": "i32",
        "i8": "i64", "f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128",
    }.items()
}  # fmt: skip
_MOVED: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "x128"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an output is made.

    Attributes
    ----------
    kernel : str
        Kernel with its types, as it is written in C++.
    itemsize : int
        Bytes of an element as it lies on the GPU.
    fill, constant : bytes
        Values of chunks that are not stored and of elements outside, 16 bytes each.
    """

    kernel: str
    itemsize: int
    fill: bytes
    constant: bytes


def _token(dtype: np.dtype[Any]) -> str:
    try:
        return TOKENS[dtype]
    except KeyError:
        raise DeviceUnavailable(f"GPUs have no {dtype.name}; use the CPU or another element type") from None


def recipe_of(output: CopyOutput | TiledOutput, meta: ArrayMeta, target: np.dtype[Any]) -> Recipe:
    """Choose the kernel of an output; it gives what the CPU executor gives.

    Parameters
    ----------
    output : CopyOutput or TiledOutput
    meta : ArrayMeta
        Of its array.
    target : dtype
        Element type of the output.

    Raises
    ------
    UnsupportedOperation
        Complex values are asked for as real ones.
    DeviceUnavailable
        A GPU has no such elements.
    """
    native = meta.native_dtype
    check_conversion(native, target)
    source, made = _token(native), _token(target)
    if isinstance(output, CopyOutput):
        fill = _converted(meta.fill_value, native, native, target)
        kernel = f"gather<{_moved(native)}>" if native == target else f"gather<{source}, {made}>"
        return Recipe(kernel, native.itemsize, fill, fill)
    held = pool_dtype(native, output, target)
    view, fill_value, constant, _ = kernel_values(output.sampler, held, meta.fill_value)
    if output.sampler.filter == "linear":
        sums = accumulator_of(native)
        kernel = f"linear<{source}, {TOKENS[sums]}, {made}>"
        return Recipe(kernel, native.itemsize, _bytes(meta.fill_value, sums), _bytes(constant, sums))
    kernel = f"nearest<{source}, {TOKENS[held]}, {made}>"
    if native == held == target:
        kernel = f"nearest<{_moved(native, 3)}>"
    values = [
        _converted(np.array([value], view).view(held)[0], held, held, target)
        for value in (fill_value, constant)
    ]
    return Recipe(kernel, native.itemsize, *values)


def _moved(dtype: np.dtype[Any], count: int = 2) -> str:
    return ", ".join([_MOVED[dtype.itemsize]] * count)


def _bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    return np.array([value]).astype(dtype).tobytes().ljust(16, b"\0")


def _converted(value: Any, *steps: np.dtype[Any]) -> bytes:
    """Bytes of a value that is converted from type to type as elements are."""
    held = np.array([value], steps[0])
    for step in steps[1:]:
        made = np.empty(1, step)
        convert_into(held, made)
        held = made
    return held.tobytes().ljust(16, b"\0")
