"""Writes archives from the format document alone, in every form that the document allows a writer.

Nothing here comes from the package: what these archives look like is what another program may have written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numpy as np
import zarr
import zarr.storage

from .tiffspec import Page, WrittenTiff

__all__ = [
    "CODECS",
    "ArchiveStyle",
    "nest",
    "write_byte_exact",
    "write_nested",
    "write_series",
    "write_verbatim",
]

CODECS: dict[str, dict[str, Any] | None] = {
    "blosc-zstd": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1},
    "blosc-lz4": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2},
    "zstd": {"id": "zstd", "level": 3},
    "lz4": {"id": "lz4"},
    "zlib": {"id": "zlib", "level": 1},
    "gzip": {"id": "gzip", "level": 1},
    "none": None,
}


@dataclass(frozen=True)
class ArchiveStyle:
    """What the document leaves to the writer."""

    zipped: bool = True
    codec: str = "blosc-zstd"
    separator: Literal["/", "."] = "/"
    byteorder: Literal["<", ">"] = "<"
    axes: tuple[tuple[str, int], ...] | None = None
    """Name and size of the leading axes in the file's order; None: one z axis for all pages."""
    plane_order: Literal["full", "empty", "absent"] = "full"
    levels: bool = False
    """Add a level 1, which no restore may read: it is noise."""
    chunk: int = 1000
    """Chunk length of husk and original, in bytes."""
    consolidated: bool = False
    """Write ``.zmetadata``."""
    version: int = 1


def write_byte_exact(path: Path, tiff: WrittenTiff, style: ArchiveStyle | None = None) -> Path:
    """Write an archive of one file in mode byte-exact."""
    style = style or ArchiveStyle()
    data = tiff.path.read_bytes()
    with _Archive(path, style) as archive:
        _pixels(archive, tiff.array, style)
        husk = _husk(data, tiff.pages)
        archive.array("husk", np.frombuffer(husk, np.uint8), (style.chunk,))
        archive.manifest(
            _facts("byte-exact", tiff.path.name, data)
            | {
                "byteorder": tiff.spec.byteorder,
                "pages": [_page(page, page.index) for page in tiff.pages],
                "husk_raw_size": len(husk),
            }
            | _plane_order(style)
        )
    return path


def write_verbatim(path: Path, name: str, data: bytes, style: ArchiveStyle | None = None) -> Path:
    """Write an archive of any bytes in mode verbatim."""
    style = style or ArchiveStyle()
    with _Archive(path, style) as archive:
        archive.array("original", np.frombuffer(data, np.uint8), (style.chunk,))
        archive.manifest(
            _facts("verbatim", name, data)
            | {"byteorder": "<", "pages": [], "husk_raw_size": 0}
            | _plane_order(style)
        )
    return path


def write_series(
    path: Path, members: Sequence[tuple[str, WrittenTiff | bytes]], style: ArchiveStyle | None = None
) -> Path:
    """Write a consolidated series; members that are bytes have no pages, and a husk that is the whole."""
    style = style or ArchiveStyle()
    arrays, records, first = [], [], 0
    with _Archive(path, style) as archive:
        for number, (relpath, member) in enumerate(members):
            data = member if isinstance(member, bytes) else member.path.read_bytes()
            pages = () if isinstance(member, bytes) else member.pages
            husk = _husk(data, pages)
            archive.array(f"husk_{number}", np.frombuffer(husk, np.uint8), (style.chunk,))
            records.append(
                {
                    "relpath": relpath,
                    "original_size": len(data),
                    "original_sha256": hashlib.sha256(data).hexdigest(),
                    "byteorder": "<" if isinstance(member, bytes) else member.spec.byteorder,
                    "husk_array": f"husk_{number}",
                    "husk_raw_size": len(husk),
                    "pages": [_page(page, first + page.index) for page in pages],
                    "subarchive": "",
                }
            )
            first += len(pages)
            if not isinstance(member, bytes):
                arrays.append(member.array)
        _pixels(archive, np.concatenate(arrays), style)
        archive.manifest(
            _facts("series", path.name, b"")
            | {"original_sha256": "", "members": records, "series_consolidated": True}
            | _plane_order(style)
        )
    return path


def write_nested(
    path: Path, members: Sequence[tuple[str, WrittenTiff | bytes]], style: ArchiveStyle | None = None
) -> Path:
    """Write a nested series, a folder with one archive for each member."""
    style = style or ArchiveStyle()
    records = []
    path.mkdir()
    for number, (relpath, member) in enumerate(members):
        inner = path / f"m{number}.zarr.zip"
        data = member if isinstance(member, bytes) else member.path.read_bytes()
        if isinstance(member, bytes) or not member.pages:
            write_verbatim(inner, relpath.rpartition("/")[2], data, style)
        else:
            write_byte_exact(inner, member, style)
        records.append(
            {
                "relpath": relpath,
                "original_size": len(data),
                "original_sha256": hashlib.sha256(data).hexdigest(),
                "byteorder": "<",
                "husk_array": "",
                "husk_raw_size": 0,
                "pages": [],
                "subarchive": inner.name,
            }
        )
    manifest = _facts("series", path.name, b"") | {
        "format": style.version,
        "original_sha256": "",
        "members": records,
        "series_consolidated": False,
        "plane_order": [],
    }
    (path / ".decant").mkdir()
    (path / ".decant" / "manifest.json").write_text(json.dumps(manifest))
    return path


def nest(path: Path, archives: dict[str, Path]) -> Path:
    """Make a nested series of finished archives, so that one run of a reader covers them all."""
    path.mkdir()
    records = []
    for number, (relpath, archive) in enumerate(archives.items()):
        shutil.copy(archive, path / f"m{number}.zarr.zip")
        with zipfile.ZipFile(archive) as opened:
            inner = json.loads(opened.read(".decant/manifest.json"))
        records.append(
            {key: inner[key] for key in ("original_size", "original_sha256", "byteorder")}
            | {"relpath": relpath, "subarchive": f"m{number}.zarr.zip", "pages": []}
        )
    manifest = _facts("series", path.name, b"") | {"format": 1, "original_sha256": "", "members": records}
    (path / ".decant").mkdir()
    (path / ".decant" / "manifest.json").write_text(json.dumps(manifest))
    return path


class _Archive:
    """Write keys into a folder, and make a zip of stored entries of it at the end."""

    def __init__(self, path: Path, style: ArchiveStyle) -> None:
        self.path, self.style = path, style
        self.folder = path.with_name(path.name + ".unpacked") if style.zipped else path

    def __enter__(self) -> _Archive:
        self.group = zarr.create_group(zarr.storage.LocalStore(self.folder), zarr_format=2)
        return self

    def array(self, name: str, values: np.ndarray[Any, Any], chunks: tuple[int, ...]) -> None:
        config = CODECS[self.style.codec]
        order = self.style.byteorder if values.dtype.itemsize > 1 else "|"
        made = self.group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype.newbyteorder(order),
            chunks=tuple(max(1, min(one, whole)) for one, whole in zip(chunks, values.shape, strict=True)),
            compressors=numcodecs.get_codec(dict(config)) if config else None,
            filters=None,
            fill_value=0,
            order="C",
            chunk_key_encoding={"name": "v2", "separator": self.style.separator},
        )
        if values.size:
            made[...] = values

    def manifest(self, fields: dict[str, Any]) -> None:
        if self.style.consolidated:  # before .decant is there, which zarr would warn about
            zarr.consolidate_metadata(zarr.storage.LocalStore(self.folder), zarr_format=2)
        target = self.folder / ".decant" / "manifest.json"
        target.parent.mkdir()
        target.write_text(json.dumps(fields | {"format": self.style.version}))

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None:
            return
        if not self.style.zipped:
            return
        with zipfile.ZipFile(self.path, "x", zipfile.ZIP_STORED) as archive:
            for file in sorted(self.folder.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(self.folder).as_posix())
        shutil.rmtree(self.folder)


def _pixels(archive: _Archive, planes: np.ndarray[Any, Any], style: ArchiveStyle) -> None:
    """Put the planes, which come in the file's order, where the canonical order wants them."""
    axes = style.axes or (("z", len(planes)),)
    names = [name for name, _ in axes]
    kinds = ["time" if name == "t" else "space" if name in "zyx" else "channel" for name in names]
    order = sorted(range(len(names)), key=lambda n: ["time", "channel", "space"].index(kinds[n]))
    page = planes.shape[1:]
    stored = planes.reshape(*(size for _, size in axes), *page)
    canonical = stored.transpose(*order, *range(len(order), len(order) + len(page)))
    archive.array("0", canonical, (*(1 for _ in order), *page))
    if style.levels:
        half = canonical[..., ::2, ::2] if len(page) == 2 else canonical[..., ::2, ::2, :]
        noise = np.random.default_rng(0).integers(0, 256, half.nbytes, np.uint8).view(half.dtype)
        archive.array("1", noise.reshape(half.shape), (*(1 for _ in order), *half.shape[len(order) :]))
    last = [("y", "space"), ("x", "space")] + [("c", "channel")] * (len(page) - 2)
    both = [(names[n], kinds[n]) for n in order] + last
    datasets = [
        {"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": [1.0] * len(both)}]}
        for level in range(1 + style.levels)
    ]
    attributes: dict[str, Any] = {
        "multiscales": [
            {
                "version": "0.4",
                "axes": [{"name": name, "type": kind} for name, kind in both],
                "datasets": datasets,
            }
        ],
        "decant": {"pixels": "0"},
    }
    archive.group.attrs.update(attributes)


def _plane_order(style: ArchiveStyle) -> dict[str, list[str]]:
    if style.plane_order == "absent":
        return {}
    return {
        "plane_order": [] if style.plane_order == "empty" else [name for name, _ in style.axes or (("z", 0),)]
    }


def _facts(mode: str, name: str, data: bytes) -> dict[str, Any]:
    return {
        "decant_version": "written by a test",
        "mode": mode,
        "original_name": name,
        "original_size": len(data),
        "original_sha256": hashlib.sha256(data).hexdigest(),
        "byteorder": "<",
        "pixel_codec": "see .zarray",
        "pages": [],
        "husk_raw_size": 0,
        "notes": "",
        "members": [],
        "series_consolidated": False,
    }


def _page(page: Page, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "shape": list(page.shape),
        "dtype": page.dtype,
        "dataoffsets": page.dataoffsets.tolist(),
        "databytecounts": page.databytecounts.tolist(),
        "samplesperpixel": page.samplesperpixel,
        "planarconfig": page.planarconfig,
        "predictor": 1,
        "rowsperstrip": page.rowsperstrip,
        "tilewidth": page.tilewidth,
        "tilelength": page.tilelength,
    }


def _husk(data: bytes, pages: Iterable[Page]) -> bytes:
    """Return the complement of the pixel regions."""
    keep = np.ones(len(data), bool)
    for page in pages:
        for offset, count in zip(page.dataoffsets.tolist(), page.databytecounts.tolist(), strict=True):
            keep[offset : offset + count] = False
    return np.frombuffer(data, np.uint8)[keep].tobytes()
