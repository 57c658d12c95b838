"""Series of thousands of files, worked on with few open files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.tiffwriter import TiffSpec, write_tiff

__all__ = ["make_many", "under_64_files"]

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from napari_decant import info, restore, verify
from napari_decant.archive import pack_series, plan
source, archive, back = map(Path, sys.argv[1:])
(row,) = plan([source], archive.parent, series=True, estimate=False, workers=2)
report = pack_series(row.series, archive)
assert report.members == len(row.series.members), report
assert verify(archive).whole and verify(archive, quick=True).ok
assert len(info(archive).members) == report.members
restore(archive, back)
"""


def make_many(folder: Path, count: int) -> Path:
    """A folder of small TIFFs that differ in their last bytes."""
    folder.mkdir()
    one = write_tiff(folder / "img_0.tif", TiffSpec(height=8, width=8)).path.read_bytes()
    for number in range(1, count):
        (folder / f"img_{number}.tif").write_bytes(one + b"%d" % number)
    return folder


def under_64_files(source: Path, archive: Path, back: Path) -> float:
    """Pack, verify, describe and restore a series with 64 open files at most; returns processor seconds."""
    import resource

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    begun = used()
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, (source, archive, back))],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    return used() - begun
