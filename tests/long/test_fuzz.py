"""A coverage-guided fuzzer looks for bytes that crash the readers of manifest, zip directory and TIFF."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.golden import GOLDEN
from tests.support.layouts import SPECS, the_tiff
from tests.support.tiffwriter import TiffSpec, write_tiff

pytest.importorskip("atheris", reason="there is no atheris for this system")

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SECONDS = int(os.environ.get("NAPARI_DECANT_FUZZ_SECONDS", "60"))
ROOT = Path(__file__).parents[2]


def manifests(folder: Path) -> None:
    for archive in GOLDEN.glob("*.zarr.zip"):
        with zipfile.ZipFile(archive) as opened:
            (folder / archive.name).write_bytes(opened.read(".decant/manifest.json"))
    nested = GOLDEN / "series-nested.zarr" / ".decant" / "manifest.json"
    (folder / "nested").write_bytes(nested.read_bytes())


def zips(folder: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(folder / f"small{method}.zip", "w", method) as made:
            for name in ("a", "0/0", "0/1", "deep/er/\u00e9"):
                made.writestr(name, name.encode() * 20)
            made.comment = b"a comment"
    with zipfile.ZipFile(folder / "big.zip", "w") as made, made.open("a", "w", force_zip64=True) as entry:
        entry.write(b"sixty-four")
    (folder / "archive").write_bytes((GOLDEN / "empty.zarr.zip").read_bytes())


def tiffs(folder: Path) -> None:
    for name in SPECS:
        made = the_tiff(folder, name).path
        if made.stat().st_size > 20_000:
            made.unlink()
    for big in (False, True):
        write_tiff(folder / f"tiny{big}.tif", TiffSpec(pages=2, height=3, width=4, bigtiff=big))


SEEDS: dict[str, Callable[[Path], None]] = {"manifest": manifests, "directory": zips, "tiff": tiffs}


@pytest.mark.parametrize("target", sorted(SEEDS))
def test_no_bytes_crash_a_reader(target: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    SEEDS[target](corpus)
    words = [
        sys.executable, str(Path(__file__).with_name("fuzz_target.py")), target,
        f"-max_total_time={SECONDS}", "-timeout=20", "-rss_limit_mb=3000", "-max_len=20000",
        f"-artifact_prefix={tmp_path}/", "-print_final_stats=1", str(corpus),
    ]  # fmt: skip
    ran = subprocess.run(
        words, capture_output=True, text=True, timeout=SECONDS + 300, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    found = [path.read_bytes() for path in tmp_path.iterdir() if path.is_file()]
    assert ran.returncode == 0, f"{ran.stdout[-4000:]}\n{ran.stderr[-2000:]}\n{found}"
    runs = re.search(r"number_of_executed_units: (\d+)", ran.stderr)
    assert runs is not None, ran.stderr[-2000:]
    assert int(runs[1]) > 100 * SECONDS  # it did run, and fast enough to find something
