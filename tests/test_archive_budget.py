"""A memory limit: workers drop to fit it; what cannot fit is refused or kept verbatim, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import pack, restore, verify
from napari_decant.archive._workers import BASE_MEMORY, choose_workers
from napari_decant.cli import main
from napari_decant.cli._common import parse_size
from napari_decant.errors import BudgetExceeded, UsageError

MIB = 1 << 20


@pytest.fixture
def tiff(tmp_path: Path) -> Path:
    """Two planes of 12 MiB."""
    return write_tiff(tmp_path / "a.tif", TiffSpec(pages=2, height=2048, width=3072)).path


@pytest.mark.parametrize(
    ("plane", "wanted", "memory", "workers"),
    [
        (8 * MIB, 4, None, 4),
        (8 * MIB, 4, BASE_MEMORY + 4 * 4 * 8 * MIB, 4),
        (8 * MIB, 4, BASE_MEMORY + 4 * 4 * 8 * MIB - 1, 3),
        (8 * MIB, 4, BASE_MEMORY + 4 * 8 * MIB, 1),
        (8 * MIB, 4, BASE_MEMORY + 4 * 8 * MIB - 1, 0),
        (8 * MIB, 4, 1, 0),
    ],
)
def test_workers_drop_to_fit(plane: int, wanted: int, memory: int | None, workers: int) -> None:
    assert choose_workers(plane, wanted, memory) == workers


def test_no_workers_at_all() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        choose_workers(1, 0, None)


def test_fewer_workers_give_the_same_archive(tiff: Path, tmp_path: Path) -> None:
    wide = pack(tiff, tmp_path / "wide", workers=4)
    narrow = pack(tiff, tmp_path / "narrow", workers=4, memory=BASE_MEMORY + 2 * 4 * 12 * MIB)
    assert (wide.workers, narrow.workers) == (4, 2)
    assert narrow.archive.read_bytes() == wide.archive.read_bytes()


def test_a_plane_that_does_not_fit_sends_the_file_verbatim(tiff: Path, tmp_path: Path) -> None:
    report = pack(tiff, tmp_path / "out", memory=BASE_MEMORY + 4 * 12 * MIB - 1)
    assert (report.mode, report.reason) == ("verbatim", "plane-over-memory")
    assert verify(report.archive).whole
    restored = restore(report.archive, tmp_path / "back", memory=BASE_MEMORY + 64 * MIB).files[0]
    assert restored.read_bytes() == tiff.read_bytes()


def test_a_limit_that_fits_nothing_is_refused_before_the_work(tiff: Path, tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        pack(tiff, tmp_path / "out", memory=64 * MIB)
    assert (caught.value.knob, caught.value.limit) == ("memory", 64 * MIB)
    assert choose_workers(4 * MIB, 1, caught.value.need) == 1
    archive = pack(tiff, tmp_path / "out").archive
    with pytest.raises(BudgetExceeded):
        restore(archive, tmp_path / "back", memory=64 * MIB)
    assert not list(tmp_path.rglob("*.partial"))
    assert not (tmp_path / "back" / "a.tif").exists()


def test_memory_option(tiff: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", str(tiff), "--memory", "64M"]) == 3
    err = capsys.readouterr().err
    assert "raise memory or ask for less" in err
    assert main(["pack", str(tiff), "--memory", "440M"]) == 0
    assert "plane-over-memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("2k", 2048),
        ("800M", 800 * MIB),
        ("2G", 2 << 30),
        ("1.5GiB", 3 << 29),
        ("1T", 1 << 40),
        (None, None),
    ],
)
def test_sizes(text: str | None, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1Q", "inf", "nan"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)
