"""The verbs on the command line.

Results go to stdout (with ``--json`` as one object), progress and messages to stderr.
Exit codes: 0 done, 1 a check or verification failed, 2 usage, 3 refused or unsupported
input, 4 I/O error, 130 cancelled.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys

from cyclopts import CycloptsError

from napari_decant.cli import _archive, _crop, _pack, _standard, _windows
from napari_decant.cli._common import app, cancel, complain, say_json
from napari_decant.errors import DecantError, StorageError

__all__ = ["app", "main", "show_window"]

# Importing these modules has registered their verbs.
_VERBS = (_archive, _crop, _pack, _standard, _windows)


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
    as_json = "--json" in words
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.ERROR, format="%(levelname)s %(name)s: %(message)s"
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that are not UTF-8 must not end the program
    _watch_signals()
    if not all(words) or any(word.startswith("--") and word.endswith("=") for word in words):
        # as a path it would be the folder that one happens to be in
        return _fail(
            "an argument is empty; check the variables that the call was made from", 2, debug, as_json
        )
    try:
        result = app(words, exit_on_error=False, print_error=False)
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        return _fail(str(error), 2, debug, as_json)
    except DecantError as error:
        return _fail(str(error), error.exit_code, debug, as_json)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}", StorageError.exit_code, debug, as_json)
    except KeyboardInterrupt:
        return _fail("cancelled; nothing was left behind", 130, debug, as_json)
    except MemoryError:
        return _fail("out of memory; try a smaller --memory or fewer --workers", 3, debug, as_json)
    except Exception as error:  # noqa: BLE001 - the last stop before a user would see a traceback
        return _fail(
            f"unexpected {type(error).__name__}: {error}; run again with --debug and report it",
            3,
            debug,
            as_json,
        )


def show_window() -> int:
    """Open the window for the paths given to the program: the entry point ``napari-decant-gui``."""
    return main(["gui", *sys.argv[1:]])


def _fail(message: str, code: int, debug: bool, as_json: bool) -> int:
    if debug:
        logging.getLogger(__name__).exception("traceback")
    complain(message)
    if as_json:
        say_json({"ok": False, "error": message, "exit_code": code})
    return code


def _watch_signals() -> None:
    """First Ctrl-C or SIGTERM cancels cleanly; the second one ends the program at once."""

    def stop(number: int, frame: object) -> None:
        if cancel.cancelled:
            os._exit(130)
        cancel.cancel()

    try:
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
    except ValueError:  # called from a thread of somebody else's program
        return
