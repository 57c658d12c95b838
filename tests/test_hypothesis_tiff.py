"""Every way to lay out a TIFF comes back byte for byte, as an image whenever the format allows it."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import event, example, given, settings
from tests.support.pixels import open_array, read_manifest, stored_pages
from tests.support.strategies import tiff_specs
from tests.support.tiffspec import TiffSpec
from tests.support.tiffwriter import write_tiff

from napari_decant.archive import Reason, pack, restore, verify

# What the writer knows to be wrong with a file, and the codes that name it.
REASONS = {
    "compressed": {Reason.COMPRESSED},
    "predictor": {Reason.PREDICTOR},
    "fill order": {Reason.FILL_ORDER},
    "depth": {Reason.BIT_DEPTH},
    "short": {Reason.SHORT_SEGMENTS, Reason.SPARSE},
    "sparse": {Reason.SPARSE},
    "past-end": {Reason.BEYOND_END},
    "shared": {Reason.OVERLAP},
    "overlap": {Reason.OVERLAP, Reason.BEYOND_END},
}


@settings(deadline=None, max_examples=150)
@given(tiff_specs())
@example(TiffSpec(pages=5, imagej=True, byteorder=">"))
@example(TiffSpec(pages=2, tile=(16, 16), height=17, width=33, samples=3, planar=True, byteorder=">", gap=9))
@example(TiffSpec(height=1, width=1, dtype="uint8"))
def test_every_layout_comes_back(spec: TiffSpec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tiff = write_tiff(Path(folder, "a.tif"), spec)
        original = tiff.path.read_bytes()
        report = pack(tiff.path, workers=1)
        assert report.sha256 == hashlib.sha256(original).hexdigest()
        [back] = restore(report.archive, Path(folder, "back"), workers=1).files
        assert back.read_bytes() == original
        assert tiff.path.read_bytes() == original
        state = verify(report.archive, workers=1)
        assert (state.whole, state.problems) == (True, ())
        event(report.mode)
        if tiff.mode != "either":
            assert (report.mode, tiff.why) == (tiff.mode, tiff.why)
        if report.mode == "verbatim":
            assert report.reason in REASONS[tiff.why] if tiff.why in REASONS else report.reason
            return
        assert report.reason is None
        pages = stored_pages(open_array(report.archive), read_manifest(report.archive))
        if tiff.mode == "byte-exact":
            assert [page.tobytes() for page in pages] == [page.tobytes() for page in tiff.array]
            assert {page.dtype for page in pages} == {np.dtype(spec.dtype)}
