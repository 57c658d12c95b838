"""Messages between the window and its worker processes: pickles, each with its length in front."""

from __future__ import annotations

import pickle
import struct
import threading
from typing import Any, BinaryIO

__all__ = ["Channel"]

_LENGTH = struct.Struct("<Q")


class Channel:
    """Two pipes to one process that this program started itself; any thread may send.

    Parameters
    ----------
    reading, writing : BinaryIO
        The pipes' ends here.
    """

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing
        self._lock = threading.Lock()

    def send(self, *message: Any) -> None:
        """Send a message.

        Raises
        ------
        OSError, ValueError
            The other side is gone, or this one was closed.
        """
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._writing.write(_LENGTH.pack(len(data)))
            self._writing.write(data)
            self._writing.flush()

    def receive(self) -> tuple[Any, ...]:
        """Wait for a message.

        Raises
        ------
        EOFError
            The other side is gone.
        """
        head = self._reading.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise EOFError
        (length,) = _LENGTH.unpack(head)
        data = self._reading.read(length)
        if len(data) < length:
            raise EOFError
        message: tuple[Any, ...] = pickle.loads(data)
        return message

    def close(self) -> None:
        """Close both ends."""
        for pipe in (self._writing, self._reading):
            try:
                pipe.close()
            except OSError:  # what was not flushed to a process that is gone
                continue
