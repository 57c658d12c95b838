"""What the README and the documentation show is what happens."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ngff import image_keys, ramp

from napari_decant._resources import sample_path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Sizes depend on the versions of the compressors.
SIZE = re.compile(r"[\d.,]+ (bytes|kB|MB|GB)\b")


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (page, text) of every page's code blocks in a language, those of a page joined in order."""
    found = []
    for page in PAGES:
        texts = re.findall(
            rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        if texts:
            found.append((page.name, "\n".join(texts)))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the images that the pages speak of, and the specification's reader."""
    shutil.copy(sample_path(), tmp_path / "cell.tif")
    shutil.copy(ROOT / "spec" / "recover.py", tmp_path)
    for key, data in image_keys([ramp((32, 96, 96)), ramp((16, 48, 48))]).items():
        path = tmp_path / "image.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_examples_run(page: str, code: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=folder, timeout=120)


def test_the_readmes_example_gives_the_image_back(folder: Path) -> None:
    (code,) = [code for page, code in blocks("python") if page == "README.md"]
    lines = [line for line in code.splitlines() if line]
    assert len(lines) <= 5
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, timeout=120)
    assert (folder / "archives" / "cell.tif.zarr.zip").is_file()
    assert (folder / "restored" / "cell.tif").read_bytes() == sample_path().read_bytes()


@pytest.mark.parametrize(("page", "session"), blocks("console"))
def test_commands_print_what_the_pages_show(page: str, session: str, folder: Path) -> None:
    for chunk in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, expected = chunk.partition("\n")
        program, *arguments = shlex.split(command)
        prefix = {
            "napari-decant": [sys.executable, "-m", "napari_decant.cli"],
            "python": [sys.executable],
        }[program]
        done = subprocess.run(
            prefix + arguments,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        printed = done.stdout.replace("\\", "/")  # paths on Windows
        assert SIZE.sub("SIZE", printed).strip() == SIZE.sub("SIZE", expected).strip(), command


def test_every_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert len(links) > 5
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_readme_names_every_verb_a_beginner_needs_and_the_two_make_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words in [
        "make demo",
        "make test",
        'pip install "napari-decant[all]"',
        "pack",
        "verify",
        "restore",
        "napari:",
    ]:
        assert words in text
