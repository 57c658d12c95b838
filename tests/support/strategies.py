"""Random layouts of TIFF files."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .tiffspec import TiffSpec

__all__ = ["tiff_specs"]

_DTYPES = [f"{kind}int{bits}" for kind in ("u", "") for bits in (8, 16, 32, 64)]
_FLOATS = ["float16", "float32", "float64", "complex64"]
_ORDERS = ["forward", "reverse", "shuffled"]
_TEXTS = [None, "a picture", "ImageJ=", "<OME", '{"shape": [99999]}', "\xb5"]
_TROUBLES: list[dict[str, Any]] = [
    *({"fault": fault} for fault in ("short", "shared", "overlap", "sparse", "past-end")),
    {"deflate": True},
    {"deflate": True, "predictor": 2, "dtype": "uint16"},
    {"predictor": 2, "dtype": "uint8"},
    {"fill_order": 2, "dtype": "uint16"},
    {"bits": 1, "dtype": "uint8"},
    {"bits": 12, "dtype": "uint16"},
    {"dtype": "complex128"},
]


@st.composite
def tiff_specs(draw: st.DrawFn, *, troubled: bool | None = None) -> TiffSpec:
    """Draw a layout; ``troubled`` asks for something that mode byte-exact cannot hold (None: sometimes)."""
    fields: dict[str, Any] = {
        "pages": draw(st.integers(1, 5)),
        "height": draw(st.integers(1, 40)),
        "width": draw(st.integers(1, 40)),
        "samples": draw(st.integers(1, 4)),
        "dtype": draw(st.sampled_from(_DTYPES + _FLOATS)),
        "planar": draw(st.booleans()),
        "values": draw(st.sampled_from(["ramp", "bits"])),
        "byteorder": draw(st.sampled_from("<>")),
        "bigtiff": draw(st.booleans()),
        "page_order": draw(st.sampled_from(_ORDERS)),
        "segment_order": draw(st.sampled_from(_ORDERS)),
        "interleave": draw(st.booleans()),
        "gap": draw(st.sampled_from([0, 0, 1, 30])),
        "ifd": draw(st.sampled_from(["before", "after", "scattered"])),
        "sorted_tags": draw(st.booleans()),
        "private_tags": draw(st.integers(0, 3)),
        "trailing": draw(st.sampled_from([0, 0, 1, 100])),
        "thumbnail": draw(st.booleans()),
        "subifds": draw(st.integers(0, 2)),
        "excess": draw(st.sampled_from([0, 0, 1, 17])),
        "miniswhite": draw(st.booleans()),
        "description": draw(st.sampled_from(_TEXTS)),
        "seed": draw(st.integers(0, 2**16)),
    }
    if draw(st.booleans()):
        side = st.sampled_from([16, 32, 48])
        fields["tile"] = (draw(side), draw(side))
    else:
        fields["rows_per_strip"] = draw(st.sampled_from([None, 1, 2, 3, 7, 40, 2**32 - 1]))
    if draw(st.integers(0, 9)) == 0:
        fields |= {
            "imagej": True,
            "samples": 1,
            "tile": None,
            "excess": 0,
            "rows_per_strip": fields["height"],
        }
    elif draw(st.integers(0, 3)) == 0 if troubled is None else troubled:
        fields |= draw(st.sampled_from(_TROUBLES))
    return TiffSpec(**fields)
