"""Queries in files: what to cut out, for any number of images, again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from napari_decant.engine import BatchSpec
from napari_decant.errors import FormatError, UsageError
from napari_decant.images.crop._source import CropSource
from napari_decant.ngff._zarr_json import load_json, take
from napari_decant.spatial import Sampler, SizedQuery, SpatialQuery
from napari_decant.stores._atomic import AtomicFile, storage_error

__all__ = ["SavedQuery"]

_MAX_BYTES: Final = 1 << 20
_MAX_RANK: Final = 32


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A query with its output shape and element type.

    As JSON it is ``{"output_to_reference": rows, "shape": [...], "level": "auto" or a number, "sampler":
    {"filter": ..., "boundary": ..., "constant_value": ...}}``, with ``"dtype"`` and ``"axes"`` where they are
    known; other fields are ignored. Coordinates are corners in indices of level 0.

    Attributes
    ----------
    query : SpatialQuery
    shape : tuple of int
    dtype : str or None
        Name of a numpy type; the image's own if None.
    axes : tuple of str
        Names of the axes, or empty.

    Raises
    ------
    UsageError
        The numbers do not fit together.
    """

    query: SpatialQuery
    shape: tuple[int, ...]
    dtype: str | None = None
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rank = self.query.rank
        if len(self.shape) != rank or (self.axes and len(self.axes) != rank):
            raise UsageError(
                f"the query has rank {rank}, its shape {len(self.shape)} numbers and its axes"
                f" {len(self.axes)} names"
            )
        if self.dtype is not None:
            object.__setattr__(self, "dtype", np.dtype(BatchSpec(1, (1,), self.dtype).dtype).name)

    @staticmethod
    def of(
        sized: SizedQuery, source: CropSource, dtype: str | None = None, *, spatial_only: bool = False
    ) -> SavedQuery:
        """Keep a query that was made for a source; of its spatial axes alone it fits more images."""
        kept = list(source.spatial) if spatial_only else list(range(len(source.axes)))
        matrix = np.asarray(sized.query.output_to_reference)[np.ix_(kept, [*kept, len(source.axes)])]
        query = SpatialQuery(matrix, sized.query.sampler, sized.query.level)
        names = tuple(source.axes[i].name for i in kept)
        return SavedQuery(query, tuple(sized.shape[i] for i in kept), dtype, names)

    def to_json(self) -> dict[str, Any]:
        """The query as plain data."""
        sampler = self.query.sampler
        plain: dict[str, Any] = {
            "output_to_reference": [list(row) for row in self.query.output_to_reference],
            "shape": list(self.shape),
            "level": self.query.level,
            "sampler": {
                "filter": sampler.filter,
                "boundary": sampler.boundary,
                "constant_value": sampler.constant_value,
            },
        }
        if self.dtype is not None:
            plain["dtype"] = self.dtype
        if self.axes:
            plain["axes"] = list(self.axes)
        return plain

    @staticmethod
    def from_json(value: Any, where: str = "the query") -> SavedQuery:
        """Read plain data.

        Raises
        ------
        FormatError
            A field is missing or of another kind.
        UsageError
            Its numbers make no query.
        """
        if not isinstance(value, dict):
            raise FormatError(f"{where} is no JSON object with a query")
        rows = take(value, "output_to_reference", where)
        if not _numbers(rows, 2) or not 0 < len(rows) <= _MAX_RANK:
            raise FormatError(f"output_to_reference of {where} is no list of rows of numbers")
        shape = take(value, "shape", where)
        if not isinstance(shape, list) or not all(type(n) is int for n in shape):
            raise FormatError(f"shape of {where} is no list of whole numbers")
        if not all(1 <= n < 2**52 for n in shape):
            raise UsageError(f"the shape of {where} has extents that are not between 1 and 2**52 - 1")
        level = take(value, "level", where, "auto")
        if level != "auto" and type(level) is not int:
            raise FormatError(f"level of {where} is neither 'auto' nor a whole number")
        dtype, axes = take(value, "dtype", where, None), take(value, "axes", where, [])
        if dtype is not None and not isinstance(dtype, str):
            raise FormatError(f"dtype of {where} is no name of a type")
        if not isinstance(axes, list) or not all(isinstance(name, str) for name in axes):
            raise FormatError(f"axes of {where} is no list of names")
        try:
            sampler = _sampler(take(value, "sampler", where, {}), where)
            return SavedQuery(SpatialQuery(rows, sampler, level), tuple(shape), dtype, tuple(axes))
        except UsageError as error:
            raise UsageError(f"{where} makes no query: {error}") from error

    @staticmethod
    def load(path: str | os.PathLike[str]) -> SavedQuery:
        """Read a file.

        Raises
        ------
        StorageError
            It cannot be read.
        FormatError, UsageError
            As `from_json`.
        """
        target = Path(path)
        try:
            with target.open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
        except FileNotFoundError as error:
            raise UsageError(f"{target} does not exist; check the path") from error
        except OSError as error:
            raise storage_error("reading", target, error) from error
        return SavedQuery.from_json(load_json(raw, str(target), max_bytes=_MAX_BYTES), str(target))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a file, as a whole or not at all.

        Raises
        ------
        TargetExists, StorageError
            It exists, or cannot be written.
        """
        with AtomicFile(Path(os.path.abspath(path)), overwrite=overwrite) as out:
            out.file.write(json.dumps(self.to_json(), indent=1).encode() + b"\n")
            out.commit()

    def fit(self, source: CropSource, index: Mapping[str, tuple[int, int]] | None = None) -> SizedQuery:
        """Use the query on an image, of the same axes or of others.

        Axes are matched by name where the query knows them; otherwise the query has all axes of the image,
        or its spatial ones. Axes of the image that the query does not have are taken whole, or as ``index``
        says.

        Raises
        ------
        UsageError
            The axes do not match.
        """
        positions = self._positions([axis.name for axis in source.axes], source.spatial)
        rank = len(source.axes)
        matrix = np.column_stack([np.eye(rank), np.zeros(rank)])
        own = np.asarray(self.query.output_to_reference)
        matrix[np.ix_(positions, positions)] = own[:, :-1]
        matrix[positions, rank] = own[:, -1]
        extents = list(source.shape)
        for i, n in zip(positions, self.shape, strict=True):
            extents[i] = n
        for name, (start, stop) in (index or {}).items():
            at = next((i for i, axis in enumerate(source.axes) if axis.name == name), None)
            if at is None or at in source.spatial:
                raise UsageError(f"{source.name} has no axis {name!r} beside the spatial ones")
            matrix[at, rank], extents[at] = start, stop - start
        return SizedQuery(SpatialQuery(matrix, self.query.sampler, self.query.level), tuple(extents))

    def _positions(self, names: Sequence[str], spatial: Sequence[int]) -> list[int]:
        if self.axes:
            missing = [name for name in self.axes if name not in names]
            if not missing:
                return [list(names).index(name) for name in self.axes]
            raise UsageError(
                f"the query has the axis {missing[0]!r}; the image has {', '.join(names)}: it does not fit"
            )
        if self.query.rank == len(names):
            return list(range(len(names)))
        if self.query.rank == len(spatial):
            return list(spatial)
        raise UsageError(
            f"the query has rank {self.query.rank}; the image has {len(names)} axes, {len(spatial)} of them"
            " spatial: it does not fit"
        )


def _numbers(value: Any, depth: int) -> bool:
    if depth == 0:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return isinstance(value, list) and all(_numbers(item, depth - 1) for item in value)


def _sampler(value: Any, where: str) -> Sampler:
    if not isinstance(value, dict):
        raise FormatError(f"sampler of {where} is no object")
    kind: Literal["nearest", "linear"] = take(value, "filter", where, "nearest")
    boundary: Literal["error", "constant", "clamp"] = take(value, "boundary", where, "error")
    constant = take(value, "constant_value", where, 0.0)
    if not _numbers(constant, 0):
        raise FormatError(f"constant_value of {where} is no number")
    return Sampler(kind, boundary, float(constant))
