"""What the workers of a cluster, or of a pool of processes, are asked to do in tests."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from napari_decant.progress import Claim

__all__ = ["Forgetful", "die_after_marking", "die_when_done", "stay"]


def stay(marker: str, seconds: float) -> int:
    """Say in a file which process this is, and take some time; returns the process."""
    Path(marker).write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def die_after_marking(claim: Claim, progress: object, cancel: object) -> None:
    """Begin, and end this process as the system does when memory runs out."""
    claim.begin()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_done(work: Callable[..., Any], task: Any, *args: Any) -> Any:
    """Do the work, and end this process before it can say so, the first time."""
    first = not os.path.lexists(task.row.target)
    result = work(task, *args)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


class Forgetful(Executor):
    """Like a cluster: what is cancelled counts as ended at once, whether or not a worker is at it."""

    def __init__(self, workers: int) -> None:
        self.pool = ThreadPoolExecutor(workers)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        theirs = [copy.copy(value) for value in args]  # another process gets copies of cancel tokens, too
        inner, outer = self.pool.submit(fn, *theirs, **kwargs), Future[Any]()

        def forget(_: Future[Any]) -> None:
            if outer.cancelled():
                outer.set_running_or_notify_cancel()

        def done(_: Future[Any]) -> None:
            if outer.cancelled():
                return
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            else:
                outer.set_exception(error)

        outer.add_done_callback(forget)
        inner.add_done_callback(done)
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until no worker does anything any more."""
        self.pool.shutdown(wait)
