"""Memory that is promised before it is used."""

from __future__ import annotations

import threading

from napari_decant.errors import BudgetExceeded

__all__ = ["ByteGate", "MemoryBudget"]


class ByteGate:
    """Lets so many bytes through at a time: readers wait here while decoders are behind.

    Parameters
    ----------
    limit : int
        A single request larger than this enters alone.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._inside = 0
        self._changed = threading.Condition()

    def enter(self, nbytes: int) -> int:
        """Wait for room; return what to `leave` with."""
        with self._changed:
            while self._inside and self._inside + nbytes > self.limit:
                self._changed.wait()
            self._inside += nbytes
        return nbytes

    def leave(self, nbytes: int) -> None:
        """Make room."""
        if nbytes:
            with self._changed:
                self._inside -= nbytes
                self._changed.notify_all()


class MemoryBudget:
    """Bytes promised to running work and to results that are still held.

    Parameters
    ----------
    limit : int
    knob : str
        Its name in errors.
    """

    def __init__(self, limit: int, knob: str) -> None:
        self.limit, self.knob = limit, knob
        self.used = 0
        self._changed = threading.Condition()

    def check(self, need: int, what: str) -> None:
        """Refuse what could never fit.

        Raises
        ------
        BudgetExceeded
        """
        if need > self.limit:
            raise BudgetExceeded(self.knob, need, self.limit, what)

    def take(self, need: int, what: str, *, wait: bool = True) -> bool:
        """Promise bytes, waiting for others to give back; without ``wait`` return whether it worked."""
        self.check(need, what)
        with self._changed:
            while self.used + need > self.limit:
                if not wait:
                    return False
                self._changed.wait()
            self.used += need
        return True

    def give(self, nbytes: int) -> None:
        """Take a promise back."""
        with self._changed:
            self.used -= nbytes
            self._changed.notify_all()
