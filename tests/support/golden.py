"""Makes golden archives: ``python -m tests.support.golden`` adds what is missing and replaces nothing.

A golden archive stays as it was made for ever, since later versions must restore it. Run this when the
product learns to write a new kind of archive, after adding the kind here.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from napari_decant.archive import pack, pack_series, plan_series, verify

from .layouts import SPECS, the_tiff
from .tiffspec import TiffSpec
from .tiffwriter import write_tiff

__all__ = ["GOLDEN", "originals_of"]

GOLDEN = Path(__file__).parents[1] / "golden"
_TABLE = GOLDEN / "originals.json"


def originals_of() -> dict[str, dict[str, str]]:
    """Return the sha256 of each original, by archive and name."""
    return dict(json.loads(_TABLE.read_text())) if _TABLE.exists() else {}


def _single(folder: Path, name: str) -> Path:
    tiff = the_tiff(folder / name, name)
    os.utime(tiff.path, (1_000_000_000, 1_000_000_000))
    return pack(tiff.path).archive


def _bytes(folder: Path, name: str, data: bytes) -> Path:
    folder = folder / name
    folder.mkdir()
    (folder / f"{name}.tif").write_bytes(data)
    return pack(folder / f"{name}.tif").archive


def _series(folder: Path, name: str, *, alike: bool) -> Path:
    base = folder / name
    base.mkdir()
    for number, (t, z) in enumerate(itertools.product(range(2), range(3))):
        order: Literal["<", ">"] = ">" if number % 2 else "<"
        dtype = "uint16" if alike else ("uint8", "uint16")[number % 2]
        height = 12 if alike else 12 + number
        spec = TiffSpec(
            height=height, dtype=dtype, values="bits", byteorder=order, trailing=number, seed=number
        )
        write_tiff(base / f"img_t{t:03}_z{z:02}.tif", spec)
    (base / "notes.txt").write_text("not a TIFF")
    (base / "empty.tif").touch()
    plan = plan_series(sorted(base.iterdir()), base)
    assert plan.consolidated == alike
    return pack_series(plan, folder / f"{name}.zarr{'.zip' * alike}").archive


def _placed(folder: Path, name: str) -> Path:
    """Planes whose files come in another order than the array has them: t, z, c becomes t, c, z."""
    base = folder / name
    base.mkdir()
    for number, (t, z, c) in enumerate(itertools.product((1, 2), range(3), ("DAPI", "GFP"))):
        order: Literal["<", ">"] = ">" if c == "GFP" else "<"
        spec = TiffSpec(height=9, width=11, values="bits", byteorder=order, trailing=number, seed=number)
        write_tiff(base / f"img_t{t:03}_z{z:02}_{c}.tif", spec)
    plan = plan_series(sorted(base.iterdir()), base)
    assert plan.description is not None
    assert plan.description.axes.plane_order == ("t", "z", "c")
    assert plan.description.axes.canonical_order == ("t", "c", "z")
    return pack_series(plan, folder / f"{name}.zarr.zip").archive


KINDS: dict[str, Callable[[Path, str], Path]] = {
    **dict.fromkeys(SPECS, _single),
    "empty": lambda folder, name: _bytes(folder, name, b""),
    "not-a-tiff": lambda folder, name: _bytes(folder, name, bytes(range(1, 200)) * 3),
    "series-consolidated": lambda folder, name: _series(folder, name, alike=True),
    "series-nested": lambda folder, name: _series(folder, name, alike=False),
    "series-placed-tcz": _placed,
}


def main() -> None:
    """Add the archives that are missing."""
    table = originals_of()
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for name, make in KINDS.items():
            if any(archive.partition(".")[0] == name for archive in table):
                continue
            made = make(Path(work), name)
            assert verify(made).whole
            target = GOLDEN / f"{name}.zarr{'' if made.is_dir() else '.zip'}"
            shutil.move(made, target)
            folder = Path(work) / name
            table[target.name] = {
                path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(folder.rglob("*"))
                if path.is_file() and not path.name.endswith(".zip")
            }
            _TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
