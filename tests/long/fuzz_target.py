"""What the fuzzer calls: ``python fuzz_target.py NAME [libFuzzer options] CORPUS``.

Any bytes may be refused with one of our errors; anything else that is raised is a fault. libFuzzer
itself stops at what takes too long or too much memory.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["napari_decant"]):
    from napari_decant.archive._describe import describe
    from napari_decant.archive._layout import plan_file, regions_of
    from napari_decant.archive._manifest import Member, dump_manifest, load_manifest, page_tables
    from napari_decant.errors import DecantError
    from napari_decant.stores import BytesFile, ZipStore, salvage_directory, salvage_entries


def manifest(data: bytes) -> None:
    """A manifest that is accepted can be written and is accepted again."""
    found = load_manifest(data, "fuzz")
    again = load_manifest(dump_manifest(found), "fuzz")
    assert again.model_dump() == found.model_dump()
    columns, tables = page_tables(found.members or [Member.model_construct(pages=found.pages)])
    assert sum(page.nbytes for table in tables for page in table) == columns.counts.sum()


def directory(data: bytes) -> None:
    """All that a reader, a verifier and a salvager do with a zip file."""
    with contextlib.suppress(DecantError):
        store = ZipStore(BytesFile(data, "fuzz"))
        assert sum(1 for _ in store.check_headers()) <= 5 * len(store.entries)
        for key in _keys(store):
            with contextlib.suppress(DecantError):
                assert len(store.read(key, limit=1 << 20)) == store.entry(key).size
    assert sum(1 for _ in salvage_entries(BytesFile(data, "fuzz"))) <= len(data) // 30 + 1
    store = ZipStore(BytesFile(data, "fuzz"), directory=salvage_directory(BytesFile(data, "fuzz")))
    for key in _keys(store):
        with contextlib.suppress(DecantError):
            store.read(key, limit=1 << 20)


def _keys(store: ZipStore) -> list[str]:
    return list(store.keys())


def tiff(data: bytes) -> None:
    """Every byte of a file belongs to a listed plane or to the rest, once."""

    def read_at(offset: int, length: int) -> bytes:
        return data[offset : offset + length] if 0 <= offset < len(data) else b""

    layout = plan_file(read_at, len(data))
    assert bool(layout.planes) != bool(layout.reason)
    regions = regions_of(layout.planes)
    ends = regions.offset + regions.length
    assert not len(regions) or (int(ends[-1]) <= len(data) and bool((regions.offset[1:] >= ends[:-1]).all()))
    _, gaps = regions.gaps(len(data))
    assert int(gaps.sum()) + sum(plane.nbytes for plane in layout.planes) == len(data)
    if layout.planes:
        description = describe(BytesFile(data, "fuzz"), layout)
        assert len(set(description.order)) == len(description.order)
        assert len(description.order) == description.axes.planes


TARGETS: dict[str, Callable[[bytes], None]] = {"manifest": manifest, "directory": directory, "tiff": tiff}


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]

    def once(data: bytes) -> None:
        with contextlib.suppress(DecantError):
            target(data)

    atheris.Setup(sys.argv, once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
