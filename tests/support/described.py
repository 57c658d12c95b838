"""What an archive says about itself, for tests of axes and metadata."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaozarrs
from tests.support.pixels import open_array

from napari_decant.archive import PackReport, pack, restore

__all__ = ["Packed", "pack_and_read"]


@dataclass(frozen=True)
class Packed:
    """An archive's image, its attributes and the report of packing it."""

    report: PackReport
    array: np.ndarray[Any, Any]
    attributes: dict[str, Any]

    @property
    def axes(self) -> str:
        """Names of the axes, one letter each (or several names with a space)."""
        names = [axis["name"] for axis in self.attributes["multiscales"][0]["axes"]]
        return ("" if all(len(name) == 1 for name in names) else " ").join(names)

    @property
    def decant(self) -> dict[str, Any]:
        return dict(self.attributes["decant"])

    @property
    def acquisition(self) -> dict[str, Any]:
        return dict(self.decant.get("acquisition", {}))

    @property
    def channels(self) -> list[dict[str, Any]]:
        return list(self.attributes["omero"]["channels"])

    def size(self, axis: str) -> tuple[float, str | None]:
        """Scale of an axis and its unit."""
        image = self.attributes["multiscales"][0]
        at = [a["name"] for a in image["axes"]].index(axis)
        scale = image["datasets"][0]["coordinateTransformations"][0]["scale"]
        return scale[at], image["axes"][at].get("unit")


def pack_and_read(path: Path) -> Packed:
    """Pack a file as an image, see that it comes back, and read what the archive says of it."""
    report = pack(path, path.parent, workers=1, overwrite=True)
    assert report.mode == "byte-exact", report.reason
    with zipfile.ZipFile(report.archive) as opened:
        attributes = json.loads(opened.read(".zattrs"))
    back = path.parent / "back"
    assert restore(report.archive, back, workers=1, overwrite=True).files[0].read_bytes() == path.read_bytes()
    packed = Packed(report, open_array(report.archive), attributes)
    if packed.decant["samples"] == 1:  # a trailing colour axis is this archive's own, not NGFF 0.4's
        plain = {key: value for key, value in attributes.items() if key != "decant"}
        yaozarrs.v04.Image.model_validate(plain)
    return packed
