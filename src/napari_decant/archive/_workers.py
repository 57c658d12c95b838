"""Spread work over threads, in order and within a memory limit."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from napari_decant.errors import UsageError
from napari_decant.progress import CancelToken

__all__ = ["BASE_MEMORY", "Scratch", "available_cores", "choose_workers", "ordered"]

BASE_MEMORY = 400 << 20
"""Resident bytes of the program itself, before any plane is held."""

_PLANES_PER_WORKER = 4  # two raw and two encoded


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # a cluster job may own only some of the machine's cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_workers(plane_bytes: int, workers: int | None, memory: int | None) -> int:
    """How many workers fit.

    Parameters
    ----------
    plane_bytes : int
        Raw bytes of the largest piece of work.
    workers : int or None
        Wanted number; None for one a core.
    memory : int or None
        Limit in bytes for the whole program; None for no limit.

    Returns
    -------
    int
        0 if not even one worker fits.

    Raises
    ------
    UsageError
        ``workers`` is less than 1.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers cannot do anything; ask for at least 1")
    wanted = workers or available_cores()
    if memory is None:
        return wanted
    fit = max(0, memory - BASE_MEMORY) // max(1, _PLANES_PER_WORKER * plane_bytes)
    return min(wanted, fit)


class Scratch(threading.local):
    """Buffers of each thread, reused: the first touch of fresh memory costs more than decoding into it."""

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray] = {}

    def get(self, name: str, nbytes: int) -> np.ndarray:
        """A uint8 array of ``nbytes`` whose contents last until this thread asks for ``name`` again."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < nbytes:
            self._buffers.pop(name, None)  # let go of the small one before the large one is made
            buffer = self._buffers[name] = np.empty(nbytes, np.uint8)
        return buffer[:nbytes]


def ordered[T, R](
    work: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int,
    ahead: int | None = None,
    cancel: CancelToken | None = None,
) -> Iterator[R]:
    """Results of ``work(item)`` in the order of the items.

    Parameters
    ----------
    work : callable
        Runs in a worker thread.
    items : iterable
        Taken in this thread, one at a time, so it may hand out buffers.
    workers : int
        Threads; 0 works in this thread.
    ahead : int, optional
        Items taken but not yet yielded; by default two a worker.
    cancel : CancelToken, optional
        Checked before each result.

    Notes
    -----
    When the consumer stops or an error comes up, items not begun are dropped and the running
    ones are waited for: no thread outlives the iterator.
    """
    ahead = ahead or 2 * workers
    if workers == 0:
        for item in items:
            if cancel is not None:
                cancel.check()
            yield work(item)
        return
    pending: deque[Future[R]] = deque()
    source = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decant")
    try:
        while True:
            while len(pending) < ahead:
                try:
                    item = next(source)
                except StopIteration:
                    break
                pending.append(pool.submit(work, item))
            if not pending:
                return
            if cancel is not None:
                cancel.check()
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
