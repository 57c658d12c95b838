"""The verbs that work by the array standard: check, export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

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
    executor_at,
    human_size,
    parse_size,
    progress_for,
    say,
    say_json,
)
from napari_decant.errors import Cancelled, ChoiceNeeded, DecantError, TargetExists, UsageError

__all__ = ["check", "export"]

Standard = Annotated[
    str, Parameter(help="dca-0.1, or dca-0.2 (one small level instead of three; labels may be decimated).")
]
ImagePath = Annotated[str | None, Parameter("--image", help="Path of one of several images of a store.")]


@app.command
def check(
    images: Annotated[list[str], Parameter(negative=())],
    *,
    standard: Standard = "dca-0.1",
    image: ImagePath = None,
    whole: Annotated[
        bool, Parameter(negative=(), help="Decode every chunk instead of a sample, look at every shard.")
    ] = False,
    everything: Annotated[
        bool, Parameter("--all", negative=(), help="Also show the rules that hold or do not apply.")
    ] = False,
    html: Annotated[Path | None, Parameter(help="Write the report as a page to this file.")] = None,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace the page of --html.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Check OME-Zarr images against the array standard; 1 is returned if a rule that must hold is broken.

    Parameters
    ----------
    images
        Folders, zip files (.ozx, archives) or addresses.
    """
    from napari_decant import standard as rules

    if html is not None and len(images) > 1:
        raise UsageError("--html takes one report; check one image at a time")
    if html is not None and not html.absolute().parent.is_dir():
        raise UsageError(f"{html} cannot be written: its folder does not exist; make it, or choose another")
    if html is not None and not overwrite and os.path.lexists(html):
        raise TargetExists(f"{html} exists already; choose another name or use --overwrite")
    progress = progress_for(quiet)
    results: list[dict[str, Any]] = []
    code = 0
    for location in images:
        try:
            check_exists(location)
            report = rules.check(
                location, standard, image=image, whole=whole, progress=progress, cancel=cancel
            )
        except DecantError as error:
            clear(progress)
            code = code or error.exit_code
            results.append({"location": location, "error": str(error), "exit_code": error.exit_code})
            complain(str(error))
            if isinstance(error, Cancelled):
                code = error.exit_code
                break
            continue
        clear(progress)
        code = code or (0 if report.ok else 1)
        results.append(report.to_json())
        if html is not None:
            html.write_text(report.to_html(), encoding="utf-8")
        if not json:
            say(report.to_text(everything=everything))
    if json:
        say_json({"ok": code == 0, "results": results})
    return code


@app.command
def export(
    source: Annotated[str, Parameter(negative=())],
    *,
    output: Annotated[
        Path,
        Parameter(("--output", "-o"), help="NAME.zarr (a folder) or NAME.ozx (one file)."),
    ],
    standard: Standard = "dca-0.1",
    image: ImagePath = None,
    quantize: Annotated[
        bool, Parameter(negative=(), help="Store as uint16 what is neither uint8 nor uint16; it is recorded.")
    ] = False,
    quantize_range: Annotated[
        tuple[float, float] | None, Parameter(help="Quantise this range instead of that of the data.")
    ] = None,
    labels: Annotated[
        bool | None, Parameter(help="The values are labels (or are not), whatever the source says.")
    ] = None,
    keep_label_type: Annotated[bool, Parameter(negative=(), help="Do not convert labels to uint32.")] = False,
    compression: Annotated[int, Parameter(help="Level of zstd; above 3 the standard is not met.")] = 1,
    shuffle: Annotated[
        bool | None,
        Parameter(help="Shuffle bytes before zstd; by default floats only. Smaller, but fewer readers."),
    ] = None,
    verify: Annotated[bool, Parameter(help="Read every chunk back and compare its hash.")] = True,
    cluster: Annotated[
        str | None, Parameter(help="Address of a Dask scheduler; its workers must see the same folders.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative=(), help="Say what it would take.")] = False,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace what exists.")] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write any image, with its labels, or a plate, as OME-Zarr 0.5 that follows the array standard.

    Parameters
    ----------
    source
        OME-Zarr, an archive, or a TIFF.
    """
    from napari_decant import standard as rules

    check_exists(source)
    asked: dict[str, Any] = {
        "standard": standard,
        "image": image,
        "quantize": quantize_range or quantize,
        "labels": labels,
        "keep_label_type": keep_label_type,
        "memory": parse_size(memory),
        "workers": workers,
    }
    progress = progress_for(quiet)
    try:
        if dry_run:
            plan = rules.plan_export(source, output, **asked)
            say_json(plan) if json else say("\n".join([plan["sentence"], *plan["notes"]]))
            return 0
        with executor_at(cluster) as executor:
            report = rules.export(
                source,
                output,
                **asked,
                compression=compression,
                shuffle=shuffle,
                verify=verify,
                overwrite=overwrite,
                executor=executor,
                progress=progress,
                cancel=cancel,
            )
    except ChoiceNeeded as error:
        raise UsageError(f"{error}, with --image") from error
    finally:
        clear(progress)
    if json:
        say_json({"ok": True, **report.to_json()})
        return 0
    written = report.written
    checked = "; every chunk was read back and compared" if written.verified else ""
    resumed = f", {written.resumed_shards:,} shards of an earlier run kept" if written.resumed_shards else ""
    say(
        f"{written.target}: {human_size(written.raw_bytes)} of voxels in {human_size(written.size)},"
        f" {written.images:,} image(s), {written.shards:,} shard(s){resumed}{checked}"
    )
    for note in report.notes:
        say(f"  note: {note}")
    say(report.check.to_text())
    return 0
