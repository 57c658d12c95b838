"""Tasks that worker processes run in tests."""

from __future__ import annotations

import os
import sys
import time

from napari_decant.gui.jobs import Context, Outcome
from napari_decant.progress import Progress

__all__ = ["count", "die", "fail", "hang", "main_name", "noisy", "pid"]


def count(context: Context, steps: int, seconds: float = 0.0) -> int:
    """Count, with progress and parts; can be cancelled."""
    for n in range(steps):
        context.cancel.check()
        time.sleep(seconds)
        context.progress(Progress("count", n + 1, steps, "steps"))
        context.part(n)
    return steps


def die(context: Context) -> None:
    """End like a crash."""
    os._exit(11)


def fail(context: Context, kind: str) -> object:
    """Fail in one of several ways."""
    if kind == "outcome":
        return Outcome("something all the same", "it failed in part")
    errors = {"os": OSError(5, "Input/output error", "a.tif"), "memory": MemoryError(), "bug": KeyError("x")}
    raise errors[kind]


def hang(context: Context) -> None:
    """Wait for something that does not come, and do not listen."""
    time.sleep(600)


def noisy(context: Context) -> str:
    """Print to where the messages go."""
    print("a library prints")  # noqa: T201
    sys.stderr.write("and warns\n")
    os.write(1, b"straight to the descriptor")
    return "heard"


def pid(context: Context) -> int:
    """Number of the process."""
    return os.getpid()


def main_name(context: Context) -> str | None:
    """File of the main module."""
    return getattr(sys.modules["__main__"], "__file__", None)
