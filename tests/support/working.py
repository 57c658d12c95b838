"""What the workers of a cluster, or of a pool of processes, are asked to do in tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

__all__ = ["die", "stay"]


def stay(marker: str, seconds: float) -> int:
    """Say in a file which process this is, and take some time; returns the process."""
    Path(marker).write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def die() -> None:
    """End this process as the system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
