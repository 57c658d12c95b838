"""Series of small TIFFs whose every plane is one value, and a look at where an archive put the planes."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.metatiff import Tags, ascii_tag, planes_of, write_metatiff
from tests.support.pixels import open_array
from tests.support.recovering import recover

from napari_decant.archive import PlanRow, SeriesPlan, pack_series, plan, verify

__all__ = [
    "Placed",
    "contents",
    "described",
    "ome_xml",
    "pack_row",
    "pack_set",
    "plane",
    "tiff_data",
    "with_companion",
    "write_planes",
]


def plane(value: int, height: int = 6, width: int = 5) -> np.ndarray[Any, Any]:
    """A plane whose pixels depend on their place and whose first one is ``value``."""
    return (planes_of((height, width)) - 1 + value).astype(np.uint16)


def write_planes(path: Path, values: Iterable[int], tags: Tags = {}, **more: Any) -> Path:  # noqa: B006
    """Write a file with a plane for each value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_metatiff(path, np.stack([plane(value) for value in values]), tags, **more)
    return path


@dataclass(frozen=True)
class Placed:
    """An archive of a series."""

    plan: SeriesPlan
    array: np.ndarray[Any, Any]
    attributes: dict[str, Any]

    @property
    def axes(self) -> str:
        return " ".join(axis["name"] for axis in self.attributes["multiscales"][0]["axes"][:-2])

    @property
    def values(self) -> list[Any]:
        """First pixel of each plane, in the shape of the leading axes."""
        return list(self.array[..., 0, 0].tolist())

    @property
    def labels(self) -> list[str]:
        return [channel["label"] for channel in self.attributes["omero"]["channels"]]

    @property
    def decant(self) -> dict[str, Any]:
        return dict(self.attributes["decant"])

    @property
    def acquisition(self) -> dict[str, Any]:
        return dict(self.decant.get("acquisition", {}))

    @property
    def notes(self) -> str:
        return "\n".join(self.plan.notes)

    def size(self, axis: str) -> tuple[float, str | None]:
        """Scale of an axis and its unit."""
        image = self.attributes["multiscales"][0]
        at = [a["name"] for a in image["axes"]].index(axis)
        scale = image["datasets"][0]["coordinateTransformations"][0]["scale"]
        return scale[at], image["axes"][at].get("unit")


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of the files below a folder, by their names."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".zip")
    }


def pack_row(row: PlanRow, *, recovered: bool = False) -> Placed:
    """Pack a planned series and read where the planes are; see that a stranger gets all files back."""
    assert row.series is not None
    report = pack_series(row.series, row.target, overwrite=True)
    assert verify(report.archive).whole
    with zipfile.ZipFile(report.archive) as opened:
        attributes = json.loads(opened.read(".zattrs"))
    if recovered:
        with tempfile.TemporaryDirectory() as back:
            code, said = recover(report.archive, Path(back))
            assert code == 0, said
            want = {member.relpath: member.path.read_bytes() for member in row.series.members}
            assert contents(Path(back)) == want
    array = open_array(report.archive)
    # each plane is whole: what its first pixel says
    flat = array.reshape(-1, *array.shape[-2:])
    assert all((each == plane(int(each[0, 0]))).all() for each in flat)
    return Placed(row.series, array, attributes)


def pack_set(path: Path, out: Path, pattern: str | None = None, *, recovered: bool = False) -> Placed:
    """Plan a folder (or a file of a set) as one series, and pack it."""
    (row,) = plan([path], out, series=True, pattern=pattern, estimate=False)
    return pack_row(row, recovered=recovered)


def ome_xml(
    images: Iterable[tuple[str, Mapping[str, int], Iterable[str]]], *, uuid: str = "", inner: str = ""
) -> str:
    """An OME-XML: name, sizes and ``TiffData`` elements of each image.

    Its planes are 6 x 5 pixels of 0.25 micrometres, 2 micrometres apart.
    """
    schema = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
    body = ""
    for number, (name, sizes, data) in enumerate(images):
        listed = " ".join(f'Size{axis}="{extent}"' for axis, extent in sizes.items())
        body += (
            f'<Image ID="Image:{number}" Name="{name}"><Pixels ID="Pixels:{number}" DimensionOrder="XYZCT" '
            f'Type="uint16" SizeX="5" SizeY="6" {listed} PhysicalSizeX="250" PhysicalSizeXUnit="nm" '
            f'PhysicalSizeY="250" PhysicalSizeYUnit="nm" PhysicalSizeZ="2">{inner}{"".join(data)}'
            "</Pixels></Image>"
        )
    root = f'UUID="urn:uuid:{uuid}"' if uuid else ""
    return f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="{schema}" {root}>{body}</OME>'


def described(xml: str) -> dict[int, Any]:
    """Tags of a file with this description."""
    return {270: ascii_tag(xml)}


def tiff_data(name: str, ifd: int, t: int = 0, z: int = 0, c: int = 0, uuid: str = "") -> str:
    """Return a ``TiffData`` element: a plane that is in a directory of a file."""
    return (
        f'<TiffData IFD="{ifd}" PlaneCount="1" FirstT="{t}" FirstZ="{z}" FirstC="{c}">'
        f'<UUID FileName="{name}">urn:uuid:{uuid or name}</UUID></TiffData>'
    )


def with_companion(folder: Path, companion: str = "set.companion.ome") -> tuple[Path, list[Path]]:
    """Write two TIFFs that point to a companion, whose order is not that of the names."""
    names = ["first.ome.tif", "second.ome.tif"]
    data = [tiff_data(names[1 - t], z, t, z, uuid=f"{1 - t}") for t in range(2) for z in range(3)]
    folder.mkdir()
    xml = ome_xml([("x", {"T": 2, "Z": 3, "C": 1}, data)], uuid="companion")
    (folder / companion).write_text(xml)
    files = []
    for k, name in enumerate(names):
        binary = f'<BinaryOnly MetadataFile="{companion}" UUID="urn:uuid:companion"/>'
        head = f'<?xml version="1.0"?><OME xmlns="x" UUID="urn:uuid:{k}">{binary}</OME>'
        files.append(write_planes(folder / name, [10 * k + z + 1 for z in range(3)], described(head)))
    return folder / companion, files
