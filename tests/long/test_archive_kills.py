"""The kills of ``test_archive_safety``, at many more random points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.name == "nt", reason="POSIX signals"),
]

ROOT = Path(__file__).parents[2]
KILLS = os.environ.get("NAPARI_DECANT_KILLS", "60")


@pytest.mark.parametrize("name", ["test_kill_while_packing", "test_kill_while_restoring"])
def test_nothing_half_done_has_a_final_name(name: str, tmp_path: Path) -> None:
    words = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'kills'}",
        "-o", "timeout=1500", f"tests/test_archive_safety.py::{name}",
    ]  # fmt: skip
    environment = {**os.environ, "NAPARI_DECANT_KILLS": KILLS}
    ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700)
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "1 passed" in ran.stdout
