"""What a Qt window needs from a Linux system, and how to get it there.

PyQt wheels bring Qt itself but not the X11 and OpenGL libraries that it loads; without some of them
Qt ends the process and names the wrong one. Runs on Python 3.6 with the standard library alone.
"""

import ctypes
import glob
import os
import shutil
import subprocess
import sys
from typing import Dict, List, Optional

# Shared library -> Debian and Ubuntu package.
LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
# Program -> package; needed only where there is no display.
PROGRAMS = {"Xvfb": "xvfb"}
DRIVERS = (
    "/usr/lib*/dri/*_dri.so",
    "/usr/lib/*/dri/*_dri.so",
    "/usr/lib*/libgallium*",
    "/usr/lib/*/libgallium*",
)
DRIVER_PACKAGE = "libgl1-mesa-dri"


def _loader_cache() -> Optional[str]:
    """Return what the dynamic loader knows, or None where it cannot be asked."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        return subprocess.run(
            [ldconfig, "-p"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            universal_newlines=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def missing(display: bool = True) -> Dict[str, str]:
    """Return what this system lacks.

    Parameters
    ----------
    display : bool
        Also look for the virtual display, Xvfb.

    Returns
    -------
    dict
        Library or program -> Debian package; empty when nothing is missing or the system is not Linux.
    """
    if not sys.platform.startswith("linux"):
        return {}
    known = _loader_cache()
    lacking = {
        name: package
        for name, package in LIBRARIES.items()
        if not (_loads(name) if known is None else name in known)
    }
    if not any(glob.glob(pattern) for pattern in DRIVERS):
        lacking["the Mesa OpenGL driver"] = DRIVER_PACKAGE
    if display:
        lacking.update((name, package) for name, package in PROGRAMS.items() if not shutil.which(name))
    return lacking


def packages(lacking: Dict[str, str]) -> List[str]:
    """Return the Debian packages for what is missing, each once, sorted."""
    return sorted(set(lacking.values()))


def advice(lacking: Dict[str, str]) -> str:
    """Return one sentence that says what is missing and what to do."""
    names = ", ".join(sorted(lacking))
    if shutil.which("apt-get"):
        return "Qt needs {}; run: sudo apt-get install {}".format(names, " ".join(packages(lacking)))
    return f"Qt needs {names}; install them with this system's package manager"


def may_install() -> bool:
    """Say whether packages can be installed unasked: apt-get, as root or by sudo without a password."""
    if not shutil.which("apt-get"):
        return False
    return os.geteuid() == 0 or (shutil.which("sudo") is not None and _quiet(["sudo", "-n", "true"]))


def install(lacking: Dict[str, str]) -> bool:
    """Install what is missing with apt-get; return whether nothing is missing afterwards."""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n", "DEBIAN_FRONTEND=noninteractive"]
    command = [*prefix, "apt-get", "install", "-y", "-q", "--no-install-recommends", *packages(lacking)]
    # The first try fails where the package lists are absent or old.
    if not _quiet(command):
        _quiet([*prefix, "apt-get", "update", "-q"])
        _quiet(command)
    return not set(missing()) & set(lacking)


def _quiet(command: List[str]) -> bool:
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    status = subprocess.call(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return status == 0
