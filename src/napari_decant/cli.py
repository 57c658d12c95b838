"""The verbs on the command line.

Results go to stdout (with ``--json`` as one object), progress and messages to stderr.
Exit codes: 0 done, 1 a check or verification failed, 2 usage, 3 refused or unsupported
input, 4 I/O error, 130 cancelled.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter

from napari_decant import __version__
from napari_decant.errors import Cancelled, DecantError, StorageError, UsageError
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress

__all__ = ["app", "main"]

_common = Group("Common options", sort_key=99)

Json = Annotated[
    bool, Parameter("--json", negative=(), help="Print one JSON object on stdout.", group=_common)
]
Workers = Annotated[int | None, Parameter(help="Threads; one a core by default.", group=_common)]
Memory = Annotated[
    str | None, Parameter(help="Memory limit such as 2G or 800M; workers drop to fit.", group=_common)
]
Quiet = Annotated[bool, Parameter("--quiet", negative=(), help="No progress on stderr.", group=_common)]

app = App(
    name="napari-decant",
    help="Archive TIFFs as OME-Zarr and get every byte back; view OME-Zarr in napari.",
    version=__version__,
    result_action="return_value",
)


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
        sys.stderr.write(f"\r\x1b[K{event.stage} {event.item}: {percent} % of {human_size(event.total)}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")


def _progress(quiet: bool) -> ProgressCallback:
    return ignore_progress if quiet or not sys.stderr.isatty() else _Bar()


def _clear(progress: ProgressCallback) -> None:
    if isinstance(progress, _Bar):
        progress.clear()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _each(paths: list[Path], work: Callable[[Path], tuple[dict[str, Any], str, bool]], as_json: bool) -> int:
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
                _say(text)
        except DecantError as error:
            code = code or error.exit_code
            results.append({"path": str(path), "error": str(error), "exit_code": error.exit_code})
            sys.stderr.write(f"napari-decant: {error}\n")
            if isinstance(error, Cancelled):
                code = error.exit_code
                break
    if as_json:
        _say(json.dumps({"ok": code == 0, "results": results}, indent=1))
    return code


_cancel = CancelToken()


@app.command
def pack(
    paths: Annotated[list[Path], Parameter(negative=())],
    *,
    output: Annotated[
        Path | None, Parameter(("--output", "-o"), help="Folder, made if missing; default: beside the file.")
    ] = None,
    codec: Annotated[
        str, Parameter(help="default, fast, or an id like blosc:zstd:byteshuffle:clevel=5.")
    ] = "default",
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace existing archives.")] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Pack files into NAME.zarr.zip archives and prove each one.

    Parameters
    ----------
    paths
        Files to pack.
    """
    from napari_decant import archive

    progress, limit = _progress(quiet), parse_size(memory)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        report = archive.pack(
            path,
            output,
            codec=codec,
            workers=workers,
            memory=limit,
            overwrite=overwrite,
            progress=progress,
            cancel=_cancel,
        )
        _clear(progress)
        what = (
            f"byte-exact image {' '.join(report.axes)}"
            if report.mode == "byte-exact"
            else f"kept as it is ({report.reason})"
        )
        text = (
            f"{report.archive}: {what}, {human_size(report.original_size)} became "
            f"{human_size(report.archive_size)}; every byte was checked"
        )
        return report.to_json(), text, True

    return _each(paths, work, json)


@app.command
def verify(
    archives: Annotated[list[Path], Parameter(negative=())],
    *,
    quick: Annotated[
        bool, Parameter(negative=(), help="Check structure and metadata, do not read pixels.")
    ] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Recompute every original from its archive and compare hashes.

    Parameters
    ----------
    archives
        Archives to check.
    """
    from napari_decant import archive

    progress, limit = _progress(quiet), parse_size(memory)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        report = archive.verify(
            path, quick=quick, workers=workers, memory=limit, progress=progress, cancel=_cancel
        )
        _clear(progress)
        lines = [report.sentence(), *(f"  {problem.kind}: {problem.message}" for problem in report.problems)]
        return report.to_json(), "\n".join(lines), report.ok

    return _each(archives, work, json)


@app.command
def restore(
    archives: Annotated[list[Path], Parameter(negative=())],
    *,
    output: Annotated[Path, Parameter(("--output", "-o"), help="Folder to restore into; made if missing.")],
    member: Annotated[str | None, Parameter(help="Only this file of a series.")] = None,
    overwrite: Annotated[bool, Parameter(negative=(), help="Replace existing files.")] = False,
    workers: Workers = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Get the original files back, byte for byte.

    Parameters
    ----------
    archives
        Archives to restore.
    """
    from napari_decant import archive

    progress, limit = _progress(quiet), parse_size(memory)

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        report = archive.restore(
            path,
            output,
            member=member,
            overwrite=overwrite,
            workers=workers,
            memory=limit,
            progress=progress,
            cancel=_cancel,
        )
        _clear(progress)
        lines = [
            f"{file}: restored, sha256 {digest}"
            for file, digest in zip(report.files, report.sha256, strict=True)
        ]
        return report.to_json(), "\n".join(lines), True

    return _each(archives, work, json)


@app.command
def info(archives: Annotated[list[Path], Parameter(negative=())], *, json: Json = False) -> int:
    """Show what is inside archives, reading no pixels.

    Parameters
    ----------
    archives
        Archives to describe.
    """
    from napari_decant import archive

    def work(path: Path) -> tuple[dict[str, Any], str, bool]:
        found = archive.info(path)
        lines = [
            f"{found.archive}: {found.mode}, {human_size(found.original_size)} in {human_size(found.archive_size)}"
        ]
        if found.shape:
            extents = " ".join(
                f"{axis}{extent}" for axis, extent in zip(found.axes, found.shape, strict=False)
            )
            lines.append(
                f"  image: {extents or found.shape} {found.dtype}, {found.levels} level(s), {found.codec}"
            )
        lines += [
            f"  {member.name}: {member.size:,} bytes, sha256 {member.sha256}" for member in found.members
        ]
        return found.to_json(), "\n".join(lines), True

    return _each(archives, work, json)


@app.command
def view(paths: Annotated[list[Path], Parameter(negative=())]) -> int:
    """Open images and archives in napari.

    Parameters
    ----------
    paths
        Archives, OME-Zarr folders or TIFFs.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist; check the path")
    _napari().view(paths)
    return 0


@app.command
def demo(
    *,
    output: Annotated[Path, Parameter(("--output", "-o"), help="Folder for the results.")] = Path(
        "demo-output"
    ),
    show: Annotated[bool | None, Parameter(help="Open a window; default: if there is a display.")] = None,
) -> int:
    """Pack, verify, restore and show a real microscope image."""
    return int(_napari().run_demo(output, show=show))


def _napari() -> Any:
    """The part that needs napari, with a clear word if it is not installed."""
    try:
        import napari  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise UsageError('napari is not installed; run: pip install "napari-decant[all]"') from error
    from napari_decant import plugin

    return plugin


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Parameters
    ----------
    arguments : list of str, optional
        Without the program's name; those of the process by default.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.ERROR, format="%(levelname)s %(name)s: %(message)s"
    )
    _watch_signals()
    try:
        result = app(words, exit_on_error=False, print_error=False)
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        return _fail(str(error), 2, debug)
    except DecantError as error:
        return _fail(str(error), error.exit_code, debug)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}", StorageError.exit_code, debug)
    except KeyboardInterrupt:
        return _fail("cancelled; nothing was left behind", 130, debug)
    except MemoryError:
        return _fail("out of memory; try a smaller --memory or fewer --workers", 3, debug)
    except Exception as error:  # noqa: BLE001 - the last stop before a user would see a traceback
        return _fail(
            f"unexpected {type(error).__name__}: {error}; run again with --debug and report it", 3, debug
        )


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        logging.getLogger(__name__).exception("traceback")
    sys.stderr.write(f"napari-decant: {message}\n")
    return code


def _watch_signals() -> None:
    """First Ctrl-C or SIGTERM cancels cleanly; the second one ends the program at once."""

    def stop(number: int, frame: object) -> None:
        if _cancel.cancelled:
            os._exit(130)
        _cancel.cancel()

    try:
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
    except ValueError:  # called from a thread of somebody else's program
        return


if __name__ == "__main__":
    sys.exit(main())
