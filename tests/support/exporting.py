"""What a worker runs on each file of the corpus: export, and compare pixels with those of the source."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from napari_decant.images import open_image
from napari_decant.images._write_zarr_source import map_axes
from napari_decant.standard import export

__all__ = ["export_and_compare"]


def export_and_compare(path: str, folder: str) -> str:
    """Export a file; '' if all is well, else what is wrong."""
    target = Path(folder) / "out.zarr"
    target.parent.mkdir(parents=True)
    try:
        report = export(path, target)
        unexplained = [f for f in report.check.every if f.status == "warn" and not f.because]
        if unexplained:
            return f"{unexplained[0].rule} is not met and does not say why: {unexplained[0].found}"
        if report.plan["images"][0]["path"]:
            return ""  # a plate, whose fields have tests of their own
        source, back = open_image(path), open_image(target)
        try:
            if source.levels[0].nbytes > 512 << 20:
                return ""
            wanted, found = np.asarray(source.levels[0]), np.asarray(back.levels[0])
            order = np.argsort(map_axes(source.axes), kind="stable")
            wanted = wanted.transpose(order)
            if not back.is_rgb:
                found = found.reshape(-1)
            else:
                wanted, found = wanted.transpose(np.argsort(order)), found
            same = np.array_equal(wanted.reshape(-1), found.reshape(-1), equal_nan=wanted.dtype.kind in "fc")
            return "" if same else f"pixels differ: {wanted.shape} {found.shape}"
        finally:
            source.close()
            back.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
