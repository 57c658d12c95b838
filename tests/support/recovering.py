"""Runs ``spec/recover.py`` as a person without the program would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["RECOVER", "recover"]

RECOVER = Path(__file__).parents[2] / "spec" / "recover.py"


def recover(archive: Path, outdir: Path, seconds: float = 120) -> tuple[int, str]:
    """Return the exit code and what was printed to stderr; the package itself cannot be imported there."""
    ran = subprocess.run(
        [sys.executable, "-I", str(RECOVER), str(archive), str(outdir)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return ran.returncode, ran.stderr
