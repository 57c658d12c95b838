"""B-12: whatever is packed and however much is queued, the window answers."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
from qtpy.QtCore import Qt, QTimer
from tests.support.gui import kept_waiting, settled
from tests.support.tiffwriter import TiffSpec, write_sparse_imagej, write_tiff

from napari_decant.gui import LIGHT, Desk, Look, make_window
from napari_decant.gui._app import set_aside_modules
from napari_decant.gui._row import Mark
from napari_decant.gui.jobs import JobState

FILES = 5000
PLANES, SIDE = 128, 2048  # 1 GiB of uint16


class Heartbeat:
    """Measures how long the event loop is away.

    ``gaps`` has all of it, ``own`` without the time in which other processes of a busy machine ran: that
    is no fault of the window's. ``story`` tells what the window's thread did in a long gap, and whether
    another thread, which only sleeps, was away as well.
    """

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.own: list[float] = []
        self.story: list[str] = []
        self._last = (0.0, 0.0)
        self._thread = threading.get_ident()
        self._collecting = 0.0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(5)
        self._timer.timeout.connect(self._beat)

    def __enter__(self) -> Heartbeat:
        self._last = (time.perf_counter(), kept_waiting())
        self._watcher.start()
        self._timer.start()
        gc.callbacks.append(self._on_gc)
        return self

    def __exit__(self, *exception: object) -> None:
        self._beat()
        self._timer.stop()
        gc.callbacks.remove(self._on_gc)
        self._over.set()
        self._watcher.join()

    def _beat(self) -> None:
        now = (time.perf_counter(), kept_waiting())
        self.gaps.append(now[0] - self._last[0])
        self.own.append(max(0.0, self.gaps[-1] - (now[1] - self._last[1])))
        self._last = now

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collecting = now
        elif now - self._collecting > 0.05:
            self.story.append(f"garbage of generation {info['generation']}: {now - self._collecting:.2f} s")

    def _watch(self) -> None:
        before = time.perf_counter()
        while not self._over.wait(0.05):
            now = time.perf_counter()
            away, late = now - self._last[0], now - before - 0.05
            before = now
            if (away > 0.25 or late > 0.25) and len(self.story) < 40:
                stack = traceback.format_stack(sys._current_frames()[self._thread])[-4:]
                self.story.append(f"away {away:.2f} s, sleeper late {late:.2f} s\n{''.join(stack)}")


def test_b12_the_event_loop_answers_while_1_gb_is_packed_and_5000_files_are_queued(
    qtbot, qapp, tmp_path: Path
) -> None:
    big = tmp_path / "big.tif"
    write_sparse_imagej(big, PLANES, SIDE, SIDE)
    assert big.stat().st_size > 1 << 30
    many = tmp_path / "many"
    many.mkdir()
    first = write_tiff(many / "0000.tif", TiffSpec(height=16, width=16)).path
    for n in range(1, FILES):
        os.link(first, many / f"{n:04d}.tif")

    desk = Desk(look=Look(LIGHT))  # jobs in processes, as in the real program
    desk.warm()
    window = make_window(qapp, desk)
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    panel = window.pack
    try:
        panel.add([big])
        settled(qtbot, panel)
        fractions: list[float] = []
        begun = time.perf_counter()
        waited = kept_waiting()
        set_aside_modules()  # as the program does when it starts; here also what other tests left
        with Heartbeat() as heart:
            panel.footer.main.click()
            batch = panel.batch
            assert batch is not None
            panel.add([many])
            qtbot.waitUntil(lambda: not panel.looking, timeout=130_000)
            assert len(panel.rows.root.children) == FILES + 1
            panel.footer.main.click()  # all of them at once
            qtbot.waitUntil(lambda: panel._feeding is False, timeout=10_000)
            many_batch = panel.batch
            assert many_batch is not None
            assert len(many_batch) in (FILES, FILES + 1)

            def some_more() -> bool:
                fractions.append(many_batch.fraction)
                return not panel.busy(panel.rows.root.children[0]) and many_batch.count(JobState.DONE) > 20

            qtbot.waitUntil(some_more, timeout=130_000)
            panel.footer.cancel.click()
            qtbot.waitUntil(lambda: panel.batch is None, timeout=20_000)
        busy = (kept_waiting() - waited) / (time.perf_counter() - begun)
        plain, own = np.array(heart.gaps) * 1000, np.array(heart.own) * 1000
        for name, gaps in (("all", plain), ("own", own)):
            figures = f"99 % under {np.percentile(gaps, 99):.0f} ms, longest {gaps.max():.0f} ms"
            sys.stdout.write(f"{name}: {figures}\n")
        longest = "\n".join([str(np.sort(own)[-5:].round()), *heart.story])
        sys.stdout.write("\n".join(heart.story))
        assert len(own) > 200
        assert np.percentile(own, 99) < 100, longest
        assert own.max() < 300, longest
        if busy < 0.05:  # nobody else needed the processors
            assert np.percentile(plain, 99) < 100
            assert plain.max() < 300
        assert fractions == sorted(fractions)
        assert panel.rows.root.children[0].mark is Mark.WHOLE
        assert not list(tmp_path.rglob("*.partial"))
    finally:
        gc.unfreeze()
        window.close()
        desk.close()
        shutil.rmtree(tmp_path, ignore_errors=True)
