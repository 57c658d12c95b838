"""A Dask cluster as an executor that never leaves anybody waiting for workers that are gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from napari_decant.errors import StorageError, UsageError

__all__ = ["ClusterExecutor", "executor_at"]

_PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 1.0


class ClusterExecutor(Executor):
    """Runs functions on the workers of a Dask scheduler.

    Dask gives the work of a lost worker to another one. Where there is no worker left, or no
    scheduler, it waits for new ones for ever; here what was submitted fails then.

    Parameters
    ----------
    client : distributed.Client
    patience : float
        Seconds without any worker after which work counts as lost.
    """

    def __init__(self, client: Any, patience: float = _PATIENCE_SECONDS) -> None:
        self._client, self._patience = client, patience
        self._inner: Executor = client.get_executor(pure=False, retries=0)
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] = set()
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._watch_workers, daemon=True, name="decant-cluster")
        self._watch.start()

    def submit[**P, T](self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        inner = self._inner.submit(fn, *args, **kwargs)
        outer: Future[T] = Future()
        with self._lock:
            self._pending.add(outer)

        def done(_: Future[T]) -> None:
            if inner.cancelled():
                self._settle(outer, StorageError("the cluster dropped the work"))
                return
            error = inner.exception()
            self._settle(outer, error, inner.result() if error is None else None)

        def cancelled(_: Future[T]) -> None:
            if outer.cancelled():
                self._settle(outer)
                inner.cancel()

        outer.add_done_callback(cancelled)
        inner.add_done_callback(done)
        return outer

    def _settle(self, future: Future[Any], error: BaseException | None = None, value: Any = None) -> None:
        """End a future once, whoever comes first."""
        with self._lock:
            if future not in self._pending:
                return
            self._pending.remove(future)
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _watch_workers(self) -> None:
        seen = time.monotonic()
        while not self._closed.wait(_LOOK_SECONDS):
            if self._has_workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > self._patience:
                error = StorageError("the cluster has no workers any more; start some and run it again")
                with self._lock:
                    lost = list(self._pending)
                for future in lost:
                    self._settle(future, error)

    def _has_workers(self) -> bool:
        try:
            return self._client.status == "running" and bool(
                self._client.scheduler_info(n_workers=-1)["workers"]
            )
        except Exception:  # noqa: BLE001 - whatever a connection that breaks raises: nobody answers
            return False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `concurrent.futures.Executor.shutdown`."""
        with self._lock:
            left = list(self._pending)
        for future in left:
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception()
        self._closed.set()


@contextmanager
def executor_at(address: str | None) -> Iterator[Executor | None]:
    """The executor of a Dask scheduler; None without an address.

    Raises
    ------
    UsageError
        Dask is not installed, or no scheduler answers.
    """
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError as error:
        raise UsageError('--cluster needs Dask; run: pip install "napari-decant[cluster]"') from error
    connect: Any = distributed.Client  # its hints are incomplete
    try:
        client = connect(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask scheduler answers at {address} ({error}); check the address") from error
    executor = ClusterExecutor(client)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False)
        client.close(timeout=2)
