"""What is shown while files are looked at, until each look has ended by itself or by its button."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qtpy.QtCore import QEvent
from qtpy.QtWidgets import QApplication
from tests.support.gui import button, notices, rows, settled
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant import archive
from napari_decant.gui.jobs import _tasks

TEXT = "Looking for archives…"


class Gate:
    """Holds looks back one by one."""

    def __init__(self) -> None:
        self._passes = threading.Semaphore(0)
        self.waiting = 0

    def hold(self) -> None:
        """Wait to be let through."""
        self.waiting += 1
        self._passes.acquire(timeout=60)

    def let(self, count: int = 1) -> None:
        """Let some through."""
        self._passes.release(count)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Looks for archives wait here before they end."""
    made = Gate()
    real = _tasks.find_archives

    def held(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        made.hold()
        return result

    monkeypatch.setattr(_tasks, "find_archives", held)
    yield made
    made.let(100)


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """Two archives."""
    made = [write_tiff(tmp_path / f"cell_{n}.tif", TiffSpec(seed=n)).path for n in range(2)]
    return [archive.pack(path, tmp_path / "packed").archive for path in made]


def delete_what_is_to_be_deleted() -> None:
    """Let Qt delete now what it deletes when it finds the time."""
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_a_look_that_is_stopped_by_its_button_ends_quietly(
    qtbot, window, drop, click, gate: Gate, archives: list[Path]
) -> None:
    window.tabs[1].click()
    drop(window.verify, archives[0])
    qtbot.waitUntil(lambda: gate.waiting == 1, timeout=10_000)
    assert notices(window.verify) == [TEXT]
    click(button(window.verify, "Stop"))
    delete_what_is_to_be_deleted()
    assert notices(window.verify) == []
    gate.let()
    settled(qtbot, window.verify)


def test_two_looks_with_the_same_words_end_one_after_the_other(
    qtbot, window, drop, gate: Gate, archives: list[Path]
) -> None:
    window.tabs[1].click()
    for path in archives:
        drop(window.verify, path)
    assert notices(window.verify) == [TEXT, TEXT]
    gate.let()
    qtbot.waitUntil(lambda: len(notices(window.verify)) == 1, timeout=10_000)
    delete_what_is_to_be_deleted()
    assert window.verify.looking
    gate.let()
    settled(qtbot, window.verify)
    assert notices(window.verify) == []
    assert {row.name for row in rows(window.verify)} == {path.name for path in archives}
