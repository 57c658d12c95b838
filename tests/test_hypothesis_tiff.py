"""Every way to lay out a TIFF comes back byte for byte, as an image whenever the format allows it."""

from __future__ import annotations

from hypothesis import example, given, settings
from tests.support.layout_check import assert_comes_back
from tests.support.strategies import tiff_specs
from tests.support.tiffspec import TiffSpec


@settings(deadline=None, max_examples=150)
@given(tiff_specs())
@example(TiffSpec(pages=5, imagej=True, byteorder=">"))
@example(TiffSpec(pages=2, tile=(16, 16), height=17, width=33, samples=3, planar=True, byteorder=">", gap=9))
@example(TiffSpec(height=1, width=1, dtype="uint8"))
def test_every_layout_comes_back(spec: TiffSpec) -> None:
    assert_comes_back(spec)
