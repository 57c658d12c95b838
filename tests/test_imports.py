"""Importing is cheap, and imports go downwards only."""

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = [
    "PyQt6",
    "cupy",
    "dask",
    "imagecodecs",
    "magicgui",
    "napari",
    "numba",
    "obstore",
    "pydantic",
    "qtpy",
    "tifffile",
    "zarr",
]


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_importing_the_package_leaves_the_heavy_libraries_alone() -> None:
    modules = modules_after("import napari_decant")
    assert "napari_decant" in modules
    assert not modules.intersection(HEAVY)


def test_the_command_line_needs_no_window_to_start() -> None:
    modules = modules_after("import napari_decant.cli")
    assert not modules.intersection(["PyQt6", "PySide6", "cupy", "magicgui", "napari", "qtpy", "superqt"])


def test_importing_takes_under_150_ms_beyond_numpy() -> None:
    code = (
        "import time, numpy\n"
        "start = time.perf_counter()\n"
        "import napari_decant\n"
        "print(time.perf_counter() - start)"
    )
    # The best of several runs: other work on the machine only ever adds.
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(times) < 0.150


EXTRAS = {  # what may be imported beyond the dependencies, and where
    "cli": {"distributed", "napari"},
    "archive": {"distributed", "send2trash"},
    "engine": {"cupy"},
    "gui": {"gui"},
    "plugin": {"gui", "napari"},
}


def test_what_the_code_imports_is_what_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=!~ ;]", each)[0].lower().replace("_", "-") for each in requirements}

    declared = names(project["dependencies"])
    distributions = importlib.metadata.packages_distributions()
    undeclared = []
    for path in (ROOT / "src" / "napari_decant").rglob("*.py"):
        room = path.relative_to(ROOT / "src" / "napari_decant").parts[0].removesuffix(".py")
        allowed = set(declared)
        for name in EXTRAS.get(room, ()):
            allowed |= names(extras[name]) if name in extras else {name}
        for module in imported(path):
            if module in sys.stdlib_module_names or module == "napari_decant":
                continue
            if not allowed.intersection(name.lower() for name in distributions.get(module, [module])):
                undeclared.append(f"{path.name} imports {module}")
    assert not undeclared


def imported(path: Path) -> set[str]:
    """Return the top-level names of all modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of a copy of the project in a folder."""
    pytest.importorskip("importlinter")
    # The folder goes first, so that the copy is checked and not the installed package.
    code = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the code and its contracts, to break."""
    ignore = shutil.ignore_patterns("__pycache__", "*.tif")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_import_contracts_hold(copy: Path) -> None:
    result = lint_imports(copy)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("errors.py", "import napari_decant.stores", "imports go downwards only"),
        ("stores/_upward.py", "from napari_decant.archive import pack", "imports go downwards only"),
        ("archive/_shown.py", "def show():\n    import napari", "no Qt and no napari below gui"),
        ("ngff/_shown.py", "from qtpy.QtCore import QObject", "no Qt and no napari below gui"),
        ("archive/_fast.py", "import cupy", "no cupy outside engine.cuda"),
        ("unheard_of.py", "x = 1", "imports go downwards only"),
    ],
)
def test_a_wrong_import_breaks_its_contract(copy: Path, module: str, line: str, contract: str) -> None:
    with (copy / "src" / "napari_decant" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = lint_imports(copy)
    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout
