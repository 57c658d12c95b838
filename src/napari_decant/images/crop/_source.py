"""What crops are cut from: levels as queries see them, and where their elements are."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import DecantError, StorageError, UnsupportedOperation, UsageError
from napari_decant.images._affine import recorded_affine
from napari_decant.images._cache import ChunkCache
from napari_decant.images._image import Image
from napari_decant.images._lazy import LazyArray, ZarrSource
from napari_decant.ngff import ArrayMeta, Axis, NgffImage, load_array_meta
from napari_decant.ngff._transforms import reference_map
from napari_decant.stores import open_store

__all__ = ["CropSource", "SourceLevel", "source_of_arrays", "source_of_image"]

_TYPES = {"t": "time", "c": "channel"}
# arrays that several threads may slice at once; anything else, such as netCDF variables, perhaps not
_THREADED = frozenset(["numpy", "dask", "zarr", "napari_decant"])


@dataclass(frozen=True, slots=True, eq=False)
class SourceLevel:
    """One level of a source.

    Attributes
    ----------
    path : str
        Of its array within the store.
    shape : tuple of int
    scale, translation : tuple of float
        Physical position of voxel centres, ``scale * index + translation``.
    scale_to_reference, origin_reference_index : tuple of float
        Map to level 0, see `napari_decant.ngff.NgffLevel`.
    array : ArrayMeta or None
        Metadata of a Zarr array, which is read chunk by chunk.
    data : array-like or None
        Read by slicing where ``array`` is None.
    """

    path: str
    shape: tuple[int, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    scale_to_reference: tuple[float, ...]
    origin_reference_index: tuple[float, ...]
    array: ArrayMeta | None = None
    data: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class CropSource:
    """An image to cut from; spatial queries resolve against it.

    Attributes
    ----------
    uri, name : str
    axes : tuple of Axis
    levels : tuple of SourceLevel
        The reference first.
    dtype : dtype
    is_label : bool
        Values are never interpolated.
    physical : tuple of tuple of float, shape (n, n + 1), or None
        Physical position of level 0's voxel centres along the spatial axes, where it is turned, so that scale
        and translation do not say it.
    strict_error : None
        What cannot be queried makes no source.
    keep : object
        Kept alive with the source: what its arrays need to stay readable.
    lock : context manager
        Held while arrays are sliced that may not be by several threads at once.
    """

    uri: str
    name: str
    axes: tuple[Axis, ...]
    levels: tuple[SourceLevel, ...]
    dtype: np.dtype[Any]
    is_label: bool = False
    physical: tuple[tuple[float, ...], ...] | None = None
    strict_error: str | None = None
    keep: Any = None
    lock: Any = field(default_factory=contextlib.nullcontext)

    @property
    def spatial(self) -> tuple[int, ...]:
        """Positions of the spatial axes."""
        return tuple(i for i, axis in enumerate(self.axes) if axis.type == "space")

    @property
    def planned(self) -> bool:
        """Whether its levels are Zarr arrays, read chunk by chunk by a plan."""
        return all(level.array is not None for level in self.levels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements of level 0."""
        return self.levels[0].shape

    def with_cache(self, nbytes: int) -> CropSource:
        """The same source, where our arrays that are sliced keep so many bytes of chunks of their own."""
        cache = ChunkCache(nbytes)
        levels = tuple(
            replace(level, data=level.data.with_cache(cache)) if isinstance(level.data, LazyArray) else level
            for level in self.levels
        )
        return replace(self, levels=levels)

    def slice_bytes(self, level: int, box: Sequence[tuple[int, int]]) -> int:
        """Memory that slicing a level takes: dask computes every block that a slice touches, whole.

        Parameters
        ----------
        level : int
        box : sequence of (int, int)
            Half-open interval along each axis.
        """
        blocks = getattr(self.levels[level].data, "chunks", None)
        count = math.prod(b - a for a, b in box)
        if isinstance(blocks, tuple) and all(isinstance(sizes, tuple) for sizes in blocks):
            touched = 1
            for (a, b), sizes in zip(box, blocks, strict=True):
                ends = list(itertools.accumulate(sizes))
                first, last = bisect.bisect_right(ends, a), bisect.bisect_left(ends, b)
                touched *= sum(sizes[first : last + 1])
            count += touched
        return int(count) * self.dtype.itemsize

    def read_slice(self, level: int, box: Sequence[tuple[int, int]]) -> NDArray[Any]:
        """Slice a level that is no Zarr array.

        Raises
        ------
        StorageError
            The array fails, or gives something else than was asked for.
        """
        where = ", ".join(f"{a}:{b}" for a, b in box)
        try:
            with self.lock:
                block = np.asarray(self.levels[level].data[tuple(slice(a, b) for a, b in box)])
        except (DecantError, MemoryError):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:200]}"
            raise StorageError(f"{self.name} cannot be read at [{where}]: {text}") from error
        if block.shape != tuple(b - a for a, b in box):
            raise StorageError(f"{self.name} gave the shape {block.shape} at [{where}]")
        return block.astype(self.dtype, copy=False)


def source_of_image(image: Image) -> CropSource:
    """Make a source of an opened image.

    OME-Zarr is read through the planner, with the levels and axes as declared; an image that breaks the rules
    of spatial queries is taken as a viewer shows it.

    Raises
    ------
    UnsupportedOperation
        It has not two or three spatial axes.
    """
    ngff = image.ngff
    if ngff is not None and ngff.strict_error is None:
        return _checked(_strict(image, ngff))
    metas = _declared(image)
    scales, shifts = image.scales, image.translations
    if not all(math.isfinite(s) and s > 0 for scale in scales for s in scale):
        scales = tuple((1.0,) * len(image.axes) for _ in scales)
        shifts = tuple((0.0,) * len(image.axes) for _ in scales)
        maps = [_nominal(level.shape, image.shape) for level in image.levels]
    else:
        maps = [reference_map((s, t), (scales[0], shifts[0])) for s, t in zip(scales, shifts, strict=True)]
    levels = tuple(
        SourceLevel(path, level.shape, s, t, *places, meta, level)
        for (path, meta), level, s, t, places in zip(metas, image.levels, scales, shifts, maps, strict=True)
    )
    turned = _turned(image.decant, image.axes, scales[0], shifts[0])
    uri = image.uri if ngff is None else ngff.uri
    return _checked(
        CropSource(uri, image.name, image.axes, levels, image.dtype, image.is_labels, turned, keep=image)
    )


def _declared(image: Image) -> list[tuple[str, ArrayMeta | None]]:
    """Path and metadata of each level that is a whole Zarr array, as it is stored; else no metadata."""
    found: list[tuple[str, ArrayMeta | None]] = []
    for level in image.levels:
        source = level.source
        array = source.array if isinstance(source, ZarrSource) else None
        if array is None or image.ngff is None or image.axes != image.ngff.axes:
            return [(str(i), None) for i in range(len(image.levels))]
        if array.meta.native_dtype != image.dtype or array.meta.shape != level.shape:
            return [(str(i), None) for i in range(len(image.levels))]
        found.append((array.path, array.meta))
    return found


def _strict(image: Image, ngff: NgffImage) -> CropSource:
    levels = tuple(
        SourceLevel(
            level.path,
            level.shape,
            level.scale,
            level.translation,
            level.scale_to_reference,
            level.origin_reference_index,
            level.array,
        )
        for level in ngff.levels
    )
    dtype = ngff.levels[0].dtype
    turned = _turned(ngff.decant, ngff.axes, ngff.levels[0].scale, ngff.levels[0].translation)
    return CropSource(ngff.uri, image.name, ngff.axes, levels, dtype, image.is_labels, turned, keep=image)


def _turned(
    decant: Mapping[str, Any], axes: Sequence[Axis], scale: Sequence[float], translation: Sequence[float]
) -> tuple[tuple[float, ...], ...] | None:
    """The recorded map of an image that is turned."""
    record = recorded_affine(decant, [axis.name for axis in axes])
    spatial = [i for i, axis in enumerate(axes) if axis.type == "space"]
    if record is None or not set(record["axes"]) <= set(spatial):
        return None
    whole = np.column_stack([np.diag(scale), translation])
    at = record["axes"]
    whole[np.ix_(at, at)] = record["matrix"][:, :-1]
    whole[at, -1] = record["matrix"][:, -1]
    kept = whole[np.ix_(spatial, [*spatial, len(axes)])]
    return tuple(tuple(map(float, row)) for row in kept)


def source_of_arrays(
    levels: Sequence[Any],
    axes: str | Sequence[Axis],
    *,
    scale: Sequence[float] | None = None,
    translation: Sequence[float] | None = None,
    name: str = "array",
    is_label: bool = False,
) -> CropSource:
    """Make a source of arrays: numpy, dask, zarr, anything with ``shape``, ``dtype`` and slicing.

    Zarr arrays on a disk are read through the planner, everything else by slices.

    Parameters
    ----------
    levels : sequence of array
        Finest first. A coarser level covers the same area: its voxels are blocks of level 0's.
    axes : str or sequence of Axis
        One per dimension; of names, ``t`` is time, ``c`` channels, anything else space.
    scale, translation : sequence of float, optional
        Physical position of level 0's voxel centres.
    name : str
    is_label : bool

    Raises
    ------
    UsageError
        Axes and arrays do not fit together.
    UnsupportedOperation
        Not two or three axes are spatial.
    """
    named = tuple(Axis(n, _TYPES.get(n, "space")) for n in axes) if isinstance(axes, str) else tuple(axes)
    shapes = [tuple(int(n) for n in level.shape) for level in levels]
    if not shapes or any(len(shape) != len(named) for shape in shapes):
        raise UsageError(f"{len(named)} axes were named for arrays of the shapes {shapes}")
    if any(min(shape, default=1) < 1 for shape in shapes):
        raise UnsupportedOperation(f"{name} has the shape {shapes[0]}: there is nothing to cut out")
    s0 = tuple(map(float, scale)) if scale is not None else (1.0,) * len(named)
    t0 = tuple(map(float, translation)) if translation is not None else (0.0,) * len(named)
    if len(s0) != len(named) or len(t0) != len(named):
        raise UsageError(f"scale and translation of {name} need {len(named)} numbers, one for each axis")
    metas = _stored(levels)
    uri = metas[0][0] if metas else f"array://{name}"
    made = []
    for number, (level, shape) in enumerate(zip(levels, shapes, strict=True)):
        ratio, origin = _nominal(shape, shapes[0])
        made.append(
            SourceLevel(
                metas[number][1] if metas else str(number),
                shape,
                tuple(s * r for s, r in zip(s0, ratio, strict=True)),
                tuple(t + s * (r - 1) / 2 for t, s, r in zip(t0, s0, ratio, strict=True)),
                ratio,
                origin,
                metas[number][2] if metas else None,
                level,
            )
        )
    dtype = np.dtype(levels[0].dtype).newbyteorder("=")
    shared = all(type(level).__module__.partition(".")[0] in _THREADED for level in levels)
    lock = contextlib.nullcontext() if shared else threading.Lock()
    source = CropSource(uri, name, named, tuple(made), dtype, is_label, keep=tuple(levels), lock=lock)
    return _checked(source)


def _nominal(shape: Sequence[int], reference: Sequence[int]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Map to level 0 by the sizes alone: whole factors where they explain the size, corners on corners."""
    ratios = []
    for n, n0 in zip(shape, reference, strict=True):
        factor = max(1, round(n0 / n))
        fits = n in (-(-n0 // factor), n0 // factor)
        ratios.append(float(factor) if fits else n0 / n)
    return tuple(ratios), (0.0,) * len(ratios)


def _stored(levels: Sequence[Any]) -> list[tuple[str, str, ArrayMeta]]:
    """Location, path and metadata of zarr-python's arrays in one folder or file; empty for anything else."""
    found: list[tuple[str, str, ArrayMeta]] = []
    for level in levels:
        root = getattr(getattr(level, "store", None), "root", None)
        path = getattr(level, "path", None)
        if not type(level).__module__.startswith("zarr.") or root is None or not isinstance(path, str):
            return []
        try:
            with open_store(str(root)) as store:
                meta = load_array_meta(store, path)
                found.append((store.uri, path, meta))
        except DecantError:  # what our reader does not read, zarr-python may: it is sliced instead
            return []
    same = len({uri for uri, _, _ in found}) == 1
    kinds = {meta.native_dtype for _, _, meta in found}
    return found if same and len(kinds) == 1 else []


def _checked(source: CropSource) -> CropSource:
    if len(source.spatial) not in (2, 3):
        raise UnsupportedOperation(
            f"{source.name} has {len(source.spatial)} spatial axes; a region needs two or three"
        )
    return source
