"""What all verbs share: the app, options, sizes, progress on stderr, results on stdout."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from napari_decant import __version__
from napari_decant.cli._cluster import executor_at
from napari_decant.errors import Cancelled, DecantError, UsageError
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress

__all__ = [
    "Json",
    "Memory",
    "Quiet",
    "Workers",
    "app",
    "cancel",
    "check_exists",
    "clear",
    "complain",
    "each",
    "executor_at",
    "human_size",
    "parse_size",
    "progress_for",
    "say",
    "say_json",
]

_common = Group("Common options", sort_key=99)

Json = Annotated[
    bool, Parameter("--json", negative=(), help="Print one JSON object on stdout.", group=_common)
]
Workers = Annotated[int | None, Parameter(help="Workers; one a core by default.", group=_common)]
Memory = Annotated[
    str | None, Parameter(help="Memory limit such as 2G or 800M; workers drop to fit.", group=_common)
]
Quiet = Annotated[bool, Parameter("--quiet", negative=(), help="No progress on stderr.", group=_common)]

app = App(
    name="napari-decant",
    help="Archive TIFFs as OME-Zarr and get every byte back; view, crop and export OME-Zarr.",
    version=__version__,
    result_action="return_value",
)

cancel = CancelToken()
"""Set by the first Ctrl-C."""


def parse_size(text: str | None) -> int | None:
    """Read a size such as ``2G``, ``800M``, ``1.5GiB`` or a number of bytes.

    Raises
    ------
    UsageError
        It is not a size.
    """
    if text is None:
        return None
    number = text.strip().upper().removesuffix("B").removesuffix("I")
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    factor = units.get(number[-1:], 1)
    try:
        size = int(float(number[:-1] if factor > 1 else number) * factor)
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise UsageError(f"{text!r} is not a size; write for example 2G or 800M")
    return size


def check_exists(location: str) -> None:
    """Refuse a path of this machine that is not there.

    Raises
    ------
    UsageError
        There is nothing; an address is not looked at.
    """
    from napari_decant.stores import local_path

    path = local_path(location)
    if path is not None and not os.path.lexists(path):
        raise UsageError(f"{location} does not exist; check the path")


def human_size(size: float) -> str:
    """A size in decimal units, as disks are sold: ``1.2 GB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


class _Bar:
    """A progress line on stderr, rewritten at most ten times a second, only on a terminal."""

    def __init__(self) -> None:
        self._next = 0.0
        self._shown = False

    def __call__(self, event: Progress) -> None:
        now = time.monotonic()
        if now < self._next and event.done < event.total:
            return
        self._next = now + 0.1
        percent = 100 * event.done // event.total if event.total else 100
        total = human_size(event.total) if event.unit == "bytes" else f"{event.total:,} {event.unit}"
        sys.stderr.write(f"\r\x1b[K{event.stage} {event.item}: {percent} % of {total}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")


def progress_for(quiet: bool) -> ProgressCallback:
    """The callback for this run: a bar if somebody is looking."""
    return ignore_progress if quiet or not sys.stderr.isatty() else _Bar()


def clear(progress: ProgressCallback) -> None:
    """Take the bar away before something else is written."""
    if isinstance(progress, _Bar):
        progress.clear()


def say(text: str) -> None:
    """Write a result."""
    sys.stdout.write(text + "\n")


def say_json(data: dict[str, Any]) -> None:
    """Write the one JSON object of a verb."""
    say(json.dumps(data, indent=1))


def complain(message: str) -> None:
    """Write a message for the user."""
    sys.stderr.write(f"napari-decant: {message}\n")


def each(paths: list[Path], work: Callable[[Path], tuple[dict[str, Any], str, bool]], as_json: bool) -> int:
    """Do one thing to each path and keep going after a failure.

    ``work`` returns the result as data, as text, and whether it is good. The exit code is
    that of the first failure.
    """
    results: list[dict[str, Any]] = []
    code = 0
    for path in paths:
        try:
            data, text, good = work(path)
            code = code or (0 if good else 1)
            results.append({"path": str(path), **data})
            if not as_json:
                say(text)
        except DecantError as error:
            code = code or error.exit_code
            results.append({"path": str(path), "error": str(error), "exit_code": error.exit_code})
            complain(str(error))
            if isinstance(error, Cancelled):
                code = error.exit_code
                break
    if as_json:
        say_json({"ok": code == 0, "results": results})
    return code
