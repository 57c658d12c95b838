"""Reading metadata documents: several at once, within a budget."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from napari_decant.errors import AccessRefused, BudgetExceeded, UsageError
from napari_decant.stores._base import Store

__all__ = ["FileMetadataReader", "MetadataBudget"]


class MetadataBudget:
    """How many bytes of metadata may still be read, shared by the threads of one load.

    Parameters
    ----------
    limit : int
        Bytes in total.
    knob : str, optional
        Name of the limit in `BudgetExceeded`.
    """

    def __init__(self, limit: int, knob: str = "max_metadata_bytes") -> None:
        self.limit, self.knob = limit, knob
        self.spent = 0
        self._lock = threading.Lock()

    def reserve(self, size: int, what: str = "the metadata") -> None:
        """Take ``size`` bytes, or raise `BudgetExceeded`, which leaves the budget as it was."""
        with self._lock:
            if self.spent + size > self.limit:
                raise BudgetExceeded(self.knob, self.spent + size, self.limit, what)
            self.spent += size


class FileMetadataReader:
    """Reads metadata documents of stores; one reader serves any number of images and threads.

    Parameters
    ----------
    concurrency : int, optional
        How many reads are in flight where a read costs a round trip. Local ones are read one after the other.
    """

    def __init__(self, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}; it must be at least 1")
        self.concurrency = concurrency

    def __repr__(self) -> str:
        return f"FileMetadataReader(concurrency={self.concurrency})"

    def read_many(
        self, store: Store, keys: Iterable[str], budget: MetadataBudget | None = None
    ) -> dict[str, bytes]:
        """Read whole keys; absent ones are left out.

        Parameters
        ----------
        store : Store
            Where from.
        keys : iterable of str
            Which; repeated keys are read once.
        budget : MetadataBudget, optional
            Charged with each size before anything of that size is allocated.

        Returns
        -------
        dict of str to bytes
            In the order of ``keys``.

        Raises
        ------
        BudgetExceeded
            The documents are larger than the budget.
        StorageError
            A read failed. Keys that a server refuses count as absent where it gives another one: servers that
            let nobody list say so of what is not there.
        """
        refused: list[AccessRefused] = []

        def read(key: str) -> bytes | None:
            try:
                if budget is None:
                    return store.read_optional(key)
                return store.read_optional(key, lambda size: budget.reserve(size, f"{key!r} of {store.uri}"))
            except AccessRefused as error:
                refused.append(error)
                return None

        wanted = list(dict.fromkeys(keys))
        workers = min(self.concurrency, len(wanted)) if store.remote else 1
        if workers <= 1:
            values = [read(key) for key in wanted]
        else:
            with ThreadPoolExecutor(workers, thread_name_prefix="metadata") as pool:
                values = list(pool.map(read, wanted))
        if refused and all(value is None for value in values):
            raise refused[0]
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    def read(self, store: Store, key: str, budget: MetadataBudget | None = None) -> bytes | None:
        """Read one key; None if it is absent. See `read_many`."""
        return self.read_many(store, (key,), budget).get(key)
