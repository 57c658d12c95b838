"""What holds for a TIFF of any layout."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import event

from napari_decant.archive import Reason, pack, restore, verify

from .pixels import open_array, read_manifest, stored_pages
from .tiffspec import TiffSpec
from .tiffwriter import write_tiff

__all__ = ["assert_comes_back"]

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


def assert_comes_back(spec: TiffSpec) -> None:
    """Pack, restore and verify a file of this layout, and compare its mode, reason and pixels."""
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
            mixed = {Reason.MIXED} if spec.pages > 1 or spec.subifds or spec.thumbnail else set()
            assert report.reason in REASONS.get(tiff.why, {report.reason}) | mixed
            assert report.reason
            return
        assert report.reason is None
        pages = stored_pages(open_array(report.archive), read_manifest(report.archive))
        if tiff.mode == "byte-exact":
            assert [page.tobytes() for page in pages] == [tiff.array[n].tobytes() for n in tiff.listed]
            assert {page.dtype for page in pages} == {np.dtype(spec.dtype)}
