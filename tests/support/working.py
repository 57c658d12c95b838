"""What the workers of a cluster, or of a pool of processes, are asked to do in tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from napari_decant.progress import Progress

__all__ = ["die_after_marking", "stay"]


def stay(marker: str, seconds: float) -> int:
    """Say in a file which process this is, and take some time; returns the process."""
    Path(marker).write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def die_after_marking(progress: Callable[[Progress], None], cancel: object) -> None:
    """Begin, and end this process as the system does when memory runs out."""
    progress(Progress("begun", 0, 1))
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
