"""From the options of the verb crop to a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from napari_decant.errors import UsageError

if TYPE_CHECKING:
    from napari_decant.images.crop import CropSource
    from napari_decant.spatial import Sampler, SizedQuery

__all__ = ["CropOptions", "sampler_of"]

_Range = tuple[int, int]


class CropOptions:
    """The options that say which region: a box, a matrix or a saved query.

    All are as written on the command line; None where one was not given.

    Raises
    ------
    UsageError
        Options exclude or lack each other, or one cannot be read.
    """

    def __init__(
        self,
        origin: str | None,
        size: str | None,
        physical: bool,
        rotate: str | None,
        spacing: str | None,
        matrix: str | None,
        shape: str | None,
        query: Path | None,
        index: list[str] | None,
        level: str | None,
    ) -> None:
        self.origin, self.size, self.physical, self.rotate = origin, size, physical, rotate
        self.spacing, self.matrix, self.shape, self.file = spacing, matrix, shape, query
        self.index = _ranges(index or [])
        self.level = _level(level)
        self.dtype: str | None = None
        ways = [name for name, given in (("--query", query), ("--matrix", matrix)) if given is not None]
        box = [n for n, given in (("--origin", origin), ("--size", size), ("--rotate", rotate)) if given]
        if len(ways) > 1 or (ways and box):
            raise UsageError(f"{ways[0]} says all by itself; leave out {', '.join([*ways[1:], *box])}")
        if shape is not None and matrix is None:
            raise UsageError("--shape belongs to --matrix; use --size for a box")
        if matrix is not None and shape is None:
            raise UsageError("--matrix needs --shape, the extents of the output")
        if ways and spacing is not None:
            raise UsageError(f"{ways[0]} has its own spacing; leave out --spacing")

    def query(self, source: CropSource, sampler: Sampler, *, sampler_given: bool) -> SizedQuery:
        """The query that this makes for an image."""
        from dataclasses import replace

        from napari_decant.images.crop import SavedQuery
        from napari_decant.spatial import SpatialQuery

        if self.file is not None:
            saved = SavedQuery.load(self.file)
            self.dtype = saved.dtype
        elif self.matrix is not None:
            rows = [_numbers(row, "--matrix") for row in self.matrix.split(";") if row.strip()]
            extents = _counts(self.shape or "", "--shape")
            try:
                saved = SavedQuery(SpatialQuery(rows, sampler, "auto"), tuple(extents))
            except UsageError as error:
                raise UsageError(f"--matrix and --shape make no query: {error}") from error
            sampler_given = True
        else:
            return self._box(source, sampler)
        own = saved.query
        changed = SpatialQuery(
            own.output_to_reference,
            sampler if sampler_given else own.sampler,
            own.level if self.level is None else self.level,
        )
        return replace(saved, query=changed).fit(source, self.index)

    def _box(self, source: CropSource, sampler: Sampler) -> SizedQuery:
        from napari_decant.images.crop import Region, WorldMap, place

        names = [source.axes[i].name for i in source.spatial]
        extents = [source.shape[i] for i in source.spatial]
        if self.physical:
            world = WorldMap.physical(source)
        else:  # corners in voxels of level 0, so that voxel i covers i to i + 1
            world = WorldMap.of([[float(i == j) for j in names] for i in names], [0.5] * len(names))
        whole = world.whole(extents)
        low = [c - s / 2 for c, s in zip(whole.center, whole.size, strict=True)]
        start = _named(self.origin, names, "--origin", low)
        rest = [a + s - b for a, s, b in zip(low, whole.size, start, strict=True)]
        span = _named(self.size, names, "--size", rest)
        if min(span) <= 0:
            raise UsageError("the box is empty: --size must be above 0, and --origin within the image")
        angles = self._angles(len(names))
        region = Region(
            tuple(a + n / 2 for a, n in zip(start, span, strict=True)), tuple(span), tuple(angles)
        )
        if any(angle % 360 for angle in angles) and not self.physical:
            # a turn is one in physical space, or it would shear an anisotropic image
            region, world = _in_units(region, source)
        return place(
            region,
            source,
            world,
            spacing=self._spacing(names),
            level="auto" if self.level is None else self.level,
            sampler=sampler,
            index=self.index,
        )

    def _angles(self, rank: int) -> list[float]:
        given = _numbers(self.rotate, "--rotate") if self.rotate else [0.0]
        if rank == 2 and len(given) == 1:
            return given
        if rank == 3 and len(given) in (1, 3):
            return given if len(given) == 3 else [given[0], 0.0, 0.0]
        raise UsageError(
            f"--rotate has {len(given)} angles; one, or three for three spatial axes, belong there"
        )

    def _spacing(self, names: Sequence[str]) -> Any:
        text = (self.spacing or "native").strip().lower()
        if text in ("native", "isotropic"):
            return text
        given = _numbers(text, "--spacing")
        if len(given) not in (1, len(names)):
            raise UsageError(f"--spacing has {len(given)} numbers; one, or {len(names)}, belong there")
        return given[0] if len(given) == 1 else tuple(given)


def _in_units(region: Any, source: CropSource) -> tuple[Any, Any]:
    """A box in voxels as one in physical units."""
    import numpy as np

    from napari_decant.images.crop import WorldMap

    world = WorldMap.physical(source)
    linear = np.asarray(world.linear)
    center = linear @ (np.asarray(region.center) - 0.5) + np.asarray(world.offset)
    size = np.asarray(region.size) * np.asarray(world.pitch)
    return region.moved(center=tuple(map(float, center)), size=tuple(map(float, size))), world


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        hint = "" if text.strip(".,-0123456789 ") == "" else " without units"
        raise UsageError(f"{option} is {text!r}; numbers{hint}, divided by commas, belong there") from None


def _counts(text: str, option: str) -> list[int]:
    given = _numbers(text, option)
    if not all(n.is_integer() and n > 0 for n in given):
        raise UsageError(f"{option} is {text!r}; whole numbers above 0 belong there")
    return [int(n) for n in given]


def _named(text: str | None, names: Sequence[str], option: str, otherwise: Sequence[float]) -> list[float]:
    """Numbers for all axes in order, or for some by name; an axis that is not named keeps its full extent."""
    if text is None:
        return list(otherwise)
    if "=" not in text:
        given = _numbers(text, option)
        if len(given) != len(names):
            raise UsageError(f"{option} has {len(given)} numbers; the spatial axes are {', '.join(names)}")
        return given
    result, seen = list(otherwise), set()
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip() not in names:
            raise UsageError(f"{option} names {name.strip()!r}; the spatial axes are {', '.join(names)}")
        if name.strip() in seen:
            raise UsageError(f"{option} names {name.strip()!r} twice")
        seen.add(name.strip())
        result[names.index(name.strip())] = _numbers(value, option)[0]
    return result


def _ranges(texts: Sequence[str]) -> dict[str, _Range]:
    """``t=3`` and ``c=0:2``."""
    found: dict[str, _Range] = {}
    for text in texts:
        name, _, value = text.partition("=")
        start, colon, stop = value.partition(":")
        try:
            first = int(start)
            last = int(stop) if colon else first + 1
        except ValueError:
            raise UsageError(f"--index is {text!r}; write for example t=3 or c=0:2") from None
        if not 0 <= first < last:
            raise UsageError(f"--index is {text!r}; indices count from 0, and c=0:2 are the first two")
        if name.strip() in found:
            raise UsageError(f"--index names {name.strip()!r} twice; several in a row are written c=0:2")
        found[name.strip()] = first, last
    return found


def _level(text: str | None) -> int | Literal["auto"] | None:
    if text is None or text == "auto":
        return None if text is None else "auto"
    if not text.isdecimal():
        raise UsageError(f"--level is {text!r}; auto or the number of a level belongs there")
    return int(text)


def sampler_of(
    source: CropSource, filter_: str | None, boundary: str | None, constant: float | None
) -> Sampler:
    """The sampler that the options ask for, with defaults that suit an image."""
    from napari_decant.spatial import Sampler

    smooth = not source.is_label and source.dtype.kind != "b"
    kind: Any = filter_ or ("linear" if smooth else "nearest")
    edge: Any = boundary or ("constant" if constant is not None else "error")
    return Sampler(kind, edge, constant or 0.0)
