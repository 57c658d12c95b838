"""The one tree of errors.

Every message is one sentence a user can act on: what is wrong, where, and what to do.
``exit_code`` is what the command line returns (see ``docs/command-line.md``).
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AccessRefused",
    "BudgetExceeded",
    "Cancelled",
    "ChoiceNeeded",
    "DecantError",
    "DeviceUnavailable",
    "DiskFull",
    "FormatError",
    "IncompleteFile",
    "IntegrityError",
    "MissingKey",
    "SourceChanged",
    "StorageError",
    "TargetExists",
    "UnsafeInput",
    "UnsupportedOperation",
    "UsageError",
]


class DecantError(Exception):
    """Base of everything this package raises on purpose."""

    exit_code: ClassVar[int] = 3


class UsageError(DecantError):
    """The call itself is wrong: an option, a missing path, a value out of range."""

    exit_code = 2


class ChoiceNeeded(UsageError):
    """There is more than one candidate, and a guess would be wrong.

    Parameters
    ----------
    message : str
        What there is.
    choices : tuple
        The candidates, for a chooser.
    """

    def __init__(self, message: str, choices: tuple[Any, ...] = ()) -> None:
        super().__init__(message, choices)
        self.choices = choices

    def __str__(self) -> str:
        return str(self.args[0])


class TargetExists(UsageError):
    """The output exists and overwriting was not asked for."""


class FormatError(DecantError):
    """The input is not, or no longer, what its format says; it may be damaged."""


class IncompleteFile(FormatError):
    """The input ends before it is complete: it was cut short or never closed."""


class UnsafeInput(FormatError):
    """The input asks for something that is never done: leaving a root, huge sizes, running code."""


class UnsupportedOperation(DecantError):
    """The request is valid, but this program does not do it."""


class DeviceUnavailable(UnsupportedOperation):
    """There is no GPU that can do this: none, no driver, no cupy, or no memory left on it."""


class IntegrityError(DecantError):
    """Bytes were recomputed and differ from what was recorded."""

    exit_code = 1


class SourceChanged(DecantError):
    """A source file changed while it was being read."""

    exit_code = 4


class StorageError(DecantError):
    """Reading or writing failed: disk full, permissions, network."""

    exit_code = 4


class AccessRefused(StorageError):
    """A server refuses access; for what is not there, too, where it does not let anybody list."""


class DiskFull(StorageError):
    """There is not enough room on a disk, found out before or while writing."""


class MissingKey(StorageError, KeyError):
    """A store has no such key."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class BudgetExceeded(DecantError):
    """A limit given at construction is too small for the work.

    Parameters
    ----------
    knob : str
        Name of the limit, as the user writes it.
    need, limit : int
        What the work needs and what the limit allows, in the knob's unit.
    what : str, optional
        What needs it, put before the numbers.
    """

    def __init__(self, knob: str, need: int, limit: int, what: str = "this work") -> None:
        super().__init__(f"{what} needs {need:,} but {knob} allows {limit:,}; raise {knob} or ask for less")
        self.knob, self.need, self.limit, self.what = knob, need, limit, what

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str]]:
        return type(self), (self.knob, self.need, self.limit, self.what)


class Cancelled(DecantError):
    """The user asked to stop; nothing was left behind."""

    exit_code = 130
