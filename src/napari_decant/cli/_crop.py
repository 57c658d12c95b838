"""The verb that cuts regions out: crop."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from napari_decant.cli._common import (
    Json,
    Memory,
    Quiet,
    Workers,
    app,
    cancel,
    clear,
    complain,
    human_size,
    parse_size,
    progress_for,
    say,
    say_json,
)
from napari_decant.errors import ChoiceNeeded, TargetExists, UsageError

if TYPE_CHECKING:
    from napari_decant.images import Image
    from napari_decant.images.crop import CropReport, CropSource
    from napari_decant.spatial import Sampler, SizedQuery

__all__ = ["crop"]

_Range = tuple[int, int]


@app.command
def crop(
    image: Annotated[str, Parameter(help="OME-Zarr, an archive, or a TIFF.")],
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(("--output", "-o"), help="NAME.zarr (a folder), NAME.ozx (one file) or NAME.ome.tif."),
    ] = None,
    origin: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Corner with the least coordinates: 10,200,340 for all spatial axes, or y=200,x=340.",
        ),
    ] = None,
    size: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="Extents of the box, written as --origin.")
    ] = None,
    physical: Annotated[
        bool, Parameter(negative=(), help="--origin, --size, --spacing are in the image's units, not voxels.")
    ] = False,
    rotate: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Degrees about the box's centre: one angle (x towards y), or z,y,x in turn.",
        ),
    ] = None,
    spacing: Annotated[
        str | None, Parameter(help="Of the output: native, isotropic, a number, or one for each axis.")
    ] = None,
    matrix: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="output_to_reference, rows divided by ';': '1,0,0,8;0,1,0,16;0,0,1,16'.",
        ),
    ] = None,
    shape: Annotated[str | None, Parameter(help="With --matrix: extents of the output.")] = None,
    query: Annotated[
        Path | None, Parameter(help="A saved query (JSON) instead of origin, size or matrix.")
    ] = None,
    index: Annotated[
        list[str] | None, Parameter(negative=(), help="Of another axis: t=3, or c=0:2. Repeat for more.")
    ] = None,
    level: Annotated[str | None, Parameter(help="auto, or the number of a level.")] = None,
    filter_: Annotated[
        Literal["nearest", "linear"] | None,
        Parameter("--filter", help="Where voxels are resampled; linear by default, nearest for labels."),
    ] = None,
    boundary: Annotated[
        Literal["error", "constant", "clamp"] | None,
        Parameter(help="Outside the image: refuse, take --constant, or repeat the edge."),
    ] = None,
    constant: Annotated[float | None, Parameter(help="Value for --boundary constant.")] = None,
    dtype: Annotated[str | None, Parameter(help="Element type of the output, u8, u16, f32, ...")] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], Parameter(help="What computes.")] = "auto",
    inner: Annotated[
        str | None, Parameter("--image", help="Path of one of several images of a store.")
    ] = None,
    save_query: Annotated[Path | None, Parameter(help="Also write the query to this file.")] = None,
    verify: Annotated[bool, Parameter(help="Read the file back and compare.")] = True,
    dry_run: Annotated[bool, Parameter(negative=(), help="Say what it would take.")] = False,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace what exists.")] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Cut a region out of an image, straight or turned, into an OME-Zarr 0.5 image or an OME-TIFF.

    Without --origin and --size it is the whole image. Numbers are voxels of the finest level, or with
    --physical the image's units.

    Examples, each of which --dry-run explains without cutting:

    * napari-decant crop cells.zarr -o part.zarr --origin 10,200,340 --size 64,256,256

    * napari-decant crop cells.zarr -o part.ome.tif --origin y=200,x=340 --size y=256,x=256 --index c=1

    * napari-decant crop cells.zarr -o tilted.zarr --physical --origin 5,5,8 --size 9,60,60 --rotate 30,10,0

    * napari-decant crop cells.zarr -o small.ozx --spacing isotropic --boundary constant --rotate 45

    * napari-decant crop other.zarr -o same.zarr --query box.json
    """
    import napari_decant.archive  # noqa: F401 - registers how archives are opened
    from napari_decant.images.crop import check_target, plan_crop, source_of_image
    from napari_decant.images.crop import crop as cut

    if output is not None:
        check_target(output)
    elif not dry_run:
        raise UsageError("say what to write: -o NAME.zarr, -o NAME.ozx or -o NAME.ome.tif")
    if save_query is not None and not dry_run and not overwrite and os.path.lexists(save_query):
        raise TargetExists(f"{save_query} exists already; choose another name or use --overwrite")
    opened = _opened(image, inner)
    try:
        source = source_of_image(opened)
        asked = _Asked(origin, size, physical, rotate, spacing, matrix, shape, query, index, level)
        sampler = _sampler(source, filter_, boundary, constant)
        wanted = asked.query(source, sampler, sampler_given=any((filter_, boundary, constant is not None)))
        limit = parse_size(memory)
        if dry_run:
            _tell(plan_crop(opened, wanted, dtype=dtype, device=device, memory=limit), json, planned=True)
            return 0
        progress = progress_for(quiet)
        try:
            report = cut(
                opened,
                wanted,
                output,
                dtype=dtype or asked.dtype,
                device=device,
                memory=limit,
                workers=workers,
                overwrite=overwrite,
                verify=verify,
                progress=progress,
                cancel=cancel,
            )
        finally:
            clear(progress)
        if save_query is not None:
            _save(wanted, source, dtype or asked.dtype, save_query, overwrite)
        _tell(report, json, planned=False)
        return 0
    finally:
        opened.close()


def _opened(location: str, inner: str | None) -> Image:
    """Open the image, and say in words of the command line what is wrong with its name."""
    from napari_decant.images import open_image
    from napari_decant.stores import local_path

    path = local_path(location)
    if path is not None and not os.path.lexists(path):
        raise UsageError(f"{location} does not exist; check the path")
    try:
        return open_image(location, image=inner)
    except ChoiceNeeded as error:
        raise UsageError(f"{error}, with --image") from error


class _Asked:
    """What was asked for on the command line."""

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
            extents = [int(n) for n in _numbers(self.shape or "", "--shape")]
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


def _named(text: str | None, names: Sequence[str], option: str, otherwise: Sequence[float]) -> list[float]:
    """Numbers for all axes in order, or for some by name; an axis that is not named keeps its full extent."""
    if text is None:
        return list(otherwise)
    if "=" not in text:
        given = _numbers(text, option)
        if len(given) != len(names):
            raise UsageError(f"{option} has {len(given)} numbers; the spatial axes are {', '.join(names)}")
        return given
    result = list(otherwise)
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip() not in names:
            raise UsageError(f"{option} names {name.strip()!r}; the spatial axes are {', '.join(names)}")
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


def _sampler(
    source: CropSource, filter_: str | None, boundary: str | None, constant: float | None
) -> Sampler:
    from napari_decant.spatial import Sampler

    smooth = not source.is_label and source.dtype.kind != "b"
    kind: Any = filter_ or ("linear" if smooth else "nearest")
    edge: Any = boundary or ("constant" if constant is not None else "error")
    return Sampler(kind, edge, constant or 0.0)


def _save(wanted: SizedQuery, source: CropSource, dtype: str | None, path: Path, overwrite: bool) -> None:
    from napari_decant.images.crop import SavedQuery

    SavedQuery.of(wanted, source, dtype).save(path, overwrite=overwrite)


def _tell(report: CropReport, as_json: bool, *, planned: bool) -> None:
    if as_json:
        say_json({"ok": True, **report.to_json()})
        return
    facts = report.facts
    for warning in facts.warnings:
        complain(warning)
    extents = " x ".join(map(str, facts.shape))
    how = "resampled" if facts.resampled else "voxels copied"
    about = "" if facts.exact else "about "
    reads = (
        f"{about}{facts.chunks:,} chunk{'' if facts.chunks == 1 else 's'},"
        f" {human_size(facts.stored_bytes or 0)} to read"
        if facts.chunks is not None
        else f"{about}{human_size(facts.decoded_bytes)} to read"
    )
    where = "" if facts.device == "CPU" else f" on {facts.device}"
    line = f"{extents} {facts.dtype}, level {facts.level}, {how}{where}; {reads}"
    if planned:
        say(
            f"{line}, {human_size(facts.output_bytes)} result, {human_size(facts.memory)} of memory as an"
            f" array, about {facts.seconds:.1f} s"
        )
    else:
        say(f"{report.target}: {line}, {human_size(report.size)} written in {report.seconds:.1f} s")
