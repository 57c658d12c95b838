"""What ``spec/archive.md`` says of the format is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from napari_decant.archive import Reason

SPEC = (Path(__file__).parent.parent / "spec" / "archive.md").read_text(encoding="utf-8")


def codes() -> list[str]:
    """Every code that a file can be kept verbatim for."""
    return [value for name, value in vars(Reason).items() if not name.startswith("_")]


def test_every_reason_is_explained_once() -> None:
    table = SPEC.partition("<!-- reasons: begin -->")[2].partition("<!-- reasons: end -->")[0]
    explained = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", table, re.MULTILINE)
    assert sorted(code for code, _ in explained) == sorted(codes())
    assert len(set(codes())) == len(codes()) >= 20
    assert all(len(text) > 10 for _, text in explained)


def test_limits_that_the_page_names() -> None:
    from napari_decant.archive import _manifest as manifest
    from napari_decant.archive import _page_table as table
    from napari_decant.stores import ZipLimits

    named = [f"{ZipLimits().max_entries:,} entries", f"{table.MAX_VALUES:,} values"]
    named += [f"{table.MAX_CONTAINERS:,} lists and objects"]
    assert manifest.MAX_MANIFEST_BYTES == ZipLimits().max_directory_bytes == 1 << 30
    for text in named:
        assert text in SPEC
