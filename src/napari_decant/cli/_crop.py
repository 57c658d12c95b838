"""The verb that cuts regions out: crop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from napari_decant.cli._common import (
    Json,
    Memory,
    Quiet,
    Workers,
    app,
    cancel,
    check_exists,
    clear,
    complain,
    human_size,
    parse_size,
    progress_for,
    say,
    say_json,
)
from napari_decant.cli._crop_options import CropOptions, sampler_of
from napari_decant.errors import ChoiceNeeded, TargetExists, UsageError

if TYPE_CHECKING:
    from napari_decant.images import Image
    from napari_decant.images.crop import CropReport, CropSource
    from napari_decant.spatial import SizedQuery

__all__ = ["crop"]


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
        asked = CropOptions(origin, size, physical, rotate, spacing, matrix, shape, query, index, level)
        sampler = sampler_of(source, filter_, boundary, constant)
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

    check_exists(location)
    try:
        return open_image(location, image=inner)
    except ChoiceNeeded as error:
        raise UsageError(f"{error}, with --image") from error


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
