"""Series of very many files: few open files, and a quick look that stays quick."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.support.manyfiles import make_many, under_64_files

from napari_decant import verify


@pytest.mark.skipif(os.name == "nt", reason="POSIX limits")
def test_20000_files_under_64_open_files(tmp_path: Path) -> None:
    folder, archive, back = make_many(tmp_path / "s", 20_000), tmp_path / "s.zarr.zip", tmp_path / "back"
    seconds = under_64_files(folder, archive, back)
    assert (
        seconds < 200
    )  # of the processor; a tenth of them for 2,000 files, so nothing grows faster than that
    for name in (f"img_{number}.tif" for number in range(0, 20_000, 997)):
        assert (back / name).read_bytes() == (folder / name).read_bytes()
    begun = time.process_time()
    assert verify(archive, quick=True).ok
    assert time.process_time() - begun < 4  # 60,000 entries; 0.7 s on an idle machine
