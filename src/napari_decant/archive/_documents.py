"""The small documents of an archive, read many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from napari_decant.archive._manifest import MAX_MANIFEST_BYTES
from napari_decant.errors import DecantError, FormatError, StorageError, UnsafeInput
from napari_decant.stores import Store

__all__ = ["read_documents"]

_TOGETHER = 4 << 20  # bytes of one read
_GAP = 4096  # bytes between entries that are cheaper to read than to skip


def read_documents(
    store: Store, keys: Iterable[str], damaged: Callable[[str, DecantError], None]
) -> Iterator[tuple[str, bytes]]:
    """Read whole entries in the order in which they lie; neighbours share a read.

    Parameters
    ----------
    store : Store
    keys : iterable of str
        Must be there.
    damaged : callable
        Gets the key and the error of each that cannot be read.

    Yields
    ------
    key, data : str, bytes
    """
    places: list[tuple[str, int, int, str]] = []
    for key in keys:
        try:
            where = store.extent(key)
            if where is None or where.length > MAX_MANIFEST_BYTES:
                raise UnsafeInput(f"it has more than {MAX_MANIFEST_BYTES:,} bytes")
            places.append((where.file, where.offset, where.offset + where.length, key))
        except (FormatError, StorageError, UnsafeInput) as error:
            damaged(key, error)
    places.sort()
    for group in _neighbours(places):
        file, start, stop = group[0][0], group[0][1], group[-1][2]
        try:
            data = store.read_file(file, start, stop - start)
        except (FormatError, StorageError) as error:
            for _, _, _, key in group:
                damaged(key, error)
            continue
        for _, first, last, key in group:
            yield key, data[first - start : last - start]


def _neighbours(places: list[tuple[str, int, int, str]]) -> Iterator[list[tuple[str, int, int, str]]]:
    group: list[tuple[str, int, int, str]] = []
    for place in places:
        file, start, stop, _ = place
        if group and (file != group[0][0] or start > group[-1][2] + _GAP or stop - group[0][1] > _TOGETHER):
            yield group
            group = []
        group.append(place)
    if group:
        yield group
