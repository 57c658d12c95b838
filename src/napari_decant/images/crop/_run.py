"""`crop`: cut a region out of an image, into memory or into a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_decant.errors import BudgetExceeded
from napari_decant.images._affine import Placement
from napari_decant.images._identity import image_identity
from napari_decant.images._image import Image
from napari_decant.images._open import open_image
from napari_decant.images.crop._array import CropArray
from napari_decant.images.crop._cutter import Cutter
from napari_decant.images.crop._facts import CropFacts, measure_crop
from napari_decant.images.crop._placement import placement_of
from napari_decant.images.crop._region import WorldMap
from napari_decant.images.crop._saved import SavedQuery
from napari_decant.images.crop._source import CropSource, source_of_image
from napari_decant.images.crop._write import Written, check_target, refuse_source, write_crop
from napari_decant.ngff import Channel
from napari_decant.progress import CancelToken, ProgressCallback, ignore_progress
from napari_decant.spatial import SizedQuery, SpatialResolution
from napari_decant.stores import Store

__all__ = ["CropReport", "channels_of", "crop", "plan_crop"]

_MEMORY: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class CropReport:
    """What was cut.

    Attributes
    ----------
    source : str
        Name of the image.
    facts : CropFacts
    placement : Placement
        Where the crop lies, in the physical units of the image.
    query : SavedQuery
    array : array or None
        The crop, if it was not written.
    target : Path or None
    size : int
        Bytes of the file.
    seconds : float
    """

    source: str
    facts: CropFacts
    placement: Placement
    query: SavedQuery
    array: NDArray[Any] | None = None
    target: Path | None = None
    size: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, without the array."""
        return {
            "source": self.source,
            "target": str(self.target) if self.target is not None else None,
            "size": self.size,
            "seconds": round(self.seconds, 3),
            "facts": self.facts.to_json(),
            "affine": self.placement.matrix.tolist(),
            "query": self.query.to_json(),
        }


def channels_of(image: Image, resolution: SpatialResolution, source: CropSource) -> tuple[Channel, ...]:
    """The channels that a crop has, as far as they are known."""
    axis = next((i for i, a in enumerate(source.axes) if a.type == "channel"), None)
    if axis is None:
        return image.channels[:1]
    first = resolution.source_bounds_index[axis][0] + resolution.grid_start[axis]
    return image.channels[first : first + resolution.shape[axis]]


def plan_crop(
    image: Image | str | os.PathLike[str] | Store,
    query: SavedQuery | SizedQuery,
    *,
    which: str | None = None,
    index: Mapping[str, tuple[int, int]] | None = None,
    dtype: DTypeLike | None = None,
    device: str = "auto",
    memory: int | None = None,
) -> CropReport:
    """Say what `crop` would do; reads no pixels. See there."""
    opened, owned = _open(image, which)
    try:
        source = source_of_image(opened)
        sized, saved, kind = _fit(source, query, index, dtype)
        resolution = sized.resolve(source)
        with Cutter(memory or _MEMORY, device=device) as cutter:
            facts = measure_crop(cutter, source, resolution, kind)
        placement = placement_of(source, resolution, WorldMap.physical(source))
        return CropReport(opened.name, facts, placement, saved)
    finally:
        if owned:
            opened.close()


def crop(
    image: Image | str | os.PathLike[str] | Store,
    query: SavedQuery | SizedQuery,
    output: str | os.PathLike[str] | None = None,
    *,
    which: str | None = None,
    index: Mapping[str, tuple[int, int]] | None = None,
    dtype: DTypeLike | None = None,
    device: str = "auto",
    memory: int | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    verify: bool = True,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> CropReport:
    """Cut a region out of an image at the right level, straight or turned.

    Parameters
    ----------
    image : Image, str, path or Store
        Opened, or see `napari_decant.images.open_image`.
    query : SavedQuery or SizedQuery
        What to cut out: from `napari_decant.spatial` (`reference_crop`, `physical_crop`, `rotated_crop`, ...)
        or from a file.
    output : str or path, optional
        Write an OME-Zarr 0.5 image (``.zarr`` or ``.ozx``) or OME-TIFF (``.tif``) with a pyramid, of any
        size, instead of returning an array. It appears as a whole or not at all.
    which : str, optional
        One of several images of a store.
    index : mapping, optional
        ``(start, stop)`` of axes that a `SavedQuery` does not have.
    dtype : dtype, optional
        Values are rounded half to even and clamped; that of the query, else of the image, if not given.
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` takes a GPU where it can be used; the facts of the report say what was used and why.
    memory : int, optional
        Bytes; 2 GiB by default.
    workers : int, optional
        Threads; one a core by default.
    overwrite : bool
    verify : bool
        Read a written file back and compare.
    progress : callable, optional
    cancel : CancelToken, optional

    Returns
    -------
    CropReport

    Raises
    ------
    UsageError
        The query does not fit the image, or reaches beyond it with the boundary ``"error"``; or the output
        would replace the image.
    UnsupportedOperation
        The image cannot be queried, or the device not used.
    BudgetExceeded
        ``memory`` does not suffice.
    TargetExists, StorageError
        The output.
    Cancelled
        The token was set; nothing is left.
    """
    begun = time.monotonic()
    target = check_target(output) if output is not None else None
    opened, owned = _open(image, which)
    limit = memory or _MEMORY
    try:
        if target is not None:
            refuse_source(target, opened.uri)
        source = source_of_image(opened)
        sized, saved, kind = _fit(source, query, index, dtype)
        resolution = sized.resolve(source)
        placement = placement_of(source, resolution, WorldMap.physical(source))
        # where a file is written, the writer holds most of the memory
        share = limit if target is None else _share(source, resolution, limit)
        kept = 0 if source.planned else share // 4  # decoded chunks of arrays that are sliced
        source = source.with_cache(kept)
        with Cutter(share - kept, device=device, workers=workers) as cutter:
            facts = measure_crop(cutter, source, resolution, kind)
            array = CropArray(source, resolution, cutter, kind, cancel)
            made, size = None, 0
            if target is None:
                made = array.read(progress)
            else:
                described = Written(
                    f"{opened.name} crop",
                    source.axes,
                    placement,
                    channels_of(opened, resolution, source),
                    opened.is_rgb,
                    opened.label,
                    saved,
                    opened.name,
                    identity=_identity(opened, saved),
                )
                size = write_crop(
                    target,
                    array,
                    described,
                    memory=limit - share,
                    workers=workers,
                    overwrite=overwrite,
                    verify=verify,
                    progress=progress,
                    cancel=cancel,
                )
            facts = replace(facts, warnings=cutter.troubles)
            taken = time.monotonic() - begun
            return CropReport(opened.name, facts, placement, saved, made, target, size, taken)
    except BudgetExceeded as error:
        if error.knob in ("memory", "max_memory_bytes"):  # of a part of it; the user gave the whole
            raise BudgetExceeded("memory", error.need + limit - error.limit, limit, error.what) from error
        raise
    finally:
        if owned:
            opened.close()


def _share(source: CropSource, resolution: SpatialResolution, limit: int) -> int:
    """Memory for cutting where a file is written: a quarter, or more where chunks are large."""
    meta = source.levels[resolution.level].array
    chunks = 6 * meta.chunk_nbytes if meta is not None else 0
    return max(limit // 4, 64 << 20, min(limit // 2, chunks))


def _open(image: Image | str | os.PathLike[str] | Store, which: str | None) -> tuple[Image, bool]:
    if isinstance(image, Image):
        return image, False
    return open_image(image, image=which), True


def _identity(image: Image, saved: SavedQuery) -> str | None:
    if image.uri.startswith("memory:"):  # gone with this program
        return None
    return f"{image_identity(image.uri, image)} {json.dumps(saved.to_json())}"


def _fit(
    source: CropSource,
    query: SavedQuery | SizedQuery,
    index: Mapping[str, tuple[int, int]] | None,
    dtype: DTypeLike | None,
) -> tuple[SizedQuery, SavedQuery, np.dtype[Any]]:
    """The query for all axes, what is kept of it, and the element type."""
    if isinstance(query, SavedQuery):
        sized, own = query.fit(source, index), query.dtype
    else:
        sized, own = query, None
    kind = Cutter.dtype_of(source, dtype if dtype is not None else own)
    return sized, SavedQuery.of(sized, source, kind.name), kind
