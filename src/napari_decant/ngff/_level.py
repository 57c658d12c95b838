"""Resolution levels: their arrays, their scales, and where they lie in level 0's index space."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_decant.errors import DecantError, FormatError, UnsafeInput
from napari_decant.ngff._axes import Axis
from napari_decant.ngff._findings import Findings
from napari_decant.ngff._node import Node
from napari_decant.ngff._transforms import (
    ScaleTranslation,
    compose,
    identity,
    parse_transforms,
    reference_map,
    shape_ratio,
)
from napari_decant.ngff._zarr import ArrayMeta, parse_array_meta
from napari_decant.stores import join_key, unsafe_name_reason

__all__ = ["NgffLevel", "build_levels", "check_level_path", "check_strict_levels", "level_metas"]


@dataclass(frozen=True, slots=True)
class NgffLevel:
    """One resolution level.

    Attributes
    ----------
    index : int
        Position in the declared order; 0 is the reference.
    name : str
        Its path as declared, relative to the image.
    path : str
        Path of its array within the store.
    array : ArrayMeta
        Shape, chunks, dtype and codecs of its array.
    scale, translation : tuple of float
        Physical position of voxel centres, ``scale * index + translation``, with the transformations that
        all levels share applied: what a viewer shows.
    dataset_scale, dataset_translation : tuple of float
        The level's own transformations only.
    scale_to_reference, origin_reference_index : tuple of float
        ``reference_corner = scale_to_reference * level_corner + origin_reference_index``, from the level's
        own transformations.
    """

    index: int
    name: str
    path: str
    array: ArrayMeta
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    dataset_scale: tuple[float, ...]
    dataset_translation: tuple[float, ...]
    scale_to_reference: tuple[float, ...]
    origin_reference_index: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Voxels along each axis."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of what is read: native byte order."""
        return self.array.native_dtype


def check_level_path(value: Any, where: str, findings: Findings) -> str:
    """Return a level's path if it is a relative child path.

    Raises
    ------
    FormatError
        It is no text, or empty.
    UnsafeInput
        It leads out of the image.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        findings.tolerate(f"dataset paths of {where} are numbers; they are read as text")
        value = str(value)
    if not isinstance(value, str) or not value:
        raise FormatError(f"a dataset of {where} has no path")
    path = value.removeprefix("./").rstrip("/") or value
    reason = unsafe_name_reason(path)
    if reason is not None:
        raise UnsafeInput(f"the dataset path {value[:200]!r} of {where} {reason}; it is not followed")
    return path


def level_metas(
    group: str, paths: Sequence[str], nodes: dict[str, Node], findings: Findings
) -> list[tuple[int, str, ArrayMeta]]:
    """Read each level's array document; a broken one below level 0 is left out and noted.

    Raises
    ------
    FormatError
        Level 0 has no array.
    DecantError
        Level 0 cannot be read, see `parse_array_meta`.
    """
    found: list[tuple[int, str, ArrayMeta]] = []
    for i, path in enumerate(paths):
        node = nodes.get(join_key(group, path))
        try:
            if node is None or node.array is None:
                raise FormatError(f"level {i} of the image has no array at {path!r}")
            meta = parse_array_meta(node.array, node.zarr_format, where=node.where)
            if found and meta.rank != found[0][2].rank:
                raise FormatError(
                    f"level {i} has {meta.rank} dimensions where level 0 has {found[0][2].rank}"
                )
        except DecantError as error:
            if i == 0:
                raise
            findings.tolerate(f"level {i} is left out: {error}")
            continue
        if node.not_finite:
            findings.warn(f"{node.where} has NaN or Infinity, which JSON has not; it was read all the same")
        found.append((i, path, meta))
    return found


def build_levels(
    group: str,
    metas: Sequence[tuple[int, str, ArrayMeta]],
    datasets: Sequence[dict[str, Any]],
    shared: Any,
    where: str,
    findings: Findings,
) -> tuple[NgffLevel, ...]:
    """Combine arrays and transformations into levels."""
    rank = metas[0][2].rank
    quiet = Findings()  # transformations shared by all levels are no concern of strict queries
    top = parse_transforms(shared, rank, f"all levels of {where}", quiet) or identity(rank)
    for text in quiet.warnings:
        findings.warn(text)
    own: list[ScaleTranslation] = []
    for i, path, meta in metas:
        value = datasets[i].get("coordinateTransformations") if i < len(datasets) else None
        parsed = parse_transforms(value, rank, f"level {path!r} of {where}", findings)
        if parsed is None:
            findings.refuse(f"level {path!r} of {where} has no scale")
            parsed = shape_ratio(meta.shape, metas[0][2].shape)
        own.append(parsed)
    levels = []
    for (i, path, meta), dataset in zip(metas, own, strict=True):
        ratio, origin = reference_map(dataset, own[0])
        levels.append(
            NgffLevel(i, path, join_key(group, path), meta, *compose(top, dataset), *dataset, ratio, origin)
        )
    return tuple(levels)


def check_strict_levels(
    levels: Sequence[NgffLevel], axes: Sequence[Axis], where: str, findings: Findings
) -> None:
    """Note what a spatial query refuses (spatial queries, "NGFF interpretation")."""
    names = tuple(axis.name for axis in axes)
    for level in levels:
        declared = level.array.dimension_names
        if level.array.zarr_format == 3 and declared != names:
            findings.refuse(
                f"level {level.name!r} of {where} has dimension_names {declared}; the axes are {names}"
            )
        if level.dtype != levels[0].dtype:
            findings.tolerate(
                f"level {level.name!r} of {where} has the data type {level.dtype}; level 0 has"
                f" {levels[0].dtype}"
            )
    for fine, coarse in itertools.pairwise(levels):
        pairs = zip(axes, fine.dataset_scale, coarse.dataset_scale, fine.shape, coarse.shape, strict=True)
        moved = (fine.dataset_translation, coarse.dataset_translation)
        for i, (axis, s0, s1, n0, n1) in enumerate(pairs):
            if axis.is_space and (s1 < s0 or n1 > n0):
                findings.refuse(
                    f"level {coarse.name!r} of {where} is finer or larger along {axis.name!r} than the"
                    " level before it"
                )
            elif not axis.is_space and (s1 != s0 or n1 != n0 or moved[0][i] != moved[1][i]):
                findings.refuse(
                    f"level {coarse.name!r} of {where} changes the axis {axis.name!r}, which is not spatial"
                )
