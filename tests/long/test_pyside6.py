"""The window with the other Qt binding: the same tests, run once more with PySide6."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["PySide6-Essentials>=6.7", "shiboken6>=6.7"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def pyside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with PySide6 in it, outside the environment, where napari would find it too."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import bootstrap
    finally:
        sys.path.pop(0)
    uv = bootstrap.get_uv(sys.executable)
    folder = tmp_path_factory.mktemp("pyside")
    if uv is None:
        pytest.skip("uv, which installs PySide6 for this test, could not be had")
    command = [
        *uv,
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--python",
        sys.executable,
        "--target",
        str(folder),
    ]
    done = subprocess.run([*command, *PACKAGES], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"PySide6 could not be installed: {done.stderr.strip()[-300:]}")
    return folder


def test_the_window_does_the_same_with_pyside6(pyside: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(pyside), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "QT_API": "pyside6",
    }
    binding = [sys.executable, "-c", "import qtpy; print(qtpy.API_NAME)"]
    name = subprocess.run(binding, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert name == "PySide6"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/gui", "-q", "-o", "qt_api=pyside6", "-p", "no:cacheprovider"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-6000:]
    assert " passed" in run.stdout
