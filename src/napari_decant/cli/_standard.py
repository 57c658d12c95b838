"""The verbs that work by the array standard: check, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from napari_decant.cli._common import Json, Quiet, app, cancel, clear, complain, progress_for, say, say_json
from napari_decant.errors import Cancelled, DecantError, UsageError

__all__ = ["check"]

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
    progress = progress_for(quiet)
    results: list[dict[str, Any]] = []
    code = 0
    for location in images:
        try:
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
