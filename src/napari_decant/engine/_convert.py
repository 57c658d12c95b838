"""Element type conversion: rounded half to even, clamped to the range, once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import UnsupportedOperation

__all__ = ["accumulator_of", "check_conversion", "convert_into"]

_ROW_BYTES: Final = 64 << 10  # of longer rows the copying itself is all that counts


def accumulator_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of linear weights and sums for a source type.

    float32 for float32 and everything of up to 16 bits, float64 otherwise; complex accordingly.
    """
    if dtype.kind == "c":
        return dtype
    small = dtype.itemsize <= 2 or dtype == np.float32
    return np.dtype(np.float32 if small else np.float64)


def check_conversion(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse what has no meaning: complex values as anything else.

    Raises
    ------
    UnsupportedOperation
    """
    if source.kind == "c" and target.kind != "c":
        raise UnsupportedOperation(f"complex values have no {target.name} form; ask for {source.name}")


def convert_into(values: NDArray[Any], out: NDArray[Any]) -> None:
    """Copy ``values`` into ``out`` of the same shape, converting as needed.

    Floats become integers by rounding half to even; what is beyond the range becomes its end, NaN
    becomes 0. Finite values beyond a smaller float's range become its largest finite value.
    """
    source, target = values.dtype, out.dtype
    if source == target:
        _copy_into(values, out)
    elif np.can_cast(source, target, "safe"):
        out[...] = values
    elif target.kind == "b":
        np.not_equal(values, 0, out=out)
    elif target.kind in "iu":
        limits = np.iinfo(target)
        if source.kind == "f":
            _round_into(values, out, limits)
        else:
            own = np.iinfo(source)
            low, high = max(limits.min, own.min), min(limits.max, own.max)
            out[...] = np.clip(values, source.type(low), source.type(high))
    elif target.kind == "f" and source.kind in "iuf":
        with np.errstate(over="ignore", invalid="ignore"):
            out[...] = values
            if np.finfo(target).max < _greatest(source):
                top = target.type(np.finfo(target).max)
                lost = np.isinf(out) & np.isfinite(values)
                out[lost] = np.copysign(top, out[lost])
    else:
        out[...] = values


def _copy_into(values: NDArray[Any], out: NDArray[Any]) -> None:
    """Copy between equal types: a row that lies side by side in both is one large element for numpy."""
    nbytes = out.shape[-1] * out.itemsize if out.ndim > 1 else 0
    if 0 < nbytes <= _ROW_BYTES and out.strides[-1] == values.strides[-1] == out.itemsize:
        row = np.dtype((np.void, nbytes))
        values, out = values.view(row), out.view(row)
    out[...] = values


def _greatest(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).max) if dtype.kind == "f" else float(np.iinfo(dtype).max)


def _round_into(values: NDArray[Any], out: NDArray[Any], limits: np.iinfo[Any]) -> None:
    wide = values.astype(np.float64) if values.dtype.itemsize < 4 or limits.bits > 16 else values
    rounded = np.rint(wide)
    low, high = float(limits.min), float(limits.max)
    above = rounded >= high  # for 64 bits the float next to the limit lies beyond it
    clipped = np.clip(np.nan_to_num(rounded, copy=False, nan=0.0, posinf=high, neginf=low), low, high)
    clipped[above] = 0
    out[...] = clipped.astype(out.dtype)
    out[above] = limits.max
