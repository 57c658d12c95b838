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


def _environment(pyside: Path) -> dict[str, str]:
    path = os.pathsep.join([str(pyside), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path, "QT_API": "pyside6"}


@pytest.mark.parametrize("binding", ["pyqt6", "pyside6"])
@pytest.mark.parametrize("mode", ["windows", "panels"])
def test_windows_and_panels_come_and_go_50_times_in_mid_job(
    request: pytest.FixtureRequest, tmp_path: Path, binding: str, mode: str
) -> None:
    environment = {**os.environ, "QT_API": "pyqt6"}
    if binding == "pyside6":
        environment = _environment(request.getfixturevalue("pyside"))
    words = [sys.executable, "-m", "tests.support.stress", mode, "50", str(tmp_path)]
    run = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "left: [] [] []\n"), run.stderr[-4000:]
    assert "Traceback" not in run.stderr


def test_the_window_does_the_same_with_pyside6(pyside: Path) -> None:
    environment = _environment(pyside)
    binding = [sys.executable, "-c", "import qtpy; print(qtpy.API_NAME)"]
    name = subprocess.run(binding, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert name == "PySide6"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/gui", "-q", "-o", "qt_api=pyside6", "-p", "no:cacheprovider"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-6000:]
    assert " passed" in run.stdout
