"""A finished batch: an array that is lent and given back."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from napari_decant.errors import UsageError

__all__ = ["Batch"]


class Batch:
    """Samples of one batch, until it is released.

    Use it in a ``with`` block, or call `release`; the memory then serves later batches. An array taken
    from it keeps its values for as long as it is referenced, but its memory is no longer counted.

    Attributes
    ----------
    errors : tuple of (Exception or None)
        Why a sample failed, one entry per sample; the others are whole.
    """

    def __init__(
        self, array: NDArray[Any], errors: tuple[Exception | None, ...], release: Callable[[], None]
    ) -> None:
        self._array: NDArray[Any] | None = array
        self.errors = errors
        self._release: Callable[[], None] | None = release

    def __repr__(self) -> str:
        if self._array is None:
            return "<Batch released>"
        failed = sum(error is not None for error in self.errors)
        return f"<Batch {self._array.shape} {self._array.dtype}{f', {failed} failed' if failed else ''}>"

    @property
    def array(self) -> NDArray[Any]:
        """All samples, shape ``(samples, *shape)``.

        Raises
        ------
        DecantError
            The first error of any sample: failed samples are never handed out as data.
        UsageError
            The batch was released.
        """
        for error in self.errors:
            if error is not None:
                raise error
        return self._held()

    def sample(self, index: int) -> NDArray[Any]:
        """Return one sample, or raise its own error."""
        error = self.errors[index]
        if error is not None:
            raise error
        held: NDArray[Any] = self._held()[index]
        return held

    def __len__(self) -> int:
        return len(self.errors)

    def _held(self) -> NDArray[Any]:
        if self._array is None:
            raise UsageError("the batch was released; use it before, or copy what you keep")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.array
        return array.__array__(dtype, copy=copy) if dtype is not None else array.__array__(copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Export the array without a copy (DLPack)."""
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where the memory is: the CPU."""
        kind, number = self._held().__dlpack_device__()
        return int(kind), int(number)

    def release(self) -> None:
        """Give the memory back; doing it twice is fine."""
        self._array = None
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()
