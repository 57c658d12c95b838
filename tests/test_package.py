"""Every way of installing brings the plugin manifest, the sample image and the icon."""

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from napari_decant._resources import icon_path, sample_path

npe2 = pytest.importorskip("npe2")

ROOT = Path(__file__).parent.parent
SAMPLE_SHA256 = "fc574275775ea99f13f22c92178a723476ec2912f0e1b5fe642e995ef995608c"
SHIPPED = [
    "napari_decant/napari.yaml",
    "napari_decant/py.typed",
    "napari_decant/resources/PROVENANCE.md",
    "napari_decant/resources/cell_dna_mts_actin.tif",
    "napari_decant/resources/icon.svg",
]


def build(tree: Path, out: Path, target: str) -> Path:
    """Build with the project's own backend, as any installer does, but without the network."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
        cwd=tree,
        check=True,
        capture_output=True,
    )
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("packages")
    sdist = build(ROOT, folder / "sdist", "sdist")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    return {
        "sdist tree": tree,
        "wheel": build(ROOT, folder / "wheel", "wheel"),
        "wheel from sdist": build(tree, folder / "wheel-from-sdist", "wheel"),
    }


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("kind", ["wheel", "wheel from sdist"])
def test_a_wheel_carries_what_the_program_needs_beside_its_code(packages: dict[str, Path], kind: str) -> None:
    files = contents(packages[kind])
    for name in SHIPPED:
        assert files[name] == (ROOT / "src" / name).read_bytes()
    assert (
        hashlib.sha256(files["napari_decant/resources/cell_dna_mts_actin.tif"]).hexdigest() == SAMPLE_SHA256
    )
    assert any(name.endswith("/licenses/LICENSE") for name in files)


def test_the_wheel_from_the_sdist_is_the_wheel_from_the_tree(packages: dict[str, Path]) -> None:
    assert contents(packages["wheel"]) == contents(packages["wheel from sdist"])


def test_the_sdist_brings_the_specification_and_the_tests(packages: dict[str, Path]) -> None:
    for name in ["README.md", "LICENSE", "spec/recover.py", "tests/test_package.py", "resources/icon.svg"]:
        assert (packages["sdist tree"] / name).is_file()


@pytest.mark.parametrize("kind", ["wheel", "wheel from sdist"])
def test_npe2_finds_the_plugin_in_a_wheel(packages: dict[str, Path], kind: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(packages[kind]) as archive:
        archive.extractall(tmp_path)
    # Look in the unpacked wheel and not in the source folder that the editable install points to.
    code = (
        "import sys\n"
        "wheel, source = sys.argv[1:]\n"
        "sys.path = [wheel] + [path for path in sys.path if path != source]\n"
        "import napari_decant\n"
        "from npe2 import PluginManifest\n"
        "manifest = PluginManifest.from_distribution('napari-decant')\n"
        "print(manifest.display_name, manifest.package_version, napari_decant.__file__)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(ROOT / "src")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.split()[:2] == ["Decant", importlib.metadata.version("napari-decant")]
    assert Path(found.split()[2]).is_relative_to(tmp_path)


def test_npe2_finds_the_plugin_in_this_environment() -> None:
    manifest = npe2.PluginManifest.from_distribution("napari-decant")
    assert manifest.display_name == "Decant"
    assert manifest.icon == "napari_decant.resources:icon.svg"


def test_the_version_is_the_same_everywhere() -> None:
    import napari_decant

    assert importlib.metadata.version("napari-decant") == napari_decant.__version__


def test_the_sample_image_is_the_published_file_and_says_where_it_is_from() -> None:
    assert hashlib.sha256(sample_path().read_bytes()).hexdigest() == SAMPLE_SHA256
    provenance = (sample_path().parent / "PROVENANCE.md").read_text(encoding="utf-8")
    assert SAMPLE_SHA256 in provenance
    assert "creativecommons.org/licenses/by/4.0" in provenance


def test_the_icon_draws_the_same_on_any_background() -> None:
    svg = icon_path().read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "viewBox" in svg  # sharp at any size
    for colour in ["currentColor", "#000", "#fff", '"black"', '"white"']:
        assert colour not in svg  # would vanish on a dark or a light theme


LINKED = {
    "src/napari_decant/napari.yaml": "napari.yaml",
    "src/napari_decant/resources/PROVENANCE.md": "resources/PROVENANCE.md",
    "src/napari_decant/resources/cell_dna_mts_actin.tif": "resources/cell_dna_mts_actin.tif",
    "src/napari_decant/resources/icon.svg": "resources/icon.svg",
}


@pytest.mark.parametrize(("link", "target"), LINKED.items())
def test_what_the_package_ships_is_the_top_level_file(link: str, target: str) -> None:
    assert (ROOT / link).read_bytes() == (ROOT / target).read_bytes(), (
        f"{link} is neither a link nor a copy of {target}: run scripts/bootstrap.py where git makes no links"
    )


def test_git_holds_links_and_not_copies() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "--stage", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    modes = {line.partition("\t")[2]: line[:6] for line in listing.splitlines()}
    assert {path for path, mode in modes.items() if mode == "120000"} == set(LINKED)
