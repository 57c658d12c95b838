"""Try the window as a new user does, with mouse and keyboard alone, and compare what comes back.

Usage: python scripts/trial_window.py [--files FOLDER] [--pictures FOLDER]

A folder is dragged onto the window, packed, verified, and restored to another folder, and ``diff -r`` has the
last word. Runs on a display of its own (Xvfb) with openbox where that is installed; nothing of the program is
called from here: xdotool moves the mouse and types, and what to click is found by its colour on the screen.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
from numpy.typing import NDArray
from qtpy.QtCore import QMimeData, QPoint, Qt, QUrl
from qtpy.QtGui import QDrag, QGuiApplication, QImage, QMouseEvent
from qtpy.QtWidgets import QApplication, QLabel

sys.path.insert(0, str(Path(__file__).resolve().parent))

from with_display import virtual_display

from napari_decant._resources import sample_path
from napari_decant.gui import LIGHT

TOOLS = ("Xvfb", "xdotool", "diff")
PLACE, SIZE = (40, 60), (1024, 640)
SOURCE = (1300, 200)
PATIENCE = 120.0
TIFFS = (".tif", ".tiff", ".btf", ".lsm")
MOST = 40  # files of a corpus: what a person waits for


class Source(QLabel):  # type: ignore[misc]
    """A file manager with a single folder in it, to be dragged; runs as a program of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder.name)
        self.setWindowTitle("Files")
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.resize(240, 120)
        self.folder = folder

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Begin to drag."""
        drag = QDrag(self)
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(self.folder))])
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)


class Person:
    """Eyes and hands before the screen."""

    def __init__(self, app: QApplication, pictures: Path | None) -> None:
        self.app, self.pictures, self.shots = app, pictures, 0
        self.window = ""

    def wait(self, seconds: float) -> None:
        """Do nothing for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.app.processEvents()
            time.sleep(0.01)

    def until(self, what: str, seen: Callable[[], bool]) -> None:
        """Wait for something to be seen."""
        end = time.monotonic() + PATIENCE
        while not seen():
            self.wait(0.1)
            if time.monotonic() > end:
                self.look("in vain")
                raise SystemExit(f"trial: waited {PATIENCE:.0f} s in vain for {what}")

    def do(self, *words: object) -> str:
        """Let the hands do something."""
        command = ["xdotool", *map(str, words)]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
        return ran.stdout.strip()

    def screen(self) -> QImage:
        """What there is to be seen."""
        screen = QGuiApplication.primaryScreen()
        return screen.grabWindow(0).toImage().convertToFormat(QImage.Format.Format_RGB888)

    def look(self, name: str) -> None:
        """Take a picture of the screen, where pictures are wanted."""
        if self.pictures is not None:
            self.wait(0.6)
            self.shots += 1
            self.screen().copy(0, 0, 1160, 760).save(str(self.pictures / f"{self.shots:02d} {name}.png"))

    def button(self) -> QPoint | None:
        """Middle of the one coloured button; None where it is grey."""
        image = self.screen()
        raw = image.constBits()
        size = image.sizeInBytes()
        data = raw.asstring(size) if hasattr(raw, "asstring") else bytes(raw)
        lines = np.frombuffer(data, np.uint8).reshape(image.height(), image.bytesPerLine())
        pixels: NDArray[np.uint8] = lines[:, : 3 * image.width()].reshape(image.height(), image.width(), 3)
        colour = [int(LIGHT.accent[at : at + 2], 16) for at in (1, 3, 5)]
        found = np.abs(pixels.astype(int) - colour).max(axis=-1) <= 2
        rows = np.flatnonzero(found.sum(axis=1) > 60)  # wider than any icon; the words are light in it
        if len(rows) < 12:
            return None
        columns = np.flatnonzero(found[rows[-1] - 3])
        return QPoint(int(np.median(columns)), int(rows[-1] - 8))

    def click_button(self) -> None:
        """Click what is coloured, and move on so that no tooltip covers anything."""
        place = self.button()
        assert place is not None
        self.do("mousemove", place.x(), place.y(), "sleep", 0.2, "click", 1, "mousemove", 600, 20)

    def drop(self, folder: Path) -> None:
        """Drag a folder from the file manager onto the window."""
        source = subprocess.Popen([sys.executable, __file__, "--source", folder])
        self.do("search", "--sync", "--name", "^Files$", "windowmove", "--sync", *SOURCE)
        x, y = SOURCE[0] + 120, SOURCE[1] + 70
        steps: list[object] = ["mousemove", x, y, "sleep", 0.3, "mousedown", 1, "sleep", 0.3]
        for part in range(1, 11):
            goal = (PLACE[0] + SIZE[0] // 2, PLACE[1] + SIZE[1] // 2)
            here = (x + (goal[0] - x) * part // 10, y + (goal[1] - y) * part // 10)
            steps += ["mousemove", *here, "sleep", 0.05]
        self.do(*steps, "sleep", 0.3)
        self.look(f"drag {folder.name}")
        self.do("mouseup", 1, "sleep", 0.5)
        source.terminate()
        source.wait()
        self.do("windowactivate", "--sync", self.window)

    @property
    def title(self) -> str:
        """What the window's title says; the task bar shows it, too."""
        return self.do("getwindowname", self.window)

    def work(self, name: str) -> None:
        """Click the coloured button, wait until the work is done, and look at it."""
        self.until("the button that starts the work", lambda: self.button() is not None)
        self.look(f"{name} ready")
        self.click_button()

    def finished(self, name: str) -> None:
        """Wait for the end of the work."""
        self.until(f"the end of {name}", lambda: self.button() is None and "%" not in self.title)
        self.wait(0.5)
        self.until(f"the end of {name}", lambda: self.button() is None and "%" not in self.title)
        self.look(f"{name} done")


def make_files(folder: Path) -> None:
    """A small experiment: cells, a compressed slide, a time-lapse, names that are no ASCII, notes."""
    folder.mkdir()
    for number in range(3):
        shutil.copy(sample_path(), folder / f"cell {number}.tif")
    numbers = np.arange(1, 200 * 300 * 3 + 1).reshape(200, 300, 3)
    tifffile.imwrite(folder / "slide.tif", (numbers % 251 + 1).astype(np.uint8), compression="zlib")
    (folder / "Zeitraffer größer").mkdir()
    for number in range(4):
        plane = (numbers[..., 0] % 60_000 + number + 1).astype(np.uint16)
        tifffile.imwrite(folder / "Zeitraffer größer" / f"img_t{number:03d}.tif", plane)


def copy_files(given: Path, folder: Path) -> None:
    """Some TIFFs of a folder of real files, with their folders."""
    found = sorted(path for path in given.rglob("*") if path.suffix.lower() in TIFFS and path.is_file())
    for path in found[:: max(1, len(found) // MOST)][:MOST]:
        target = folder / path.relative_to(given)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    if not found:
        raise SystemExit(f"trial: {given} holds no TIFFs")


def archives(folder: Path) -> list[Path]:
    """Finished archives below a folder."""
    return sorted(folder.rglob("*.zarr.zip"))


def trial(person: Person, base: Path, experiment: Path) -> None:
    """The whole way, from an empty window to the originals in another folder."""
    begun = time.monotonic()
    person.window = person.do("search", "--sync", "--name", "^Decant$").split()[0]
    print(f"trial: the window is there after {time.monotonic() - begun:.1f} s more")
    person.do("windowsize", person.window, *SIZE, "windowmove", person.window, *PLACE)
    person.do("windowactivate", "--sync", person.window)
    person.look("first sight")

    person.drop(experiment)
    person.work("pack")
    person.finished("pack")
    files = [path for path in experiment.rglob("*") if path.suffix.lower() in TIFFS and path.is_file()]
    print(f"trial: {len(files)} files became {len(archives(experiment))} archives")

    person.do("key", "ctrl+2")
    person.look("verify empty")
    person.drop(experiment)
    person.work("verify")
    person.finished("verify")
    person.do("mousemove", PLACE[0] + 200, PLACE[1] + 380, "click", 1, "key", "ctrl+a", "key", "ctrl+c")
    person.wait(0.5)
    report = QGuiApplication.clipboard().text()
    whole = report.count("\n  whole")
    print(f"trial: the window says that {whole} archives are whole")
    if whole != len(archives(experiment)):
        raise SystemExit(f"trial: not all archives are said to be whole:\n{report}")

    back = base / "back"
    back.mkdir()
    person.do("key", "ctrl+3")
    person.drop(experiment)
    person.work("restore")
    person.wait(1)
    person.look("restore folder")
    person.do("type", "--delay", 20, str(back))
    person.do("key", "Return")
    person.finished("restore")


def differences(first: Path, second: Path) -> str:
    """What ``diff -r`` says."""
    ran = subprocess.run(["diff", "-r", first, second], stdout=subprocess.PIPE, text=True, check=False)
    return ran.stdout.strip()


def be_source(folder: Path) -> int:
    """Show a folder to drag until told to end."""
    app = QApplication(sys.argv[:1])
    source = Source(folder)
    source.show()
    return int(app.exec())


def inside(given: Path | None, pictures: Path | None) -> int:
    """Run on the display that is there; returns the exit code."""
    app = QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory(prefix="trial-") as name:
        base = Path(name)
        home, experiment, kept = base / "home", base / "experiment", base / "kept"
        home.mkdir()
        if given is None:
            make_files(experiment)
        else:
            copy_files(given, experiment)
        shutil.copytree(experiment, kept)
        settings = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}
        environment = dict(os.environ, **settings)
        log = base / "log"
        program = Path(sys.executable).with_name("napari-decant")
        manager = (
            [subprocess.Popen(["openbox"], env=environment, stderr=subprocess.DEVNULL)]
            if shutil.which("openbox")
            else []
        )
        with log.open("w") as file:
            window = subprocess.Popen([program, "gui"], env=environment, stderr=file)
            person = Person(app, pictures)
            try:
                trial(person, base, experiment)
                person.do("windowclose" if not manager else "key", person.window if not manager else "alt+F4")
                person.until("the window to close", lambda: window.poll() is not None)
            finally:
                for process in (window, *manager):
                    process.terminate()
                    process.wait()
        for archive in archives(experiment):
            archive.unlink()
        found = [differences(kept, experiment), differences(kept, base / "back")]
        said = log.read_text().strip()
    if any(found) or said:
        print("\n".join(part for part in (*found, said) if part))
        return 1
    print("trial: diff -r finds no difference, neither in what came back nor in the originals")
    return 0


def main() -> int:
    """Look for the tools, and run on a display of our own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    corpus = os.environ.get("NAPARI_DECANT_CORPUS")
    given = Path(corpus) / "files" if corpus else None
    parser.add_argument("--files", type=Path, default=given, help="real TIFFs instead of made ones")
    parser.add_argument("--pictures", type=Path, help="where pictures of each step go")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.source is not None:
        return be_source(arguments.source)
    if arguments.inside:
        return inside(arguments.files, arguments.pictures)
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(
            f"trial: skipped, since this needs {' and '.join(missing)} (apt install xvfb xdotool diffutils)"
        )
        return 0
    if arguments.pictures is not None:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with virtual_display() as variables:
        environment = dict(os.environ, QT_QPA_PLATFORM="xcb", **variables)
        environment.pop("WAYLAND_DISPLAY", None)
        command = [sys.executable, __file__, "--inside", *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
