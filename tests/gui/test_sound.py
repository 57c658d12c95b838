"""Windows and panels come and go while jobs run, and nothing crashes, hangs or stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from napari_decant.gui._panel import JobPanel

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mode", ["windows", "panels"])
def test_windows_and_panels_come_and_go_in_mid_job(tmp_path: Path, mode: str) -> None:
    words = [sys.executable, "-m", "tests.support.stress", mode, "10", str(tmp_path)]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert (run.returncode, run.stdout) == (0, "left: [] [] []\n"), run.stderr[-4000:]
    assert "Traceback" not in run.stderr


def test_a_panel_that_lacks_something_says_what(desk) -> None:
    class Half(JobPanel):
        def start(self) -> None:
            self.refresh()

    with pytest.raises(TypeError, match="Half is abstract: it lacks add, done, main, options, row_actions"):
        Half(desk)
