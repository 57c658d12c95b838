"""Run a command with a display: the one that is there, or a virtual one (Xvfb) on Linux without any.

Usage: python scripts/with_display.py COMMAND [ARGUMENT...]

The command gets ``NAPARI_DECANT_HEADLESS=1`` when nobody can see its windows.
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List

sys.path.insert(0, str(Path(__file__).resolve().parent))

import qt_libraries

SCREEN = ["-screen", "0", "1920x1200x24", "+extension", "GLX", "-nolisten", "tcp", "-noreset"]


def answers(display: str) -> bool:
    """Say whether an X server answers at ``host:number``; a name left over from another login does not."""
    match = re.match(r"^(?P<host>[^:]*):(?P<number>\d+)(\.\d+)?$", display)
    if not match:
        return False
    number = int(match.group("number"))
    host = match.group("host")
    if host in ("", "unix"):
        address = f"/tmp/.X11-unix/X{number}"  # where every X server puts it
        return _connects(socket.AF_UNIX, address) or _connects(socket.AF_UNIX, "\0" + address)
    return _connects(socket.AF_INET, (host, 6000 + number))


def _connects(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        try:
            connection.connect(address)
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
    return answers(environment.get("DISPLAY", ""))


@contextlib.contextmanager
def virtual_display() -> Iterator[Dict[str, str]]:
    """Run Xvfb, open to this user alone, for as long as the context lasts.

    Yields
    ------
    dict
        The environment variables that lead programs to it.
    """
    cookie = os.urandom(16)
    name = b"MIT-MAGIC-COOKIE-1"
    # One entry of an Xauthority file that fits any address (family 0xffff) and any display number.
    entry = struct.pack(">HHHH", 0xFFFF, 0, 0, len(name)) + name + struct.pack(">H", len(cookie)) + cookie
    with tempfile.NamedTemporaryFile(prefix="xauthority-") as authority:
        authority.write(entry)
        authority.flush()
        reading, writing = os.pipe()
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-auth", authority.name, *SCREEN],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[writing],
            start_new_session=True,  # Ctrl-C is for the command; the display goes last
            preexec_fn=_end_with_parent,
        )
        try:
            os.close(writing)
            with os.fdopen(reading) as numbers:
                number = numbers.readline().strip()  # Xvfb chose a free one and is ready
            if not number:
                sys.exit("with_display: Xvfb did not start; run it by hand to see why: Xvfb :99")
            yield {"DISPLAY": f":{number}", "XAUTHORITY": authority.name}
        finally:
            server.terminate()
            server.wait()


def _end_with_parent() -> None:
    """Let the kernel end this process when its parent is gone, even if that was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def run(command: List[str], environment: Dict[str, str]) -> int:
    """Run a command, pass signals on to it, and return its exit status as a shell would."""
    child = subprocess.Popen(command, env=environment)

    def pass_on(number: int, frame: object) -> None:
        child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda number, frame: None)  # the terminal tells the command itself
    status = child.wait()
    return status if status >= 0 else 128 - status


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
    if shown:
        return run(command, environment)
    environment.pop("WAYLAND_DISPLAY", None)
    with virtual_display() as variables:
        return run(command, dict(environment, NAPARI_DECANT_HEADLESS="1", QT_QPA_PLATFORM="xcb", **variables))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
