"""What is to be written, and what that will take: known before a pixel is read."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_decant.errors import UnsupportedOperation, UsageError
from napari_decant.images._pyramid import Method
from napari_decant.images._write_image import AXIS_TYPES, ImageToWrite, parse_axes, place_axes
from napari_decant.images._write_zarr_layout import AXES, ArrayLayout, plan_levels
from napari_decant.images._write_zarr_source import VolumeSource
from napari_decant.images._write_zarr_tile_choice import TileChoice, choose_tile
from napari_decant.ngff import Axis
from napari_decant.stores import unsafe_name_reason

__all__ = [
    "PlannedImage",
    "WritePlan",
    "plan_ome_zarr",
    "worker_count",
]

WRITABLE = frozenset(
    [
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
    ]
)


@dataclass(frozen=True, eq=False)
class PlannedImage:
    """One image with everything that was decided about it.

    Attributes
    ----------
    path : str
        Of its group.
    image : ImageToWrite
    source : VolumeSource
    axes : tuple of Axis
        t, c, z, y, x with their units.
    layout : ArrayLayout
    choice : TileChoice
    dtype : dtype
    method : {"mean", "max"}
    """

    path: str
    image: ImageToWrite
    source: VolumeSource
    axes: tuple[Axis, ...]
    layout: ArrayLayout
    choice: TileChoice
    dtype: np.dtype[Any]
    method: Method

    @property
    def level_bytes(self) -> list[int]:
        """Bytes of the voxels of every level."""
        return [math.prod(level.shape) * self.layout.itemsize for level in self.layout.levels]

    @property
    def shards(self) -> int:
        """Files that hold its voxels."""
        return sum(math.prod(level.shard_grid) for level in self.layout.levels)

    def identity(self) -> dict[str, Any]:
        """What must be the same for an interrupted run to be taken up."""
        return {
            "source": self.image.identity or f"no identity {os.urandom(8).hex()}",
            "dtype": self.dtype.name,
            "levels": [
                [list(v.shape), list(v.chunk), list(v.shard), list(v.scale), list(v.translation)]
                for v in self.layout.levels
            ],
            "method": self.method,
        }


@dataclass(frozen=True, eq=False)
class WritePlan:
    """Everything that will be written, and what it takes.

    Attributes
    ----------
    target : Path
    images : tuple of PlannedImage
        Labels included.
    groups : dict of str to dict
        OME attributes of other groups, by path.
    """

    target: Path
    images: tuple[PlannedImage, ...]
    groups: dict[str, dict[str, Any]]

    @property
    def raw_bytes(self) -> int:
        """Bytes of all voxels, levels included."""
        return sum(sum(image.level_bytes) for image in self.images)

    @property
    def memory(self) -> int:
        """Resident bytes of the program at most."""
        return max(image.choice.memory for image in self.images)

    @property
    def passes(self) -> float:
        """How often each byte of the sources is decoded, on average."""
        weights = [image.level_bytes[0] for image in self.images]
        rates = [image.choice.passes for image in self.images]
        return sum(w * r for w, r in zip(weights, rates, strict=True)) / sum(weights)

    @property
    def shards(self) -> int:
        """Files that hold voxels."""
        return sum(image.shards for image in self.images)

    def describe(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "target": str(self.target),
            "raw_bytes": self.raw_bytes,
            "memory": self.memory,
            "passes": round(self.passes, 3),
            "shards": self.shards,
            "images": [
                {
                    "path": image.path,
                    "name": image.image.name,
                    "dtype": image.dtype.name,
                    "method": image.method,
                    "tile": list(image.choice.tile),
                    "passes": round(image.choice.passes, 3),
                    "levels": [
                        {"shape": list(v.shape), "chunk": list(v.chunk), "shard": list(v.shard)}
                        for v in image.layout.levels
                    ],
                }
                for image in self.images
            ],
        }

    def sentence(self) -> str:
        """The plan in one line."""
        count = len(self.images)
        what = (
            f"{count:,} images" if count > 1 else " x ".join(map(str, self.images[0].layout.levels[0].shape))
        )
        times = "once" if self.passes < 1.05 else f"{self.passes:.1f} times on average"
        return (
            f"{what}: {self.raw_bytes / 1e9:,.2f} GB of voxels with all levels in {self.shards:,} shards, at"
            f" most {self.memory / 1e9:.2f} GB of memory; each source chunk is decoded {times}"
        )


def plan_ome_zarr(
    target: str | os.PathLike[str],
    images: ImageToWrite | Mapping[str, ImageToWrite],
    *,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    memory: int | None = None,
    workers: int | None = None,
) -> WritePlan:
    """Decide chunks, shards, levels and tiles of what is to be written; nothing is read or written.

    Parameters
    ----------
    target : str or path
        A folder (``.zarr``) or a single file (``.ozx``).
    images : ImageToWrite or mapping of str to ImageToWrite
        One image at the root of the store, or several by path.
    groups : mapping of str to mapping, optional
        OME attributes of other groups by path, a plate and its wells for instance.
    memory : int, optional
        Resident bytes of the whole program; 2 GiB by default.
    workers : int, optional
        Threads; one a core by default.

    Returns
    -------
    WritePlan

    Raises
    ------
    BudgetExceeded
        ``memory`` does not suffice.
    UnsupportedOperation
        Axes or data type cannot be written.
    UsageError
        A path would leave the store, or the name of the target says nothing.
    """
    path = Path(os.path.abspath(target))
    if path.suffix.lower() not in (".zarr", ".ozx"):
        raise UsageError(
            f"the name {path.name!r} ends neither with .zarr (a folder) nor with .ozx (one file)"
        )
    flat: dict[str, ImageToWrite] = {}
    for where, image in ({"": images} if isinstance(images, ImageToWrite) else images).items():
        flat[where] = image
        flat |= {f"{where}/labels/{name}".lstrip("/"): label for name, label in image.labels.items()}
    for where in (*flat, *(groups or ())):
        reason = _unwritable_reason(where) if where else None
        if reason is not None:
            raise UsageError(f"the path {where[:80]!r} {reason}; it cannot be written")
    if not flat:
        raise UsageError("no image was given to write")
    count = worker_count(workers)
    planned = tuple(_plan_image(where, image, memory, count) for where, image in flat.items())
    return WritePlan(path, planned, {k: dict(v) for k, v in (groups or {}).items()})


def _unwritable_reason(path: str) -> str | None:
    """Why a group cannot have this path, or None if it can."""
    if "zarr.json" in path.split("/"):
        return "has the name of a metadata file in it"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "has half of a character"
    return unsafe_name_reason(path)


def worker_count(workers: int | None) -> int:
    """Threads to use."""
    if workers is not None:
        if workers < 1:
            raise UsageError(f"{workers} workers cannot do anything; ask for at least 1")
        return workers
    if hasattr(os, "sched_getaffinity"):  # a cluster job may own only some of the machine's cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _plan_image(path: str, image: ImageToWrite, memory: int | None, workers: int) -> PlannedImage:
    axes = parse_axes(image.axes)
    # by name, because numpy has two types of 64 bits of which zarr knows one
    dtype = np.dtype(np.dtype(image.dtype or image.array.dtype).name)
    convert = image.convert
    if dtype.kind == "b":
        dtype = np.dtype(np.uint8)
    if dtype.name not in WRITABLE:
        raise UnsupportedOperation(
            f"{image.name!r} has values of type {dtype}; only real numbers are written"
        )
    source = VolumeSource(image.array, axes, dtype=dtype, convert=convert)
    scale, translation, units = place_axes(image, axes)
    layout = plan_levels(
        source.shape, dtype.itemsize, scale=scale, translation=translation, levels=image.levels
    )
    choice = choose_tile(layout, source, workers=workers, memory=memory)
    source.set_cache(choice.cache_bytes)
    method: Method = "max" if image.label is not None else "mean"
    full = tuple(Axis(n, AXIS_TYPES[n], unit) for n, unit in zip(AXES, units, strict=True))
    return PlannedImage(path, image, source, full, layout, choice, dtype, method)
