"""Build the sdist and the wheel, install each plainly into a clean environment, and use what was installed.

The clean environment has no napari and no Qt: archiving must work on a cluster without them.
Usage: python scripts/check_packages.py [FOLDER]   (keeps the packages in FOLDER, dist/ by default)
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bootstrap

USE = """
import importlib.util, sys
from pathlib import Path
from napari_decant import pack, restore, verify
from napari_decant._resources import icon_path, sample_path

assert "site-packages" in str(sample_path()), sample_path()
assert icon_path().read_text().startswith("<svg")
for absent in ["napari", "qtpy", "PyQt6", "dask", "cupy"]:
    assert importlib.util.find_spec(absent) is None, absent + " came along"
folder = Path(sys.argv[1])
archive = pack(sample_path(), output_dir=folder / "packed").archive
assert verify(archive).whole
(back,) = restore(archive, folder / "restored").files
assert back.read_bytes() == sample_path().read_bytes()
print("packed, verified and restored", back.name)
"""
DISCOVER = """
from npe2 import PluginManifest
(found,) = [r for r in PluginManifest.discover() if r.distribution.metadata["Name"] == "napari-decant"]
assert found.error is None, found.error
assert found.manifest.display_name == "Decant"
print("npe2 finds the plugin", found.manifest.name, found.manifest.package_version)
"""


def main(folder: Path) -> None:
    """Build, install, use; the first thing that fails ends the program."""
    shutil.rmtree(folder, ignore_errors=True)
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, check=True, cwd=bootstrap.ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    uv = bootstrap.get_uv(sys.executable)
    if uv is None:
        sys.exit("check_packages: uv is needed to make clean environments, and could not be had")
    with tempfile.TemporaryDirectory() as scratch:
        for package in [wheel, sdist]:
            print(f"-- {package.name}", flush=True)
            _use(package, Path(scratch) / package.suffix, uv)


def _use(package: Path, scratch: Path, uv: List[str]) -> None:
    scratch.mkdir()
    venv = scratch / "venv"
    python = str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))

    def run(*command: str) -> None:
        status = subprocess.call(command, cwd=scratch, stdin=subprocess.DEVNULL)
        if status != 0:
            sys.exit(f"check_packages: {package.name} does not hold up; see the message above")

    run(*uv, "venv", "--quiet", "--python", sys.executable, str(venv))
    install = [*uv, "pip", "install", "--quiet", "--python", python]
    run(*install, str(package))
    run(python, "-I", "-c", USE, str(scratch))
    run(str(Path(python).parent / "napari-decant"), "--version")
    run(*install, "npe2")
    run(python, "-I", "-c", DISCOVER)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve())
