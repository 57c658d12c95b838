"""Make ``.venv`` with everything the project needs, from whatever Python runs this.

Needs Python 3.6 or newer and nothing else. Finds Python 3.12 or newer (this one, one on PATH, one of
pyenv's, one that uv knows) or lets uv download one, makes ``.venv``, installs the project into it in
editable form with all its tools, and on Linux looks after the libraries that Qt needs. A second run
with nothing changed ends at once.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import qt_libraries
import with_display

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".bootstrap"
STAMP = VENV / "bootstrap.json"
WINDOWS = os.name == "nt"
VENV_PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
OLDEST = (3, 12)
BEST_FIRST = [(3, 13), (3, 12), (3, 14)]
REQUIREMENT = ".[all]"
GROUP = "dev"
OLDEST_UV = (0, 7, 0)

PROBE = """
import json, struct, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "executable": getattr(sys, "_base_executable", None) or sys.executable,
    "usable": struct.calcsize("P") == 8
              and sys.implementation.name == "cpython"
              and sys.version_info.releaselevel == "final"
              and not sysconfig.get_config_var("Py_GIL_DISABLED"),
}))
"""


RUN_PIP = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
GET_PYTHON = "install one from https://www.python.org/downloads/ and run this again"


def say(text: str) -> None:
    """Tell the user what happens."""
    print("bootstrap: " + text, flush=True)


def fail(text: str) -> NoReturn:
    """Stop with one sentence."""
    sys.exit("bootstrap: " + text)


def output_of(command: List[str], timeout: float = 60) -> Optional[str]:
    """Return what a command prints, or None if it cannot run or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            universal_newlines=True,
            timeout=timeout,
            cwd=str(ROOT),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def run(command: List[str]) -> bool:
    """Run a command with its output shown; return whether it succeeded."""
    environment = dict(os.environ)
    environment.setdefault("UV_HTTP_TIMEOUT", "180")  # Qt alone is 80 MB
    environment.pop("PYTHONHOME", None)
    try:
        return subprocess.call(command, cwd=str(ROOT), env=environment, stdin=subprocess.DEVNULL) == 0
    except OSError:
        return False


# --- which Python -----------------------------------------------------------------------------------------


def probe(python: str) -> Optional[Dict[str, Any]]:
    """Run a candidate and return its facts if this project can use it."""
    text = output_of([python, "-I", "-c", PROBE], timeout=30)
    try:
        facts = json.loads(text or "")
    except ValueError:
        return None
    new_enough = tuple(facts["version"]) >= OLDEST
    return facts if facts["usable"] and new_enough else None


def candidates() -> Iterator[str]:
    """Yield Pythons that may be on this machine, the likely ones first."""
    yield sys.executable
    for minor in [13, 12, 14, 15, 16]:
        name = f"python3.{minor}"
        found = shutil.which(name)
        if found:
            yield found
    for name in ["python3", "python"]:
        found = shutil.which(name)
        if found:
            yield found
    if WINDOWS:
        for line in (output_of(["py", "-0p"]) or "").splitlines():
            match = re.search(r"[A-Za-z]:\\.*python\.exe", line)
            if match:
                yield match.group()
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted(pyenv.glob("versions/3.*")) + sorted(pyenv.glob("pyenv-win/versions/3.*")):
        yield str(folder / ("python.exe" if WINDOWS else "bin/python"))
    for folder in map(Path, ["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin"]):
        for path in sorted(folder.glob("python3.1[2-9]")):
            yield str(path)


def rank(facts: Dict[str, Any]) -> Tuple[int, List[int]]:
    """Order Pythons: the versions this project is tested on first, then the newest patch."""
    version = tuple(facts["version"][:2])
    place = BEST_FIRST.index(version) if version in BEST_FIRST else len(BEST_FIRST)
    return place, [-part for part in facts["version"]]


def find_python() -> Optional[Dict[str, Any]]:
    """Return the best Python 3.12 or newer on this machine, without uv's help."""
    here = probe(sys.executable)
    if here and rank(here)[0] < len(BEST_FIRST):
        return here
    found = [facts for facts in map(probe, dict.fromkeys(candidates())) if facts]
    return min(found, key=rank) if found else None


def find_python_with_uv(uv: List[str]) -> Dict[str, Any]:
    """Return a Python that uv knows or downloads; stop if there is none."""
    find = [*uv, "python", "find", "--system", "--no-python-downloads", ">=3.12,<3.15"]
    facts = probe((output_of(find) or "").strip() or "uv found none")
    if not facts:
        say("no Python 3.12 or newer on this machine: asking uv to download Python 3.13")
        run([*uv, "python", "install", "3.13"])
        facts = probe((output_of(find) or "").strip() or "uv found none")
    if not facts:
        fail("no Python 3.12 or newer is here and none could be downloaded; " + GET_PYTHON)
    return facts


# --- uv ---------------------------------------------------------------------------------------------------


def uv_works(command: List[str]) -> bool:
    """Say whether this uv runs and is new enough for dependency groups."""
    match = re.match(r"uv (\d+)\.(\d+)\.(\d+)", output_of([*command, "--version"]) or "")
    return match is not None and tuple(map(int, match.groups())) >= OLDEST_UV


def get_uv(python: str) -> Optional[List[str]]:
    """Return a command that runs uv: the one on PATH, or one installed into ``.bootstrap``."""
    found = shutil.which("uv")
    if found and uv_works([found]):
        return [found]
    private = TOOLS / "uv" / ("bin/uv.exe" if WINDOWS else "bin/uv")
    if uv_works([str(private)]):
        return [str(private)]
    say(f"getting uv, a fast installer, into {TOOLS.name}")
    shutil.rmtree(str(TOOLS), ignore_errors=True)
    pip = [python, "-m", "pip"]
    if output_of([*pip, "--version"]) is None:
        # A Python without pip may still make an environment that has it.
        maker = TOOLS / "pip"
        if output_of([python, "-m", "venv", str(maker)], timeout=300) is None:
            return None
        pip = [str(maker / ("Scripts/python.exe" if WINDOWS else "bin/python")), "-m", "pip"]
    # uv is a program, not a module, so the Python that fetches it may be older than its wheels say.
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    fetch = ["install", *options, "--python-version", "3.12", "--target", str(TOOLS / "uv"), "uv"]
    output_of(pip + fetch, timeout=600)
    if not uv_works([str(private)]):
        # pip from before 2020 does not see today's wheels; the last one for Python 3.6 does.
        newer = str(TOOLS / "newer-pip")
        output_of([*pip, "install", "--quiet", "--no-deps", "--target", newer, "pip<22"], timeout=600)
        output_of([python, "-c", RUN_PIP, newer, *fetch], timeout=600)
    return [str(private)] if uv_works([str(private)]) else None


# --- the environment --------------------------------------------------------------------------------------


def wanted_stamp() -> Dict[str, str]:
    """Return what the environment depends on; a different value means work to do."""
    digest = hashlib.sha256()
    for path in [ROOT / "pyproject.toml", Path(__file__)]:
        digest.update(path.read_bytes())
    return {"inputs": digest.hexdigest(), "root": str(ROOT)}


def venv_version() -> Optional[str]:
    """Return the version of a working ``.venv``, or None."""
    text = output_of([str(VENV_PYTHON), "-I", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"])
    version = (text or "").strip()
    return version if version and tuple(map(int, version.split("."))) >= OLDEST else None


def is_current() -> bool:
    """Say whether the last run made exactly what this one would make."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    return stamp == wanted_stamp() and venv_version() is not None


def make_venv(python: Dict[str, Any], uv: Optional[List[str]]) -> None:
    """Create ``.venv`` unless a usable one is there."""
    if venv_version():
        return
    if VENV.is_symlink() or (VENV.exists() and not (VENV / "pyvenv.cfg").exists() and any(VENV.iterdir())):
        fail(f"{VENV} is there but is no Python environment; move it away and run this again")
    shutil.rmtree(str(VENV), ignore_errors=True)
    say("making .venv with Python {}".format(".".join(map(str, python["version"]))))
    if uv:
        made = run([*uv, "venv", "--quiet", "--python", python["executable"], str(VENV)])
    else:
        made = run([python["executable"], "-m", "venv", str(VENV)])
    if not made or not venv_version():
        fail("{} could not make {}; see the message above".format(python["executable"], VENV))


def install(uv: Optional[List[str]]) -> None:
    """Install the project with all its tools into ``.venv``."""
    say("installing the project and its tools (about a minute the first time)")
    if uv:
        command = [*uv, "pip", "install", "--quiet", "--python", str(VENV_PYTHON), "--compile-bytecode"]
    else:
        command = [str(VENV_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if not run([*command, "--upgrade", "pip>=25.1"]):  # the first pip that knows dependency groups
            fail("the package index could not be reached; check the network and run this again")
    if not run([*command, "--group", GROUP, "--editable", REQUIREMENT]):
        fail("installing the packages failed; see the message above, then run this again")


# --- the rest ---------------------------------------------------------------------------------------------


def repair_links() -> None:
    """Put copies where git wrote links as small text files (Windows without developer mode)."""
    listing = output_of(["git", "ls-files", "--stage"])
    for line in (listing or "").splitlines():
        mode, _, rest = line.partition(" ")
        path = ROOT / rest.partition("\t")[2]
        if mode != "120000" or path.is_symlink() or not path.is_file() or path.stat().st_size > 1024:
            continue
        try:
            target = path.parent / path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if target.is_file():
            # git must not take the copy for an edited link.
            output_of(["git", "update-index", "--skip-worktree", str(path.relative_to(ROOT))])
            shutil.copyfile(str(target), str(path))
            say(f"{path.relative_to(ROOT)} is a link that this checkout could not make; put a copy there")


def look_after_qt() -> None:
    """Install the libraries that Qt needs if that is possible without asking, else say which they are."""
    lacking = qt_libraries.missing(display=not with_display.has_display(dict(os.environ)))
    if not lacking:
        return
    if qt_libraries.may_install():
        say("installing what Qt needs from the system: {}".format(" ".join(qt_libraries.packages(lacking))))
        if qt_libraries.install(lacking):
            return
    say(qt_libraries.advice(lacking))


def main() -> None:
    """Make or refresh the environment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--force", action="store_true", help="install again even if nothing changed")
    arguments = parser.parse_args()

    repair_links()
    look_after_qt()
    if is_current() and not arguments.force:
        return
    start = time.time()
    python = find_python()
    uv = get_uv(python["executable"] if python else sys.executable)
    if python is None:
        if uv is None:
            fail("no Python 3.12 or newer is here, and no uv to get one with; " + GET_PYTHON)
        python = find_python_with_uv(uv)
    make_venv(python, uv)
    install(uv)
    STAMP.write_text(json.dumps(wanted_stamp()))
    say(f"ready: .venv has Python {venv_version()} ({time.time() - start:.0f} s)")


if __name__ == "__main__":
    main()
