"""Archives of every kind, made once: every later version, and the short reader alone, must restore them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from tests.support.archivewriter import nest
from tests.support.golden import GOLDEN, originals_of
from tests.support.recovering import recover

from napari_decant.archive import info, open_original, restore, verify

ORIGINALS = originals_of()
ARCHIVES = sorted(ORIGINALS)


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_every_archive_is_listed() -> None:
    found = {path.name for path in GOLDEN.iterdir()} - {"originals.json", "README.md", ".gitattributes"}
    assert found == set(ARCHIVES)
    assert len(ARCHIVES) >= 18


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_version_restores_it(tmp_path: Path, name: str) -> None:
    state = verify(GOLDEN / name)
    assert (state.whole, state.problems) == (True, ())
    restore(GOLDEN / name, tmp_path / "out")
    assert hashes(tmp_path / "out") == ORIGINALS[name]
    assert {member.name: member.sha256 for member in info(GOLDEN / name).members} == ORIGINALS[name]
    for member, sha256 in ORIGINALS[name].items():
        with open_original(GOLDEN / name, member if len(ORIGINALS[name]) > 1 else None) as original:
            assert hashlib.sha256(original.read()).hexdigest() == sha256


def test_the_short_reader_restores_them(tmp_path: Path) -> None:
    single = {name: GOLDEN / name for name in ARCHIVES if not name.startswith("series")}
    assert recover(nest(tmp_path / "all.zarr", single), tmp_path / "out") == (0, "")
    assert hashes(tmp_path / "out") == {name: next(iter(ORIGINALS[name].values())) for name in single}


@pytest.mark.parametrize("name", [name for name in ARCHIVES if name.startswith("series")])
def test_the_short_reader_restores_series(tmp_path: Path, name: str) -> None:
    copied = tmp_path / name  # a checkout may be read-only, or behind a link
    shutil.copytree(GOLDEN / name, copied) if (GOLDEN / name).is_dir() else shutil.copy(GOLDEN / name, copied)
    assert recover(copied, tmp_path / "out") == (0, "")
    assert hashes(tmp_path / "out") == ORIGINALS[name]
