"""Run a command with a display: the one that is there, or a virtual one (Xvfb) on Linux without any.

Usage: python scripts/with_display.py COMMAND [ARGUMENT...]

The command gets ``NAPARI_DECANT_HEADLESS=1`` when nobody can see its windows.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parent))

import qt_libraries

SCREEN = "-screen 0 1920x1200x24 +extension GLX"


def answers(display: str) -> bool:
    """Say whether an X server answers at ``host:number``; a name left over from another login does not."""
    match = re.match(r"^(?P<host>[^:]*):(?P<number>\d+)(\.\d+)?$", display)
    if not match:
        return Path(display).is_socket()  # macOS's XQuartz names a socket
    number = int(match.group("number"))
    host = match.group("host")
    if host in ("", "unix"):
        address = f"/tmp/.X11-unix/X{number}"  # where every X server puts it
        return _connects(socket.AF_UNIX, address) or _connects(socket.AF_UNIX, "\0" + address)
    return _connects(socket.AF_INET, (host, 6000 + number))


def _connects(family: int, address: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        try:
            connection.connect(address)  # type: ignore[arg-type]
        except OSError:
            return False
    return True


def has_display(environment: Dict[str, str]) -> bool:
    """Say whether windows can be shown to somebody."""
    if not sys.platform.startswith("linux"):
        return True
    wayland = environment.get("WAYLAND_DISPLAY")
    if wayland and (Path(environment.get("XDG_RUNTIME_DIR", "/")) / wayland).is_socket():
        return True
    return bool(environment.get("DISPLAY")) and answers(environment["DISPLAY"])


def main(command: List[str]) -> int:
    """Run the command and return its exit status."""
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    environment = dict(os.environ)
    shown = has_display(environment)
    lacking = qt_libraries.missing(display=not shown)
    if lacking:
        print(qt_libraries.advice(lacking), file=sys.stderr)
        return 1
    if not shown:
        xvfb_run = shutil.which("xvfb-run")
        assert xvfb_run is not None  # qt_libraries.missing looked for it
        environment.pop("WAYLAND_DISPLAY", None)
        environment.update(NAPARI_DECANT_HEADLESS="1", QT_QPA_PLATFORM="xcb")
        command = [xvfb_run, "--auto-servernum", "--server-args=" + SCREEN, *command]
    if os.name == "posix":
        os.execvpe(command[0], command, environment)
    return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
