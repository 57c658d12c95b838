"""From any machine with git, make and some Python, `make` gets a working environment or says what to do."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from scripts import bootstrap, qt_libraries, with_display

ROOT = Path(__file__).parent.parent
SCRIPTS = ["bootstrap.py", "qt_libraries.py", "with_display.py"]
posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="virtual displays are for Linux")


def executable(path: Path, text: str) -> Path:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def broken(path: Path) -> Path:
    """A version manager's shim for a version that is not set up: there, but it fails."""
    return executable(path, "#!/bin/sh\necho 'python: command not found' >&2\nexit 127\n")


def working(path: Path) -> Path:
    """Another name for this Python."""
    return executable(path, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')


# --- finding Python ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_bootstrap_scripts_use_no_syntax_newer_than_old_pythons(name: str) -> None:
    ast.parse((ROOT / "scripts" / name).read_text(encoding="utf-8"), feature_version=(3, 7))


@posix
@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.9", "3.10", "3.11"])
def test_the_bootstrap_scripts_run_on_old_pythons(version: str) -> None:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    old = next((str(path) for path in pyenv.glob(f"versions/{version}.*/bin/python")), None)
    old = old or shutil.which(f"python{version}")
    if old is None or subprocess.run([old, "--version"], capture_output=True).returncode != 0:
        pytest.skip(f"no Python {version} on this machine")
    code = "import bootstrap, json; print(json.dumps(bootstrap.find_python()))"
    done = subprocess.run(
        [old, "-c", code],
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert tuple(json.loads(done.stdout)["version"]) >= (3, 12)


@posix
def test_the_shell_part_passes_over_pythons_that_do_not_run(tmp_path: Path) -> None:
    broken(tmp_path / "bin" / "python3.13")
    broken(tmp_path / "bin" / "python3")
    working(tmp_path / "bin" / "python")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        ["sh", "scripts/bootstrap.sh", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--force" in done.stdout


@posix
def test_a_candidate_must_run_and_be_new_enough(tmp_path: Path) -> None:
    old = '{"version": [3, 11, 9], "executable": "/x", "usable": true}'
    unusable = '{"version": [3, 13, 1], "executable": "/x", "usable": false}'
    assert bootstrap.probe(str(broken(tmp_path / "shim"))) is None
    assert bootstrap.probe(str(tmp_path / "absent")) is None
    assert bootstrap.probe(str(executable(tmp_path / "old", f"#!/bin/sh\necho '{old}'\n"))) is None
    assert bootstrap.probe(str(executable(tmp_path / "free", f"#!/bin/sh\necho '{unusable}'\n"))) is None
    facts = bootstrap.probe(str(working(tmp_path / "good")))
    assert facts is not None
    assert facts["version"] == list(sys.version_info[:3])


@posix
def test_pyenvs_versions_are_found_though_its_shims_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = working(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin" / "python")
    monkeypatch.setattr(sys, "executable", str(broken(tmp_path / "shims" / "python3")))
    broken(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert str(good) in bootstrap.candidates()
    facts = bootstrap.find_python()
    assert facts is not None
    assert tuple(facts["version"]) >= (3, 12)


def test_versions_this_project_is_tested_on_come_first() -> None:
    versions = [[3, 15, 0], [3, 14, 2], [3, 12, 9], [3, 13, 1], [3, 13, 4]]
    ordered = sorted(({"version": version} for version in versions), key=bootstrap.rank)
    assert [facts["version"] for facts in ordered] == [
        [3, 13, 4],
        [3, 13, 1],
        [3, 12, 9],
        [3, 14, 2],
        [3, 15, 0],
    ]


# --- the environment --------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose environment was made by the last run."""
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    venv = tmp_path / ".venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV", venv)
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", python)
    monkeypatch.setattr(bootstrap, "STAMP", venv / "bootstrap.json")
    bootstrap.STAMP.write_text(json.dumps(bootstrap.wanted_stamp()), encoding="utf-8")
    return tmp_path


def test_nothing_is_done_again_when_nothing_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_install(uv: object) -> None:
        raise AssertionError("installed again")

    monkeypatch.setattr(bootstrap, "install", no_install)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py"])
    monkeypatch.setattr(qt_libraries, "missing", lambda display: {})
    bootstrap.main()
    assert bootstrap.is_current()


def test_a_changed_pyproject_means_work(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert not bootstrap.is_current()


@posix
def test_an_environment_whose_python_is_gone_is_made_again(project: Path) -> None:
    bootstrap.VENV_PYTHON.unlink()
    assert not bootstrap.is_current()
    bootstrap.make_venv({"version": [3, 13, 0], "executable": sys.executable}, None)
    assert bootstrap.venv_version() == "{}.{}.{}".format(*sys.version_info)


def test_a_folder_that_is_no_environment_is_left_alone(project: Path) -> None:
    shutil.rmtree(bootstrap.VENV)
    bootstrap.VENV.mkdir()
    (bootstrap.VENV / "precious.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="is no Python environment; move it away"):
        bootstrap.make_venv({"version": [3, 13, 0], "executable": sys.executable}, None)
    assert (bootstrap.VENV / "precious.txt").read_text(encoding="utf-8") == "mine"


@posix
def test_without_any_python_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    uv = executable(tmp_path / "uv", "#!/bin/sh\nexit 1\n")
    with pytest.raises(
        SystemExit, match=r"none could be downloaded; install one from https://www\.python\.org"
    ):
        bootstrap.find_python_with_uv([str(uv)])


def test_checkouts_without_links_get_copies_and_stay_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(folder: Path, *arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout

    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    (origin / "src" / "package").mkdir(parents=True)
    (origin / "plain.yaml").write_text("name: decant\n", encoding="utf-8")
    link = Path("src", "package", "plain.yaml")
    try:
        (origin / link).symlink_to(Path("..", "..", "plain.yaml"))
    except OSError:
        pytest.skip("this system makes no links")
    git(origin, "init", "-q")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "a link")
    git(tmp_path, "clone", "-q", "-c", "core.symlinks=false", str(origin), str(clone))
    assert (clone / link).read_text(encoding="utf-8") == "../../plain.yaml"

    monkeypatch.setattr(bootstrap, "ROOT", clone)
    bootstrap.repair_links()
    assert (clone / link).read_text(encoding="utf-8") == "name: decant\n"
    assert git(clone, "status", "--short") == ""


# --- Qt's libraries and a display -------------------------------------------------------------------------


@linux
def test_missing_libraries_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        qt_libraries, "_loader_cache", lambda: "libEGL.so.1 (libc6,x86-64) => /usr/lib/libEGL.so.1"
    )
    lacking = qt_libraries.missing(display=False)
    assert "libEGL.so.1" not in lacking
    assert lacking["libxcb-icccm.so.4"] == "libxcb-icccm4"
    assert "libxcb-icccm.so.4" in qt_libraries.advice(lacking)
    monkeypatch.setattr(
        qt_libraries.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None
    )
    assert "sudo apt-get install libxcb-icccm4" in qt_libraries.advice({"libxcb-icccm.so.4": "libxcb-icccm4"})
    assert "xvfb" in qt_libraries.packages(qt_libraries.missing(display=True))


def bare_environment(**more: str) -> dict[str, str]:
    """The environment of a machine without a display."""
    if qt_libraries.missing():
        pytest.skip(qt_libraries.advice(qt_libraries.missing()))
    return {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")} | more


WITH_DISPLAY = [sys.executable, str(ROOT / "scripts" / "with_display.py")]


@linux
@pytest.mark.parametrize("stale", [{}, {"DISPLAY": ":987"}, {"WAYLAND_DISPLAY": "wayland-987"}])
def test_without_a_display_a_virtual_one_is_made_and_taken_away(stale: dict[str, str]) -> None:
    code = (
        "import os, sys; sys.path.insert(0, 'scripts')\n"
        "import with_display\n"
        "display = os.environ['DISPLAY']\n"
        "print(display, with_display.answers(display), os.environ['NAPARI_DECANT_HEADLESS'])\n"
        "raise SystemExit(7)"
    )
    done = subprocess.run(
        [*WITH_DISPLAY, sys.executable, "-c", code],
        cwd=ROOT,
        env=bare_environment(**stale),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 7, done.stderr
    display, answered, headless = done.stdout.split()
    assert (answered, headless) == ("True", "1")
    assert display != ":987"
    assert not with_display.answers(display)


@linux
def test_a_display_that_answers_is_used() -> None:
    code = "import os; print(os.environ['DISPLAY'])"
    with with_display.virtual_display() as variables:
        done = subprocess.run(
            [*WITH_DISPLAY, sys.executable, "-c", code],
            env=bare_environment(**variables),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.strip() == variables["DISPLAY"]


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_ended_run_leaves_no_display_behind(number: signal.Signals) -> None:
    code = "import os, time; print(os.environ['DISPLAY'], flush=True); time.sleep(60)"
    with subprocess.Popen(
        [*WITH_DISPLAY, sys.executable, "-c", code], env=bare_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        display = process.stdout.readline().strip()
        assert with_display.answers(display)
        command = psutil.Process(process.pid).children()
        process.send_signal(number)
        process.wait(timeout=20)
        for child in command:
            if child.is_running() and child.name() != "Xvfb":
                child.kill()  # what was killed outright cannot pass the signal on
    deadline = time.monotonic() + 10
    while with_display.answers(display) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not with_display.answers(display)


# --- make and CI ------------------------------------------------------------------------------------------


@posix
def test_make_names_its_targets() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ["demo", "test", "test-long", "lint", "docs", "bench", "screenshots"]:
        assert re.search(rf"^  make {target}\s+\w", shown, re.MULTILINE)


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """A checkout whose stages do nothing but say their names."""
    executable(tmp_path / ".ci" / "run", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    executable(tmp_path / "scripts" / "bootstrap.sh", "echo bootstrap ran\n")
    executable(tmp_path / ".venv" / "bin" / "python", "#!/bin/sh\necho packages ran\n")
    executable(
        tmp_path / "bin" / "make",
        '#!/bin/sh\nfor target in "$@"; do :; done\necho "make $target corpus=$NAPARI_DECANT_CORPUS"\n'
        '[ "$target" != "$FAILING" ]\n',
    )
    return tmp_path


def run_ci(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run .ci/run of a checkout."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    clean = {key: value for key, value in os.environ.items() if key != "NAPARI_DECANT_CORPUS"}
    return subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env={**clean, "PATH": path, "CI": "true", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@posix
def test_ci_runs_every_stage_and_is_green_only_if_all_are(ci: Path) -> None:
    done = run_ci(ci)
    assert done.returncode == 0, done.stdout + done.stderr
    for stage in ["bootstrap", "make lint", "make docs", "packages", "make test", "make demo"]:
        assert stage in done.stdout
    assert "FAILED" not in done.stdout


@posix
@pytest.mark.parametrize("failing", ["lint", "docs", "test", "demo"])
def test_ci_fails_with_a_failing_stage_and_still_runs_the_others(ci: Path, failing: str) -> None:
    done = run_ci(ci, FAILING=failing)
    assert done.returncode == 1
    assert "make demo" in done.stdout
    assert done.stdout.count("FAILED") == 1


@linux
def test_ci_ends_what_a_stage_left_running_and_fails(ci: Path) -> None:
    with (ci / "bin" / "make").open("a", encoding="utf-8") as make:
        make.write('[ "$target" = docs ] && setsid sleep 987 &\n')
    done = run_ci(ci)
    assert done.returncode == 1
    assert "left running: sleep 987" in done.stdout
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "987"]]


@posix
def test_ci_stops_where_there_is_no_environment(ci: Path) -> None:
    executable(ci / "scripts" / "bootstrap.sh", "echo no python here >&2; exit 1\n")
    done = run_ci(ci)
    assert done.returncode == 1
    assert "make" not in done.stdout


@posix
def test_ci_hands_the_corpus_beside_the_checkout_to_the_tests(ci: Path) -> None:
    (ci / "main").mkdir()
    for name in [".ci", "scripts", ".venv", "bin"]:
        (ci / name).rename(ci / "main" / name)
    corpus = ci / "shared" / "corpus"
    corpus.mkdir(parents=True)
    assert f"make test corpus={corpus}" in run_ci(ci / "main").stdout
